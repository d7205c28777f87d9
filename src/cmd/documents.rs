//! JSON documents that `lock`, `fetch`, `verify`, `build` and `matrix build` print with `--json`
//! (docs/json.md).
//!
//! Fields may be added, but are never changed or removed. Errors go to standard error, as without
//! `--json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::verify::{ReportedFinding, VerifyReport};
use winimg_base::event::FinishedArtifact;
use winimg_trust::Signer;

/// `winimg lock`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LockResult {
    /// Path of the lock file.
    pub lock: String,
    /// Serial of the current lock file; null if there is none.
    pub serial: Option<u64>,
    /// True if the file was written.
    pub written: bool,
    /// Changes since the earlier lock; with `--check`, changes that would be made.
    pub changes: Vec<LockChange>,
    /// With `--upgrade` and `--newest`: later versions written into the recipe; with `--check`, to
    /// be written.
    pub versions: Vec<UpgradedVersion>,
    /// Later versions that were not selected.
    pub left: Vec<SkippedVersion>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UpgradedVersion {
    /// The component.
    pub name: String,
    pub was: String,
    pub is: String,
    /// Recipe key that sets it, such as `vars.kubernetes_semver`.
    pub key: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkippedVersion {
    /// The component.
    pub name: String,
    pub version: String,
    /// Later version that its publisher lists.
    pub later: String,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LockChange {
    /// The input, such as `kubelet` or `media.iso`.
    pub name: String,
    /// Short description; `-` if the input is new.
    pub was: String,
    /// Short description; `-` if the input was removed.
    pub is: String,
}

/// `winimg fetch`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FetchResult {
    /// In the recipe's order.
    pub inputs: Vec<FetchedInput>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FetchedInput {
    /// Such as `kubelet` or `media.iso`.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// `sha256:` or `sha512:` and hex.
    pub digest: String,
    /// Source this time: `cache`, `network` or `local file`.
    pub from: String,
    /// Verified signers.
    pub signers: Vec<Signer>,
}

/// `winimg matrix build`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixBuildResult {
    /// Variants in build order.
    pub variants: Vec<MatrixVariantResult>,
    /// The page about all of them.
    pub page: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixVariantResult {
    pub name: String,
    pub state: VariantState,
    /// Exit status of its build; null if it was not run.
    pub status: Option<i32>,
    /// Reason of the failure, in one sentence.
    pub error: Option<String>,
    /// Duration of the build.
    pub seconds: Option<f64>,
    /// Its output folder.
    pub output: String,
    /// Log file of its build.
    pub log: String,
    pub artifacts: Vec<FinishedArtifact>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VariantState {
    Built,
    /// The output folder was already up to date.
    Unchanged,
    Failed,
    /// Not built: another variant had failed, or `--only` does not name it.
    Left,
}

impl VariantState {
    /// Display name.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Built => "built",
            Self::Unchanged => "unchanged",
            Self::Failed => "failed",
            Self::Left => "not built",
        }
    }
}

/// `winimg verify`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyResult {
    /// No finding is an error.
    pub good: bool,
    /// The image, or the manifest's records and every file that it lists.
    pub files: Vec<VerifiedFile>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifiedFile {
    /// Path as given, or as the manifest lists it.
    pub file: String,
    /// Number of checks.
    pub checks: usize,
    /// Number of checks that passed.
    pub hold: usize,
    /// Findings of the other checks, most severe first.
    pub findings: Vec<ReportedFinding>,
}

/// `winimg build`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BuildResult {
    /// The recipe's name.
    pub recipe: String,
    /// Output folder.
    pub output: String,
    /// The manifest, relative to the folder.
    pub manifest: String,
    /// True if the folder was already up to date and nothing was built.
    pub unchanged: bool,
    /// Duration of the whole command.
    pub seconds: f64,
    pub artifacts: Vec<FinishedArtifact>,
}

impl VerifiedFile {
    pub fn from_report(file: &str, report: &VerifyReport) -> Self {
        Self {
            file: file.to_owned(),
            checks: report.count_checks(),
            hold: report.passed,
            findings: report.findings.iter().map(ReportedFinding::from).collect(),
        }
    }
}

/// `winimg outdated`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutdatedResult {
    /// Components with a later version, by name.
    pub newer: Vec<NewerVersion>,
    /// Components without a version list.
    pub unlisted: Vec<String>,
    /// With `--urls`: number of URLs checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub looked_at: Option<usize>,
    /// URLs that no longer exist.
    pub dead: Vec<DeadUrl>,
    /// Lists and URLs that could not be reached.
    pub unanswered: Vec<DeadUrl>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NewerVersion {
    pub name: String,
    pub version: String,
    /// Latest version with the same first two numbers, if it is later.
    pub in_series: Option<String>,
    pub newest: String,
    /// URL of the publisher's list.
    pub list: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeadUrl {
    /// The input, such as `kubelet` or `media.iso`.
    pub name: String,
    pub url: String,
    pub why: String,
}
