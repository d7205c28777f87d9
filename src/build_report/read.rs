//! Reads a report from the records in a build's output folder.
//!
//! Ignores unknown data; refuses a folder without records. Ignores the records of an earlier build
//! in the same folder, which are older than the first event.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Deserialize;

use winimg_base::error::{Error, Result};
use winimg_base::io::{self, ContainedFileError};

use super::timeline::Timeline;
use super::{
    BuildReport, BuildState, REPORT, ReportScreen, ReportStep, ReportStepEnd, ReportTrial,
    next_steps, no_records,
};
use crate::engine::evidence::{self, FailureRecord, TraceRecording};
use crate::page::read_png_base64;
use crate::record::{BuildManifest, writer};
use crate::report::stream::{self, EventLine};
use crate::trial::result::TrialResult;
use crate::usage::{self, DiskUsage};

pub const EVENTS: &str = "events.jsonl";
/// Lines shown of each step's log.
const LAST_LINES: usize = 40;
/// Bytes read at the end of a log for these lines.
const LAST_BYTES: usize = 64 << 10;
/// Maximum size of all pictures on the page, in base64.
const PICTURES: usize = 8 << 20;
const MAX_FILES: usize = 400;

/// Reads the report for the page `to`.
pub fn read_report(folder: &Path, to: &Path, recording: &TraceRecording) -> Result<BuildReport> {
    let timeline = read_timeline(folder, recording)?;
    let manifest = read_manifest(folder, &timeline)?;
    if timeline.is_none() && manifest.is_none() {
        return Err(no_records(folder));
    }
    let timeline = timeline.unwrap_or_default();
    let state = match (&timeline.state, &manifest) {
        // A build writes its manifest last.
        (BuildState::Open, Some(_)) => BuildState::Built,
        (state, _) => state.clone(),
    };
    let built = manifest.filter(|_| state == BuildState::Built);
    let failure = match &state {
        BuildState::Failed(_) => {
            FailureRecord::read(folder).filter(|f| is_of(&timeline, &f.failed_at))
        }
        _ => None,
    };
    let trials = read_trials(folder, &timeline, built.as_ref());
    let steps = merge_steps(folder, &timeline, built.as_ref(), recording);
    let named = [
        built.as_ref().map(|m| m.recipe.name.clone()),
        failure.as_ref().map(|f| f.recipe.clone()),
        timeline.name.clone(),
    ];
    let recipe = named.into_iter().flatten().next();
    Ok(BuildReport {
        recipe: recipe.unwrap_or_else(|| "an image".into()),
        next_steps: built
            .as_ref()
            .map(next_steps::list_next_steps)
            .unwrap_or_default(),
        // It is written and removed together with the manifest.
        usage: built.as_ref().and_then(|_| {
            let record = io::find_contained_file(folder, usage::FILE).ok()?;
            DiskUsage::read(&record.path).ok()
        }),
        components: match &built {
            Some(manifest) => manifest.inputs.iter().map(Into::into).collect(),
            None => timeline.components.clone(),
        },
        screens: read_screens(folder),
        files: list_files(folder),
        base: compute_base(folder, to),
        state,
        timeline,
        failure,
        built,
        steps,
        trials,
    })
}

/// Returns true if a record of this time is not older than the build's first event. A manifest has
/// whole seconds.
fn is_of(timeline: &Timeline, moment: &str) -> bool {
    let moment: Option<Timestamp> = moment.parse().ok();
    match (moment, timeline.began) {
        (Some(moment), Some(began)) => moment.as_second() >= began.as_second(),
        (_, began) => began.is_none(),
    }
}

fn read_timeline(folder: &Path, recording: &TraceRecording) -> Result<Option<Timeline>> {
    let path = folder.join(EVENTS);
    let Some(found) = find_record(folder, EVENTS)? else {
        return Ok(None);
    };
    let bytes =
        io::read_limited(&found, io::limit::RECORD).map_err(|e| Error::io("read", &path, e))?;
    let text = recording.redact(&String::from_utf8_lossy(&bytes));
    let mut timeline = Timeline::default();
    for EventLine { time, event } in
        stream::parse_stream(&text).map_err(|e| e.at(path.display()))?
    {
        timeline.handle(time, &event);
    }
    Ok(Some(timeline))
}

fn read_manifest(folder: &Path, timeline: &Option<Timeline>) -> Result<Option<BuildManifest>> {
    let Some(path) = find_record(folder, writer::MANIFEST)? else {
        return Ok(None);
    };
    let manifest = BuildManifest::read(&path)?;
    let is_current = timeline
        .as_ref()
        .is_none_or(|c| c.unchanged || is_of(c, &manifest.finished));
    Ok(is_current.then_some(manifest))
}

/// Returns the path of a record in the folder, or `None` if it does not exist. The folder may come
/// from another host: nothing outside of it may get into the page.
fn find_record(folder: &Path, name: &str) -> Result<Option<PathBuf>> {
    match io::find_contained_file(folder, name) {
        Ok(found) => Ok(Some(found.path)),
        Err(ContainedFileError::Missing) => Ok(None),
        Err(why) => Err(Error::failed(format!("{name} {why}")).at(folder.display())),
    }
}

/// Returns the text of a file in the folder, if it is readable.
fn read_text(folder: &Path, name: &str) -> Option<String> {
    let path = io::find_contained_file(folder, name).ok()?.path;
    io::read_text_limited(&path, io::limit::RECORD).ok()
}

/// Lists the files in a subfolder, relative to it.
fn names_below(folder: &Path, below: &str) -> Vec<String> {
    let below = format!("{below}/");
    io::own_files_below(folder)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|name| Some(name.strip_prefix(&below)?.to_owned()))
        .collect()
}

/// Merges each step's data from the events and from the manifest; steps of an earlier build are
/// only in the manifest.
fn merge_steps(
    folder: &Path,
    timeline: &Timeline,
    built: Option<&BuildManifest>,
    recording: &TraceRecording,
) -> Vec<ReportStep> {
    let logs = names_below(folder, "logs");
    let mut steps: Vec<ReportStep> = match built {
        Some(manifest) => (1..)
            .zip(&manifest.steps)
            .map(|(number, step)| {
                let known = timeline.steps.iter().find(|s| s.number == number);
                ReportStep {
                    number,
                    name: step.name.clone(),
                    verb: Some(step.verb.clone()),
                    place: step.place.clone(),
                    commands: known.map_or_else(Vec::new, |s| s.commands.clone()),
                    exit_codes: step.exit_codes.clone(),
                    seconds: Some(step.seconds),
                    end: match (&step.skipped, known) {
                        (Some(when), _) => ReportStepEnd::Skipped(when.clone()),
                        (None, Some(_)) => ReportStepEnd::Done,
                        (None, None) => ReportStepEnd::Layer,
                    },
                    log: None,
                }
            })
            .collect(),
        None => timeline.steps.clone(),
    };
    for step in &mut steps {
        let prefix = format!("{:02}-", step.number);
        step.log = logs
            .iter()
            .filter(|name| name.starts_with(&prefix))
            .find_map(|name| {
                let file = format!("logs/{name}");
                let end = evidence::last_lines_of(&folder.join(&file), LAST_BYTES, LAST_LINES)?;
                Some((file, recording.redact(&end)))
            });
    }
    steps
}

fn read_trials(
    folder: &Path,
    timeline: &Timeline,
    built: Option<&BuildManifest>,
) -> Vec<ReportTrial> {
    let mut tried: Vec<ReportTrial> = names_below(folder, "try")
        .iter()
        .filter(|name| name.ends_with(".json") && !name.contains('/'))
        .filter_map(|name| {
            let text = read_text(folder, &format!("try/{name}"))?;
            let trial: TrialResult = serde_json::from_str(&text).ok()?;
            let is_ours = match (built, &trial.image.sha256) {
                (Some(m), Some(sha256)) => m.artifacts.iter().any(|a| a.sha256 == *sha256),
                _ => is_of(timeline, &trial.finished),
            };
            let page = format!("try/{}.html", trial.target);
            is_ours.then(|| ReportTrial {
                is_good: trial.is_good(),
                outcome: trial.describe_outcome(),
                summary: trial.summarize(),
                page: Some(page).filter(|page| folder.join(page).exists()),
                target: trial.target,
            })
        })
        .collect();
    tried.sort_by(|a, b| a.target.cmp(&b.target));
    tried
}

/// A line of `times.jsonl`.
#[derive(Default, Deserialize)]
struct ScreenTime {
    file: String,
    time: Option<String>,
    after: Option<f64>,
    stage: Option<String>,
}

/// Reads the screens in the order in which they were taken; as many of the last ones as fit get
/// their pictures.
fn read_screens(folder: &Path) -> Vec<ReportScreen> {
    let mut all = Vec::new();
    for place in [evidence::FOLDER, evidence::SCREENS] {
        let below = names_below(folder, place);
        let times: String = below
            .iter()
            .filter(|name| name.ends_with("times.jsonl"))
            .filter_map(|name| read_text(folder, &format!("{place}/{name}")))
            .collect();
        let mut taken: HashMap<String, ScreenTime> = times
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .map(|taken: ScreenTime| (taken.file.clone(), taken))
            .collect();
        for picture in below.iter().filter(|name| name.ends_with(".png")) {
            let name = picture.rsplit('/').next().unwrap_or(picture);
            let file = format!("{place}/{picture}");
            let entry = taken.remove(name).unwrap_or_default();
            let recorded = entry.time.as_deref().and_then(|time| time.parse().ok());
            let time: Option<Timestamp> =
                recorded.or_else(|| read_modified_time(&folder.join(&file)));
            let screen = ReportScreen {
                time: time.map(|time| time.strftime("%H:%M:%S UTC").to_string()),
                after: entry.after,
                stage: entry.stage,
                png: None,
                file,
            };
            all.push((time, screen));
        }
    }
    all.sort_by(|(a, one), (b, other)| (a, &one.file).cmp(&(b, &other.file)));
    let mut screens: Vec<ReportScreen> = all.into_iter().map(|(_, screen)| screen).collect();
    let mut room = PICTURES;
    for screen in screens.iter_mut().rev() {
        let png = read_png_base64(&folder.join(&screen.file));
        screen.png = png.filter(|png| png.len() <= room);
        room -= screen.png.as_ref().map_or(0, String::len);
    }
    screens
}

fn read_modified_time(path: &Path) -> Option<Timestamp> {
    let time = fs::metadata(path).and_then(|m| m.modified()).ok()?;
    Timestamp::try_from(time).ok()
}

/// Lists the files of the folder with their sizes, by name, without a build's temporary files and
/// the page itself.
fn list_files(folder: &Path) -> Vec<(String, u64)> {
    io::own_files_below(folder)
        .unwrap_or_default()
        .into_iter()
        .filter(|name| !name.starts_with('.') && name != REPORT)
        .take(MAX_FILES)
        .map(|name| {
            let bytes = fs::metadata(folder.join(&name)).map_or(0, |m| m.len());
            (name, bytes)
        })
        .collect()
}

/// Returns the path from the page's folder to the records, as a prefix of links.
fn compute_base(folder: &Path, to: &Path) -> String {
    let folder = canonicalize_if_possible(folder);
    let from = canonicalize_if_possible(io::folder_of(to));
    let shared = folder
        .components()
        .zip(from.components())
        .take_while(|(a, b)| a == b)
        .count();
    let up = "../".repeat(from.components().count() - shared);
    let down: String = folder
        .components()
        .skip(shared)
        .map(|part| format!("{}/", part.as_os_str().to_string_lossy()))
        .collect();
    format!("{up}{down}")
}

fn canonicalize_if_possible(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
