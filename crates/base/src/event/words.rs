//! What events are made of: words with a meaning as enums, places, and what is said of a problem.
//!
//! Owned, and the same when it is read back from its JSON.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;
use crate::text::Place;

/// A part of a build. It begins with an installation or with a boot, never with both.
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
    /// Of `winimg try` and `build --try`: clones come up.
    Try,
}

impl Phase {
    /// As the events have it.
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

/// How much a finding weighs.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "FindingSeverity")]
pub enum Severity {
    /// The image is not what it should be.
    Error,
    /// It may be meant so, or may be harmless.
    Warning,
    /// Only a running Windows knows.
    Unknown,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Unknown => "unknown",
        }
    }
}

/// Why a build waits for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "PauseReason")]
pub enum Reason {
    /// `--break`
    Break,
    /// `--debug`
    Debug,
    /// `--on-error`
    Failure,
}

/// What the person chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    GoOn,
    Retry,
    Stop,
}

impl Choice {
    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::GoOn => "go-on",
            Self::Retry => "retry",
            Self::Stop => "stop",
        }
    }
}

/// A line of a recipe, as text `recipe.toml:12:3`. Line and column are counted from 1, the column in characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, with = "String", description = "", extend("pattern" = r"^.+:[0-9]+:[0-9]+$"))]
pub struct Spot {
    /// As messages name it.
    pub file: String,
    pub line: usize,
    pub column: usize,
}

impl From<&Place> for Spot {
    fn from(place: &Place) -> Self {
        let (line, column) = place.line_column();
        Self {
            file: place.source.name.clone(),
            line,
            column,
        }
    }
}

impl FromStr for Spot {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.rsplitn(3, ':');
        let mut number = || parts.next().and_then(|part| part.parse().ok());
        let (column, line) = (number(), number());
        match (parts.next(), line, column) {
            (Some(file), Some(line), Some(column)) if !file.is_empty() => Ok(Self {
                file: file.to_owned(),
                line,
                column,
            }),
            _ => Err(format!("not a place such as recipe.toml:12:3: {text}")),
        }
    }
}

impl TryFrom<String> for Spot {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Spot> for String {
    fn from(spot: Spot) -> Self {
        spot.to_string()
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A [`Problem`] part by part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Details {
    /// One sentence without a full stop.
    pub message: String,
    /// A file, URL, offset or other place outside the recipe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The TOML that asked for it; of a finding, its step's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recipe: Option<Spot>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// The last output of a step, a listing of what is there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<String>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cure: Option<String>,
}

impl From<&Problem> for Details {
    fn from(problem: &Problem) -> Self {
        let cures = &problem.cures;
        Self {
            message: problem.fact.clone(),
            at: problem.at.clone(),
            recipe: problem.place.as_ref().map(Spot::from),
            expected: problem.expected.clone(),
            found: problem.found.clone(),
            lines: problem.lines.clone(),
            cure: (!cures.is_empty()).then(|| cures.join("; ")),
        }
    }
}

impl Details {
    /// All but the message and the lines, as far as they are known, with their names.
    pub fn parts(&self) -> Vec<(String, String)> {
        let recipe = self.recipe.as_ref().map(Spot::to_string);
        let parts = [
            ("at", self.at.clone()),
            ("recipe", recipe),
            ("expected", self.expected.clone()),
            ("found", self.found.clone()),
            ("cure", self.cure.clone()),
        ];
        let parts = parts.into_iter();
        parts
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect()
    }
}

/// What proves an input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Proof {
    /// The recipe or its lock names its digest.
    Digest,
    /// A publisher's checksum file names it.
    ChecksumFile { url: String },
    /// Its signatures, and nothing else.
    Signed,
    /// Nothing; the recipe says why that is accepted.
    Unverified { reason: String },
}

/// `its signature`, `not verified: …`
impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Digest => f.write_str("the digest that the recipe or its lock names"),
            Self::ChecksumFile { url } => write!(f, "its publisher's checksum file, {url}"),
            Self::Signed => f.write_str("its signature"),
            Self::Unverified { reason } => write!(f, "not verified: {reason}"),
        }
    }
}

/// A finished file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Artifact {
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
            assert_eq!(text.parse::<Spot>().expect(text).to_string(), text);
        }
        for text in ["recipe.toml", "recipe.toml:1", ":1:1", "r:one:1", "r:1:-1"] {
            assert!(text.parse::<Spot>().is_err(), "{text}");
        }
    }
}
