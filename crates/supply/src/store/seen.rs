//! What a URL gave last time. Saves transfers and notices replaced files; proves nothing.

use serde::{Deserialize, Serialize};

use winimg_base::digest::Digest;
use winimg_base::error::Result;
use winimg_base::text::redact;

use super::{Store, read_record, write_record};

/// One answer of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Without query and user.
    pub url: String,
    pub etag: Option<String>,
    pub last_modified: Option<String>,
    pub sha256: Digest,
    /// Bytes.
    pub size: u64,
}

impl Store {
    /// What `url` gave last time. The whole URL is the key, but only its hash is kept.
    pub fn seen(&self, url: &str) -> Option<Seen> {
        read_record(&self.record_of("seen", url))
    }

    /// The address that gave the bytes with this digest in place of `url`, where that was another one: a mirror.
    pub fn mirror_of(&self, url: &str, digest: &Digest) -> Option<String> {
        let seen = self.seen(url).filter(|seen| seen.sha256 == *digest)?;
        // An image's name is no URL.
        let is_own = seen.url == url || seen.url == redact(url);
        (!is_own).then_some(seen.url)
    }

    pub fn record_seen(&self, url: &str, seen: &Seen) -> Result<()> {
        write_record(&self.record_of("seen", url), seen)
    }
}
