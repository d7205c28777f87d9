//! The verb `copy`: a downloaded or local file, or a local folder.

use crate::recipe::GuestPath;
use crate::recipe::fields::{LoweringContext, TableReader};
use crate::recipe::ops::PayloadEntry;
use crate::recipe::ops::compiler::StepCompiler;
use crate::recipe::value::TomlValue;
use crate::recipe::verbs::content::{StepContent, put_file, put_tree, read_content, single_file};
use crate::recipe::verbs::items::RecipeItems;
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
