//! Destination in Azure: a folder of a storage account's container. Pure.
//!
//! Refuses users, keys and signatures in an address.

use std::fmt;

use super::super::address::{AddressFault, is_lower_alphanumeric, parse_prefix};

/// A folder of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobPlace {
    pub account: String,
    pub container: String,
    /// Prefix of blob names: empty, or ending in a slash.
    pub prefix: String,
}

impl BlobPlace {
    /// Parses the text after the scheme.
    pub fn parse(rest: &str) -> Result<Self, AddressFault> {
        let rest = rest.trim_end_matches('/');
        let (account, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let (container, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if account.contains('@') {
            return Err("contains a user name or password".into());
        }
        // (Azure Resource Manager: naming rules, Microsoft.Storage)
        if !(3..=24).contains(&account.len()) || !account.chars().all(is_lower_alphanumeric) {
            return Err(
                "has no valid storage account name (3 to 24 lower-case letters and digits)".into(),
            );
        }
        // (Azure Storage: naming containers)
        let is_container = (3..=63).contains(&container.len())
            && container.split('-').all(|part| !part.is_empty())
            && container
                .chars()
                .all(|c| is_lower_alphanumeric(c) || c == '-');
        if !is_container {
            return Err(
                "has no valid container name (3 to 63 lower-case letters, digits and single \
                 hyphens)"
                    .into(),
            );
        }
        let Some(prefix) = parse_prefix(prefix, "!-_.'()/=+,") else {
            return Err("has a folder with characters that are not allowed in blob names".into());
        };
        Ok(Self {
            account: account.to_owned(),
            container: container.to_owned(),
            prefix,
        })
    }
}

impl fmt::Display for BlobPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.account, self.container, self.prefix)
    }
}
