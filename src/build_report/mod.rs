//! The report of a build, read from the records in its output folder: the content of `report.html`.
//!
//! A `BuildReport` is plain data, and `page` renders it without I/O. It is built from the records
//! only (`events.jsonl`, `manifest.json`, `failure/`, `screens/`, `logs/`, `try/`), so
//! `winimg report` renders the same page on another host. It is for display only, never an input to
//! a record.

mod next_steps;
mod page;
mod read;
mod templates;
mod timeline;

use std::path::Path;

use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{InputProof, ProblemDetails, Sink};
use winimg_base::io::write_atomically;

use crate::engine::evidence::{FailureRecord, TraceRecording};
use crate::page::HtmlPage;
use crate::record::manifest;
use crate::usage::DiskUsage;

pub use next_steps::NextStep;
pub use page::render_page;
pub use timeline::{
    LayerHistory, ResumedLayer, Timeline, TimelineLayer, TimelineRow, TimelineRowKind,
};

/// File name of the report in the output folder.
pub const REPORT: &str = crate::page::REPORT;

/// One build.
#[derive(Clone, Debug, Default)]
pub struct BuildReport {
    /// The recipe's name.
    pub recipe: String,
    pub state: BuildState,
    pub timeline: Timeline,
    /// Evidence of a failed build.
    pub failure: Option<FailureRecord>,
    /// Manifest of a successful build.
    pub built: Option<manifest::BuildManifest>,
    pub next_steps: Vec<NextStep>,
    pub components: Vec<ReportInput>,
    pub steps: Vec<ReportStep>,
    /// In the order in which they were taken.
    pub screens: Vec<ReportScreen>,
    pub trials: Vec<ReportTrial>,
    /// Disk usage of the finished image.
    pub usage: Option<DiskUsage>,
    /// Files in the output folder with their sizes in bytes.
    pub files: Vec<(String, u64)>,
    /// Path from the page to the output folder: empty, or with a trailing slash.
    pub base: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BuildState {
    /// No end event was recorded: the build is still running, or its process was killed.
    #[default]
    Open,
    Built,
    Failed(Box<ProblemDetails>),
    Interrupted,
}

/// A step with its known details.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportStep {
    /// Counted from 1.
    pub number: usize,
    pub name: String,
    pub verb: Option<String>,
    pub place: String,
    pub commands: Vec<String>,
    /// Exit codes of each command, or of the last one.
    pub exit_codes: Vec<Option<i64>>,
    pub seconds: Option<f64>,
    pub end: ReportStepEnd,
    /// Its log, relative to the output folder, and the log's last lines.
    pub log: Option<(String, String)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReportStepEnd {
    #[default]
    Open,
    Done,
    /// An earlier build ran it: it is in a layer.
    Layer,
    /// This condition disabled it.
    Skipped(String),
}

/// An input and its proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportInput {
    pub name: String,
    pub version: Option<String>,
    pub license: Option<String>,
    pub url: String,
    pub bytes: u64,
    pub digest: String,
    pub proof: InputProof,
    pub signers: Vec<String>,
}

impl From<&manifest::ManifestInput> for ReportInput {
    fn from(input: &manifest::ManifestInput) -> Self {
        Self {
            name: input.id.to_string(),
            version: input.version.clone(),
            license: input.license.clone(),
            url: input.url.clone(),
            bytes: input.size,
            digest: input.digest.clone(),
            proof: InputProof::from(&input.proof),
            signers: input.signers.iter().map(ToString::to_string).collect(),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportScreen {
    /// Relative to the output folder.
    pub file: String,
    /// `14:03:59 UTC`
    pub time: Option<String>,
    /// Seconds since its machine's power-on.
    pub after: Option<f64>,
    pub stage: Option<String>,
    /// The picture in base64; `None` if it is too large for the page.
    pub png: Option<String>,
}

/// The result of a trial of this image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportTrial {
    pub target: String,
    pub is_good: bool,
    pub outcome: String,
    pub summary: String,
    /// Relative to the output folder.
    pub page: Option<String>,
}

/// Renders the report of the build in this output folder.
pub fn page_path(folder: &Path, recording: &TraceRecording) -> Result<HtmlPage> {
    page_at(folder, &folder.join(REPORT), recording)
}

/// Reads the report of the build with this output folder; `None` if there are no records.
pub fn read_if_exists(folder: &Path, recording: &TraceRecording) -> Result<Option<BuildReport>> {
    let has_records = [read::EVENTS, crate::record::writer::MANIFEST]
        .iter()
        .any(|file| folder.join(file).exists());
    if has_records {
        read::read_report(folder, &folder.join(REPORT), recording).map(Some)
    } else {
        Ok(None)
    }
}

/// Writes the page to the file `to`.
pub fn write(folder: &Path, to: &Path, recording: &TraceRecording) -> Result<()> {
    let page = page_at(folder, to, recording)?;
    write_atomically(to, page.render().as_bytes())
}

/// Updates the page of a folder. Failure is only a warning, as the change that it shows has
/// succeeded.
pub fn update(folder: &Path, recording: &TraceRecording, sink: &dyn Sink) {
    if let Err(e) = write(folder, &folder.join(REPORT), recording) {
        sink.warn(format!("cannot write the build's page: {e}"));
    }
}

/// Renders the page for the file `to`.
fn page_at(folder: &Path, to: &Path, recording: &TraceRecording) -> Result<HtmlPage> {
    read::read_report(folder, to, recording).map(|report| render_page(&report))
}

fn no_records(folder: &Path) -> Error {
    Error::new(Kind::Recipe, "there are no records of a build here")
        .at(folder.display())
        .expected("the output folder of `winimg build`: events.jsonl or manifest.json")
        .cure("pass the folder that contains events.jsonl")
}
