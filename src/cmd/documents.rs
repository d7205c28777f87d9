//! What `--json` prints of `lock`, `fetch`, `verify`, `build` and `matrix build`: one document each (docs/json.md).
//!
//! Fields may be added; none is changed or removed. What goes wrong is on standard error, as without `--json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::verify;
use winimg_base::event::{Artifact, Details, Severity};
use winimg_trust::Signer;

/// `winimg lock`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Locked {
    /// The lock's file.
    pub lock: String,
    /// Of the file as it is now; null: there is none.
    pub serial: Option<u64>,
    /// Whether the file was written.
    pub written: bool,
    /// What is other than in the earlier lock; with `--check`, what would be.
    pub changes: Vec<Change>,
    /// With `--upgrade` and `--newest`: later versions that were written into the recipe; with `--check`, that would be.
    pub versions: Vec<Taken>,
    /// Later versions that were not taken.
    pub left: Vec<Left>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Taken {
    /// The component.
    pub name: String,
    pub was: String,
    pub is: String,
    /// Where the recipe has it, such as `vars.kubernetes_semver`.
    pub key: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Left {
    /// The component.
    pub name: String,
    pub version: String,
    /// What its publisher lists.
    pub later: String,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// The input, such as `kubelet` or `media.iso`.
    pub name: String,
    /// In a few words; `-`: it is new.
    pub was: String,
    /// In a few words; `-`: it is gone.
    pub is: String,
}

/// `winimg fetch`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fetched {
    /// In the recipe's order.
    pub inputs: Vec<Input>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// Such as `kubelet` or `media.iso`.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// `sha256:` or `sha512:` and hex.
    pub digest: String,
    /// `cache`, `network` or `local file`: where it came from this time.
    pub from: String,
    /// Who signed it.
    pub signers: Vec<Signer>,
}

/// `winimg matrix build`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixBuilt {
    /// In the order in which they were built.
    pub variants: Vec<MatrixVariant>,
    /// The page about all of them.
    pub page: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixVariant {
    pub name: String,
    pub state: VariantState,
    /// The exit status of its build; null where there was none.
    pub status: Option<i32>,
    /// Why it failed, in one sentence.
    pub error: Option<String>,
    /// Of the whole build.
    pub seconds: Option<f64>,
    /// Its output folder.
    pub output: String,
    /// What its build said.
    pub log: String,
    pub artifacts: Vec<Artifact>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VariantState {
    Built,
    /// The folder held already what the recipe makes.
    Unchanged,
    Failed,
    /// It was not built: another one had failed, or `--only` does not name it.
    Left,
}

impl VariantState {
    /// For people.
    pub fn word(self) -> &'static str {
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
pub struct Verified {
    /// No finding is an error.
    pub good: bool,
    /// The image, or the manifest's records and every file that it lists.
    pub files: Vec<VerifiedFile>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifiedFile {
    /// As it was named, or as the manifest lists it.
    pub file: String,
    /// How many checks were made.
    pub checks: usize,
    /// How many of them hold.
    pub hold: usize,
    /// Of the others, the gravest first.
    pub findings: Vec<Finding>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// `error`, `warning` or `unknown`.
    pub severity: Severity,
    #[serde(flatten)]
    pub details: Details,
    /// The step that asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

/// `winimg build`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Built {
    /// The recipe's name.
    pub recipe: String,
    /// The folder that holds what was made.
    pub output: String,
    /// The manifest, relative to the folder.
    pub manifest: String,
    /// The folder held it already; nothing was built.
    pub unchanged: bool,
    /// Of the whole command.
    pub seconds: f64,
    /// What was made.
    pub artifacts: Vec<Artifact>,
}

impl VerifiedFile {
    pub fn of(file: &str, report: &verify::Report) -> Self {
        let finding = |finding: &verify::Finding| Finding {
            severity: finding.severity,
            details: finding.details(),
            step: finding.step.clone().map(|(step, _)| step),
        };
        Self {
            file: file.to_owned(),
            checks: report.checks(),
            hold: report.holds,
            findings: report.findings.iter().map(finding).collect(),
        }
    }
}

/// `winimg outdated`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outdated {
    /// Components with a later version, by name.
    pub newer: Vec<Newer>,
    /// Components whose publisher's list is not named.
    pub unlisted: Vec<String>,
    /// With `--urls`: how many addresses were looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub looked_at: Option<usize>,
    /// Addresses at which there is nothing.
    pub dead: Vec<Dead>,
    /// Lists and addresses that gave no answer.
    pub unanswered: Vec<Dead>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Newer {
    pub name: String,
    pub version: String,
    /// The highest with the same first two numbers, if it is later.
    pub in_series: Option<String>,
    pub newest: String,
    /// The publisher's list.
    pub list: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Dead {
    /// The input, such as `kubelet` or `media.iso`.
    pub name: String,
    pub url: String,
    pub why: String,
}
