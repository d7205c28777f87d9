//! What became of a build, read from the records in its output folder: what `report.html` shows.
//!
//! A `Story` is data; `page` is pure. It is made from records alone (`events.jsonl`, `manifest.json`, `failure/`, `screens/`, `logs/`,
//! `try/`), so `winimg report` makes the same page again on another host. Decides nothing: no record is made from it.

mod course;
mod next;
mod page;
mod read;
mod templates;

use std::path::Path;

use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Details, Proof};
use winimg_base::io::write_atomically;

use crate::engine::evidence::{Failure, Recording};
use crate::page::Page;
use crate::record::manifest;
use crate::usage::DiskUsage;

pub use course::{Course, Found, Layers, Row, RowKind, Sealed, Used};
pub use next::Road;
pub use page::page;

/// The page's name in the output folder.
pub const REPORT: &str = crate::page::REPORT;

/// One build.
#[derive(Clone, Debug, Default)]
pub struct Story {
    /// The recipe's name.
    pub recipe: String,
    pub state: State,
    pub course: Course,
    /// What a failed build left.
    pub failure: Option<Failure>,
    /// Of a build that ended well.
    pub built: Option<manifest::Manifest>,
    pub roads: Vec<Road>,
    pub components: Vec<Component>,
    pub steps: Vec<Step>,
    /// In the order in which they were taken.
    pub screens: Vec<Screen>,
    pub tries: Vec<Tried>,
    /// What the finished disk holds.
    pub usage: Option<DiskUsage>,
    /// Files in the output folder, with their bytes.
    pub files: Vec<(String, u64)>,
    /// Where the output folder lies, seen from the page: empty beside it, else a path with a slash at its end.
    pub base: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// No record says that it ended: it runs, or its process was killed.
    #[default]
    Open,
    Built,
    Failed(Box<Details>),
    Interrupted,
}

/// A step, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// Counted from 1.
    pub number: usize,
    pub name: String,
    pub verb: Option<String>,
    pub place: String,
    pub commands: Vec<String>,
    /// Of each command, or of the last one.
    pub exit_codes: Vec<Option<i64>>,
    pub seconds: Option<f64>,
    pub end: StepEnd,
    /// Its log, relative to the output folder, and the last lines of it.
    pub log: Option<(String, String)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StepEnd {
    #[default]
    Open,
    Done,
    /// In an earlier build: a layer holds it.
    Layer,
    /// By this condition.
    Skipped(String),
}

/// An input, and what proved it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    pub name: String,
    pub version: Option<String>,
    pub license: Option<String>,
    pub url: String,
    pub bytes: u64,
    pub digest: String,
    pub proof: Proof,
    pub signers: Vec<String>,
}

impl From<&manifest::Input> for Component {
    fn from(input: &manifest::Input) -> Self {
        Self {
            name: input.id.to_string(),
            version: input.version.clone(),
            license: input.license.clone(),
            url: input.url.clone(),
            bytes: input.size,
            digest: input.digest.clone(),
            proof: Proof::from(&input.proof),
            signers: input.signers.iter().map(ToString::to_string).collect(),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Screen {
    /// Relative to the output folder.
    pub file: String,
    /// `14:03:59 UTC`
    pub time: Option<String>,
    /// Seconds since its machine's power-on.
    pub after: Option<f64>,
    pub stage: Option<String>,
    /// The picture in base64; none where it is too large for the page.
    pub png: Option<String>,
}

/// The result of a trial of this image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    pub target: String,
    pub is_good: bool,
    pub outcome: String,
    pub summary: String,
    /// Relative to the output folder.
    pub page: Option<String>,
}

/// The page of the build whose output folder this is, as it is now.
pub fn page_of(folder: &Path, recording: &Recording) -> Result<Page> {
    page_at(folder, &folder.join(REPORT), recording)
}

/// What became of the build whose output folder this is; none where it has no records of one.
pub fn of(folder: &Path, recording: &Recording) -> Result<Option<Story>> {
    let has = |file: &str| folder.join(file).exists();
    match has(read::EVENTS) || has(crate::record::built::MANIFEST) {
        true => read::story(folder, &folder.join(REPORT), recording).map(Some),
        false => Ok(None),
    }
}

/// Writes it.
pub fn write(folder: &Path, to: &Path, recording: &Recording) -> Result<()> {
    let page = page_at(folder, to, recording)?;
    write_atomically(to, page.html().as_bytes())
}

/// `to`: where the page will lie.
fn page_at(folder: &Path, to: &Path, recording: &Recording) -> Result<Page> {
    read::story(folder, to, recording).map(|story| page(&story))
}

fn no_records(folder: &Path) -> Error {
    Error::new(Kind::Recipe, "there are no records of a build here")
        .at(folder.display())
        .expected("the output folder of `winimg build`: events.jsonl or manifest.json")
        .cure("name the folder that holds the build's events.jsonl")
}
