//! Components, container images and local files that the verbs of a step may refer to.

use crate::fields::{FileRequirement, LoweringContext, TableReader};
use crate::{ComponentSpec, ContainerImage};
use winimg_base::text::Located;

/// The recipe's components and images, and whether the step's local files must exist.
#[derive(Clone, Copy)]
pub struct RecipeItems<'a> {
    /// The names of all components, including those with errors.
    pub names: &'a [String],
    pub components: &'a [ComponentSpec],
    /// The names of all container images, including those with errors.
    pub image_names: &'a [String],
    pub images: &'a [ContainerImage],
    pub local_files: FileRequirement,
}

impl RecipeItems<'_> {
    pub fn of_skipped_step(self) -> Self {
        Self {
            local_files: FileRequirement::MayBeMissing,
            ..self
        }
    }
}

/// Reads `component`, the name of one of the recipe's components.
pub fn read_component_name(
    fields: &TableReader<'_>,
    items: RecipeItems<'_>,
) -> Option<Located<String>> {
    let name = fields.read_string("component")?;
    known_component(fields.cx, name, items)
}

pub fn known_component(
    cx: &LoweringContext<'_>,
    name: Located<String>,
    items: RecipeItems<'_>,
) -> Option<Located<String>> {
    let is_right = items.components.iter().any(|c| c.name.value == name.value);
    if items.names.contains(&name.value) {
        cx.used.borrow_mut().insert(name.value.clone());
    }
    check_item(cx, name, items.names, is_right, "component")
}

pub fn known_image(
    cx: &LoweringContext<'_>,
    name: Located<String>,
    items: RecipeItems<'_>,
) -> Option<Located<String>> {
    let is_right = items.images.iter().any(|i| i.name.value == name.value);
    check_item(cx, name, items.image_names, is_right, "image")
}

/// Returns the name, if the recipe has a valid item with it. If the item has an error, the step
/// cannot be planned, but is not reported.
fn check_item(
    cx: &LoweringContext<'_>,
    name: Located<String>,
    names: &[String],
    is_right: bool,
    what: &str,
) -> Option<Located<String>> {
    if !names.contains(&name.value) && !cx.incomplete {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let help = winimg_base::diag::suggest(&name.value, &names, &format!("{what}s"));
        let fact = format!("there is no {what} `{}`", name.value);
        let label = format!("not under [{what}s]");
        cx.error(fact, &name.place, &label, &help);
    }
    is_right.then_some(name)
}
