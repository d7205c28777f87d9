//! Inputs of a lock of schema 1, which said in a sentence how an input is proved and held a digest over that sentence.
//!
//! The sentence is parsed; the digest is dropped, so that a change in nothing but the query of a URL is not noticed.

use serde::{Deserialize, Deserializer, de};

use super::Evidence;
use crate::recipe::{AskedProof, InputId};
use winimg_base::digest::Digest;
use winimg_trust::Signer;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    name: InputId,
    version: Option<String>,
    url: String,
    #[serde(deserialize_with = "proof")]
    proof: AskedProof,
    rules: Option<Digest>,
    #[serde(rename = "asked")]
    _asked: Digest,
    size: u64,
    digest: Digest,
    #[serde(default)]
    signers: Vec<Signer>,
    #[serde(default)]
    evidence: Vec<Evidence>,
}

impl From<Entry> for super::Entry {
    fn from(entry: Entry) -> Self {
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

fn proof<'de, D: Deserializer<'de>>(d: D) -> Result<AskedProof, D::Error> {
    let text = String::deserialize(d)?;
    Ok(match (text.as_str(), text.strip_prefix("checksum file ")) {
        ("signed", _) => AskedProof::Signed,
        ("unverified", _) => AskedProof::Unverified,
        (_, Some(file)) => {
            let (url, entry) = match file.split_once(", line `") {
                Some((url, entry)) => (url, entry.strip_suffix('`')),
                None => (file, None),
            };
            AskedProof::ChecksumFile {
                url: url.into(),
                entry: entry.map(str::to_string),
            }
        }
        (digest, None) => AskedProof::Digest(digest.parse().map_err(de::Error::custom)?),
    })
}
