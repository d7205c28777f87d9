//! The typed recipe: every value is resolved and knows its place.

pub mod address;
pub mod guest_name;
pub mod guest_path;
pub mod input;
pub mod lock_policy;
pub mod outputs;
pub mod prefix;
pub mod reference;
pub mod registry_key;
pub mod registry_value;
pub mod version_list;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::{
    CloneCheckSpec, LockRequest, Mirrors, MissingProof, Quotable, RecipeStep, UndecidedValue,
    ValueSlot, target,
};
use address::FileAddress;
use lock_policy::LockPolicy;
use outputs::Outputs;
use reference::ImageReference;
use version_list::VersionList;
use winimg_base::digest::Digest;
use winimg_base::text::{Located, Place};

/// A whole recipe after includes, variables and overrides.
#[derive(Clone, Debug)]
pub struct Recipe {
    pub name: Located<String>,
    pub description: Option<String>,
    /// SHA-256 of the effective recipe as canonical JSON. A recipe contains no secrets.
    pub digest: Digest,
    pub media: MediaSpec,
    pub machine: MachineSpec,
    pub setup: SetupSpec,
    /// In order of first appearance.
    pub components: Vec<ComponentSpec>,
    /// `[images]`: container images.
    pub images: Vec<ContainerImage>,
    /// `[lock]`
    pub lock: LockPolicy,
    /// `[mirrors]`
    pub mirrors: Mirrors,
    pub steps: Vec<RecipeStep>,
    /// `[[clone]]`: if two contradict each other, the later one wins.
    pub clone_checks: Vec<CloneCheckSpec>,
    pub outputs: Outputs,
    /// The targets that it names, and those with rules about its outputs.
    pub targets: Vec<target::RecipeTarget>,
    /// Places of keys in `[media]`, `[machine]`, `[setup]` and `[outputs]`, by dotted path.
    pub written: BTreeMap<String, Place>,
    pub vars: Vec<ResolvedVariable>,
    /// Every value, after variable substitution, then the defaults that were used.
    pub effective: Vec<EffectiveValue>,
    /// The requirements for each of [`Recipe::inputs`], in that order, for `recipe.lock`.
    pub lock_requests: Vec<LockRequest>,
    /// Missing values; a build is refused until they are set.
    pub undecided: Vec<UndecidedValue>,
    /// The files and folders that it was read from, in that order.
    pub files: Vec<ReadFile>,
    /// The folders whose files messages may quote.
    pub quotable: Quotable,
    /// Texts of scripts from other folders.
    pub unquotable_scripts: BTreeSet<String>,
    /// False if it is partial, because of errors, and planned only to collect diagnostics.
    pub is_whole: bool,
}

impl Recipe {
    /// Returns true if messages may show lines of a file that it names.
    pub fn may_quote(&self, file: &Path) -> bool {
        self.quotable.allows_one_of(file, &self.files)
    }
}

/// A file or folder that the recipe was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFile {
    /// The path that was opened.
    pub path: PathBuf,
    pub root: PathRoot,
}

/// Base of a file's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathRoot {
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

/// A value and its origin.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct EffectiveValue {
    /// Dotted path in the syntax of `--set`: `components.kubelet.url`,
    /// `steps."site settings".registry.key`.
    pub path: String,
    /// JSON text.
    pub value: String,
    /// Origin in messages: `packs/kubernetes.toml:9:7`, `--set`, `default`, and the variables in
    /// it.
    pub origin: String,
}

/// A variable with its final value and origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedVariable {
    pub name: String,
    pub value: String,
    /// Origin in messages: `recipe.toml:7:1`, `--var`, `environment WINIMG_VAR_x`, `vars.json`.
    pub origin: String,
}

/// A download and its proofs.
#[derive(Clone, Debug)]
pub struct DownloadSpec {
    pub url: Located<FileAddress>,
    pub proof: ProofSpec,
    /// Every group must be satisfied, by one of its alternatives.
    pub signatures: Vec<Vec<SignatureSpec>>,
    /// The entry in `recipe.lock`, if there is one. Set by `lock`, never by a recipe.
    pub locked: Option<LockedInput>,
}

impl DownloadSpec {
    /// Makes an unlocked download without signatures.
    pub fn new(url: Located<FileAddress>, proof: ProofSpec) -> Self {
        Self {
            url,
            proof,
            signatures: Vec::new(),
            locked: None,
        }
    }
}

/// A required signature of a download.
#[derive(Clone, Debug)]
pub struct SignatureSpec {
    /// Its table in the TOML.
    pub place: Place,
    pub rule: winimg_trust::SignatureRule,
    /// Full description: `authenticode, subject CN=Example Corp, root keys/root.pem (sha256:…)`.
    /// Changes if a pin changes.
    pub words: String,
    /// Address of the signature, bundle, attestation or catalog; `None` for an embedded signature.
    pub url: Option<Located<FileAddress>>,
    /// Address of the certificate, for a keyless signature without a bundle.
    pub certificate: Option<Located<FileAddress>>,
    /// The transparency log with the entry of such a signature.
    pub log: Option<Located<Url>>,
    pub covers: SignatureScope,
    /// Addresses of the certificate revocation lists.
    pub crls: Vec<Located<FileAddress>>,
    /// The key and root files used in the rule.
    pub keys: Vec<KeyFile>,
}

/// Content of a key or root file when the recipe was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyFile {
    /// Path as written in the recipe.
    pub file: String,
    /// The key in messages: `key EA9F0BE9C56E2E2C`, `root sha256:… (CN=…)`.
    pub key: String,
    /// Digest of the keys or certificates in it, independent of the encoding.
    pub digest: Digest,
}

/// The part of a download that must be signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignatureScope {
    /// The file itself.
    File,
    /// Members of an archive, by globs; not the archive itself.
    Members(Vec<String>),
    /// Drivers of a medium for the answer disc, by folder name; signed by the catalogs beside them.
    Drivers(Vec<String>),
}

/// An input in the lock: a download must match it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedInput {
    /// SHA-256.
    pub digest: Digest,
    /// Bytes.
    pub size: u64,
    /// Digests of its proofs (signatures, log entries, checksum files), by URL without query.
    pub evidence: BTreeMap<String, Digest>,
    pub source: LockSource,
}

/// The lock of a locked input, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockSource {
    /// The file's name, such as `node.lock`.
    pub name: String,
    /// The command that updates the lock; `None` for the lock of a bundle.
    pub refresh: Option<String>,
}

/// A container image in the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedImage {
    /// Digest of the reference: an index, or the manifest itself.
    pub top: Digest,
    /// The manifest for Windows.
    pub manifest: Digest,
    pub source: LockSource,
}

/// The proof of a downloaded file.
#[derive(Clone, Debug)]
pub enum ProofSpec {
    Digest(Located<Digest>),
    /// A checksum file; `entry` names the line when it is not the URL's last segment.
    ChecksumFile {
        url: Located<FileAddress>,
        entry: Option<String>,
        /// Required signatures of the checksum file itself, like [`Origin::signatures`].
        signatures: Vec<Vec<SignatureSpec>>,
    },
    /// Only its signatures.
    Signed,
    /// No proof yet: see [`Recipe::undecided`]. Only `winimg pin` downloads it.
    Undecided(MissingProof),
    /// No proof, with a reason. Warned about and recorded.
    Unverified {
        reason: Located<String>,
    },
}

/// `[media]`: the installation media.
#[derive(Clone, Debug)]
pub struct MediaSpec {
    /// `[media.iso]`
    pub iso: DownloadSpec,
    /// `[media.virtio]`: the virtio-win ISO (drivers and guest agent), if it is used.
    pub virtio: Option<DownloadSpec>,
    /// `image`: a WIM `<NAME>`, an index, or a short edition such as `datacenter-core`.
    pub image: Located<String>,
    /// `product_key`: absent on evaluation media; `kms` is the public KMS client key of the
    /// edition.
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

/// `[machine]`: the VM that the image is built on. All of it is part of every layer key.
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
    /// Off by default: the guest needs none.
    pub network: bool,
    /// A virtual TPM during the build.
    pub tpm: bool,
}

/// `[setup]`: settings of the Windows installation.
#[derive(Clone, Debug)]
pub struct SetupSpec {
    /// A custom template of the answer file instead of the built-in one.
    pub answer_file: Option<Located<PathBuf>>,
    /// `lint = "warn"`: problems of the answer file do not stop the build.
    pub lint_is_advice: bool,
    pub computer_name: String,
    /// From power-on to a ready guest, before scaling for a slow accelerator.
    pub timeout: Duration,
    /// Maximum time without any activity of Setup (screen, I/O, processor) before it counts as
    /// stopped.
    pub still_limit: Duration,
    /// Minimum uptime of Windows after a restart that follows servicing.
    pub settle_time: Duration,
    /// Drivers that go onto the answer CD, each a folder of `own_drivers` or of the virtio ISO.
    pub drivers: Vec<String>,
    /// The folder `drivers` beside the recipe, if it exists.
    pub own_drivers: Option<PathBuf>,
}

/// Returns true for a valid name of a driver folder, which becomes part of command lines.
pub fn is_driver_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
}

/// `[components.NAME]`
#[derive(Clone, Debug)]
pub struct ComponentSpec {
    pub name: Located<String>,
    pub version: Option<String>,
    pub origin: DownloadSpec,
    /// The file name; by default the URL's last segment.
    pub file: String,
    pub unpack: Option<ArchiveKind>,
    pub license: Option<String>,
    pub versions: Option<VersionList>,
    /// The place of its version in the recipe's own file, or the reason why there is none.
    pub version_slot: Option<Result<ValueSlot, String>>,
    /// The same for its digest, if one is pinned.
    pub digest_slot: Option<Result<ValueSlot, String>>,
    /// True if a step uses it, even a skipped one.
    pub is_used: bool,
}

/// `[images.NAME]`: a container image of an OCI registry.
#[derive(Clone, Debug)]
pub struct ContainerImage {
    pub name: Located<String>,
    pub reference: Located<ImageReference>,
    pub proof: ImageProof,
    /// `10.0.20348`; by default the medium's own build.
    pub os_version: Option<String>,
    /// The entry in `recipe.lock`, if there is one.
    pub locked: Option<LockedImage>,
}

/// The proof of a container image. Digests prove everything below it.
#[derive(Clone, Debug)]
pub enum ImageProof {
    /// Digest of the index or the manifest.
    Digest(Located<Digest>),
    /// A tag without a digest, with a reason.
    Unverified { reason: Located<String> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum ArchiveKind {
    #[serde(rename = "zip")]
    Zip,
    #[serde(rename = "tar")]
    Tar,
    #[serde(rename = "tar.gz")]
    TarGz,
    #[serde(rename = "tar.zst")]
    TarZst,
}

impl From<ArchiveKind> for winimg_formats::archive::ArchiveFormat {
    fn from(archive: ArchiveKind) -> Self {
        match archive {
            ArchiveKind::Zip => Self::Zip,
            ArchiveKind::Tar => Self::Tar,
            ArchiveKind::TarGz => Self::TarGz,
            ArchiveKind::TarZst => Self::TarZst,
        }
    }
}
