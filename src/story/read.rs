//! A story from the records in a build's output folder.
//!
//! Reads what is there and passes over what it does not know; refuses a folder without any record. Records of an earlier build into
//! the same folder are left out: a record counts only where it is not older than the first event.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Deserialize;

use winimg_base::error::{Error, Result};
use winimg_base::io::{self, NotWithin};

use super::course::Course;
use super::{REPORT, Screen, State, Step, StepEnd, Story, Tried, next, no_records};
use crate::engine::evidence::{self, Failure, Recording};
use crate::page::picture;
use crate::record::{Manifest, built};
use crate::report::stream::{self, Line};
use crate::trial::result::Trial;
use crate::usage::{self, DiskUsage};

pub const EVENTS: &str = "events.jsonl";
/// Of each step's log.
const LAST_LINES: usize = 40;
/// What is read of a log to find them.
const LAST_BYTES: usize = 64 << 10;
/// Of all pictures on the page, in base64.
const PICTURES: usize = 8 << 20;
const MOST_FILES: usize = 400;

/// `to`: where the page will lie.
pub fn story(folder: &Path, to: &Path, recording: &Recording) -> Result<Story> {
    let course = course(folder, recording)?;
    let manifest = manifest(folder, &course)?;
    if course.is_none() && manifest.is_none() {
        return Err(no_records(folder));
    }
    let course = course.unwrap_or_default();
    let state = match (&course.state, &manifest) {
        // It was recorded as the last thing of a build.
        (State::Open, Some(_)) => State::Built,
        (state, _) => state.clone(),
    };
    let built = manifest.filter(|_| state == State::Built);
    let failure = match &state {
        State::Failed(_) => Failure::read(folder).filter(|f| is_of(&course, &f.failed_at)),
        _ => None,
    };
    let tries = tries(folder, &course, built.as_ref());
    let steps = steps(folder, &course, built.as_ref(), recording);
    let named = [
        built.as_ref().map(|m| m.recipe.name.clone()),
        failure.as_ref().map(|f| f.recipe.clone()),
        course.name.clone(),
    ];
    let recipe = named.into_iter().flatten().next();
    Ok(Story {
        recipe: recipe.unwrap_or_else(|| "an image".into()),
        roads: built.as_ref().map(next::roads).unwrap_or_default(),
        // Written with the manifest, and removed where there is none.
        usage: built.as_ref().and_then(|_| {
            let record = io::file_within(folder, usage::FILE).ok()?;
            DiskUsage::read(&record.path).ok()
        }),
        components: match &built {
            Some(manifest) => manifest.inputs.iter().map(Into::into).collect(),
            None => course.components.clone(),
        },
        screens: screens(folder),
        files: files(folder),
        base: base(folder, to),
        state,
        course,
        failure,
        built,
        steps,
        tries,
    })
}

/// Whether a record of this moment is not older than the build's first event. A manifest has whole seconds.
fn is_of(course: &Course, moment: &str) -> bool {
    let moment: Option<Timestamp> = moment.parse().ok();
    match (moment, course.began) {
        (Some(moment), Some(began)) => moment.as_second() >= began.as_second(),
        (_, began) => began.is_none(),
    }
}

fn course(folder: &Path, recording: &Recording) -> Result<Option<Course>> {
    let path = folder.join(EVENTS);
    let Some(found) = own(folder, EVENTS)? else {
        return Ok(None);
    };
    let bytes = io::read_limited(&found, io::limit::RECORD);
    let bytes = bytes.map_err(|e| Error::io("read", &path, e))?;
    let text = String::from_utf8_lossy(&bytes);
    let text = recording.redacted(&text);
    let mut course = Course::default();
    for Line { time, event } in stream::read(&text).map_err(|e| e.at(path.display()))? {
        course.take(time, &event);
    }
    Ok(Some(course))
}

fn manifest(folder: &Path, course: &Option<Course>) -> Result<Option<Manifest>> {
    let Some(path) = own(folder, built::MANIFEST)? else {
        return Ok(None);
    };
    let manifest = Manifest::read(&path)?;
    let is_of_it = |c: &Course| c.unchanged || is_of(c, &manifest.finished);
    let is_of_it = course.as_ref().is_none_or(is_of_it);
    Ok(Some(manifest).filter(|_| is_of_it))
}

/// The path of a record of the folder; none where there is no such file. The folder may have come from another host: nothing outside
/// of it gets into the page.
fn own(folder: &Path, name: &str) -> Result<Option<PathBuf>> {
    match io::file_within(folder, name) {
        Ok(found) => Ok(Some(found.path)),
        Err(NotWithin::Missing) => Ok(None),
        Err(why) => Err(Error::failed(format!("{name} {why}")).at(folder.display())),
    }
}

/// The text of a file of the folder, if there is one that can be read.
fn text(folder: &Path, name: &str) -> Option<String> {
    let path = io::file_within(folder, name).ok()?.path;
    io::read_text_limited(&path, io::limit::RECORD).ok()
}

/// The files in a folder below, relative to that.
fn names_below(folder: &Path, below: &str) -> Vec<String> {
    let all = io::own_files_below(folder).unwrap_or_default().into_iter();
    let below = format!("{below}/");
    all.filter_map(|name| Some(name.strip_prefix(&below)?.to_owned()))
        .collect()
}

/// What the events say of each step, with what the manifest knows beside it; steps of an earlier build come from the manifest
/// alone.
fn steps(
    folder: &Path,
    course: &Course,
    built: Option<&Manifest>,
    recording: &Recording,
) -> Vec<Step> {
    let logs = names_below(folder, "logs");
    let mut steps: Vec<Step> = match built {
        Some(manifest) => {
            let recorded = (1..).zip(&manifest.steps);
            let known = |number| course.steps.iter().find(|s| s.number == number);
            recorded
                .map(|(number, step)| Step {
                    number,
                    name: step.name.clone(),
                    verb: Some(step.verb.clone()),
                    place: step.place.clone(),
                    commands: known(number).map_or_else(Vec::new, |s| s.commands.clone()),
                    exit_codes: step.exit_codes.clone(),
                    seconds: Some(step.seconds),
                    end: match (&step.skipped, known(number)) {
                        (Some(when), _) => StepEnd::Skipped(when.clone()),
                        (None, Some(_)) => StepEnd::Done,
                        (None, None) => StepEnd::Layer,
                    },
                    log: None,
                })
                .collect()
        }
        None => course.steps.clone(),
    };
    for step in &mut steps {
        let begins = format!("{:02}-", step.number);
        let mut own = logs.iter().filter(|name| name.starts_with(&begins));
        step.log = own.find_map(|name| {
            let file = format!("logs/{name}");
            let end = evidence::last_lines_of(&folder.join(&file), LAST_BYTES, LAST_LINES)?;
            Some((file, recording.redacted(&end)))
        });
    }
    steps
}

fn tries(folder: &Path, course: &Course, built: Option<&Manifest>) -> Vec<Tried> {
    let names = names_below(folder, "try");
    let results = names
        .iter()
        .filter(|name| name.ends_with(".json") && !name.contains('/'));
    let mut tried: Vec<Tried> = results
        .filter_map(|name| {
            let text = text(folder, &format!("try/{name}"))?;
            let trial: Trial = serde_json::from_str(&text).ok()?;
            let is_ours = match (built, &trial.image.sha256) {
                (Some(m), Some(sha256)) => m.artifacts.iter().any(|a| a.sha256 == *sha256),
                _ => is_of(course, &trial.finished),
            };
            let page = format!("try/{}.html", trial.target);
            is_ours.then(|| Tried {
                is_good: trial.is_good(),
                outcome: trial.outcome(),
                summary: trial.summary(),
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
struct Taken {
    file: String,
    time: Option<String>,
    after: Option<f64>,
    stage: Option<String>,
}

/// The screens in the order in which they were taken; the last ones with their pictures, as many as fit.
fn screens(folder: &Path) -> Vec<Screen> {
    let mut all = Vec::new();
    for place in [evidence::FOLDER, evidence::SCREENS] {
        let below = names_below(folder, place);
        let pictures = below.iter().filter(|name| name.ends_with(".png"));
        let times = below.iter().filter(|name| name.ends_with("times.jsonl"));
        let times = times.map(|name| text(folder, &format!("{place}/{name}")));
        let times: String = times.flatten().collect();
        let taken = times.lines().filter_map(|l| serde_json::from_str(l).ok());
        let mut taken: HashMap<String, Taken> = taken.map(|t: Taken| (t.file.clone(), t)).collect();
        for picture in pictures {
            let name = picture.rsplit('/').next().unwrap_or(picture);
            let file = format!("{place}/{picture}");
            let of = taken.remove(name).unwrap_or_default();
            let stated = of.time.as_deref().and_then(|time| time.parse().ok());
            let time: Option<Timestamp> = stated.or_else(|| modified(&folder.join(&file)));
            let screen = Screen {
                time: time.map(|time| time.strftime("%H:%M:%S UTC").to_string()),
                after: of.after,
                stage: of.stage,
                png: None,
                file,
            };
            all.push((time, screen));
        }
    }
    all.sort_by(|(a, one), (b, other)| (a, &one.file).cmp(&(b, &other.file)));
    let mut screens: Vec<Screen> = all.into_iter().map(|(_, screen)| screen).collect();
    let mut room = PICTURES;
    for screen in screens.iter_mut().rev() {
        let png = picture(&folder.join(&screen.file));
        screen.png = png.filter(|png| png.len() <= room);
        room -= screen.png.as_ref().map_or(0, String::len);
    }
    screens
}

fn modified(path: &Path) -> Option<Timestamp> {
    let time = fs::metadata(path).and_then(|m| m.modified()).ok()?;
    Timestamp::try_from(time).ok()
}

/// The files of the folder with their sizes, by name: what a build works with, and the page itself, apart.
fn files(folder: &Path) -> Vec<(String, u64)> {
    let names = io::own_files_below(folder).unwrap_or_default();
    let is_left = |name: &String| !name.starts_with('.') && name != REPORT;
    let listed = names.into_iter().filter(is_left).take(MOST_FILES);
    let sized = |name: String| {
        let bytes = fs::metadata(folder.join(&name)).map_or(0, |m| m.len());
        (name, bytes)
    };
    listed.map(sized).collect()
}

/// From the page's folder to the records, as the beginning of a link.
fn base(folder: &Path, to: &Path) -> String {
    let whole = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let (folder, from) = (whole(folder), whole(io::folder_of(to)));
    let shared = folder.components().zip(from.components());
    let shared = shared.take_while(|(a, b)| a == b).count();
    let up = "../".repeat(from.components().count() - shared);
    let down = folder.components().skip(shared);
    let down = down.map(|part| format!("{}/", part.as_os_str().to_string_lossy()));
    format!("{up}{}", down.collect::<String>())
}
