//! JSON answers of Cloud Storage. (Cloud Storage JSON API: Objects, status and error codes)

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::fetch::failure::FetchFailure;
use winimg_base::display_text;
use winimg_base::error::{Error, Kind};

/// An object of a bucket.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GcsObject {
    /// Bytes, as text.
    pub size: Option<String>,
    /// Base64. Composite objects have none.
    pub md5_hash: Option<String>,
    /// Changes with the content.
    pub generation: Option<String>,
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct GcsErrorBody {
    error: GcsError,
}

#[derive(Deserialize)]
struct GcsError {
    #[serde(default)]
    message: String,
    #[serde(default)]
    errors: Vec<GcsErrorReason>,
}

#[derive(Deserialize)]
struct GcsErrorReason {
    #[serde(default)]
    reason: String,
}

pub fn parse_object(bytes: &[u8]) -> Result<GcsObject, FetchFailure> {
    serde_json::from_slice(bytes).map_err(|e| report_unexpected(&e.to_string()).into())
}

/// Parses the reason and the message of an error.
pub fn error(bytes: &[u8]) -> Option<(String, String)> {
    let GcsErrorBody { error } = serde_json::from_slice(bytes).ok()?;
    let reason = error.errors.into_iter().next().map(|one| one.reason);
    Some((reason.unwrap_or_default(), error.message))
}

pub fn report_unexpected(words: &str) -> Error {
    let fact = "the bucket sent an answer that is not Cloud Storage's";
    Error::new(Kind::Publish, fact).found(display_text::sanitize_line(words))
}

/// Parses the number of bytes in `Range: bytes=0-N` of an unfinished upload. (Cloud Storage:
/// resumable uploads, check the status)
pub fn parse_range(range: Option<&str>) -> Result<u64, FetchFailure> {
    let Some(range) = range else {
        return Ok(0);
    };
    let last = range
        .strip_prefix("bytes=0-")
        .and_then(|n| n.parse::<u64>().ok());
    let count = last.and_then(|last| last.checked_add(1));
    count.ok_or_else(|| report_unexpected(&format!("Range: {range}")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_upload_has_is_read() {
        assert_eq!(parse_range(None).ok(), Some(0));
        assert_eq!(parse_range(Some("bytes=0-0")).ok(), Some(1));
        assert_eq!(parse_range(Some("bytes=0-16777215")).ok(), Some(16 << 20));
        for wrong in [
            "bytes=5-9",
            "bytes=0-",
            "0-9",
            "bytes=0-18446744073709551615",
        ] {
            assert!(parse_range(Some(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_refusal_is_read_with_its_reason() {
        let text = br#"{"error": {"code": 403, "message": "no", "errors": [{"domain": "global", "reason": "forbidden"}]}}"#;
        assert_eq!(error(text), Some(("forbidden".into(), "no".into())));
        assert_eq!(error(b"Not Found"), None);
    }
}
