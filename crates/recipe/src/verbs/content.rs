//! The files of a step: a component of the recipe, or a file or folder beside it; copied from the
//! payload disc to their place in the guest.

use std::path::PathBuf;

use crate::fields::{ReportedError, TableReader};
use crate::ops::batch::{self, BatchScript};
use crate::ops::check::ExpectedPayload;
use crate::ops::compiler::{StepCompiler, host_name, on_disc};
use crate::ops::{PayloadEntry, PlannedCheck};
use crate::verbs::items::{RecipeItems, read_component_name};
use crate::{GuestPath, file_name};
use winimg_base::text::{Located, Place};

/// Source of a step's bytes.
#[derive(Clone, Debug)]
pub enum StepContent {
    Component(Located<String>),
    /// A local file or folder, relative to the file that names it.
    Local(Located<PathBuf>),
}

/// Reads `component` or `path`, the source of a step's bytes.
pub fn read_content(fields: &TableReader<'_>, items: RecipeItems<'_>) -> Option<StepContent> {
    match (fields.has("component"), fields.has("path")) {
        (true, false) => read_component_name(fields, items).map(StepContent::Component),
        (false, true) => fields
            .read_local_path("path", items.local_files)
            .map(StepContent::Local),
        (both, _) => {
            let help = "`component = \"kubelet\"` for a downloaded file, `path = \"files/x\"` for \
                        a file next to the recipe";
            if both {
                let fact = format!("{} has both `component` and `path`", fields.what);
                fields.cx.error(fact, &fields.place, "", help);
            } else {
                let fact = format!("{} has neither `component` nor `path`", fields.what);
                fields.cx.report_missing(fact, &fields.place, help);
            }
            None
        }
    }
}

/// Reads `component` or `path`; `None` if there is neither.
pub fn read_source(
    fields: &TableReader<'_>,
    items: RecipeItems<'_>,
) -> Result<Option<StepContent>, ReportedError> {
    match fields.find_first(&["component", "path"]) {
        Some(_) => read_content(fields, items).map(Some).ok_or(ReportedError),
        None => Ok(None),
    }
}

/// Returns the place that names the content.
pub fn content_place(from: &StepContent) -> &Place {
    match from {
        StepContent::Component(name) => &name.place,
        StepContent::Local(path) => &path.place,
    }
}

/// Returns an entry for an unpacked component or a local folder.
pub fn find_folder(
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
pub fn single_file(
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

/// Creates the parent folder of `to` and copies the entry's file there.
pub fn put_file(
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

/// Copies the whole entry below `to`. Exit codes of robocopy below 8 are not errors (Microsoft:
/// robocopy return codes).
pub fn put_tree(
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
