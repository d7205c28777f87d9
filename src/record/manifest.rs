//! `manifest.json`: what went into an image, what was done to it, what came out, and how each was proved.
//!
//! The schema is versioned by its name; `schemas/manifest-1.json` is the JSON Schema. A field may be added within a
//! version, none is renamed or removed, so a reader passes over fields that it does not know.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use winimg_base::error::{Error, Kind, Result};
use winimg_base::event;
use winimg_base::io;
use winimg_recipe::plan::{self, Check, Expected};
use winimg_recipe::recipe::{DiskBus, Firmware, InputId};
use winimg_trust::Signer;

/// The value of `schema`.
pub const SCHEMA: &str = "winimg/manifest/1";

/// winimg's record of one build.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "winimg manifest, version 1")]
pub struct Manifest {
    /// The version of this layout.
    pub schema: Schema,
    /// What made the image.
    pub tool: Tool,
    /// What it was made from, as the user wrote it.
    pub recipe: Recipe,
    /// RFC 3339, UTC.
    pub started: String,
    /// RFC 3339, UTC.
    pub finished: String,
    pub host: Host,
    /// What Windows was installed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// The layer that the build went on from: an earlier build installed Windows and ran the first steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<Layer>,
    /// Everything that was fetched or taken from a file, in the order of the recipe.
    pub inputs: Vec<Input>,
    pub windows: Windows,
    /// The names of the targets that the recipe is for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// In the order in which they ran.
    pub steps: Vec<Step>,
    /// What has to hold on a clone after its first boot. Of two that contradict each other the later one stands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clone: Vec<CloneCheck>,
    pub artifacts: Vec<Artifact>,
    /// What the artifacts were made with; `winimg export` makes others of the same disk with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub export: Option<Exported>,
    /// As what clones of the image were started before this was written; each came up as its target needs it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tries: Vec<Tried>,
    /// What was odd but did not stop the build.
    pub warnings: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Schema {
    #[default]
    #[serde(rename = "winimg/manifest/1")]
    V1,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// `winimg`
    pub name: String,
    pub version: String,
    /// The source's commit, when the program knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

impl Tool {
    /// This program. The commit is the one that `WINIMG_COMMIT` named at compile time.
    pub fn this() -> Self {
        Self {
            name: env!("CARGO_PKG_NAME").into(),
            version: env!("CARGO_PKG_VERSION").into(),
            commit: option_env!("WINIMG_COMMIT").map(Into::into),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Recipe {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// As it was given on the command line.
    pub path: String,
    /// Over the effective recipe: after includes, variables and overrides.
    #[schemars(regex(pattern = r"^sha(256:[0-9a-f]{64}|512:[0-9a-f]{128})$"))]
    pub digest: String,
    /// The lock that the inputs were taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<Lock>,
}

/// The state of a `recipe.lock`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lock {
    /// It rises with each change.
    pub serial: u64,
    /// Over the whole file.
    #[schemars(regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub digest: String,
    /// Who signed it, where recipe or host asked for that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signers: Vec<Signer>,
}

/// The machine that the image was built on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// `QEMU 7.2.22`
    pub qemu: String,
    /// `kvm`, `tcg` …
    pub accelerator: String,
    /// Why a better accelerator was not taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// What a recipe's `[machine]` says of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    pub firmware: Firmware,
    pub secure_boot: bool,
    pub tpm: bool,
    /// The controller that Windows was installed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_bus: Option<DiskBus>,
    /// Processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// Bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
}

/// What the export of the disk took from the recipe and from the build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exported {
    /// The time in the artifacts, in Unix seconds.
    pub epoch: i64,
    /// `vmx-NN` of the OVA, where the recipe says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware_version: Option<u32>,
    /// The license type of the AMI, where the recipe makes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license_type: Option<String>,
    /// Whether Windows starts its hypervisor, so that an OVA asks for nested virtualization.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nested_virtualization: bool,
    /// How Vagrant reaches the machine of each box that the recipe makes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub communicators: BTreeMap<String, String>,
}

/// A machine's disk, kept by everything that went into it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Layer {
    /// Over the ingredients of the installation and of each step up to this one.
    #[schemars(regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub key: String,
    /// The part of the build after which it was sealed.
    pub after: String,
    /// RFC 3339, UTC.
    pub made: String,
}

/// A file that went into the build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// The component, or `media.iso`, `media.virtio`, `image NAME`.
    #[serde(rename = "name")]
    #[schemars(with = "String")]
    pub id: InputId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// SPDX, as the recipe says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// Where it came from, without credentials; a local file by its name.
    pub url: String,
    /// The address that was used in place of `url`, by a rule under `[mirrors]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirror: Option<String>,
    /// Bytes.
    pub size: u64,
    #[schemars(regex(pattern = r"^sha(256:[0-9a-f]{64}|512:[0-9a-f]{128})$"))]
    pub digest: String,
    pub proof: Proof,
    /// The signatures that were asked for and met.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signers: Vec<Signer>,
}

/// Why an input was taken for what the recipe says it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Proof {
    /// The recipe or its lock names the digest.
    Digest { expected: String },
    /// A publisher's checksum file names it.
    ChecksumFile { url: String, entry: String },
    /// Its signatures, below, and nothing else.
    Signed,
    /// Nothing proves it; the recipe says why that is accepted.
    Unverified { reason: String },
}

impl From<&Proof> for event::Proof {
    fn from(proof: &Proof) -> Self {
        match proof.clone() {
            Proof::Digest { .. } => Self::Digest,
            Proof::ChecksumFile { url, .. } => Self::ChecksumFile { url },
            Proof::Signed => Self::Signed,
            Proof::Unverified { reason } => Self::Unverified { reason },
        }
    }
}

/// What was installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Windows {
    /// `2019`, `2022` or `2025`.
    pub release: String,
    /// As in the WIM: `ServerDatacenterCore`.
    pub edition: String,
    /// The WIM image's name.
    pub image: String,
    /// What Setup shows for it.
    pub display_name: String,
    /// `10.0.20348.2113`
    pub build: String,
    /// BCP 47.
    pub language: String,
}

/// A step of the recipe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    pub name: String,
    /// `copy`, `msi`, `powershell` …
    pub verb: String,
    /// The recipe's file, line and column.
    pub place: String,
    /// The names of the inputs that it took from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub inputs: Vec<InputId>,
    /// Of each command it ran, in order; `null` where the guest went down before the end was seen.
    pub exit_codes: Vec<Option<i64>>,
    pub seconds: f64,
    /// The condition that turned it off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// What has to hold in the finished image because of it: `winimg verify` looks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expects: Vec<Check>,
}

/// One thing that has to hold on a clone after its first boot: `winimg try` looks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CloneCheck {
    /// The recipe's file, line and column.
    pub place: String,
    /// What the node needs it for.
    pub why: String,
    /// The names of the targets whose clones it speaks of; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    #[serde(flatten)]
    pub check: Check,
}

/// A trial of the image: two clones that came up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tried {
    /// The target's name.
    pub target: String,
    /// The result, relative to this manifest (`winimg schema try`).
    pub file: String,
    /// Of that file, lower-case hex.
    #[schemars(regex(pattern = r"^[0-9a-f]{64}$"))]
    pub sha256: String,
}

/// A finished file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Artifact {
    /// The name in `[outputs]`, or `vmdk_descriptor`, which comes with `vmdk_flat`.
    pub kind: String,
    /// Relative to this manifest, with slashes.
    pub file: String,
    /// Bytes.
    pub size: u64,
    /// Lower-case hex.
    #[schemars(regex(pattern = r"^[0-9a-f]{64}$"))]
    pub sha256: String,
    /// The disk that a file speaks of, or holds a copy of: `ami`, `vmdk_descriptor`, boxes and `container_disk`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// What was compared after writing.
    pub checked: Vec<String>,
}

impl Artifact {
    /// Whether it is the image, and not only what speaks of another file's disk or holds a copy of it.
    pub fn is_disk(&self) -> bool {
        self.disk.is_none()
    }
}

impl From<&crate::export::Artifact> for Artifact {
    fn from(a: &crate::export::Artifact) -> Self {
        Self {
            kind: a.kind.into(),
            file: a.file.clone(),
            size: a.bytes,
            sha256: a.sha256.hex(),
            disk: a.disk.clone(),
            checked: a.checked.clone(),
        }
    }
}

impl From<&Artifact> for event::Artifact {
    fn from(artifact: &Artifact) -> Self {
        Self {
            kind: artifact.kind.clone(),
            file: artifact.file.clone(),
            bytes: artifact.size,
            sha256: artifact.sha256.clone(),
        }
    }
}

/// A moment as the manifest writes it: `2026-01-31T12:00:00Z`.
pub fn rfc3339(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time)
        .map(|t| t.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
        .unwrap_or_default()
}

/// The JSON Schema, as `schemas/manifest-1.json` holds it.
pub fn schema() -> String {
    format!("{:#}\n", schemars::schema_for!(Manifest).as_value())
}

impl Manifest {
    /// What the steps expect of the image.
    pub fn expected(&self) -> Vec<Expected> {
        let expected = self.steps.iter().map(|step| Expected {
            step: step.name.clone(),
            place: step.place.clone(),
            checks: step.expects.clone(),
        });
        expected.collect()
    }

    /// What has to hold on a clone that starts as this target, the checks that stand; each with its reason in place of a step.
    pub fn expected_of_clone(&self, target: &str) -> Vec<Expected> {
        let is_for = |check: &&CloneCheck| {
            check.targets.is_empty() || check.targets.iter().any(|name| name == target)
        };
        let checks = self.clone.iter().filter(is_for);
        let mut expected: Vec<Expected> = checks
            .map(|check| Expected {
                step: check.why.clone(),
                place: check.place.clone(),
                checks: vec![check.check.clone()],
            })
            .collect();
        plan::keep_what_lasts(expected.iter_mut().map(|one| &mut one.checks));
        expected.retain(|one| !one.checks.is_empty());
        expected
    }

    /// Pretty JSON with a final newline.
    pub fn to_json(&self) -> String {
        format!("{:#}\n", serde_json::json!(self))
    }

    /// Reads a manifest of this version; another version is named in the error.
    pub fn read(path: &Path) -> Result<Self> {
        let text = io::read_text_limited(path, io::limit::RECORD)
            .map_err(|e| Error::io("read", path, e))?;
        Self::parse(&text).map_err(|e| e.at(path.display()))
    }

    pub fn parse(text: &str) -> Result<Self> {
        let not_one = |e| Error::new(Kind::Failed, "this is not a winimg manifest").because(e);
        let value: serde_json::Value = serde_json::from_str(text).map_err(not_one)?;
        match value.get("schema").and_then(|s| s.as_str()) {
            Some(SCHEMA) => serde_json::from_value(value).map_err(not_one),
            Some(other) => Err(
                Error::new(Kind::Failed, "this manifest is of another version")
                    .expected(SCHEMA)
                    .found(other)
                    .cure("use the winimg that wrote it, or a later one"),
            ),
            None => Err(Error::new(Kind::Failed, "this is not a winimg manifest")
                .expected(format!("\"schema\": {SCHEMA:?}"))),
        }
    }
}
