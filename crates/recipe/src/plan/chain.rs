//! What went into a build, part after part, each with the key of the disk after it.
//!
//! Pure. A key is the SHA-256 of canonical JSON: [`FORMAT`], the key before, and the part itself, which holds values and no
//! words. Names and places of steps, numbers, timeouts and what people read are in no key: they change nothing on the disk.
//! Where a disk is kept under a key is the store's affair.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ExitRule;
use crate::recipe::{Encoding, MachineSpec};
use winimg_base::digest::Digest;

/// The number of the format of [`Part`], in every key and in the record of every layer. It rises when a part gets, loses or
/// renames a field, and when the same part comes to make another disk: then no layer that was sealed before is used.
pub const FORMAT: u32 = 3;

/// A part of a build that changes the disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "kebab-case")]
pub enum Part {
    Installation(Box<Installation>),
    Step {
        payload: Vec<Payload>,
        ops: Vec<Action>,
    },
    /// A step whose `when` turned it off.
    Skipped,
}

/// What Windows is installed from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installation {
    /// `qemu`: Windows finds other devices under each.
    pub hypervisor: String,
    pub iso: Digest,
    pub virtio: Option<Digest>,
    /// The image of the medium, by its name there.
    pub image: String,
    /// Of the answer file without the Administrator's password.
    pub answer_file: Digest,
    /// Of everything else on the answer disc that winimg or the team brings.
    pub bootstrap: Digest,
    pub machine: MachineSpec,
}

/// An entry of the payload disc that a step takes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// That of its folder `p\NNNN`.
    pub number: u32,
    #[serde(flatten)]
    pub content: Content,
}

/// What such an entry holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Content {
    Component {
        component: String,
        version: Option<String>,
        file: String,
        digest: Digest,
    },
    /// The archive is unpacked.
    Tree {
        component: String,
        version: Option<String>,
        strip: usize,
        only: Vec<String>,
        digest: Digest,
    },
    /// The digest is that of its manifest.
    Image { image: String, digest: Digest },
    /// A file beside the recipe, or a folder with the digest that [`listing`] gives.
    Local { name: String, digest: Digest },
    Text {
        file: String,
        text: String,
        encoding: Encoding,
    },
}

/// What the guest is made to do, and which of its answers are good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub enum Action {
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

/// A part in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// For people, and not in the key: ``the installation``, ``step `kubelet` ``
    pub name: String,
    /// Of the disk after this part: everything up to here is in it.
    pub key: Digest,
    pub part: Part,
}

/// All parts of a build, each with the key of the disk after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain(Vec<Link>);

/// The digest that stands for many files in a part, by their paths with slashes. `None`: the file's bytes are in another
/// digest of the same part.
pub fn listing(files: &BTreeMap<String, Option<Digest>>) -> Digest {
    #[derive(Serialize)]
    struct Listing<'a> {
        format: u32,
        files: &'a BTreeMap<String, Option<Digest>>,
    }
    let format = FORMAT;
    Digest::of_json(&Listing { format, files })
}

/// What a key is the digest of.
#[derive(Serialize)]
struct Key<'a> {
    format: u32,
    before: Option<&'a Digest>,
    part: &'a Part,
}

impl Chain {
    /// The next part, under the name that people know it by.
    pub fn push(&mut self, name: impl Into<String>, part: Part) {
        let key = Digest::of_json(&Key {
            format: FORMAT,
            before: self.0.last().map(|link| &link.key),
            part: &part,
        });
        self.0.push(Link {
            name: name.into(),
            key,
            part,
        });
    }

    pub fn links(&self) -> &[Link] {
        &self.0
    }
}
