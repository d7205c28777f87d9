//! `try/TARGET.json`: the result of booting two clones of an image as one target's machines.
//!
//! The schema is versioned by its name; `schemas/try-1.json` is the JSON Schema. Within a version,
//! fields may be added, but not renamed or removed. Contains no secrets: only the names and public
//! keys of the clones' identities.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use winimg_base::event::FindingSeverity;
use winimg_base::text::count;
use winimg_recipe::Firmware;
use winimg_recipe::target::{self, MetadataForm, TargetController, TargetNic, TargetSpec};

use super::compare::CloneComparison;
use super::metadata::{CloneIdentity, CloneReport, MetadataRequest};
use super::state::CloneState;
use crate::record::manifest::Tool;
use crate::verify;

/// One trial of one image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "winimg trial of an image, version 1")]
pub struct TrialResult {
    /// The version of this format.
    pub schema: TrialSchema,
    /// The winimg that ran the trial.
    pub tool: Tool,
    pub image: TriedImage,
    /// The target's name.
    pub target: String,
    pub platform: TargetPlatform,
    /// RFC 3339, UTC.
    pub started: String,
    /// RFC 3339, UTC.
    pub finished: String,
    pub hardware: TriedHardware,
    /// The form in which the clones were given their metadata.
    pub metadata: MetadataForm,
    /// The clones' network access.
    #[serde(default)]
    pub network: TrialNetwork,
    /// Differences between the trial and the target.
    pub remarks: Vec<String>,
    /// The clones in the order in which they were started. Fewer than two if the trial stopped
    /// early.
    pub clones: Vec<CloneRun>,
    /// Comparison of the two clones; empty if there are not two.
    pub compared: Vec<CloneComparison>,
    /// The findings, most severe first.
    pub findings: Vec<TrialFinding>,
    /// Number of checks.
    pub checks: usize,
    pub verdict: TrialVerdict,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TrialSchema {
    #[default]
    #[serde(rename = "winimg/try/1")]
    V1,
}

/// The clones' network access besides their metadata. Clones are never reachable themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TrialNetwork {
    #[default]
    Isolated,
    /// The host, and through it the host's networks, by address translation.
    Nat,
}

/// The image below the clones' overlays. It is never written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TriedImage {
    /// The path on the command line, or relative to the manifest.
    pub file: String,
    /// Size in bytes.
    pub size: u64,
    /// Lower-case hex, from the manifest; null without a manifest.
    pub sha256: Option<String>,
}

/// The target's definition, with its sources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TargetPlatform {
    pub title: String,
    pub hardware: target::TargetHardware,
    pub metadata: target::TargetMetadata,
}

/// The VM of the trial; `remarks` list the differences from the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TriedHardware {
    /// `QEMU 7.2.22`
    pub hypervisor: String,
    /// `kvm`, `tcg` …
    pub accelerator: String,
    pub firmware: Firmware,
    pub controller: TargetController,
    pub nic: TargetNic,
    pub tpm: bool,
    pub secure_boot: bool,
}

/// One clone, from its creation to its final state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CloneRun {
    pub given: GivenIdentity,
    pub boots: Vec<CloneBoot>,
    /// The state on the disk after the last boot; null if it was not read.
    pub state: Option<CloneState>,
    /// The requests to its metadata services.
    pub requests: Vec<MetadataRequest>,
    /// The reports to its platform.
    pub reports: Vec<CloneReport>,
}

/// The identity in the metadata, without its password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GivenIdentity {
    pub instance: String,
    pub host_name: String,
    pub user: String,
    /// Lines of `authorized_keys`.
    pub ssh_keys: Vec<String>,
    /// Size in bytes.
    pub user_data: usize,
}

/// From one power-on to the power-off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CloneBoot {
    /// Restarts by the clone itself.
    pub restarts: u32,
    /// Time until the clone was idle.
    pub seconds: f64,
    /// The last screen, relative to this file; null if there was none.
    pub screen: Option<String>,
}

/// A failed check, or one without a known result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrialFinding {
    pub severity: FindingSeverity,
    /// The clone's number, from 1; null for both together.
    pub clone: Option<usize>,
    /// One sentence without a full stop.
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// The ends of logs, and other lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<String>,
    /// Possible fixes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cures: Vec<String>,
    /// The source of the check: a `[[clone]]` of the recipe or of a pack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// Its place in the recipe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TrialVerdict {
    /// No finding is an error.
    Good,
    Bad,
}

impl TrialResult {
    /// Adds a report's findings and counts, about one clone (from 1) or both together, and updates
    /// the verdict.
    pub fn add_report(&mut self, clone: Option<usize>, report: &verify::VerifyReport) {
        self.checks += report.count_checks();
        let found = report.findings.iter();
        self.findings
            .extend(found.map(|f| TrialFinding::from_finding(clone, f)));
        self.findings.sort_by_key(|f| f.severity);
        let has_errors = self
            .findings
            .iter()
            .any(|f| f.severity == FindingSeverity::Error);
        self.verdict = if has_errors {
            TrialVerdict::Bad
        } else {
            TrialVerdict::Good
        };
    }

    pub fn is_good(&self) -> bool {
        self.verdict == TrialVerdict::Good
    }

    /// `demo.ova comes up as vsphere`
    pub fn describe_outcome(&self) -> String {
        let file = self.image.file.rsplit(['/', '\\']).next();
        let does = if self.is_good() {
            "comes up"
        } else {
            "does not come up"
        };
        format!("{} {does} as {}", file.unwrap_or_default(), self.target)
    }

    /// `2 clones, 96 checks: no error, 1 warning, 2 unknown`
    pub fn summarize(&self) -> String {
        let found = [
            FindingSeverity::Error,
            FindingSeverity::Warning,
            FindingSeverity::Unknown,
        ]
        .map(|severity| {
            let findings = self.findings.iter();
            findings.filter(|f| f.severity == severity).count()
        });
        format!(
            "{}, {}",
            format_count(self.clones.len(), "clone"),
            format_counts(self.checks, found)
        )
    }

    /// Pretty JSON with a final newline.
    pub fn to_json(&self) -> String {
        format!("{:#}\n", serde_json::json!(self))
    }
}

/// `43 checks: no error, no warning, 1 unknown`
pub fn summarize_report(report: &verify::VerifyReport) -> String {
    use FindingSeverity::{Error, Unknown, Warning};
    format_counts(
        report.count_checks(),
        [Error, Warning, Unknown].map(|s| report.count(s)),
    )
}

fn format_counts(checks: usize, [errors, warnings, unknown]: [usize; 3]) -> String {
    let unknown = match unknown {
        0 => "nothing unknown".to_owned(),
        n => format!("{n} unknown"),
    };
    let (checks, errors) = (format_count(checks, "check"), format_count(errors, "error"));
    format!(
        "{checks}: {errors}, {}, {unknown}",
        format_count(warnings, "warning")
    )
}

fn format_count(n: usize, what: &str) -> String {
    match n {
        0 => format!("no {what}"),
        n => count(n, what),
    }
}

impl TrialFinding {
    fn from_finding(clone: Option<usize>, finding: &verify::VerifyFinding) -> Self {
        let problem = &finding.problem;
        let (asked, place) = finding.step.clone().unzip();
        Self {
            severity: finding.severity,
            clone,
            message: problem.fact.clone(),
            expected: problem.expected.clone(),
            found: problem.found.clone(),
            lines: problem.lines.clone(),
            cures: problem.cures.clone(),
            asked,
            place,
        }
    }
}

impl From<&TargetSpec> for TargetPlatform {
    fn from(target: &TargetSpec) -> Self {
        Self {
            title: target.title.clone(),
            hardware: target.hardware.clone(),
            metadata: target.metadata.clone(),
        }
    }
}

impl From<&CloneIdentity> for GivenIdentity {
    fn from(identity: &CloneIdentity) -> Self {
        Self {
            instance: identity.instance.clone(),
            host_name: identity.host_name.clone(),
            user: identity.user.clone(),
            ssh_keys: identity.ssh_keys.clone(),
            user_data: identity.user_data.len(),
        }
    }
}

/// Renders the JSON Schema, as in `schemas/try-1.json`.
pub fn render_schema() -> String {
    format!("{:#}\n", schemars::schema_for!(TrialResult).as_value())
}
