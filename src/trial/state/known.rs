//! A value read from a clone, or the reason why it could not be read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::verify::{Verdict, VerifyFinding};

/// A value or the reason why it is unknown. In JSON the value itself, or `{"unknown": "why"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Known_{T}")]
pub enum KnownFact<T> {
    Unknown {
        /// The reason why it could not be read.
        unknown: String,
    },
    Is(T),
}

impl<T> KnownFact<T> {
    pub fn from_reason(why: impl Into<String>) -> Self {
        Self::Unknown {
            unknown: why.into(),
        }
    }

    /// Returns the value, or a finding that `what` is unknown.
    pub fn get(&self, what: &str) -> Result<&T, Box<VerifyFinding>> {
        match self {
            Self::Is(value) => Ok(value),
            Self::Unknown { unknown } => Err(VerifyFinding::unknown(what).found(unknown)),
        }
    }

    /// Judges the value. Returns a finding that `what` is unknown if there is no value.
    pub fn judge(&self, what: &str, judge: impl FnOnce(&T) -> Verdict) -> Verdict {
        judge(self.get(what)?)
    }
}

impl<T> From<Result<T, Box<VerifyFinding>>> for KnownFact<T> {
    fn from(answer: Result<T, Box<VerifyFinding>>) -> Self {
        match answer {
            Ok(value) => Self::Is(value),
            Err(finding) => Self::from_reason(finding.problem.in_one_line()),
        }
    }
}
