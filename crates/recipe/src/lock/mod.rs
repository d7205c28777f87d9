//! `recipe.lock` records the exact file behind every input of a recipe, and detects drift from it.
//!
//! This module reads and writes the file, applies it to a recipe and compares it with another; the
//! fetch module queries publishers. Refuses a file that was changed after `winimg lock` wrote it. A
//! lock proves nothing by itself: each input still needs the proof and the signatures that the
//! recipe requires.

mod apply;
mod change;
mod file;
mod rollback;
mod schema1;
mod schema2;
mod successor;
mod version;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{InputId, KeyFile, LockRequest, RequestedProof};
use winimg_base::digest::Digest;
use winimg_base::io;
use winimg_base::text::Place;
use winimg_trust::Signer;

pub use apply::{LockComparison, apply_lock, find_drift};
pub use change::{LockChanges, compare_locks, refuse_lower_versions};
pub use rollback::{UsedInput, UsedLock, check_minimum_serial, check_rollback, warn_rollback};
pub use successor::{VersionSuccessors, find_successors, parse_published};

/// The schema that is written. Schemas 1 and 2 are also read.
pub const SCHEMA: i64 = 3;

/// The content of a lock file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipeLock {
    /// The recipe's name.
    pub recipe: String,
    /// Incremented with each change.
    pub serial: u64,
    /// In the order of the recipe: the media, components, container images.
    pub inputs: Vec<LockEntry>,
}

/// One input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockEntry {
    #[serde(rename = "name")]
    pub id: InputId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The recipe's URL without query, or the name of a local file.
    pub url: String,
    pub proof: RequestedProof,
    /// Digest of the recipe's tables of signatures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Digest>,
    /// Digest of everything that the recipe requests. `None` in a lock of schema 1, which has a
    /// digest of a sentence there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Digest>,
    /// Size in bytes; for a container image the sum of its parts.
    pub size: u64,
    /// SHA-256; for a container image the digest of its manifest for Windows.
    pub digest: Digest,
    /// Contents of the recipe's key and root files. `None` in a lock of schema 1 or 2, which did
    /// not record them.
    #[serde(default = "no_keys", skip_serializing_if = "is_without_keys")]
    pub keys: Option<Vec<KeyFile>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signers: Vec<Signer>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<LockEvidence>,
}

/// Returns the keys of an entry in the current schema that names none.
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

/// A file published beside an input that proves it. For a container image, the index that its tag
/// named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockEvidence {
    /// The URL without query.
    pub url: String,
    pub digest: Digest,
}

/// The result of resolving an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedInput {
    pub size: u64,
    pub digest: Digest,
    pub signers: Vec<Signer>,
    pub evidence: BTreeMap<String, Digest>,
}

/// A lock file as it was read.
#[derive(Clone, Debug)]
pub struct LockFile {
    pub lock: RecipeLock,
    pub path: PathBuf,
    /// The name to show: `recipe.lock`.
    pub name: String,
    /// The schema of the file as read.
    pub schema: i64,
    /// The text with Unix line ends.
    pub text: String,
    /// The place of each input, in the same order.
    places: Vec<Place>,
}

impl LockFile {
    /// Computes the digest of the file's text, for records.
    pub fn digest(&self) -> Digest {
        Digest::sha256_of(self.text.as_bytes())
    }

    /// Returns the path of a signature of this file: the suffix follows its whole name.
    pub fn signature_path(&self, suffix: &str) -> PathBuf {
        io::with_suffix(&self.path, suffix)
    }

    /// Returns a notice for users of an earlier schema that tells what `winimg lock` would do.
    pub fn describe_upgrade(&self, recipe: &str) -> Option<String> {
        (self.schema < SCHEMA).then(|| {
            format!(
                "{} has schema {}, which is still supported; `winimg lock {recipe}` writes schema \
                 {SCHEMA}, which also detects {}",
                self.name,
                self.schema,
                match self.schema {
                    1 => "a changed query in a URL and a changed key in a key file",
                    _ => "a changed key in a key file",
                }
            )
        })
    }
}

impl RecipeLock {
    /// Returns the path of a recipe's lock, which is beside the recipe.
    pub fn path_for(recipe: &Path) -> PathBuf {
        let stem = recipe.file_stem().unwrap_or(recipe.as_os_str());
        let mut name = OsString::from(stem);
        name.push(".lock");
        recipe.with_file_name(name)
    }

    pub fn find_entry(&self, id: &InputId) -> Option<&LockEntry> {
        self.inputs.iter().find(|e| e.id == *id)
    }

    /// Completes the entries of an earlier schema, if the recipe still requests them in the same
    /// way.
    pub fn complete(&mut self, requests: &[LockRequest]) {
        for entry in &mut self.inputs {
            if entry.asked.is_some() && entry.keys.is_some() {
                continue;
            }
            let Some(request) = requests
                .iter()
                .find(|request| entry.matches_request(request))
            else {
                continue;
            };
            entry.asked = Some(request.digest.clone());
            entry.keys = Some(request.keys.clone());
        }
    }

    /// Returns the digests of all files in the lock: the inputs, and the evidence for them.
    pub fn digests(&self) -> impl Iterator<Item = (&LockEntry, &Digest)> {
        self.inputs.iter().flat_map(|entry| {
            std::iter::once(&entry.digest)
                .chain(entry.evidence.iter().map(|evidence| &evidence.digest))
                .map(move |digest| (entry, digest))
        })
    }

    /// Returns the record that the store keeps of a build with this lock.
    pub fn to_record(&self) -> UsedLock {
        let inputs = self.inputs.iter().map(|e| UsedInput {
            id: e.id.clone(),
            version: e.version.clone(),
            digest: e.digest.clone(),
        });
        UsedLock {
            recipe: self.recipe.clone(),
            serial: self.serial,
            inputs: inputs.collect(),
        }
    }
}

impl LockEntry {
    pub fn new(request: &LockRequest, found: ResolvedInput) -> Self {
        let evidence = found.evidence.into_iter();
        Self {
            id: request.id.clone(),
            version: request.version.as_ref().map(|v| v.value.clone()),
            url: request.url.value.clone(),
            proof: request.proof.value.clone(),
            rules: request.rules.as_ref().map(|r| r.value.clone()),
            asked: Some(request.digest.clone()),
            keys: Some(request.keys.clone()),
            size: found.size,
            digest: found.digest,
            signers: found.signers,
            evidence: evidence
                .map(|(url, digest)| LockEvidence { url, digest })
                .collect(),
        }
    }

    /// `1.36.1 sha256:0123456789ab…`
    fn describe(&self) -> String {
        describe_input(self.version.as_deref(), &self.digest)
    }
}

/// Renders the version, if any, and the start of the digest.
fn describe_input(version: Option<&str>, digest: &Digest) -> String {
    let hex = digest.hex();
    let short = format!("{}:{}…", digest.algorithm.name(), &hex[..12]);
    match version {
        Some(version) => format!("{version} {short}"),
        None => short,
    }
}

/// Names an input in a sentence: `component kubelet`, `media.iso`, `image pause`.
fn name_input(id: &InputId) -> String {
    match id {
        InputId::Component(name) => format!("component {name}"),
        InputId::Iso | InputId::Virtio | InputId::Image(_) => id.to_string(),
    }
}
