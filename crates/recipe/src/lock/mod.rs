//! `recipe.lock`: what every input of a recipe was when it was last decided on, and how a recipe drifts from it.
//!
//! The file is read and written here, laid into a recipe, and compared with another; asking publishers is the fetch's
//! work. Refuses a file that `winimg lock` did not write as it stands. What a lock says proves nothing by itself: each
//! input still has to have the proof and the signatures that the recipe asks for.

mod change;
mod file;
mod lay;
mod rollback;
mod schema1;
mod schema2;
mod successor;
mod version;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::recipe::{Ask, AskedProof, InputId, KeyFile};
use winimg_base::digest::Digest;
use winimg_base::io;
use winimg_base::text::Place;
use winimg_trust::Signer;

pub use change::{Changes, between, lowered};
pub use lay::{Comparison, drift, lay};
pub use rollback::{BuiltInput, BuiltWith, rolled_back, too_low, warning};
pub use successor::{Successors, published, successors};

/// What a signature of a lock is called behind the lock's own name, by its kind.
pub const SIGNATURES: [&str; 5] = [".minisig", ".sig", ".asc", ".sigstore.json", ".p7s"];

/// The schema that is written. Locks of schemas 1 and 2 are read, too.
pub const SCHEMA: i64 = 3;

/// The content of a lock file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The recipe's name.
    pub recipe: String,
    /// One more with each change.
    pub serial: u64,
    /// As the recipe has them: the media, components, container images.
    pub inputs: Vec<Entry>,
}

/// One input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    #[serde(rename = "name")]
    pub id: InputId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// As the recipe asks, without query; of a local file its name.
    pub url: String,
    pub proof: AskedProof,
    /// Over the recipe's tables of signatures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Digest>,
    /// Over all that the recipe asks. `None` in a lock of schema 1, which had a digest over words there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Digest>,
    /// Bytes; of a container image those of all its parts.
    pub size: u64,
    /// SHA-256; of a container image that of its manifest for Windows.
    pub digest: Digest,
    /// What the recipe's key and root files held. `None` in a lock of schema 1 or 2, which did not record it.
    #[serde(default = "no_keys", skip_serializing_if = "is_without_keys")]
    pub keys: Option<Vec<KeyFile>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signers: Vec<Signer>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
}

/// What a lock of the present schema means that names no keys.
#[expect(
    clippy::unnecessary_wraps,
    reason = "serde takes the type of the field"
)]
fn no_keys() -> Option<Vec<KeyFile>> {
    Some(Vec::new())
}

fn is_without_keys(keys: &Option<Vec<KeyFile>>) -> bool {
    keys.as_ref().is_none_or(Vec::is_empty)
}

/// A file that was published beside an input and that proves it. Of a container image, the index that its tag named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// Without query.
    pub url: String,
    pub digest: Digest,
}

/// What was found for an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub size: u64,
    pub digest: Digest,
    pub signers: Vec<Signer>,
    pub evidence: BTreeMap<String, Digest>,
}

/// A lock file as it was read.
#[derive(Clone, Debug)]
pub struct LockFile {
    pub lock: Lock,
    pub path: PathBuf,
    /// The name to show: `recipe.lock`.
    pub name: String,
    /// The file's own.
    pub schema: i64,
    /// With the line ends of Unix.
    pub text: String,
    /// Of each input, in the same order.
    places: Vec<Place>,
}

impl LockFile {
    /// Over the file's text, for records.
    pub fn digest(&self) -> Digest {
        Digest::sha256_of(self.text.as_bytes())
    }

    /// Where a signature of it stands: the suffix follows its whole name.
    pub fn beside(&self, suffix: &str) -> PathBuf {
        io::with_suffix(&self.path, suffix)
    }

    /// For users of an earlier schema: what `winimg lock` would do.
    pub fn notice(&self, recipe: &str) -> Option<String> {
        (self.schema < SCHEMA).then(|| {
            format!(
                "{} has schema {}, which is still obeyed; `winimg lock {recipe}` writes schema {SCHEMA}, which also \
                 detects {}",
                self.name,
                self.schema,
                match self.schema {
                    1 => "another query in a URL and another key in a key file",
                    _ => "another key in a key file",
                }
            )
        })
    }
}

impl Lock {
    /// Where the lock of a recipe stands: beside it.
    pub fn beside(recipe: &Path) -> PathBuf {
        let stem = recipe.file_stem().unwrap_or(recipe.as_os_str());
        let mut name = OsString::from(stem);
        name.push(".lock");
        recipe.with_file_name(name)
    }

    pub fn entry(&self, id: &InputId) -> Option<&Entry> {
        self.inputs.iter().find(|e| e.id == *id)
    }

    /// Gives the entries of an earlier schema what they lack, as far as the recipe still asks the same.
    pub fn complete(&mut self, asks: &[Ask]) {
        let lacks = |entry: &&mut Entry| entry.asked.is_none() || entry.keys.is_none();
        for entry in self.inputs.iter_mut().filter(lacks) {
            let Some(ask) = asks.iter().find(|ask| entry.is_asked_by(ask)) else {
                continue;
            };
            entry.asked = Some(ask.digest.clone());
            entry.keys = Some(ask.keys.clone());
        }
    }

    /// Every file that it names: the inputs, and what proves them.
    pub fn digests(&self) -> impl Iterator<Item = (&Entry, &Digest)> {
        self.inputs.iter().flat_map(|entry| {
            let evidence = entry.evidence.iter().map(|e| &e.digest);
            let all = std::iter::once(&entry.digest).chain(evidence);
            all.map(move |digest| (entry, digest))
        })
    }

    /// What the store keeps of a build with this lock.
    pub fn record(&self) -> BuiltWith {
        let inputs = self.inputs.iter().map(|e| BuiltInput {
            id: e.id.clone(),
            version: e.version.clone(),
            digest: e.digest.clone(),
        });
        BuiltWith {
            recipe: self.recipe.clone(),
            serial: self.serial,
            inputs: inputs.collect(),
        }
    }
}

impl Entry {
    pub fn new(ask: &Ask, found: Found) -> Self {
        let evidence = found.evidence.into_iter();
        Self {
            id: ask.id.clone(),
            version: ask.version.as_ref().map(|v| v.value.clone()),
            url: ask.url.value.clone(),
            proof: ask.proof.value.clone(),
            rules: ask.rules.as_ref().map(|r| r.value.clone()),
            asked: Some(ask.digest.clone()),
            keys: Some(ask.keys.clone()),
            size: found.size,
            digest: found.digest,
            signers: found.signers,
            evidence: evidence
                .map(|(url, digest)| Evidence { url, digest })
                .collect(),
        }
    }

    /// `1.36.1 sha256:0123456789ab…`
    fn shown(&self) -> String {
        shown(self.version.as_deref(), &self.digest)
    }
}

/// A version, if there is one, and the beginning of a digest.
fn shown(version: Option<&str>, digest: &Digest) -> String {
    let hex = digest.hex();
    let short = format!("{}:{}…", digest.algorithm.name(), &hex[..12]);
    match version {
        Some(version) => format!("{version} {short}"),
        None => short,
    }
}

/// An input as a sentence calls it: `component kubelet`, `media.iso`, `image pause`.
fn called(id: &InputId) -> String {
    match id {
        InputId::Component(name) => format!("component {name}"),
        InputId::Iso | InputId::Virtio | InputId::Image(_) => id.to_string(),
    }
}
