//! `gs://bucket/folder`: a folder of a bucket of Google Cloud Storage.

use std::fmt;

use super::super::address::{AddressFault, is_lower_alphanumeric, parse_key_prefix};

/// Shown as `gs://bucket/folder/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GcsPlace {
    pub bucket: String,
    /// Prefix of object names: empty, or with a slash at its end.
    pub prefix: String,
}

impl GcsPlace {
    /// Parses the text after the scheme.
    pub fn parse(rest: &str) -> Result<Self, AddressFault> {
        let (bucket, folder) = rest.split_once('/').unwrap_or((rest, ""));
        // (Cloud Storage: bucket naming guidelines)
        let is_plain = bucket
            .chars()
            .all(|c| is_lower_alphanumeric(c) || ".-_".contains(c));
        if !(3..=222).contains(&bucket.len()) || !is_plain {
            return Err("names no bucket".into());
        }
        Ok(Self {
            bucket: bucket.to_owned(),
            prefix: parse_key_prefix(folder)?,
        })
    }
}

impl fmt::Display for GcsPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gs://{}/{}", self.bucket, self.prefix)
    }
}
