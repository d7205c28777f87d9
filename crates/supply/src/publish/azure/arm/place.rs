//! Destination of an image in Azure: a resource group of a subscription, with a storage account for
//! the disk. Pure.

use std::fmt;

use uuid::Uuid;

use super::super::place::BlobPlace;

/// A resource group, and the folder of its account with the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AzurePlace {
    pub subscription: Uuid,
    pub group: String,
    pub blobs: BlobPlace,
}

/// A version of an image in a gallery of the resource group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GalleryVersion {
    pub gallery: String,
    pub definition: String,
    /// Three numbers separated by points.
    pub version: String,
}

impl AzurePlace {
    /// Parses the text after the scheme. The error describes the fault and follows "the
    /// destination".
    pub fn parse(rest: &str) -> Result<Self, &'static str> {
        let (subscription, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let (group, blobs) = rest.split_once('/').unwrap_or((rest, ""));
        if subscription.contains('@') {
            return Err("contains a user name or password");
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
            return Err("names no resource group");
        }
        Ok(Self {
            subscription,
            group: group.to_owned(),
            blobs: BlobPlace::parse(blobs)?,
        })
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
