//! Destination in Azure: a folder of a storage account's container. Pure.
//!
//! Refuses users, keys and signatures in an address.

use std::fmt;

/// A folder of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobPlace {
    pub account: String,
    pub container: String,
    /// Prefix of blob names: empty, or ending in a slash.
    pub prefix: String,
}

impl BlobPlace {
    /// Parses the text after the scheme. The error describes the fault and follows "the
    /// destination".
    pub fn parse(rest: &str) -> Result<Self, &'static str> {
        let rest = rest.trim_end_matches('/');
        let (account, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let (container, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_matches('/');
        if account.contains('@') {
            return Err("contains a user name or password");
        }
        // (Azure Resource Manager: naming rules, Microsoft.Storage)
        if !(3..=24).contains(&account.len()) || !account.chars().all(is_lower_alphanumeric) {
            return Err(
                "has no valid storage account name (3 to 24 lower-case letters and digits)",
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
                 hyphens)",
            );
        }
        let is_plain = prefix
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "!-_.'()/=+,".contains(c));
        if !is_plain || prefix.split('/').any(|word| matches!(word, "." | "..")) {
            return Err("has a folder with characters that are not allowed in blob names");
        }
        Ok(Self {
            account: account.to_owned(),
            container: container.to_owned(),
            prefix: match prefix {
                "" => String::new(),
                prefix => format!("{prefix}/"),
            },
        })
    }
}

fn is_lower_alphanumeric(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

impl fmt::Display for BlobPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.account, self.container, self.prefix)
    }
}
