//! What a key file or a root file holds, independent of how the file is written.
//!
//! A lock records it, so that a key that was replaced under the same file name is noticed. Comments, line ends and armour
//! do not count: two files with the same keys give the same digest.

use winimg_base::digest::Digest;

use super::Rule;
use super::chain;

/// The keys or certificates of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// For people: the key's number, fingerprint, or the certificates' digests and subjects.
    pub key: String,
    /// SHA-256 over the keys or certificates themselves.
    pub digest: Digest,
}

impl Rule {
    /// Returns the key that the rule was made from; `None` for a rule that is not made from a bare key.
    pub fn pinned(&self) -> Option<Pinned> {
        match self {
            Self::Minisign(rule) => Some(rule.pinned()),
            Self::Signify(rule) => Some(rule.pinned()),
            Self::Cosign(rule) => Some(rule.pinned()),
            Self::Openpgp(rule) => Some(rule.pinned()),
            Self::Sigstore(_) | Self::Authenticode(_) | Self::Cms(_) => None,
        }
    }
}

/// Describes the certificates (DER) of one file, in any order.
pub fn certificates(ders: &[Vec<u8>]) -> Pinned {
    let mut sorted: Vec<&Vec<u8>> = ders.iter().collect();
    sorted.sort();
    sorted.dedup();
    let names: Vec<String> = sorted.iter().map(|der| chain::root_text(der)).collect();
    Pinned {
        key: names.join(" and "),
        digest: Digest::sha256_of(&sorted.into_iter().flatten().copied().collect::<Vec<u8>>()),
    }
}

/// Describes a trust root of Sigstore. `None` where the file is not JSON, which `sigstore::Rule::new` refuses.
pub fn trusted_root(file: &[u8]) -> Option<Pinned> {
    let root: serde_json::Value = serde_json::from_slice(file).ok()?;
    let digest = Digest::of_json(&root);
    Some(Pinned {
        key: format!("trust root {digest}"),
        digest,
    })
}
