//! The verb `extract`: unpacks a component.

use crate::GuestPath;
use crate::document::value::TomlValue;
use crate::fields::{LoweringContext, TableReader};
use crate::ops::PayloadEntry;
use crate::ops::compiler::StepCompiler;
use crate::verbs::content::put_tree;
use crate::verbs::items::{RecipeItems, read_component_name};
use winimg_base::text::Located;

/// Values of `extract`.
#[derive(Clone, Debug)]
pub struct ExtractSpec {
    pub component: Located<String>,
    pub to: Located<GuestPath>,
    /// Leading path segments to drop.
    pub strip: usize,
    /// Glob patterns over the paths that remain; empty: all.
    pub only: Vec<String>,
}

pub fn read(
    cx: &LoweringContext<'_>,
    value: &TomlValue,
    items: RecipeItems<'_>,
) -> Option<ExtractSpec> {
    let fields = TableReader::open(cx, value, "extract")?;
    let component = read_component_name(&fields, items);
    if let Some(name) = &component
        && let Some(found) = items.components.iter().find(|c| c.name.value == name.value)
        && found.unpack.is_none()
    {
        let fact = format!("component `{}` is not an archive to unpack", name.value);
        let help = format!(
            "write `unpack = \"zip\"` (or tar, tar.gz, tar.zst) under `[components.{}]`",
            name.value
        );
        cx.error(fact, &name.place, "", &help);
    }
    let to = fields.guest_path("to");
    let strip = fields.read_integer("strip");
    let only = fields.read_texts("only");
    Some(ExtractSpec {
        component: component?,
        to: to?,
        strip: strip?.value as usize,
        only,
    })
}

pub fn compile(site: &mut StepCompiler<'_>, extract: &ExtractSpec) -> Option<()> {
    let entry = PayloadEntry::Tree {
        component: extract.component.value.clone(),
        strip: extract.strip,
        only: extract.only.clone(),
    };
    put_tree(site, entry, &extract.to)
}
