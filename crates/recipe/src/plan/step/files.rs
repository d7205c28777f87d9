//! Compiles `copy`, `extract`, `file`, `directory` and `remove`.

use super::super::batch::{self, BatchScript};
use super::super::check::ExpectedPayload;
use super::super::step_compiler::{StepCompiler, host_name, on_disc};
use super::super::{PayloadEntry, PlannedCheck};
use crate::recipe::{Encoding, GuestPath, StepContent, file_name};
use winimg_base::text::{Located, Place, to_crlf};

pub(super) fn copy(
    site: &mut StepCompiler<'_>,
    from: &StepContent,
    to: &Located<GuestPath>,
) -> Option<()> {
    if let StepContent::Local(local) = from
        && local.value.is_dir()
    {
        let path = local.value.clone();
        return put_tree(site, PayloadEntry::Local { path }, to);
    }
    let (entry, file) = single_file(site, from)?;
    let mut to = to.clone();
    if to.value.names_folder() {
        to.value = to.value.join(&file);
        let fit = to.value.check_allowed().map_err(|(why, _)| why);
        site.report_error(fit, &to.place)?;
    } else if file.contains('.') && !to.value.file_name().contains('.') {
        let path = &to.value;
        let message = format!("`{path}` becomes a file, not a folder");
        let help = format!("write `{path}\\` to keep the name `{file}` in that folder");
        site.warn(&to.place, message, "no trailing backslash", help);
    }
    put_file(site, entry, &file, to)
}

pub(super) fn extract(
    site: &mut StepCompiler<'_>,
    component: &Located<String>,
    to: &Located<GuestPath>,
    strip: usize,
    only: &[String],
) -> Option<()> {
    let entry = PayloadEntry::Tree {
        component: component.value.clone(),
        strip,
        only: only.to_vec(),
    };
    put_tree(site, entry, to)
}

/// Copies the whole entry below `to`. Exit codes of robocopy below 8 are not errors (Microsoft:
/// robocopy return codes).
fn put_tree(
    site: &mut StepCompiler<'_>,
    entry: PayloadEntry,
    to: &Located<GuestPath>,
) -> Option<()> {
    let target = site.quoted_path(to)?;
    let entry = site.add_entry(entry);
    let mut script = BatchScript::new();
    script.make_folder(&target);
    script.add_line(format!(
        "C:\\Windows\\System32\\robocopy.exe {} {target} /E /A-:R /R:0 /W:0 /NP /NJH /NJS /NFL \
         /NDL\n\
         if errorlevel 8 exit /b %errorlevel%",
        on_disc(entry, "")
    ));
    site.put(script);
    site.expect(PlannedCheck::File {
        path: to.value.clone(),
        content: ExpectedPayload::Tree(entry),
    });
    Some(())
}

pub(super) fn compile_file(
    site: &mut StepCompiler<'_>,
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
    // cmd and PowerShell scripts always get CRLF, regardless of the recipe's line ends.
    let text = match to.value.extension().as_str() {
        "cmd" | "bat" | "ps1" | "psm1" | "psd1" => to_crlf(content),
        _ => content.to_owned(),
    };
    let file = to.value.file_name().to_owned();
    let entry = PayloadEntry::Text {
        file: file.clone(),
        text,
        encoding,
    };
    put_file(site, entry, &file, to.clone())
}

pub(super) fn compile_directory(
    site: &mut StepCompiler<'_>,
    at: &Located<GuestPath>,
) -> Option<()> {
    let quoted = site.quoted_path(at)?;
    let mut script = BatchScript::new();
    script.make_folder(&quoted);
    site.put(script);
    site.expect(PlannedCheck::Exists {
        path: at.value.clone(),
    });
    Some(())
}

/// Removes a file or folder. `del` exits with 0 even if it removes nothing, so the script checks.
pub(super) fn remove(
    site: &mut StepCompiler<'_>,
    at: &Located<GuestPath>,
    recursive: bool,
) -> Option<()> {
    if at.value.is_vital() {
        let message = format!("Windows cannot run without `{}`", at.value);
        let help = "name a file or folder that Windows does not need";
        site.error_with_help(&at.place, message, "refused", help);
        return None;
    }
    let whole = site.quoted_path(at)?;
    let folder = format!("{}\\\"", whole.trim_end_matches('"'));
    let mut script = BatchScript::new();
    if recursive {
        script.add_line(format!("if exist {folder} rd /s /q {whole}"));
    } else {
        script.add_line(format!(
            "if exist {folder} echo {whole} is a folder, and the step does not say recursive = \
             true\n\
             if exist {folder} exit /b 1"
        ));
    }
    script.add_line(format!(
        "if exist {whole} del /f /q {whole}\n\
         if not exist {whole} exit /b 0\n\
         echo {whole} is still there\n\
         exit /b 1"
    ));
    site.put(script);
    site.expect(PlannedCheck::Missing {
        path: at.value.clone(),
    });
    Some(())
}

/// Creates the parent folder of `to` and copies the entry's file there.
fn put_file(
    site: &mut StepCompiler<'_>,
    entry: PayloadEntry,
    file: &str,
    to: Located<GuestPath>,
) -> Option<()> {
    let mut script = BatchScript::new();
    let target = site.quoted_path(&to)?;
    let name = site.report_error(batch::escape(file), &to.place)?;
    if let Some(parent) = to.value.parent() {
        let parent = site.quote(parent.as_str(), &to.place)?;
        script.make_folder(&parent);
    }
    let entry = site.add_entry(entry);
    script.copy(&on_disc(entry, &name), &target);
    site.put(script);
    site.expect(PlannedCheck::File {
        path: to.value,
        content: ExpectedPayload::File(entry),
    });
    Some(())
}

/// Returns the place that names the content.
pub(super) fn content_place(from: &StepContent) -> &Place {
    match from {
        StepContent::Component(name) => &name.place,
        StepContent::Local(path) => &path.place,
    }
}

/// Returns an entry for an unpacked component or a local folder.
pub(super) fn find_folder(
    site: &mut StepCompiler<'_>,
    from: &StepContent,
    only: &[String],
) -> Option<PayloadEntry> {
    match from {
        StepContent::Component(name) => {
            let found = site.find_component(name)?;
            if found.unpack.is_none() {
                let message = format!(
                    "component `{}` is a file, but a folder is needed",
                    name.value
                );
                let help = format!(
                    "to unpack an archive, set `unpack = \"zip\"` (tar, tar.gz, tar.zst) in \
                     `[components.{}]`",
                    name.value
                );
                site.error_with_help(&name.place, message, "used here", help);
                return None;
            }
            Some(PayloadEntry::Tree {
                component: name.value.clone(),
                strip: 0,
                only: only.to_vec(),
            })
        }
        StepContent::Local(path) if path.value.is_dir() => Some(PayloadEntry::Local {
            path: path.value.clone(),
        }),
        StepContent::Local(path) => {
            let message = format!("there is no folder `{}`", path.value.display());
            let help = "name the folder that contains the files";
            site.error_with_help(&path.place, message, "a folder is needed", help);
            None
        }
    }
}

/// Returns an entry for a component's file or a local file, with its name on the disc.
pub(super) fn single_file(
    site: &mut StepCompiler<'_>,
    from: &StepContent,
) -> Option<(PayloadEntry, String)> {
    match from {
        StepContent::Component(name) => {
            let component = site.find_component(name)?;
            let file = component.file.clone();
            Some((
                PayloadEntry::Component {
                    component: name.value.clone(),
                    file: file.clone(),
                },
                file,
            ))
        }
        StepContent::Local(local) => {
            if !local.value.is_file() {
                let shown = local.value.display().to_string();
                let why = if local.value.is_dir() {
                    "a folder, but a file is needed"
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
                PayloadEntry::Local {
                    path: local.value.clone(),
                },
                file.to_owned(),
            ))
        }
    }
}
