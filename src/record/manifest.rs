//! `manifest.json`: the inputs of an image, its steps, its artifacts, and the proof of each.
//!
//! The schema is versioned by its name; `schemas/manifest-1.json` is the JSON Schema. Within a
//! version fields may be added, but none is renamed or removed, so readers ignore unknown fields.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::host::{ManifestHost, ManifestHypervisor};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event;
use winimg_base::io;
use winimg_recipe::plan::{self, ImageCheck, StepChecks};
use winimg_recipe::{DiskBus, Firmware, InputId};
use winimg_trust::Signer;

/// The value of `schema`.
pub const SCHEMA: &str = "winimg/manifest/1";

/// winimg's record of one build.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "winimg manifest, version 1")]
pub struct BuildManifest {
    /// The version of this layout.
    pub schema: ManifestSchema,
    /// The program that made the image.
    pub tool: Tool,
    /// The recipe it was made from, as the user wrote it.
    pub recipe: ManifestRecipe,
    /// RFC 3339, UTC.
    pub started: String,
    /// RFC 3339, UTC.
    pub finished: String,
    pub host: ManifestHost,
    /// The machine that Windows was installed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<ManifestMachine>,
    /// The layer that the build started from: an earlier build installed Windows and ran the first
    /// steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<ManifestLayer>,
    /// Everything that was fetched or taken from a file, in the order of the recipe.
    pub inputs: Vec<ManifestInput>,
    pub windows: ManifestWindows,
    /// The names of the targets that the recipe is for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// In the order in which they ran.
    pub steps: Vec<ManifestStep>,
    /// Checks of a clone after its first boot. A later check overrides a contradicting earlier one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clone: Vec<ManifestCloneCheck>,
    pub artifacts: Vec<ManifestArtifact>,
    /// Export settings of the artifacts; `winimg export` uses them for more artifacts of the same
    /// disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub export: Option<ExportSettings>,
    /// Successful trials: clones of the image that were booted for a target before this was
    /// written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tries: Vec<ManifestTrial>,
    /// Warnings of the build.
    pub warnings: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Schema")]
pub enum ManifestSchema {
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
    /// Returns this program; its commit comes from `WINIMG_COMMIT` at compile time.
    pub fn this() -> Self {
        Self {
            name: env!("CARGO_PKG_NAME").into(),
            version: env!("CARGO_PKG_VERSION").into(),
            commit: option_env!("WINIMG_COMMIT").map(Into::into),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Recipe")]
pub struct ManifestRecipe {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Path as given on the command line.
    pub path: String,
    /// Digest of the effective recipe: after includes, variables and overrides.
    #[schemars(regex(pattern = r"^sha(256:[0-9a-f]{64}|512:[0-9a-f]{128})$"))]
    pub digest: String,
    /// The lock that the inputs were taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<ManifestLock>,
}

/// The state of a `recipe.lock`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Lock")]
pub struct ManifestLock {
    /// Increases with each change.
    pub serial: u64,
    /// Digest of the whole file.
    #[schemars(regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub digest: String,
    /// Its signers, if the recipe or the host requires a signature.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signers: Vec<Signer>,
}

/// The recipe's `[machine]` settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Machine")]
pub struct ManifestMachine {
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

/// Export settings from the recipe and from the build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Exported")]
pub struct ExportSettings {
    /// The time in the artifacts, in Unix seconds.
    pub epoch: i64,
    /// `vmx-NN` of the OVA, if the recipe sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware_version: Option<u32>,
    /// The license type of the AMI, if the recipe makes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license_type: Option<String>,
    /// True if Windows starts its hypervisor, so that an OVA requests nested virtualization.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nested_virtualization: bool,
    /// Vagrant's communicator for each box that the recipe makes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub communicators: BTreeMap<String, String>,
}

/// A cached disk, identified by everything that went into it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Layer")]
pub struct ManifestLayer {
    /// Hash of the inputs of the installation and of each step up to this one.
    #[schemars(regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub key: String,
    /// The part of the build after which it was sealed.
    pub after: String,
    /// RFC 3339, UTC.
    pub made: String,
}

/// A file that went into the build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Input")]
pub struct ManifestInput {
    /// The component, or `media.iso`, `media.virtio`, `image NAME`.
    #[serde(rename = "name")]
    #[schemars(with = "String")]
    pub id: InputId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// SPDX expression or free text from the recipe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// Source URL without credentials, or the path of a local file.
    pub url: String,
    /// The address that was used instead of `url`, because of a rule under `[mirrors]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirror: Option<String>,
    /// Bytes.
    pub size: u64,
    #[schemars(regex(pattern = r"^sha(256:[0-9a-f]{64}|512:[0-9a-f]{128})$"))]
    pub digest: String,
    pub proof: ManifestProof,
    /// The required signatures, all verified.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signers: Vec<Signer>,
}

/// Proof that an input is the file that the recipe names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Proof")]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ManifestProof {
    /// The recipe or its lock names the digest.
    Digest { expected: String },
    /// A publisher's checksum file names it.
    ChecksumFile { url: String, entry: String },
    /// Only its signatures, in `signers`.
    Signed,
    /// Unproved; the recipe gives the reason why that is accepted.
    Unverified { reason: String },
}

impl From<&ManifestProof> for event::InputProof {
    fn from(proof: &ManifestProof) -> Self {
        match proof.clone() {
            ManifestProof::Digest { .. } => Self::Digest,
            ManifestProof::ChecksumFile { url, .. } => Self::ChecksumFile { url },
            ManifestProof::Signed => Self::Signed,
            ManifestProof::Unverified { reason } => Self::Unverified { reason },
        }
    }
}

/// The installed Windows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Windows")]
pub struct ManifestWindows {
    /// `2019`, `2022` or `2025`.
    pub release: String,
    /// Edition ID from the WIM, such as `ServerDatacenterCore`.
    pub edition: String,
    /// The WIM image's name.
    pub image: String,
    /// The name that Setup displays.
    pub display_name: String,
    /// `10.0.20348.2113`
    pub build: String,
    /// BCP 47.
    pub language: String,
}

/// A step of the recipe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Step")]
pub struct ManifestStep {
    pub name: String,
    /// `copy`, `msi`, `powershell` …
    pub verb: String,
    /// The recipe's file, line and column.
    pub place: String,
    /// The names of the inputs that it used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub inputs: Vec<InputId>,
    /// Exit codes of its commands, in order; `null` if the guest went down before a command ended.
    pub exit_codes: Vec<Option<i64>>,
    pub seconds: f64,
    /// The condition that disabled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// Checks of the finished image because of this step, for `winimg verify`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expects: Vec<ImageCheck>,
}

/// A check of a clone after its first boot, for `winimg try`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CloneCheck")]
pub struct ManifestCloneCheck {
    /// The recipe's file, line and column.
    pub place: String,
    /// Reason why the node needs it.
    pub why: String,
    /// The names of the targets whose clones it applies to; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    #[serde(flatten)]
    pub check: ImageCheck,
}

/// A trial of the image: two clones that came up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Tried")]
pub struct ManifestTrial {
    /// The target's name.
    pub target: String,
    /// The result, relative to this manifest (`winimg schema try`).
    pub file: String,
    /// SHA-256 of that file in lower-case hex.
    #[schemars(regex(pattern = r"^[0-9a-f]{64}$"))]
    pub sha256: String,
}

/// A finished file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Artifact")]
pub struct ManifestArtifact {
    /// The name in `[outputs]`, or `vmdk_descriptor`, which comes with `vmdk_flat`.
    pub kind: String,
    /// Relative to this manifest, with slashes.
    pub file: String,
    /// Bytes.
    pub size: u64,
    /// Lower-case hex.
    #[schemars(regex(pattern = r"^[0-9a-f]{64}$"))]
    pub sha256: String,
    /// The disk that a file describes or contains: `ami`, `vmdk_descriptor`, boxes and
    /// `container_disk`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// Comparisons made after writing.
    pub checked: Vec<String>,
}

impl ManifestArtifact {
    /// Returns true for an image of its own, false for a description or a copy of another one.
    pub fn is_disk(&self) -> bool {
        self.disk.is_none()
    }
}

impl From<&crate::export::ExportedArtifact> for ManifestArtifact {
    fn from(a: &crate::export::ExportedArtifact) -> Self {
        Self {
            kind: a.kind.into(),
            file: a.file.clone(),
            size: a.bytes,
            sha256: a.sha256.hex(),
            disk: a.disk.clone(),
            checked: a.checked.iter().copied().map(String::from).collect(),
        }
    }
}

impl From<&ManifestArtifact> for event::FinishedArtifact {
    fn from(artifact: &ManifestArtifact) -> Self {
        Self {
            kind: artifact.kind.clone(),
            file: artifact.file.clone(),
            bytes: artifact.size,
            sha256: artifact.sha256.clone(),
        }
    }
}

/// Formats a time for the manifest: `2026-01-31T12:00:00Z`.
pub fn format_rfc3339(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time)
        .map(|t| t.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
        .unwrap_or_default()
}

/// Returns the JSON Schema, the text of `schemas/manifest-1.json`.
pub fn render_schema() -> String {
    format!("{:#}\n", schemars::schema_for!(BuildManifest).as_value())
}

impl BuildManifest {
    /// Returns the image checks of all steps.
    pub fn list_expected(&self) -> Vec<StepChecks> {
        self.steps
            .iter()
            .map(|step| StepChecks {
                step: step.name.clone(),
                place: step.place.clone(),
                checks: step.expects.clone(),
            })
            .collect()
    }

    /// Returns the effective checks of a clone that starts as this target. `step` is the reason of
    /// the check.
    pub fn list_expected_of_clone(&self, target: &str) -> Vec<StepChecks> {
        let mut expected: Vec<StepChecks> = self
            .clone
            .iter()
            .filter(|check| {
                check.targets.is_empty() || check.targets.iter().any(|name| name == target)
            })
            .map(|check| StepChecks {
                step: check.why.clone(),
                place: check.place.clone(),
                checks: vec![check.check.clone()],
            })
            .collect();
        plan::keep_what_lasts(expected.iter_mut().map(|one| &mut one.checks));
        expected.retain(|one| !one.checks.is_empty());
        expected
    }

    /// Renders indented JSON with a final newline.
    pub fn to_json(&self) -> String {
        format!("{:#}\n", serde_json::json!(self))
    }

    /// Reads a manifest of this version; the error for any other version names it.
    pub fn read(path: &Path) -> Result<Self> {
        let text = io::read_text_limited(path, io::limit::RECORD)
            .map_err(|e| Error::io("read", path, e))?;
        Self::parse(&text).map_err(|e| e.at(path.display()))
    }

    pub fn parse(text: &str) -> Result<Self> {
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|e| not_a_manifest().because(e))?;
        match value.get("schema").and_then(|s| s.as_str()) {
            Some(SCHEMA) => serde_json::from_value(value).map_err(|e| not_a_manifest().because(e)),
            Some(other) => Err(Error::new(
                Kind::Failed,
                "this manifest has an unsupported version",
            )
            .expected(SCHEMA)
            .found(other)
            .cure("use the winimg that wrote it, or a later one")),
            None => Err(not_a_manifest().expected(format!("\"schema\": {SCHEMA:?}"))),
        }
    }
}

fn not_a_manifest() -> Error {
    Error::new(Kind::Failed, "this is not a winimg manifest")
}
