//! Where an image is made in Azure: a subscription's resource group, from a disk in one of its storage accounts. Pure.

use std::fmt;

use uuid::Uuid;

use super::super::place::BlobPlace;

/// A resource group, and the folder in which its account has the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AzurePlace {
    pub subscription: Uuid,
    pub group: String,
    pub blobs: BlobPlace,
}

/// A version of an image in a gallery of the resource group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub gallery: String,
    pub definition: String,
    /// Three numbers with points between them.
    pub version: String,
}

impl AzurePlace {
    /// What follows the scheme. The error is what is wrong with it: "the destination …".
    pub fn parse(rest: &str) -> Result<Self, &'static str> {
        let mut words = rest.splitn(3, '/');
        let mut word = || words.next().unwrap_or_default();
        let (subscription, group, blobs) = (word(), word(), word());
        if subscription.contains('@') {
            return Err("holds a user");
        }
        let subscription = Uuid::parse_str(subscription)
            .map_err(|_| "names no subscription: its id, as `az account list` shows it")?;
        // (Azure Resource Manager: naming rules, resource groups)
        let plain = |c: char| c.is_alphanumeric() || "-_.()".contains(c);
        let is_group =
            (1..=90).contains(&group.len()) && group.chars().all(plain) && !group.ends_with('.');
        if !is_group {
            return Err("names no resource group");
        }
        Ok(Self {
            subscription,
            group: group.to_owned(),
            blobs: BlobPlace::parse(blobs)?,
        })
    }

    /// The id of the group, whose resources' ids begin with it.
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

impl Version {
    /// `GALLERY/DEFINITION/VERSION`; `None`: it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split('/');
        let (gallery, definition, version) = (words.next()?, words.next()?, words.next()?);
        // (Azure Resource Manager: naming rules, Microsoft.Compute)
        let is_name = |name: &str, more: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
            (1..=80).contains(&name.len())
                && name.chars().all(plain)
                && name.starts_with(|c: char| c.is_ascii_alphanumeric())
                && name.ends_with(|c: char| c.is_ascii_alphanumeric())
        };
        let numbers: Vec<_> = version.split('.').map(str::parse::<i32>).collect();
        let is_number = |number: &Result<i32, _>| number.as_ref().is_ok_and(|n| *n >= 0);
        let is_version = numbers.len() == 3
            && numbers.iter().all(is_number)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_a_gallery_a_definition_and_three_numbers() {
        let version = Version::parse("nodes/windows-2022/1.31.4").unwrap();
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
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }
}
