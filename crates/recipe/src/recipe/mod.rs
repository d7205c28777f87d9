//! The recipe as it is meant: every value decided, every value knowing its place.
//!
//! `raw` reads TOML and follows includes, `value` keeps the tree with places, `merge` lays files over each other,
//! `overlay` is what a matrix says over a recipe, `declare` reads what `[vars]` asks of a variable, `decide` says whose word about it wins, `vars` fills it in, `unread`
//! finds those that nothing reads. `keys` has a row for every key, `fields` reads by these rows, and `lower` makes what
//! stands here. Nothing in this floor touches the network or a machine, and nothing here names a component.

mod address;
mod alias;
mod ask;
mod clone;
mod context;
mod decide;
mod declare;
mod effective;
mod fields;
mod guest_name;
mod guest_path;
pub mod host;
mod image_builder;
mod input;
pub mod keys;
mod lock_rule;
mod lower;
mod mask;
pub mod matrix;
mod merge;
mod mirrors;
mod old_digest;
mod outputs;
mod overlay;
mod packer_checksum;
pub mod powershell;
mod prefix;
mod put;
pub mod quantity;
mod query;
mod raw;
mod read;
mod reference;
mod registry_key;
mod slip;
mod slot;
mod sources;
mod step;
pub mod target;
mod template;
mod trust;
mod undecided;
mod unread;
mod value;
mod var_file;
mod vars;
pub mod verb;
mod versions;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use winimg_base::digest::Digest;
use winimg_base::text::{Located, Place};

pub use address::{Address, percent_decoded};
pub use ask::{Ask, AskedProof};
pub use clone::{Claim, CloneCheck};
pub(crate) use guest_name::file_name;
pub use guest_path::{GUEST_DIR, GuestPath};
pub use input::{Input, InputId, InputSource, NoInput};
pub use lock_rule::LockRule;
pub use mirrors::Mirrors;
pub use outputs::{AmiSpec, BoxSpec, Outputs, OvaSpec};
pub use overlay::{Overlay, Setting};
pub use put::{Put, put, quoted};
pub use raw::PIPED;
pub use read::{Options, read, read_judged};
pub use reference::ImageReference;
pub use registry_key::RegistryKey;
pub use slot::Slot;
pub use sources::Quotable;
pub use step::{
    Assertion, Content, Encoding, ExitCodes, RegistryData, SealAnswer, Service, ServiceState,
    Start, Step, Verb,
};
pub use undecided::{MissingProof, Undecided, complaints};
pub use value::Wanting;
pub use versions::{Form, Versions};

/// A whole recipe after includes, variables and overrides.
#[derive(Clone, Debug)]
pub struct Recipe {
    pub name: Located<String>,
    pub description: Option<String>,
    /// SHA-256 over the effective recipe's canonical JSON (without secrets, which a recipe cannot hold).
    pub digest: Digest,
    pub media: Media,
    pub machine: MachineSpec,
    pub setup: SetupSpec,
    /// In the order in which they were first named.
    pub components: Vec<Component>,
    /// `[images]`: container images.
    pub images: Vec<ContainerImage>,
    /// `[lock]`
    pub lock: LockRule,
    /// `[mirrors]`
    pub mirrors: Mirrors,
    pub steps: Vec<Step>,
    /// `[[clone]]`: of two that contradict each other the later one stands.
    pub clone_checks: Vec<CloneCheck>,
    pub outputs: Outputs,
    /// What it is judged by: the targets that it names, and those with rules about its outputs.
    pub targets: Vec<target::Aim>,
    /// Where `[media]`, `[machine]`, `[setup]` and `[outputs]` are written, by dotted path: `machine.firmware`, `outputs.ova`.
    pub written: BTreeMap<String, Place>,
    pub vars: Vec<Var>,
    /// Every value that was written, after variables, then the defaults that were taken.
    pub effective: Vec<Effective>,
    /// What is asked of each of [`Recipe::inputs`], in that order, for `recipe.lock`.
    pub asks: Vec<Ask>,
    /// What a person has to decide before it can be built; a build of it is refused until then.
    pub undecided: Vec<Undecided>,
    /// What it was read from, in that order: its TOML files, and the files and folders that they name.
    pub files: Vec<ReadFile>,
    /// The folders whose files messages may quote.
    pub quotable: Quotable,
    /// Texts of scripts from other folders.
    pub unquotable_scripts: BTreeSet<String>,
    /// Nothing was left out of it: what is not in it is not wanted. Otherwise it has mistakes, and is planned for its complaints.
    pub is_whole: bool,
}

/// A file or folder that the recipe was read from.
impl Recipe {
    /// Whether messages may show lines of a file that it names.
    pub fn may_quote(&self, file: &Path) -> bool {
        self.quotable.allows_one_of(file, &self.files)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFile {
    /// As it was opened.
    pub path: PathBuf,
    pub root: Root,
}

/// What leads to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// Relative to the recipe, or to a file that is.
    Recipe,
    /// Relative to the folder of this number in [`Options::search`].
    Search(usize),
    /// Relative to this file of variables, or itself.
    Vars(PathBuf),
    /// Named by this text: absolute, or from the command line or the environment.
    Named(String),
    /// The command line or the environment itself: no file.
    Flag,
}

/// One value and who said it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Effective {
    /// Dotted, as `--set` takes it: `components.kubelet.url`, `steps."site settings".registry.key`.
    pub path: String,
    /// As JSON.
    pub value: String,
    /// Words for people: `packs/kubernetes.toml:9:7`, `--set`, `default`, and the variables in it.
    pub origin: String,
}

/// A variable with the value that won and who said it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Var {
    pub name: String,
    pub value: String,
    /// Words for people: `recipe.toml:7:1`, `--var`, `environment WINIMG_VAR_x`, `vars.json`.
    pub origin: String,
}

/// Something to fetch and how it is proved.
#[derive(Clone, Debug)]
pub struct Origin {
    pub url: Located<Address>,
    pub proof: ProofSpec,
    /// Each of these has to be met, by one of its alternatives.
    pub signatures: Vec<Vec<Signature>>,
    /// What `recipe.lock` says of it, when there is one. Laid in by `lock`; a recipe cannot say it.
    pub locked: Option<Locked>,
}

impl Origin {
    /// Without signatures and not locked.
    pub fn new(url: Located<Address>, proof: ProofSpec) -> Self {
        Self {
            url,
            proof,
            signatures: Vec::new(),
            locked: None,
        }
    }
}

/// A signature that a download has to have.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Its table in the TOML.
    pub place: Place,
    pub rule: winimg_trust::Rule,
    /// What is asked, whole: `authenticode, subject CN=Example Corp, root keys/root.pem (sha256:…)`. Changes when a pin does.
    pub words: String,
    /// Where the signature, bundle, attestation or catalog is; absent for what is signed inside.
    pub url: Option<Located<Address>>,
    /// Where the certificate of a keyless signature is that is not a bundle.
    pub certificate: Option<Located<Address>>,
    /// The transparency log that is asked for such a signature's entry.
    pub log: Option<Located<Url>>,
    pub covers: Covers,
    /// Where the lists of revoked certificates are that it is judged by.
    pub crls: Vec<Located<Address>>,
    /// The key and root files that the rule was made from.
    pub keys: Vec<KeyFile>,
}

/// What a key or root file held when the recipe was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyFile {
    /// As the recipe writes it.
    pub file: String,
    /// The key for people: `key EA9F0BE9C56E2E2C`, `root sha256:… (CN=…)`.
    pub key: String,
    /// Over the keys or certificates in it, however the file is written.
    pub digest: Digest,
}

/// What of a download has to be signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Covers {
    /// The file itself.
    File,
    /// Globs over the paths in an archive: those files, and not the archive.
    Members(Vec<String>),
    /// Drivers of a medium, by their folders' names: what goes onto the answer disc, by the catalogs beside it.
    Drivers(Vec<String>),
}

/// What an earlier run found, and what has to be found again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locked {
    /// SHA-256.
    pub digest: Digest,
    /// Bytes.
    pub size: u64,
    /// Of what was published beside it (signatures, certificates, log entries, checksum files), by URL without query.
    pub evidence: BTreeMap<String, Digest>,
    pub source: LockSource,
}

/// The lock that a locked input comes from, as messages name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockSource {
    /// The file's name, such as `node.lock`.
    pub name: String,
    /// The command that takes another file into the lock; `None` for the lock of a bundle.
    pub refresh: Option<String>,
}

/// A container image as an earlier run found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedImage {
    /// What the reference named: an index, or the manifest itself.
    pub top: Digest,
    /// The manifest for Windows.
    pub manifest: Digest,
    pub source: LockSource,
}

/// How a fetched file is to be proved.
#[derive(Clone, Debug)]
pub enum ProofSpec {
    Digest(Located<Digest>),
    /// A checksum file; `entry` names the line when it is not the URL's last segment.
    ChecksumFile {
        url: Located<Address>,
        entry: Option<String>,
        /// What the checksum file itself has to be signed with, as [`Origin::signatures`].
        signatures: Vec<Vec<Signature>>,
    },
    /// Nothing but its signatures.
    Signed,
    /// Nobody said yet: see [`Recipe::undecided`]. Fetched by `winimg pin` alone.
    Undecided(MissingProof),
    /// The recipe says why nothing proves it. Warned about and recorded.
    Unverified {
        reason: Located<String>,
    },
}

/// `[media]`: what Windows is installed from.
#[derive(Clone, Debug)]
pub struct Media {
    /// `[media.iso]`
    pub iso: Origin,
    /// `[media.virtio]`: the virtio-win ISO (drivers and guest agent). Absent: nothing is taken from one.
    pub virtio: Option<Origin>,
    /// `image`: a WIM `<NAME>`, an index, or a short edition such as `datacenter-core`.
    pub image: Located<String>,
    /// `product_key`: absent on evaluation media; `kms` takes the public KMS client key of the edition.
    pub product_key: Option<Located<String>>,
    /// BCP 47, `en-US` unless given.
    pub language: Located<String>,
    /// Windows zone name, `UTC` unless given.
    pub time_zone: Located<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Firmware {
    Uefi,
    Bios,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiskBus {
    Nvme,
    Virtio,
    Ahci,
}

/// `[machine]`: the machine that the image is built on. All of it is in the key of every layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineSpec {
    pub firmware: Firmware,
    pub secure_boot: bool,
    pub disk_bus: DiskBus,
    /// Bytes, a whole number of MiB.
    pub disk_size: u64,
    pub cpus: u32,
    /// Bytes.
    pub memory: u64,
    /// Off unless the recipe asks: the guest needs none.
    pub network: bool,
    /// A virtual one, while the image is built.
    pub tpm: bool,
}

/// `[setup]`: how the answer file is made.
#[derive(Clone, Debug)]
pub struct SetupSpec {
    /// The template, when the team brings its own; otherwise the built-in one.
    pub answer_file: Option<Located<PathBuf>>,
    /// `lint = "warn"`: complaints about the answer file do not stop the build.
    pub lint_is_advice: bool,
    pub computer_name: String,
    /// From power-on to a ready guest, before scaling for a slow accelerator.
    pub timeout: Duration,
    /// How long Setup may stand entirely still (no screen change, no I/O, idle processor) before it is called stopped.
    pub still_limit: Duration,
    /// How long Windows has to stay up after a restart that follows servicing.
    pub settle_time: Duration,
    /// Drivers that go onto the answer CD, each a folder of `own_drivers` or of the virtio ISO.
    pub drivers: Vec<String>,
    /// The folder `drivers` beside the recipe, when it is there.
    pub own_drivers: Option<PathBuf>,
}

/// Whether a driver's folder can be called so: its name stands in command lines of the bootstrap.
pub fn is_driver_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
}

/// `[components.NAME]`
#[derive(Clone, Debug)]
pub struct Component {
    pub name: Located<String>,
    pub version: Option<String>,
    pub origin: Origin,
    /// The file name to keep; the URL's last segment unless given.
    pub file: String,
    pub unpack: Option<Archive>,
    pub license: Option<String>,
    pub versions: Option<Versions>,
    /// Where the recipe's own file holds its version, or why it cannot.
    pub version_slot: Option<Result<Slot, String>>,
    /// The same of its digest, where one is pinned.
    pub digest_slot: Option<Result<Slot, String>>,
    /// A step names it, be it one that is skipped.
    pub is_used: bool,
}

/// `[images.NAME]`: a container image of an OCI registry.
#[derive(Clone, Debug)]
pub struct ContainerImage {
    pub name: Located<String>,
    pub reference: Located<ImageReference>,
    pub proof: ImageProof,
    /// `10.0.20348`; the medium's own build unless given.
    pub os_version: Option<String>,
    /// What `recipe.lock` names, when there is one.
    pub locked: Option<LockedImage>,
}

/// How a container image is known to be the right one. All below it is proved by digests.
#[derive(Clone, Debug)]
pub enum ImageProof {
    /// Of the index or the manifest.
    Digest(Located<Digest>),
    /// The recipe says why a tag, which can be moved, is followed.
    Unverified { reason: Located<String> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Archive {
    #[serde(rename = "zip")]
    Zip,
    #[serde(rename = "tar")]
    Tar,
    #[serde(rename = "tar.gz")]
    TarGz,
    #[serde(rename = "tar.zst")]
    TarZst,
}

impl From<Archive> for winimg_formats::archive::Format {
    fn from(archive: Archive) -> Self {
        match archive {
            Archive::Zip => Self::Zip,
            Archive::Tar => Self::Tar,
            Archive::TarGz => Self::TarGz,
            Archive::TarZst => Self::TarZst,
        }
    }
}
