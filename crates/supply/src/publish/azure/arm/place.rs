//! `azure://subscription/group/account/container/folder` and its flags: a resource group of a
//! subscription, with a storage account for the disk. Pure.

use std::fmt;

use uuid::Uuid;

use super::super::super::address::AddressFault;
use super::super::super::ami::{COPY_TO, take_regions};
use super::super::super::flags::{DestinationFlag, FlagArity, FlagValues};
use super::super::place::BlobPlace;
use winimg_base::error::{Error, Kind, Result};

pub const FLAGS: &[DestinationFlag] = &[GALLERY, REPLICAS];

const GALLERY: DestinationFlag = DestinationFlag {
    name: "gallery",
    value_name: "GALLERY/DEFINITION/VERSION",
    help: "Azure gallery version to create instead of a managed image",
    details: "",
    values: FlagArity::One,
    refusal: "only Azure has galleries",
};

const REPLICAS: DestinationFlag = DestinationFlag {
    name: "replicas",
    value_name: "NUMBER",
    help: "Replicas of the gallery version in each region [default: 1]",
    details: "",
    values: FlagArity::Number(1..=100),
    refusal: "only a gallery version has replicas",
};

/// A resource group, and the folder of its account with the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AzurePlace {
    pub subscription: Uuid,
    pub group: String,
    pub blobs: BlobPlace,
    /// Gallery version to make from the disk; `None`: a managed image.
    pub version: Option<GalleryVersion>,
}

/// A version of an image in a gallery of the resource group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GalleryVersion {
    pub gallery: String,
    pub definition: String,
    /// Three numbers separated by points.
    pub version: String,
    /// Regions that get the version, in addition to the account's.
    pub regions: Vec<String>,
    /// Replicas in each region.
    pub replicas: u32,
}

impl AzurePlace {
    /// Parses the text after the scheme.
    pub fn parse(rest: &str) -> Result<Self, AddressFault> {
        let (subscription, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let (group, blobs) = rest.split_once('/').unwrap_or((rest, ""));
        if subscription.contains('@') {
            return Err("contains a user name or password".into());
        }
        let subscription = Uuid::parse_str(subscription)
            .map_err(|_| "names no subscription: its ID, as `az account list` shows it")?;
        // (Azure Resource Manager: naming rules, resource groups)
        let is_group = (1..=90).contains(&group.len())
            && group
                .chars()
                .all(|c| c.is_alphanumeric() || "-_.()".contains(c))
            && !group.ends_with('.');
        if !is_group {
            return Err("names no resource group".into());
        }
        Ok(Self {
            subscription,
            group: group.to_owned(),
            blobs: BlobPlace::parse(blobs)?,
            version: None,
        })
    }

    pub fn take_flags(&mut self, flags: &mut FlagValues) -> Result<()> {
        let Some(text) = flags.take(&GALLERY) else {
            flags.explain(
                &COPY_TO,
                "only a gallery version can be copied to other regions",
            );
            return Ok(());
        };
        let version = GalleryVersion::parse(&text).ok_or_else(|| {
            Error::new(Kind::Recipe, "invalid gallery version")
                .at("--gallery")
                .expected("GALLERY/DEFINITION/VERSION, such as nodes/windows-2022/1.31.4")
                .found(&text)
        })?;
        let replicas = flags.take(&REPLICAS).and_then(|text| text.parse().ok());
        self.version = Some(GalleryVersion {
            regions: take_regions(flags)?,
            replicas: replicas.unwrap_or(version.replicas),
            ..version
        });
        Ok(())
    }

    /// Returns the ID of the group, which is the prefix of its resources' IDs.
    pub fn id(&self) -> String {
        let Self {
            subscription,
            group,
            ..
        } = self;
        format!("/subscriptions/{subscription}/resourceGroups/{group}")
    }
}

impl fmt::Display for AzurePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            subscription,
            group,
            blobs,
            version: _,
        } = self;
        write!(f, "{subscription}/{group}/{blobs}")
    }
}

impl GalleryVersion {
    /// Parses `GALLERY/DEFINITION/VERSION`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split('/');
        let (gallery, definition, version) = (words.next()?, words.next()?, words.next()?);
        let is_version = version.split('.').count() == 3
            && version
                .split('.')
                .all(|number| number.parse::<i32>().is_ok_and(|n| n >= 0))
            && version.chars().all(|c| c.is_ascii_digit() || c == '.');
        let is_all = words.next().is_none()
            && is_name(gallery, "_.")
            && is_name(definition, "_.-")
            && is_version;
        is_all.then(|| Self {
            gallery: gallery.to_owned(),
            definition: definition.to_owned(),
            version: version.to_owned(),
            regions: Vec::new(),
            replicas: 1,
        })
    }
}

/// Checks the name of a gallery or a definition. `more`: permitted characters beside letters and
/// digits. (Azure Resource Manager: naming rules, Microsoft.Compute)
fn is_name(name: &str, more: &str) -> bool {
    (1..=80).contains(&name.len())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || more.contains(c))
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_a_gallery_a_definition_and_three_numbers() {
        let version = GalleryVersion::parse("nodes/windows-2022/1.31.4").unwrap();
        assert_eq!(version.definition, "windows-2022");
        for text in [
            "nodes/windows-2022",
            "nodes/windows-2022/1.31",
            "nodes/windows-2022/1.31.+4",
            "nodes/windows-2022/1.31.4/x",
            "no-des/windows-2022/1.31.4",
            "nodes//1.31.4",
            "nodes/windows 2022/1.31.99999999999",
        ] {
            assert_eq!(GalleryVersion::parse(text), None, "{text}");
        }
    }
}
