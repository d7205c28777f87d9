//! `glance://[NAME]` and its flag: an image of the project by name, the default is the recipe's
//! name. Pure.

use std::fmt;

use super::super::address::AddressFault;
use super::super::flags::{DestinationFlag, FlagArity, FlagValues};
use winimg_base::error::{Error, Kind, Result};

pub const FLAGS: &[DestinationFlag] = &[PROPERTY];

const PROPERTY: DestinationFlag = DestinationFlag {
    name: "property",
    value_name: "NAME=VALUE",
    help: "Property of an image in OpenStack; may be repeated",
    details: "Such as hw_scsi_model=virtio-scsi. An empty value omits a property that winimg would \
              set.",
    values: FlagArity::Repeated,
    refusal: "only an image in Glance has properties",
};

/// Attributes of an image, which winimg sets itself.
const OWN_ATTRIBUTES: [&str; 6] = [
    "name",
    "id",
    "status",
    "disk_format",
    "container_format",
    "os_hidden",
];

/// Shown as `glance://NAME`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GlancePlace {
    /// `None`: the recipe's name.
    pub name: Option<String>,
    /// Properties to add or, with an empty value, to omit.
    pub properties: Vec<(String, String)>,
}

impl GlancePlace {
    /// Parses the text after the scheme.
    pub fn parse(rest: &str) -> Result<Self, AddressFault> {
        let name = rest.trim_end_matches('/');
        // A comma separates names in queries.
        let is_plain = name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || " -_.+()".contains(c));
        match name {
            "" => Ok(Self::default()),
            name if name.len() <= 255 && name.trim() == name && is_plain => Ok(Self {
                name: Some(name.to_owned()),
                properties: Vec::new(),
            }),
            _ => Err("has characters in its name that an image's should not have".into()),
        }
    }

    pub fn take_flags(&mut self, flags: &mut FlagValues) -> Result<()> {
        for given in flags.take_all(&PROPERTY) {
            match given.split_once('=').filter(|(name, _)| is_property(name)) {
                Some((name, value)) => self.properties.push((name.to_owned(), value.to_owned())),
                None => {
                    return Err(Error::new(Kind::Recipe, "invalid property")
                        .at("--property")
                        .expected(
                            "such as hw_scsi_model=virtio-scsi; names that begin with winimg_ are \
                             reserved",
                        )
                        .found(given));
                }
            }
        }
        Ok(())
    }
}

fn is_property(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-.:".contains(c))
        && !name.starts_with("winimg_")
        && !OWN_ATTRIBUTES.contains(&name)
}

impl fmt::Display for GlancePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "glance://{}", self.name.as_deref().unwrap_or_default())
    }
}
