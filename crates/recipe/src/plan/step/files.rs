//! `copy`, `extract`, `file`, `directory`, `remove`: what lies where on the guest's disk.

use super::super::batch::{self, Script};
use super::super::check::Payload;
use super::super::site::{Site, host_name, on_disc};
use super::super::{Entry, Planned};
use crate::recipe::{Content, Encoding, GuestPath, file_name};
use winimg_base::text::{Located, Place, crlf};

pub(super) fn copy(site: &mut Site<'_>, from: &Content, to: &Located<GuestPath>) -> Option<()> {
    if let Content::Local(local) = from
        && local.value.is_dir()
    {
        let path = local.value.clone();
        return put_tree(site, Entry::Local { path }, to);
    }
    let (entry, file) = single_file(site, from)?;
    let mut to = to.clone();
    if to.value.names_folder() {
        to.value = to.value.join(&file);
        let fit = to.value.fit().map_err(|(why, _)| why);
        site.judged(fit, &to.place)?;
    } else if file.contains('.') && !to.value.file_name().contains('.') {
        let path = &to.value;
        let message = format!("`{path}` becomes a file, not a folder");
        let help = format!("write `{path}\\` to keep the name `{file}` in that folder");
        site.warning(&to.place, message, "no slash at the end", help);
    }
    put_file(site, entry, &file, to)
}

pub(super) fn extract(
    site: &mut Site<'_>,
    component: &Located<String>,
    to: &Located<GuestPath>,
    strip: usize,
    only: &[String],
) -> Option<()> {
    let entry = Entry::Tree {
        component: component.value.clone(),
        strip,
        only: only.to_vec(),
    };
    put_tree(site, entry, to)
}

/// The whole entry below `to`. Below 8 robocopy's codes only say what it did (Microsoft: robocopy return codes).
fn put_tree(site: &mut Site<'_>, entry: Entry, to: &Located<GuestPath>) -> Option<()> {
    let target = site.quoted_path(to)?;
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
        path: to.value.clone(),
        content: Payload::Tree(entry),
    });
    Some(())
}

pub(super) fn file(
    site: &mut Site<'_>,
    to: &Located<GuestPath>,
    content: &str,
    encoding: Encoding,
) -> Option<()> {
    if to.value.names_folder() {
        site.error(
            &to.place,
            format!("`{}` names a folder", to.value),
            "a file is written here",
        );
        return None;
    }
    // cmd and PowerShell scripts get CRLF whatever the recipe's own line ends are.
    let text = match to.value.extension().as_str() {
        "cmd" | "bat" | "ps1" | "psm1" | "psd1" => crlf(content),
        _ => content.to_owned(),
    };
    let file = to.value.file_name().to_owned();
    let entry = Entry::Text {
        file: file.clone(),
        text,
        encoding,
    };
    put_file(site, entry, &file, to.clone())
}

pub(super) fn directory(site: &mut Site<'_>, at: &Located<GuestPath>) -> Option<()> {
    let quoted = site.quoted_path(at)?;
    let mut script = Script::new();
    script.make_folder(&quoted);
    site.put(script);
    site.expect(Planned::Exists {
        path: at.value.clone(),
    });
    Some(())
}

/// `del` ends with 0 whether it removed anything or not, so the script looks for itself.
pub(super) fn remove(site: &mut Site<'_>, at: &Located<GuestPath>, recursive: bool) -> Option<()> {
    if at.value.is_vital() {
        let message = format!("Windows does not run without `{}`", at.value);
        let help = "name a file or folder that Windows can spare";
        site.error_with_help(&at.place, message, "refused", help);
        return None;
    }
    let whole = site.quoted_path(at)?;
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
    site.expect(Planned::Missing {
        path: at.value.clone(),
    });
    Some(())
}

/// Makes the folder above `to` and copies the entry's file there.
fn put_file(site: &mut Site<'_>, entry: Entry, file: &str, to: Located<GuestPath>) -> Option<()> {
    let mut script = Script::new();
    let target = site.quoted_path(&to)?;
    let name = site.judged(batch::literal(file), &to.place)?;
    if let Some(parent) = to.value.parent() {
        let parent = site.quoted(parent.as_str(), &to.place)?;
        script.make_folder(&parent);
    }
    let entry = site.entry(entry);
    script.copy(&on_disc(entry, &name), &target);
    site.put(script);
    site.expect(Planned::File {
        path: to.value,
        content: Payload::File(entry),
    });
    Some(())
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
            if let Err((why, _)) = file_name(file) {
                let message = format!("the guest cannot have a file `{file}`: {why}");
                site.error(&local.place, message, "");
                return None;
            }
            Some((
                Entry::Local {
                    path: local.value.clone(),
                },
                file.to_owned(),
            ))
        }
    }
}
