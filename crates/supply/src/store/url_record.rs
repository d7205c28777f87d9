//! Last response of each URL. Saves transfers and detects replaced files; proves nothing.

use serde::{Deserialize, Serialize};

use winimg_base::digest::Digest;
use winimg_base::error::Result;
use winimg_base::text::redact;

use super::{Store, read_record, write_record};

/// Response of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UrlRecord {
    /// Without query and user.
    pub url: String,
    pub etag: Option<String>,
    pub last_modified: Option<String>,
    pub sha256: Digest,
    /// Bytes.
    pub size: u64,
}

impl Store {
    /// Returns the last response for `url`. The whole URL is the key, but only its hash is stored.
    pub fn find_url_record(&self, url: &str) -> Option<UrlRecord> {
        read_record(&self.record_path("seen", url))
    }

    /// Returns the mirror that served the bytes with this digest in place of `url`.
    pub fn mirror_of(&self, url: &str, digest: &Digest) -> Option<String> {
        let seen = self
            .find_url_record(url)
            .filter(|seen| seen.sha256 == *digest)?;
        // The name of an image is not a URL.
        let is_own = seen.url == url || seen.url == redact(url);
        (!is_own).then_some(seen.url)
    }

    pub fn record_seen(&self, url: &str, seen: &UrlRecord) -> Result<()> {
        write_record(&self.record_path("seen", url), seen)
    }
}
