//! `try/TARGET.json`: how two clones of an image came up as one target's machines, and what was found of them.
//!
//! The schema is versioned by its name; `schemas/try-1.json` is the JSON Schema. A field may be added within a version, none is
//! renamed or removed. Holds no secret: of the clones' identities their names and public keys.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use winimg_base::event::Severity;
use winimg_base::text::count;
use winimg_recipe::recipe::Firmware;
use winimg_recipe::recipe::target::{self, Controller, Form, Nic, Target};

use super::compare::Compared;
use super::metadata::{Asked, Identity, Report};
use super::state::CloneState;
use crate::record::manifest::Tool;
use crate::verify;

/// One trial of one image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "winimg trial of an image, version 1")]
pub struct Trial {
    /// The version of this layout.
    pub schema: Schema,
    /// What tried the image.
    pub tool: Tool,
    pub image: Image,
    /// The target's name.
    pub target: String,
    pub platform: Platform,
    /// RFC 3339, UTC.
    pub started: String,
    /// RFC 3339, UTC.
    pub finished: String,
    pub hardware: Hardware,
    /// The form in which the clones were given their metadata.
    pub metadata: Form,
    /// What the clones reached.
    #[serde(default)]
    pub network: Network,
    /// In what the trial was not what the target is.
    pub remarks: Vec<String>,
    /// In the order in which they were started. A trial that stopped half-way has fewer than two.
    pub clones: Vec<CloneRun>,
    /// Whether the two are two machines; empty where there are not two.
    pub compared: Vec<Compared>,
    /// The gravest first.
    pub findings: Vec<Finding>,
    /// Of how many checks.
    pub checks: usize,
    pub verdict: Verdict,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Schema {
    #[default]
    #[serde(rename = "winimg/try/1")]
    V1,
}

/// What clones reach beside their metadata. Nothing reaches them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    #[default]
    Isolated,
    /// The host, and what the host reaches, by address translation.
    Nat,
}

/// The file that the clones were made over. It was not written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Image {
    /// As it was given, or relative to the manifest.
    pub file: String,
    /// Bytes.
    pub size: u64,
    /// Lower-case hex, as the manifest says it; null: it was tried without a manifest.
    pub sha256: Option<String>,
}

/// The target as its own file has it, with its sources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Platform {
    pub title: String,
    pub hardware: target::Hardware,
    pub metadata: target::Metadata,
}

/// The machine as it was tried; `remarks` say where the target has another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hardware {
    /// `QEMU 7.2.22`
    pub hypervisor: String,
    /// `kvm`, `tcg` …
    pub accelerator: String,
    pub firmware: Firmware,
    pub controller: Controller,
    pub nic: Nic,
    pub tpm: bool,
    pub secure_boot: bool,
}

/// One clone, from its disk to the last look at it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CloneRun {
    pub given: Given,
    pub boots: Vec<Boot>,
    /// As the disk says after the last boot; null: it was not read.
    pub state: Option<CloneState>,
    /// What it asked its metadata services.
    pub requests: Vec<Asked>,
    /// What it reported to its platform.
    pub reports: Vec<Report>,
}

/// The identity that the metadata gave, without its password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Given {
    pub instance: String,
    pub host_name: String,
    pub user: String,
    /// Lines of `authorized_keys`.
    pub ssh_keys: Vec<String>,
    /// Bytes.
    pub user_data: usize,
}

/// From one power-on to the power-off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Boot {
    /// Restarts of the machine by itself.
    pub restarts: u32,
    /// Until nothing moved any more.
    pub seconds: f64,
    /// The last screen, relative to this file; null: there was none.
    pub screen: Option<String>,
}

/// One thing that does not hold, or of which nobody knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    pub severity: Severity,
    /// The clone's number, from 1; null: both together.
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
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cures: Vec<String>,
    /// What asked for it: a `[[clone]]` of the recipe or of a pack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// Its place in the recipe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// No finding is an error.
    Good,
    Bad,
}

impl Trial {
    /// Takes a report's findings and counts, of one clone (from 1) or of both together, and judges anew.
    pub fn take(&mut self, clone: Option<usize>, report: &verify::Report) {
        self.checks += report.checks();
        let found = report.findings.iter();
        self.findings.extend(found.map(|f| Finding::of(clone, f)));
        self.findings.sort_by_key(|f| f.severity);
        let is_error = |f: &Finding| f.severity == Severity::Error;
        self.verdict = match self.findings.iter().any(is_error) {
            true => Verdict::Bad,
            false => Verdict::Good,
        };
    }

    pub fn is_good(&self) -> bool {
        self.verdict == Verdict::Good
    }

    /// `demo.ova comes up as vsphere`
    pub fn outcome(&self) -> String {
        let file = self.image.file.rsplit(['/', '\\']).next();
        let does = match self.is_good() {
            true => "comes up",
            false => "does not come up",
        };
        format!("{} {does} as {}", file.unwrap_or_default(), self.target)
    }

    /// `2 clones, 96 checks: no error, 1 warning, 2 unknown`
    pub fn summary(&self) -> String {
        let count = |severity| {
            let of = |f: &&Finding| f.severity == severity;
            self.findings.iter().filter(of).count()
        };
        let found = [Severity::Error, Severity::Warning, Severity::Unknown].map(count);
        format!(
            "{}, {}",
            many(self.clones.len(), "clone"),
            counted(self.checks, found)
        )
    }

    /// Pretty JSON with a final newline.
    pub fn to_json(&self) -> String {
        format!("{:#}\n", serde_json::json!(self))
    }
}

/// `43 checks: no error, no warning, 1 unknown`
pub fn summary(report: &verify::Report) -> String {
    use Severity::{Error, Unknown, Warning};
    counted(
        report.checks(),
        [Error, Warning, Unknown].map(|s| report.count(s)),
    )
}

fn counted(checks: usize, [errors, warnings, unknown]: [usize; 3]) -> String {
    let unknown = match unknown {
        0 => "nothing unknown".to_owned(),
        n => format!("{n} unknown"),
    };
    let (checks, errors) = (many(checks, "check"), many(errors, "error"));
    format!(
        "{checks}: {errors}, {}, {unknown}",
        many(warnings, "warning")
    )
}

fn many(n: usize, what: &str) -> String {
    match n {
        0 => format!("no {what}"),
        n => count(n, what),
    }
}

impl Finding {
    fn of(clone: Option<usize>, finding: &verify::Finding) -> Self {
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

impl From<&Target> for Platform {
    fn from(target: &Target) -> Self {
        Self {
            title: target.title.clone(),
            hardware: target.hardware.clone(),
            metadata: target.metadata.clone(),
        }
    }
}

impl From<&Identity> for Given {
    fn from(identity: &Identity) -> Self {
        Self {
            instance: identity.instance.clone(),
            host_name: identity.host_name.clone(),
            user: identity.user.clone(),
            ssh_keys: identity.ssh_keys.clone(),
            user_data: identity.user_data.len(),
        }
    }
}

/// The JSON Schema, as `schemas/try-1.json` holds it.
pub fn schema() -> String {
    format!("{:#}\n", schemars::schema_for!(Trial).as_value())
}
