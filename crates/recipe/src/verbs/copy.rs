//! The verb `copy`: a downloaded or local file, or a local folder.

use crate::GuestPath;
use crate::document::value::TomlValue;
use crate::fields::{LoweringContext, TableReader};
use crate::ops::PayloadEntry;
use crate::ops::compiler::StepCompiler;
use crate::verbs::content::{StepContent, put_file, put_tree, read_content, single_file};
use crate::verbs::items::RecipeItems;
use winimg_base::text::Located;

/// Values of `copy`.
#[derive(Clone, Debug)]
pub struct CopySpec {
    pub from: StepContent,
    pub to: Located<GuestPath>,
}

pub fn read(
    cx: &LoweringContext<'_>,
    value: &TomlValue,
    items: RecipeItems<'_>,
) -> Option<CopySpec> {
    let fields = TableReader::open(cx, value, "copy")?;
    let from = read_content(&fields, items);
    let to = fields.guest_path("to");
    Some(CopySpec {
        from: from?,
        to: to?,
    })
}

pub fn compile(site: &mut StepCompiler<'_>, copy: &CopySpec) -> Option<()> {
    let CopySpec { from, to } = copy;
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
