//! Types used in event fields.
//!
//! All types are owned and unchanged by a round trip through JSON.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;
use crate::text::Place;

/// A part of a build. A build starts with an installation or with a boot, never with both.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Fetch,
    Media,
    Install,
    Boot,
    Provision,
    Seal,
    Verify,
    Export,
    /// Clones start, in `winimg try` and `build --try`.
    Try,
}

impl Phase {
    /// Returns the name used in events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::Media => "media",
            Self::Install => "install",
            Self::Boot => "boot",
            Self::Provision => "provision",
            Self::Seal => "seal",
            Self::Verify => "verify",
            Self::Export => "export",
            Self::Try => "try",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Severity of a finding.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FindingSeverity {
    /// The image is wrong.
    Error,
    /// It may be intended or harmless.
    Warning,
    /// It can only be checked on a running Windows.
    Unknown,
}

impl FindingSeverity {
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Unknown => "unknown",
        }
    }
}

/// Reason a build is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PauseReason {
    /// `--break`
    Break,
    /// `--debug`
    Debug,
    /// `--on-error`
    Failure,
}

/// The user's answer to a paused build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Choice")]
pub enum PauseChoice {
    GoOn,
    Retry,
    Stop,
}

impl PauseChoice {
    /// Returns the choice as typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::GoOn => "go-on",
            Self::Retry => "retry",
            Self::Stop => "stop",
        }
    }
}

/// A position in a recipe, written as `recipe.toml:12:3`. Line and column are counted from 1, the
/// column in characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, with = "String", description = "", extend("pattern" = r"^.+:[0-9]+:[0-9]+$"))]
pub struct RecipePosition {
    /// File name as shown in messages.
    pub file: String,
    pub line: usize,
    pub column: usize,
}

impl From<&Place> for RecipePosition {
    fn from(place: &Place) -> Self {
        let (line, column) = place.line_column();
        Self {
            file: place.source.name.clone(),
            line,
            column,
        }
    }
}

impl FromStr for RecipePosition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.rsplitn(3, ':');
        let column = parts.next().and_then(|part| part.parse().ok());
        let line = parts.next().and_then(|part| part.parse().ok());
        match (parts.next(), line, column) {
            (Some(file), Some(line), Some(column)) if !file.is_empty() => Ok(Self {
                file: file.to_owned(),
                line,
                column,
            }),
            _ => Err(format!("not a position such as recipe.toml:12:3: {text}")),
        }
    }
}

impl TryFrom<String> for RecipePosition {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<RecipePosition> for String {
    fn from(position: RecipePosition) -> Self {
        position.to_string()
    }
}

impl fmt::Display for RecipePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// The parts of a [`Problem`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Details")]
pub struct ProblemDetails {
    /// One sentence without a full stop.
    pub message: String,
    /// A file, URL, offset or other place outside the recipe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Position in the recipe; for a finding, that of its step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recipe: Option<RecipePosition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// Last output of a step, or the existing items (e.g. when a name is not found).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<String>,
    /// The fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cure: Option<String>,
}

impl From<&Problem> for ProblemDetails {
    fn from(problem: &Problem) -> Self {
        let cures = &problem.cures;
        Self {
            message: problem.fact.clone(),
            at: problem.at.clone(),
            recipe: problem.place.as_ref().map(RecipePosition::from),
            expected: problem.expected.clone(),
            found: problem.found.clone(),
            lines: problem.lines.clone(),
            cure: (!cures.is_empty()).then(|| cures.join("; ")),
        }
    }
}

impl ProblemDetails {
    /// Returns all known parts except the message and the lines, with their names.
    pub fn list_parts(&self) -> Vec<(String, String)> {
        let recipe = self.recipe.as_ref().map(RecipePosition::to_string);
        [
            ("at", self.at.clone()),
            ("recipe", recipe),
            ("expected", self.expected.clone()),
            ("found", self.found.clone()),
            ("cure", self.cure.clone()),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
    }
}

/// The way an input was verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[schemars(rename = "Proof")]
pub enum InputProof {
    /// The recipe or its lock has its digest.
    Digest,
    /// A publisher's checksum file has its digest.
    ChecksumFile { url: String },
    /// Its signatures only.
    Signed,
    /// Not verified; the recipe gives a reason.
    Unverified { reason: String },
}

/// `its signature`, `not verified: …`
impl fmt::Display for InputProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Digest => f.write_str("the digest in the recipe or its lock"),
            Self::ChecksumFile { url } => write!(f, "its publisher's checksum file, {url}"),
            Self::Signed => f.write_str("its signature"),
            Self::Unverified { reason } => write!(f, "not verified: {reason}"),
        }
    }
}

/// An output file of a build or export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Artifact")]
pub struct FinishedArtifact {
    /// `raw`, `vhd`, `vhdx`, `vhdx_fixed`, `ova`, `qcow2` or `ami`.
    pub kind: String,
    /// Relative to the output folder, with slashes.
    pub file: String,
    pub bytes: u64,
    /// Lower-case hex.
    #[schemars(regex(pattern = r"^[0-9a-f]{64}$"))]
    pub sha256: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spot_is_read_back_also_where_its_file_has_colons() {
        for text in [
            "recipe.toml:12:3",
            r"C:\r\recipe.toml:1:1",
            "pack:a.toml:7:2",
        ] {
            assert_eq!(
                text.parse::<RecipePosition>().expect(text).to_string(),
                text
            );
        }
        for text in ["recipe.toml", "recipe.toml:1", ":1:1", "r:one:1", "r:1:-1"] {
            assert!(text.parse::<RecipePosition>().is_err(), "{text}");
        }
    }
}
