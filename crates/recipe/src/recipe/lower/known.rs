//! What the verbs of a step may name: the recipe's components and container images.

use crate::recipe::fields::{Context, Fields};
use crate::recipe::{Component, ContainerImage};
use winimg_base::text::Located;

/// What a verb may refer to.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// All names, those of components with mistakes too.
    pub names: &'a [String],
    pub components: &'a [Component],
    /// The names of all container images, those with mistakes too.
    pub image_names: &'a [String],
    pub images: &'a [ContainerImage],
}

/// `component`, naming one of the recipe's.
pub fn component(fields: &Fields<'_>, known: Known<'_>) -> Option<Located<String>> {
    let name = fields.string("component")?;
    known_component(fields.cx, name, known)
}

pub fn known_component(
    cx: &Context<'_>,
    name: Located<String>,
    known: Known<'_>,
) -> Option<Located<String>> {
    if known.names.contains(&name.value) {
        cx.used.borrow_mut().insert(name.value.clone());
        // With a mistake in the component the step cannot be planned, and nothing is wrong with the step.
        let is_right = known.components.iter().any(|c| c.name.value == name.value);
        return is_right.then_some(name);
    }
    if !cx.incomplete {
        let names: Vec<&str> = known.names.iter().map(String::as_str).collect();
        let help = winimg_base::diag::suggestion(&name.value, &names, "components");
        let fact = format!("there is no component `{}`", name.value);
        cx.error(fact, &name.place, "not under [components]", &help);
    }
    None
}
