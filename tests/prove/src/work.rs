//! A row's folder, and what is kept of the row in it: written before its first stage and after each, so that an interrupt costs one stage.
//!
//! A stage that ended well is not done again as long as the row's key is the same; one that failed is.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use winimg_base::io;

use crate::proof::{Row, Stage};
use crate::rows::{Wanted, What};
use crate::site::{Done, at};

/// One thing that is done with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planned {
    Pin,
    Build,
    Verify,
    Try(&'static str),
    Join(&'static str),
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pin => f.write_str("pin"),
            Self::Build => f.write_str("build"),
            Self::Verify => f.write_str("verify"),
            Self::Try(target) => write!(f, "try {target}"),
            Self::Join(target) => write!(f, "join {target}"),
        }
    }
}

/// What is to be done with a row, in its order. `joins`: clones of nodes have a cluster to join.
pub fn planned(wanted: &Wanted, joins: bool) -> Vec<Planned> {
    let mut all = match &wanted.what {
        What::Own { .. } => Vec::new(),
        What::Shipped { .. } => vec![Planned::Pin],
    };
    all.extend([Planned::Build, Planned::Verify]);
    for target in wanted.tries() {
        all.push(Planned::Try(target));
        if joins && wanted.is_node() {
            all.push(Planned::Join(target));
        }
    }
    all
}

/// By what a row was made: SHA-256 of each, lower-case hex.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    pub winimg: String,
    pub medium: String,
    /// Of `probes.toml`.
    pub probes: String,
}

/// `row.json`
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    /// Over everything that goes into the row.
    key: String,
    origin: Origin,
    row: Row,
}

impl Kept {
    fn read(folder: &Path) -> Option<Self> {
        let text = fs::read_to_string(folder.join("row.json")).ok()?;
        serde_json::from_str(&text).ok()
    }
}

/// The row that is kept in this folder, if it was made by the same.
pub fn kept(folder: &Path, origin: &Origin) -> Option<Row> {
    let kept = Kept::read(folder)?;
    (kept.origin == *origin).then_some(kept.row)
}

/// A row that is worked on.
pub struct Work {
    pub folder: PathBuf,
    pub planned: Vec<Planned>,
    pub row: Row,
    key: String,
    origin: Origin,
}

impl Work {
    /// Goes on with what is kept in the folder under this key, or begins with `empty` and this recipe in an empty folder.
    ///
    /// # Errors
    /// The folder cannot be emptied or written.
    pub fn open(
        folder: PathBuf,
        (key, origin): (String, Origin),
        planned: Vec<Planned>,
        empty: Row,
        recipe: &str,
    ) -> Done<Self> {
        let kept = Kept::read(&folder).filter(|kept| kept.key == key);
        if kept.is_none() {
            // There may be none.
            let _ = fs::remove_dir_all(&folder);
            at(&folder, fs::create_dir_all(&folder))?;
            let path = folder.join("recipe.toml");
            at(&path, fs::write(&path, recipe))?;
        }
        let mut work = Self {
            row: kept.map_or(empty, |kept| kept.row),
            folder,
            planned,
            key,
            origin,
        };
        work.forget_failed();
        work.write()?;
        Ok(work)
    }

    /// Takes out what is to be done again.
    fn forget_failed(&mut self) {
        let manifest = self.folder.join("out/manifest.json");
        let is_there = manifest.exists();
        let row = &mut self.row;
        row.stages
            .retain(|stage| stage.is_good() && (is_there || stage.what == "pin"));
        let done: Vec<String> = row.stages.iter().map(|stage| stage.what.clone()).collect();
        let is_done = |what: Planned| done.contains(&what.to_string());
        if !is_done(Planned::Verify) {
            row.verified = None;
        }
        row.trials
            .retain(|trial| done.contains(&format!("try {}", trial.target)));
        row.joins
            .retain(|join| done.contains(&format!("join {}", join.target)));
    }

    pub fn is_done(&self, what: Planned) -> bool {
        let what = what.to_string();
        let mut stages = self.row.stages.iter();
        stages.any(|stage| stage.what == what && stage.is_good())
    }

    /// Whether the stage ended well; its last word is printed where it did not.
    ///
    /// # Errors
    /// What is kept of the row cannot be written.
    pub fn push(&mut self, stage: Stage) -> Done<bool> {
        let is_good = stage.is_good();
        if let (false, Some(said)) = (is_good, &stage.said) {
            println!("     {}", said.replace('\n', "\n     "));
        }
        self.row.stages.push(stage);
        self.write()?;
        Ok(is_good)
    }

    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self) -> Done<()> {
        let begun = |what: &Planned| {
            let what = what.to_string();
            self.row.stages.iter().any(|stage| stage.what == what)
        };
        let missing = self.planned.iter().filter(|what| !begun(what));
        self.row.missing = missing.map(Planned::to_string).collect();
        let kept = Kept {
            key: self.key.clone(),
            origin: self.origin.clone(),
            row: self.row.clone(),
        };
        let text = serde_json::to_string_pretty(&kept).map_err(|e| e.to_string())?;
        // Whole or not at all: one that is cut off would cost the row.
        let file = self.folder.join("row.json");
        io::write_atomically(&file, text.as_bytes()).map_err(|e| e.to_string())
    }
}
