//! What was read of a clone, or why it could not be.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::verify::{Finding, Verdict};

/// In JSON the value itself, or `{"unknown": "why"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Known_{T}")]
pub enum Known<T> {
    Unknown {
        /// Why it could not be read.
        unknown: String,
    },
    Is(T),
}

impl<T> Known<T> {
    pub fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown {
            unknown: why.into(),
        }
    }

    /// The value; otherwise the finding that `what` is not known.
    pub fn get(&self, what: &str) -> Result<&T, Box<Finding>> {
        match self {
            Self::Is(value) => Ok(value),
            Self::Unknown { unknown } => Err(Finding::unknown(what).found(unknown)),
        }
    }

    /// Judges the value; what is not known is judged to be unknown.
    pub fn judge(&self, what: &str, judge: impl FnOnce(&T) -> Verdict) -> Verdict {
        judge(self.get(what)?)
    }
}

impl<T> From<Result<T, Box<Finding>>> for Known<T> {
    fn from(answer: Result<T, Box<Finding>>) -> Self {
        match answer {
            Ok(value) => Self::Is(value),
            Err(finding) => Self::unknown(finding.problem.in_one_line()),
        }
    }
}
