//! `failure/failure.json`: what was found out about a failure, for the build's page (`crate::story`) to be made of it, here and on
//! another host.
//!
//! Holds, writes and reads. Whatever is written was redacted before. A field may be added; a reader passes over what it does not know.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::FOLDER;
use super::causes::Cause;
use super::reading::Reading;
use winimg_base::error::Result;
use winimg_base::io::{self, write_atomically};

/// The record's name in the evidence.
pub const RECORD: &str = "failure.json";

/// All that is known of a failure beside its event.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Failure {
    /// The recipe's name.
    pub recipe: String,
    /// The step that the build was at: its number, its name.
    pub step: Option<(usize, String)>,
    /// ``step 3, `kubelet` ``, where a step failed.
    pub failed_step: Option<String>,
    /// From where the next build resumes; empty where that is not known.
    pub next: String,
    /// RFC 3339.
    pub failed_at: String,
    pub error: Fault,
    pub causes: Vec<Cause>,
    pub reading: Option<Reading>,
    /// Error lines of Windows: the log, the line.
    pub errors: Vec<(String, String)>,
    /// The logs that were read from the disk: where each lies in the evidence, its phase, whether it was cut.
    pub logs: Vec<(String, String, bool)>,
    /// What winimg's own commands left in the guest.
    pub bootstrap: Vec<Part>,
    pub step_output: Option<Part>,
    pub agent: Option<Part>,
    pub machine: Vec<Part>,
}

/// The error, as it was before the causes were added to it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Fault {
    pub fact: String,
    /// Name and value: at, recipe, expected, found, cure.
    pub parts: Vec<(String, String)>,
    pub lines: Vec<String>,
    /// Lines of the recipe around the place: number, text, whether it is the one.
    pub around: Vec<(usize, String, bool)>,
}

/// The end of a text, and the file of the evidence that holds all of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Part {
    pub title: String,
    pub file: String,
    pub text: String,
}

impl Failure {
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let text = format!("{:#}\n", serde_json::json!(self));
        write_atomically(&folder.join(RECORD), text.as_bytes())
    }

    /// Of the build with this output folder. None where there is no record, or none that can be read.
    pub fn read(output: &Path) -> Option<Self> {
        let record = io::file_within(output, format!("{FOLDER}/{RECORD}")).ok()?;
        let text = io::read_text_limited(&record.path, io::limit::RECORD).ok()?;
        serde_json::from_str(&text).ok()
    }
}
