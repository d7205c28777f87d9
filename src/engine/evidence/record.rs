//! `failure/failure.json`: the record of a failure, from which the build's report
//! (`crate::build_report`) is rendered, here or on another host.
//!
//! All values were redacted before. Fields may be added; readers ignore unknown fields.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::FOLDER;
use super::causes::FailureCause;
use super::diagnosis::DiskDiagnosis;
use winimg_base::error::Result;
use winimg_base::io::{self, write_atomically};

/// The record's file name.
pub const RECORD: &str = "failure.json";

/// Everything known about a failure, besides its event.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FailureRecord {
    /// The recipe's name.
    pub recipe: String,
    /// Number and name of the step that the build had reached.
    pub step: Option<(usize, String)>,
    /// ``step 3, `kubelet` ``, if a step failed.
    pub failed_step: Option<String>,
    /// A sentence about where the next build resumes; empty if unknown.
    pub next: String,
    /// RFC 3339.
    pub failed_at: String,
    pub error: ErrorRecord,
    pub causes: Vec<FailureCause>,
    pub reading: Option<DiskDiagnosis>,
    /// Error lines of Windows: the log, the line.
    pub errors: Vec<(String, String)>,
    /// The logs read from the disk: file in the diagnostics, phase, and true if it was cut.
    pub logs: Vec<(String, String, bool)>,
    /// Logs of winimg's own commands in the guest.
    pub bootstrap: Vec<LogExcerpt>,
    pub step_output: Option<LogExcerpt>,
    pub agent: Option<LogExcerpt>,
    pub machine: Vec<LogExcerpt>,
}

/// The error, before the causes were added to it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorRecord {
    pub fact: String,
    /// Name and value: at, recipe, expected, found, cure.
    pub parts: Vec<(String, String)>,
    pub lines: Vec<String>,
    /// Lines of the recipe around the place: number, text, and true for the line itself.
    pub around: Vec<(usize, String, bool)>,
}

/// The end of a text, and the file of the diagnostics with the full text.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LogExcerpt {
    pub title: String,
    pub file: String,
    pub text: String,
}

impl FailureRecord {
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let text = format!("{:#}\n", serde_json::json!(self));
        write_atomically(&folder.join(RECORD), text.as_bytes())
    }

    /// Reads the record of the build with this output folder. Returns `None` if it is missing or
    /// unreadable.
    pub fn read(output: &Path) -> Option<Self> {
        let record = io::find_contained_file(output, format!("{FOLDER}/{RECORD}")).ok()?;
        let text = io::read_text_limited(&record.path, io::limit::RECORD).ok()?;
        serde_json::from_str(&text).ok()
    }
}
