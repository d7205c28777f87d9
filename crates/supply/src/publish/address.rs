//! Parts that the addresses of several destinations share. Pure.

use winimg_base::error::{Error, Kind};

/// Why a text is not the address of a destination. The fact follows "the destination".
#[derive(Debug)]
pub struct AddressFault {
    fact: String,
    cure: Option<&'static str>,
}

impl From<&str> for AddressFault {
    fn from(fact: &str) -> Self {
        fact.to_owned().into()
    }
}

impl From<String> for AddressFault {
    fn from(fact: String) -> Self {
        Self { fact, cure: None }
    }
}

impl AddressFault {
    pub fn cure(self, cure: &'static str) -> Self {
        Self {
            cure: Some(cure),
            ..self
        }
    }

    /// Reports the fault of an address without its secrets.
    pub fn report(self, text: &str) -> Error {
        // The text before an @ may be a password, the text after a question mark a signature.
        let shown = text.split(['?', '#']).next().unwrap_or_default();
        let shown = match shown.rsplit_once('@') {
            Some((_, after)) => format!("…@{after}"),
            None => shown.to_owned(),
        };
        let error = Error::new(Kind::Recipe, format!("the destination {}", self.fact))
            .at("--to")
            .expected(
                "such as s3://bucket/folder, ami://bucket/folder, \
                 azblob://account/container/folder, \
                 azure://subscription/group/account/container, gs://bucket/folder, \
                 glance://node-1.31, vsphere://vcenter.example.com/library, \
                 https://files.example.com/folder, \
                 oci://registry.example.com/team/node:1.31 or \
                 containerdisk://registry.example.com/team/node:1.31",
            )
            .found(shown);
        match self.cure {
            Some(cure) => error.cure(cure),
            None => error,
        }
    }
}

/// Returns the prefix of the keys in a folder: empty, or with a slash at its end. `None`: it has
/// characters other than letters, digits and those of `more`.
pub fn parse_prefix(folder: &str, more: &str) -> Option<String> {
    let prefix = folder.trim_matches('/');
    let is_plain = prefix
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || more.contains(c));
    if !is_plain || prefix.split('/').any(|word| word == "." || word == "..") {
        return None;
    }
    Some(match prefix {
        "" => String::new(),
        prefix => format!("{prefix}/"),
    })
}

/// Returns the prefix of object keys in a bucket's folder.
pub fn parse_key_prefix(folder: &str) -> Result<String, AddressFault> {
    parse_prefix(folder, "!-_.*'()/=+,")
        .ok_or_else(|| "has characters in its folder that object keys should not have".into())
}

pub fn is_lower_alphanumeric(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}
