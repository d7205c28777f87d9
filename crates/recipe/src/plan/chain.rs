//! The parts of a build in order, each with the key of the disk after it.
//!
//! Pure. A key is the SHA-256 of canonical JSON: [`FORMAT`], the previous key, and the part itself,
//! which consists of values, not of text for people. Names and places of steps, numbers, timeouts
//! and messages are not part of a key, because they change nothing on the disk. The store decides
//! where to keep the disk for a key.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ExitRule;
use crate::MachineSpec;
use crate::ops::Encoding;
use winimg_base::digest::Digest;

/// Version of the format of [`Part`], in every key and in the record of every layer. Increment it
/// when a part gets, loses or renames a field, and when the same part produces a different disk:
/// earlier layers are then no longer used.
pub const FORMAT: u32 = 3;

/// A part of a build that changes the disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "kebab-case")]
pub enum BuildPart {
    Installation(Box<InstallationPart>),
    Step {
        payload: Vec<PayloadPart>,
        ops: Vec<GuestAction>,
    },
    /// A step disabled by its `when`.
    Skipped,
}

/// The inputs of the Windows installation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstallationPart {
    /// For example `qemu`: Windows finds different devices under each hypervisor.
    pub hypervisor: String,
    pub iso: Digest,
    pub virtio: Option<Digest>,
    /// Name of the image on the medium.
    pub image: String,
    /// Digest of the answer file without the Administrator's password.
    pub answer_file: Digest,
    /// Digest of everything else on the answer disc.
    pub bootstrap: Digest,
    pub machine: MachineSpec,
}

/// An entry of the payload disc that a step uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayloadPart {
    /// Number of its folder `p\NNNN`.
    pub number: u32,
    #[serde(flatten)]
    pub content: PayloadContent,
}

/// Content of a payload entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum PayloadContent {
    Component {
        component: String,
        version: Option<String>,
        file: String,
        digest: Digest,
    },
    /// An unpacked archive.
    Tree {
        component: String,
        version: Option<String>,
        strip: usize,
        only: Vec<String>,
        digest: Digest,
    },
    /// A container image, with the digest of its manifest.
    Image { image: String, digest: Digest },
    /// A file beside the recipe, or a folder with the digest from [`listing`].
    Local { name: String, digest: Digest },
    Text {
        file: String,
        text: String,
        encoding: Encoding,
    },
}

/// An action in the guest, with the exit codes that count as success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub enum GuestAction {
    Script {
        text: String,
        exit: ExitRule,
    },
    Command {
        program: String,
        arguments: Vec<String>,
        exit: ExitRule,
    },
    Restart,
    Settle,
    Eject,
    Seal,
}

/// A part in its position in the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainLink {
    /// Name for people, not in the key: ``the installation``, ``step `kubelet` ``
    pub name: String,
    /// Key of the disk after this part; covers all parts up to this one.
    pub key: Digest,
    pub part: BuildPart,
}

/// All parts of a build, each with the key of the disk after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuildChain(Vec<ChainLink>);

/// Computes the digest of many files, by their paths with slashes. `None`: the file is covered by
/// another digest of the same part.
pub fn hash_listing(files: &BTreeMap<String, Option<Digest>>) -> Digest {
    #[derive(Serialize)]
    struct FileListing<'a> {
        format: u32,
        files: &'a BTreeMap<String, Option<Digest>>,
    }
    let format = FORMAT;
    Digest::of_json(&FileListing { format, files })
}

/// The document that a key is the digest of.
#[derive(Serialize)]
struct ChainKey<'a> {
    format: u32,
    before: Option<&'a Digest>,
    part: &'a BuildPart,
}

impl BuildChain {
    /// Appends a part with its display name.
    pub fn push(&mut self, name: impl Into<String>, part: BuildPart) {
        let key = Digest::of_json(&ChainKey {
            format: FORMAT,
            before: self.0.last().map(|link| &link.key),
            part: &part,
        });
        self.0.push(ChainLink {
            name: name.into(),
            key,
            part,
        });
    }

    pub fn links(&self) -> &[ChainLink] {
        &self.0
    }
}
