//! Where an image goes in Azure: a folder of a storage account's container. Pure.
//!
//! Refuses users, keys and signatures in an address.

use std::fmt;

/// A folder of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobPlace {
    pub account: String,
    pub container: String,
    /// What names begin with: empty, or with a slash at its end.
    pub prefix: String,
}

impl BlobPlace {
    /// What follows the scheme. The error is what is wrong with it: "the destination …".
    pub fn parse(rest: &str) -> Result<Self, &'static str> {
        let mut words = rest.trim_end_matches('/').splitn(3, '/');
        let mut word = || words.next().unwrap_or_default();
        let (account, container, prefix) = (word(), word(), word().trim_matches('/'));
        if account.contains('@') {
            return Err("holds a user");
        }
        // (Azure Resource Manager: naming rules, Microsoft.Storage)
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        if !(3..=24).contains(&account.len()) || !account.chars().all(plain) {
            return Err("names no storage account: 3 to 24 small letters and digits");
        }
        // (Azure Storage: naming containers)
        let is_container = (3..=63).contains(&container.len())
            && container.split('-').all(|part| !part.is_empty())
            && container.chars().all(|c| plain(c) || c == '-');
        if !is_container {
            return Err("names no container: 3 to 63 small letters, digits and single hyphens");
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "!-_.'()/=+,".contains(c);
        let is_step = |word: &str| word == "." || word == "..";
        if !prefix.chars().all(plain) || prefix.split('/').any(is_step) {
            return Err("has characters in its folder that names of blobs should not have");
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

impl fmt::Display for BlobPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.account, self.container, self.prefix)
    }
}
