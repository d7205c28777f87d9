//! What a new lock changes, in words; and which versions would go down.

use std::cmp::Ordering;

use super::{Entry, Lock, called, version};
use crate::recipe::{Ask, InputId, KeyFile};
use winimg_base::error::{Error, Kind};

/// The differences of two locks, by input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Which input, what it was, what it is.
    pub rows: Vec<(InputId, String, String)>,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// An input that has to be asked; what it is, nobody knows yet.
    pub fn asked(&mut self, ask: &Ask, was: Option<&Entry>) {
        let is = match ask.version.as_ref() {
            Some(version) => format!("{}, to be asked", version.value),
            None => "to be asked".to_string(),
        };
        let keys = was.and_then(|was| other_keys(was.keys.as_deref()?, &ask.keys));
        let is = match keys {
            Some(keys) => format!("{is}: {keys}"),
            None => is,
        };
        let was = was.map_or("-".to_string(), Entry::shown);
        self.rows.push((ask.id.clone(), was, is));
    }

    /// The inputs of a lock that are not `there` any more.
    pub fn gone(&mut self, old: Option<&Lock>, there: impl Fn(&InputId) -> bool) {
        let gone = old.iter().flat_map(|lock| &lock.inputs);
        for was in gone.filter(|was| !there(&was.id)) {
            self.rows.push((was.id.clone(), was.shown(), "-".into()));
        }
    }

    /// Three columns under their titles, a line each; empty without changes.
    pub fn table(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let title = ("name".to_string(), "was".to_string(), "is".to_string());
        let rows = self.rows.iter();
        let rows = rows.map(|(id, was, is)| (id.to_string(), was.clone(), is.clone()));
        let rows: Vec<_> = std::iter::once(title).chain(rows).collect();
        let width = |column: fn(&(String, String, String)) -> &String| {
            let cells = rows.iter().map(|row| column(row).chars().count());
            cells.max().unwrap_or(0)
        };
        let (names, before) = (width(|r| &r.0), width(|r| &r.1));
        let line = |(name, was, is): &(String, String, String)| {
            format!("{name:names$}  {was:before$}  {is}\n")
        };
        rows.iter().map(line).collect()
    }
}

/// What changes from one lock to the next, in the new one's order, and then what goes.
pub fn between(old: Option<&Lock>, new: &Lock) -> Changes {
    let before = |id: &InputId| old.and_then(|lock| lock.entry(id));
    let mut changes = Changes::default();
    for entry in &new.inputs {
        let row = match before(&entry.id) {
            Some(was) if was == entry => continue,
            Some(was) => (entry.id.clone(), was.shown(), is(was, entry)),
            None => (entry.id.clone(), "-".into(), entry.shown()),
        };
        changes.rows.push(row);
    }
    changes.gone(old, |id| new.entry(id).is_some());
    changes
}

/// `key A in keys/release.pub, which held key B`, for each key file that changed; `None` where none did.
fn other_keys(was: &[KeyFile], is: &[KeyFile]) -> Option<String> {
    let was_file = |file: &str| was.iter().find(|key| key.file == file);
    let mut all: Vec<String> = Vec::new();
    for key in is {
        let before = was_file(&key.file).filter(|before| before.digest != key.digest);
        let said = before
            .map(|before| format!("{} in {}, which held {}", key.key, key.file, before.key))
            .filter(|said| !all.contains(said));
        all.extend(said);
    }
    (!all.is_empty()).then(|| all.join("; "))
}

/// The new entry; with a word more where the file is the same.
fn is(was: &Entry, entry: &Entry) -> String {
    let keys = was.keys.as_deref().zip(entry.keys.as_deref());
    let keys = keys.and_then(|(was, is)| other_keys(was, is));
    let is_same_file = was.digest == entry.digest && was.version == entry.version;
    match (is_same_file, keys) {
        (true, Some(keys)) => return format!("the same file, {keys}"),
        (false, Some(keys)) => return format!("{}, {keys}", entry.shown()),
        (false, None) => return entry.shown(),
        (true, None) => {}
    }
    let what = match (was.asked != entry.asked, was.signers != entry.signers) {
        (true, _) => "asked for otherwise",
        (false, true) => "signed otherwise",
        (false, false) => "proved otherwise",
    };
    format!("the same file, {what}")
}

/// The refusal of versions that go down; `recipe` is shown in the cure.
pub fn lowered(old: &Lock, new: &Lock, recipe: &str) -> Option<Error> {
    let lower = |entry: &&Entry| {
        let was = old.entry(&entry.id);
        let was = was.and_then(|was| was.version.as_deref());
        let order = was
            .zip(entry.version.as_deref())
            .and_then(|(was, is)| version::order(is, was));
        order == Some(Ordering::Less)
    };
    let lines: Vec<String> = new
        .inputs
        .iter()
        .filter(lower)
        .map(|entry| {
            let was = old.entry(&entry.id).map_or(String::new(), Entry::shown);
            format!("{}: {was} -> {}", called(&entry.id), entry.shown())
        })
        .collect();
    if lines.is_empty() {
        return None;
    }
    let error = Error::new(
        Kind::Recipe,
        "the lock would go back to an earlier version than it has",
    );
    Some(error.lines(lines).cure(format!(
        "if that is meant: `winimg lock --allow-rollback {recipe}`"
    )))
}
