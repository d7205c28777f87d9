//! `gs://bucket/folder`: a folder of a bucket of Google Cloud Storage.

use std::fmt;

use super::super::folder::prefix;

/// Shown as `gs://bucket/folder/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GcsPlace {
    pub bucket: String,
    /// What names of objects begin with: empty, or with a slash at its end.
    pub prefix: String,
}

impl GcsPlace {
    /// What follows the scheme; an error is what is wrong with it, in words that fit after "the destination".
    pub fn parse(rest: &str) -> Result<Self, &'static str> {
        let (bucket, folder) = rest.split_once('/').unwrap_or((rest, ""));
        // (Cloud Storage: bucket naming guidelines)
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-_".contains(c);
        if !(3..=222).contains(&bucket.len()) || !bucket.chars().all(plain) {
            return Err("names no bucket");
        }
        Ok(Self {
            bucket: bucket.to_owned(),
            prefix: prefix(folder)?,
        })
    }
}

impl fmt::Display for GcsPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gs://{}/{}", self.bucket, self.prefix)
    }
}
