//! `glance://[NAME]`: an image of the project by name; the default is the recipe's name. Pure.

use std::fmt;

/// Shown as `glance://NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlancePlace {
    /// `None`: the recipe's name.
    pub name: Option<String>,
}

impl GlancePlace {
    /// Parses the text after the scheme. The error describes the fault and follows "the
    /// destination".
    pub fn parse(rest: &str) -> Result<Self, &'static str> {
        let name = rest.trim_end_matches('/');
        // A comma separates names in queries.
        let is_plain = name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || " -_.+()".contains(c));
        match name {
            "" => Ok(Self { name: None }),
            name if name.len() <= 255 && name.trim() == name && is_plain => Ok(Self {
                name: Some(name.to_owned()),
            }),
            _ => Err("has characters in its name that an image's should not have"),
        }
    }
}

impl fmt::Display for GlancePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "glance://{}", self.name.as_deref().unwrap_or_default())
    }
}
