//! Inputs of a lock of schema 1, which described the proof of an input in a sentence and recorded a
//! digest of that sentence.
//!
//! The sentence is parsed. The digest is ignored, so a change to nothing but the query of a URL is
//! not detected.

use serde::{Deserialize, Deserializer, de};

use super::LockEvidence;
use crate::{InputId, RequestedProof};
use winimg_base::digest::Digest;
use winimg_trust::Signer;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schema1Entry {
    name: InputId,
    version: Option<String>,
    url: String,
    #[serde(deserialize_with = "proof")]
    proof: RequestedProof,
    rules: Option<Digest>,
    #[serde(rename = "asked")]
    _asked: Digest,
    size: u64,
    digest: Digest,
    #[serde(default)]
    signers: Vec<Signer>,
    #[serde(default)]
    evidence: Vec<LockEvidence>,
}

impl From<Schema1Entry> for super::LockEntry {
    fn from(entry: Schema1Entry) -> Self {
        Self {
            id: entry.name,
            version: entry.version,
            url: entry.url,
            proof: entry.proof,
            rules: entry.rules,
            asked: None,
            keys: None,
            size: entry.size,
            digest: entry.digest,
            signers: entry.signers,
            evidence: entry.evidence,
        }
    }
}

fn proof<'de, D: Deserializer<'de>>(d: D) -> Result<RequestedProof, D::Error> {
    let text = String::deserialize(d)?;
    Ok(match (text.as_str(), text.strip_prefix("checksum file ")) {
        ("signed", _) => RequestedProof::Signed,
        ("unverified", _) => RequestedProof::Unverified,
        (_, Some(file)) => {
            let (url, entry) = match file.split_once(", line `") {
                Some((url, entry)) => (url, entry.strip_suffix('`')),
                None => (file, None),
            };
            RequestedProof::ChecksumFile {
                url: url.into(),
                entry: entry.map(str::to_string),
            }
        }
        (digest, None) => RequestedProof::Digest(digest.parse().map_err(de::Error::custom)?),
    })
}
