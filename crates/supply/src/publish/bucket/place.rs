//! `s3://bucket/folder`: a folder of a bucket. Pure.

use std::fmt;

use super::super::address::{AddressFault, is_lower_alphanumeric, parse_key_prefix};

/// Shown as `bucket/folder/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketPlace {
    pub bucket: String,
    /// Prefix of keys: empty, or with a slash at its end.
    pub prefix: String,
}

impl BucketPlace {
    /// Parses the text after the scheme.
    pub fn parse(rest: &str) -> Result<Self, AddressFault> {
        let (bucket, folder) = rest.split_once('/').unwrap_or((rest, ""));
        judge_bucket(bucket)?;
        Ok(Self {
            bucket: bucket.to_owned(),
            prefix: parse_key_prefix(folder)?,
        })
    }
}

/// Checks the name of an S3 bucket. (Amazon S3: general purpose bucket naming rules)
fn judge_bucket(bucket: &str) -> Result<(), AddressFault> {
    let length = bucket.chars().count();
    let fault = match length {
        0 => return Err("names no bucket".into()),
        1..3 => "is too short: 3 to 63 characters",
        64.. => "is too long: 3 to 63 characters",
        _ if !bucket
            .chars()
            .all(|c| is_lower_alphanumeric(c) || ".-".contains(c)) =>
        {
            "has characters other than lower-case letters, digits, dots and hyphens"
        }
        _ if !bucket.starts_with(is_lower_alphanumeric)
            || !bucket.ends_with(is_lower_alphanumeric) =>
        {
            "does not start and end with a lower-case letter or a digit"
        }
        _ => return Ok(()),
    };
    Err(format!("has a bucket name that S3 does not allow: `{bucket}` {fault}").into())
}

impl fmt::Display for BucketPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.bucket, self.prefix)
    }
}
