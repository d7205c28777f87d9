//! `copy`, `extract`, `file`, `directory`, `remove`: what lies where on the guest's disk.

use std::path::PathBuf;

use super::super::batch::{self, Script};
use super::super::check::Payload;
use super::super::path::{GuestPath, is_vital};
use super::super::site::{Site, host_name, on_disc};
use super::super::{Entry, Planned};
use crate::recipe::{Content, Encoding};
use winimg_base::text::{Located, Place, crlf};

pub(super) fn copy(site: &mut Site<'_>, from: &Content, to: &Located<String>) -> Option<()> {
    let path = site.path(to);
    if let Content::Local(local) = from
        && local.value.is_dir()
    {
        return copy_folder(site, local, path?, to);
    }
    let (entry, file) = single_file(site, from)?;
    let mut path = path?;
    if path.folder {
        let joined = path.join(&file);
        path = site.judged(joined, &to.place)?;
    } else if file.contains('.') && !path.name().contains('.') {
        let message = format!("`{}` becomes a file, not a folder", path.text);
        let help = format!(
            "write `{}\\` to keep the name `{file}` in that folder",
            path.text
        );
        site.warning(&to.place, message, "no slash at the end", help);
    }
    let mut script = Script::new();
    let entry = put_file(site, &mut script, entry, &file, &path, to)?;
    site.put(script);
    site.expect(Planned::File {
        path: path.text,
        content: Payload::File(entry),
    });
    Some(())
}

pub(super) fn extract(
    site: &mut Site<'_>,
    component: &Located<String>,
    to: &Located<String>,
    strip: usize,
    only: &[String],
) -> Option<()> {
    let path = site.path(to);
    let found = site.component(component)?;
    if found.unpack.is_none() {
        let message = format!(
            "component `{}` is not declared as an archive",
            component.value
        );
        let help = format!(
            "add `unpack = \"zip\"` (tar, tar.gz, tar.zst) to `[components.{}]`",
            component.value
        );
        site.error_with_help(&component.place, message, "extracted here", help);
        return None;
    }
    let entry = Entry::Tree {
        component: component.value.clone(),
        strip,
        only: only.to_vec(),
    };
    put_tree(site, entry, path?, to)
}

fn copy_folder(
    site: &mut Site<'_>,
    local: &Located<PathBuf>,
    path: GuestPath,
    to: &Located<String>,
) -> Option<()> {
    let entry = Entry::Local {
        path: local.value.clone(),
    };
    put_tree(site, entry, path, to)
}

/// The whole entry below `path`. Below 8 robocopy's codes only say what it did (Microsoft: robocopy return codes).
fn put_tree(
    site: &mut Site<'_>,
    entry: Entry,
    path: GuestPath,
    to: &Located<String>,
) -> Option<()> {
    let target = site.quoted(&path.text, &to.place)?;
    let entry = site.entry(entry);
    let mut script = Script::new();
    script.make_folder(&target);
    script.line(format!(
        "C:\\Windows\\System32\\robocopy.exe {} {target} /E /A-:R /R:0 /W:0 /NP /NJH /NJS /NFL /NDL\n\
         if errorlevel 8 exit /b %errorlevel%",
        on_disc(entry, "")
    ));
    site.put(script);
    site.expect(Planned::File {
        path: path.text,
        content: Payload::Tree(entry),
    });
    Some(())
}

pub(super) fn file(
    site: &mut Site<'_>,
    to: &Located<String>,
    content: &str,
    encoding: Encoding,
) -> Option<()> {
    let path = site.path(to)?;
    if path.folder {
        site.error(
            &to.place,
            format!("`{}` names a folder", to.value),
            "a file is written here",
        );
        return None;
    }
    let text = if is_script(path.name()) {
        crlf(content)
    } else {
        content.to_owned()
    };
    let file = path.name().to_owned();
    let entry = Entry::Text {
        file: file.clone(),
        text,
        encoding,
    };
    let mut script = Script::new();
    let entry = put_file(site, &mut script, entry, &file, &path, to)?;
    site.put(script);
    site.expect(Planned::File {
        path: path.text,
        content: Payload::File(entry),
    });
    Some(())
}

/// cmd and PowerShell scripts get CRLF whatever the recipe's own line ends are.
fn is_script(name: &str) -> bool {
    let extension = name
        .rsplit_once('.')
        .map_or("", |(_, e)| e)
        .to_ascii_lowercase();
    matches!(extension.as_str(), "cmd" | "bat" | "ps1" | "psm1" | "psd1")
}

pub(super) fn directory(site: &mut Site<'_>, at: &Located<String>) -> Option<()> {
    let path = site.path(at)?;
    let quoted = site.quoted(&path.text, &at.place)?;
    let mut script = Script::new();
    script.make_folder(&quoted);
    site.put(script);
    site.expect(Planned::Exists { path: path.text });
    Some(())
}

/// `del` ends with 0 whether it removed anything or not, so the script looks for itself.
pub(super) fn remove(site: &mut Site<'_>, at: &Located<String>, recursive: bool) -> Option<()> {
    let path = site.path(at)?;
    if is_vital(&path.text) {
        site.error(
            &at.place,
            format!("Windows does not run without `{}`", path.text),
            "refused",
        );
        return None;
    }
    let whole = site.quoted(&path.text, &at.place)?;
    let folder = format!("{}\\\"", whole.trim_end_matches('"'));
    let mut script = Script::new();
    if recursive {
        script.line(format!("if exist {folder} rd /s /q {whole}"));
    } else {
        script.line(format!(
            "if exist {folder} echo {whole} is a folder, and the step does not say recursive = true\n\
             if exist {folder} exit /b 1"
        ));
    }
    script.line(format!(
        "if exist {whole} del /f /q {whole}\n\
         if not exist {whole} exit /b 0\n\
         echo {whole} is still there\n\
         exit /b 1"
    ));
    site.put(script);
    site.expect(Planned::Missing { path: path.text });
    Some(())
}

/// Makes the folder above `path` and copies the entry's file there. Gives the entry's index.
pub(super) fn put_file(
    site: &mut Site<'_>,
    script: &mut Script,
    entry: Entry,
    file: &str,
    path: &GuestPath,
    to: &Located<String>,
) -> Option<u32> {
    let target = site.quoted(&path.text, &to.place)?;
    let name = site.judged(batch::literal(file), &to.place)?;
    if let Some(parent) = path.parent() {
        let parent = site.quoted(parent, &to.place)?;
        script.make_folder(&parent);
    }
    let index = site.entry(entry);
    script.copy(&on_disc(index, &name), &target);
    Some(index)
}

/// Where a step's bytes are named.
pub(super) fn content_place(from: &Content) -> &Place {
    match from {
        Content::Component(name) => &name.place,
        Content::Local(path) => &path.place,
    }
}

/// An unpacked component, or a local folder, for what needs a folder.
pub(super) fn folder(site: &mut Site<'_>, from: &Content, only: &[String]) -> Option<Entry> {
    match from {
        Content::Component(name) => {
            let found = site.component(name)?;
            if found.unpack.is_none() {
                let message = format!(
                    "component `{}` is a file, and a folder is needed",
                    name.value
                );
                let help = format!(
                    "an archive is unpacked with `unpack = \"zip\"` (tar, tar.gz, tar.zst) in `[components.{}]`",
                    name.value
                );
                site.error_with_help(&name.place, message, "used here", help);
                return None;
            }
            Some(Entry::Tree {
                component: name.value.clone(),
                strip: 0,
                only: only.to_vec(),
            })
        }
        Content::Local(path) if path.value.is_dir() => Some(Entry::Local {
            path: path.value.clone(),
        }),
        Content::Local(path) => {
            let message = format!("there is no folder `{}`", path.value.display());
            let help = "name the folder that the files lie in";
            site.error_with_help(&path.place, message, "a folder is needed", help);
            None
        }
    }
}

/// A component's file or a local one, with the name it has on the disc.
pub(super) fn single_file(site: &mut Site<'_>, from: &Content) -> Option<(Entry, String)> {
    match from {
        Content::Component(name) => {
            let component = site.component(name)?;
            let file = component.file.clone();
            Some((
                Entry::Component {
                    component: name.value.clone(),
                    file: file.clone(),
                },
                file,
            ))
        }
        Content::Local(local) => {
            if !local.value.is_file() {
                let shown = local.value.display().to_string();
                let why = if local.value.is_dir() {
                    "a folder, and a file is needed"
                } else {
                    "not found"
                };
                site.error(&local.place, format!("there is no file `{shown}`"), why);
                return None;
            }
            let Some(file) = host_name(&local.value) else {
                let shown = local.value.display().to_string();
                site.error(
                    &local.place,
                    format!("the name of `{shown}` is not Unicode"),
                    "",
                );
                return None;
            };
            Some((
                Entry::Local {
                    path: local.value.clone(),
                },
                file.to_owned(),
            ))
        }
    }
}
