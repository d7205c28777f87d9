//! Contents of a key file or a root file, independent of its encoding.
//!
//! A lock records them to detect a key that was replaced under the same file name. Comments, line
//! ends and armor are ignored: two files with the same keys have the same digest.

use winimg_base::digest::Digest;

use crate::x509::chain;

/// The keys or certificates of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFileContent {
    /// Description for people: the key's number or fingerprint, or the certificates' digests and
    /// subjects.
    pub key: String,
    /// SHA-256 of the keys or certificates themselves.
    pub digest: Digest,
}

/// Describes the certificates (DER) of one file, in any order.
pub fn describe_certificates(ders: &[Vec<u8>]) -> KeyFileContent {
    let mut sorted: Vec<&Vec<u8>> = ders.iter().collect();
    sorted.sort();
    sorted.dedup();
    let names: Vec<String> = sorted.iter().map(|der| chain::describe_root(der)).collect();
    KeyFileContent {
        key: names.join(" and "),
        digest: Digest::sha256_of(&sorted.into_iter().flatten().copied().collect::<Vec<u8>>()),
    }
}

/// Describes a trust root of Sigstore. `None` if the file is not JSON, which the rule's constructor
/// refuses.
pub fn trusted_root(file: &[u8]) -> Option<KeyFileContent> {
    let root: serde_json::Value = serde_json::from_slice(file).ok()?;
    let digest = Digest::of_json(&root);
    Some(KeyFileContent {
        key: format!("trust root {digest}"),
        digest,
    })
}
