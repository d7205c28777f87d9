//! What the page shows besides Windows: the error in its parts, the recipe's lines, the screens, the files.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Deserialize;

use super::page::{Fault, Screen};
use super::redact::Redactor;
use crate::page::picture;
use winimg_base::error::Error;
use winimg_base::text::{Place, masked};

/// Screens on the page.
const SHOWN: usize = 6;
/// Lines of the recipe before and after the one that asked for it.
const BEFORE: usize = 3;
const AFTER: usize = 8;
const MOST_FILES: usize = 300;

/// The error as the page shows it.
pub fn fault(error: &Error, redactor: &Redactor) -> Fault {
    let problem = error.problem();
    let parts = problem.details().into_iter();
    Fault {
        fact: redactor.text(&error.with_causes()),
        cure: error.cure_text().map(|cure| redactor.text(cure)),
        around: problem.place.as_ref().map(around).unwrap_or_default(),
        parts: parts
            .map(|(name, value)| (name, redactor.text(&value)))
            .collect(),
        lines: problem
            .lines
            .iter()
            .map(|line| redactor.text(line))
            .collect(),
    }
}

/// The lines around a place, with their numbers.
fn around(place: &Place) -> Vec<(usize, String, bool)> {
    let (line, _) = place.line_column();
    let text = masked(&place.source.text);
    (1..)
        .zip(text.lines())
        .filter(|(number, _)| (line.saturating_sub(BEFORE)..=line + AFTER).contains(number))
        .map(|(number, text)| (number, text.to_owned(), number == line))
        .collect()
}

#[derive(Clone, Deserialize)]
struct Taken {
    file: String,
    time: Option<String>,
    after: Option<f64>,
    stage: Option<String>,
}

/// The last screens, newest first, and how many there are.
pub fn screens(run_dir: &Path, failure: &Path, copied: &[PathBuf]) -> (Vec<Screen>, usize) {
    let times = times(&failure.join("screens").join("times.jsonl"));
    let mut all: Vec<(Timestamp, &PathBuf, Option<&Taken>)> = copied
        .iter()
        .filter(|path| path.extension().is_some_and(|e| e == "png"))
        .map(|path| {
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("");
            let taken = times.get(name);
            let stated = taken.and_then(|t| t.time.as_deref()?.parse().ok());
            let written = || modified(&run_dir.join(path));
            (stated.or_else(written).unwrap_or_default(), path, taken)
        })
        .collect();
    all.sort_by(|a, b| (b.0, b.1).cmp(&(a.0, a.1)));
    let shown = all.iter().take(SHOWN).map(|(time, path, taken)| Screen {
        file: path.to_string_lossy().into_owned(),
        time: Some(time.strftime("%H:%M:%S UTC").to_string()),
        after: taken.and_then(|t| t.after),
        stage: taken.and_then(|t| t.stage.clone()),
        png: picture(&failure.join(path)),
    });
    (shown.collect(), all.len())
}

fn times(path: &Path) -> HashMap<String, Taken> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let taken = text.lines().filter_map(|l| serde_json::from_str(l).ok());
    taken.map(|t: Taken| (t.file.clone(), t)).collect()
}

fn modified(path: &Path) -> Option<Timestamp> {
    let time = fs::metadata(path).and_then(|m| m.modified()).ok()?;
    Timestamp::try_from(time).ok()
}

/// The files of the evidence with their sizes, by name.
pub fn files(failure: &Path) -> Vec<(String, u64)> {
    let names = winimg_base::io::files_below(failure).unwrap_or_default();
    let listed = names.into_iter().take(MOST_FILES);
    listed
        .map(|name| {
            let bytes = fs::metadata(failure.join(&name)).map_or(0, |m| m.len());
            (name, bytes)
        })
        .collect()
}
