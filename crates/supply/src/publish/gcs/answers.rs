//! What Cloud Storage says in JSON. (Cloud Storage JSON API: Objects, status and error codes)

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::fetch::failure::Failure;
use winimg_base::error::{Error, Kind};
use winimg_base::unseen;

/// An object of a bucket.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// Bytes, as text.
    pub size: Option<String>,
    /// Base64. Objects that were composed of others have none.
    pub md5_hash: Option<String>,
    /// Another one for every content of this name.
    pub generation: Option<String>,
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Refusal {
    error: Words,
}

#[derive(Deserialize)]
struct Words {
    #[serde(default)]
    message: String,
    #[serde(default)]
    errors: Vec<Reason>,
}

#[derive(Deserialize)]
struct Reason {
    #[serde(default)]
    reason: String,
}

pub fn resource(bytes: &[u8]) -> Result<Resource, Failure> {
    serde_json::from_slice(bytes).map_err(|e| unexpected(&e.to_string()).into())
}

/// The reason of an error and its words.
pub fn error(bytes: &[u8]) -> Option<(String, String)> {
    let Refusal { error } = serde_json::from_slice(bytes).ok()?;
    let reason = error.errors.into_iter().next().map(|one| one.reason);
    Some((reason.unwrap_or_default(), error.message))
}

pub fn unexpected(words: &str) -> Error {
    let fact = "the bucket sent an answer that is not Cloud Storage's";
    Error::new(Kind::Publish, fact).found(unseen::line(words))
}

/// How many bytes `Range: bytes=0-N` of an unfinished upload names. (Cloud Storage: resumable uploads, check the status)
pub fn persisted(range: Option<&str>) -> Result<u64, Failure> {
    let Some(range) = range else {
        return Ok(0);
    };
    let last = range
        .strip_prefix("bytes=0-")
        .and_then(|n| n.parse::<u64>().ok());
    let count = last.and_then(|last| last.checked_add(1));
    count.ok_or_else(|| unexpected(&format!("Range: {range}")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_upload_has_is_read() {
        assert_eq!(persisted(None).ok(), Some(0));
        assert_eq!(persisted(Some("bytes=0-0")).ok(), Some(1));
        assert_eq!(persisted(Some("bytes=0-16777215")).ok(), Some(16 << 20));
        for wrong in [
            "bytes=5-9",
            "bytes=0-",
            "0-9",
            "bytes=0-18446744073709551615",
        ] {
            assert!(persisted(Some(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_refusal_is_read_with_its_reason() {
        let text = br#"{"error": {"code": 403, "message": "no", "errors": [{"domain": "global", "reason": "forbidden"}]}}"#;
        assert_eq!(error(text), Some(("forbidden".into(), "no".into())));
        assert_eq!(error(b"Not Found"), None);
    }
}
