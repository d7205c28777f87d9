//! Describes what a new lock changes, and refuses versions that would go down.

use std::cmp::Ordering;

use super::{LockEntry, RecipeLock, name_input, version};
use crate::{InputId, KeyFile, LockRequest};
use winimg_base::error::{Error, Kind};

/// The differences of two locks, by input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockChanges {
    /// Which input, what it was, what it is.
    pub rows: Vec<(InputId, String, String)>,
}

impl LockChanges {
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds an input that still has to be resolved, so its new state is unknown.
    pub fn add_unresolved(&mut self, ask: &LockRequest, was: Option<&LockEntry>) {
        let is = match ask.version.as_ref() {
            Some(version) => format!("{}, not resolved yet", version.value),
            None => "not resolved yet".to_string(),
        };
        let is = match was.and_then(|was| other_keys(was.keys.as_deref()?, &ask.keys)) {
            Some(keys) => format!("{is}: {keys}"),
            None => is,
        };
        let was = was.map_or("-".to_string(), LockEntry::describe);
        self.rows.push((ask.id.clone(), was, is));
    }

    /// Adds the inputs of the old lock for which `is_present` is false.
    pub fn add_removed(&mut self, old: Option<&RecipeLock>, is_present: impl Fn(&InputId) -> bool) {
        for was in old.iter().flat_map(|lock| &lock.inputs) {
            if !is_present(&was.id) {
                self.rows.push((was.id.clone(), was.describe(), "-".into()));
            }
        }
    }

    /// Renders three columns under their titles; empty without changes.
    pub fn render_table(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let mut rows = vec![["name", "was", "is"].map(str::to_string)];
        rows.extend(
            self.rows
                .iter()
                .map(|(id, was, is)| [id.to_string(), was.clone(), is.clone()]),
        );
        let (names, before) = (column_width(&rows, 0), column_width(&rows, 1));
        rows.iter()
            .map(|[name, was, is]| format!("{name:names$}  {was:before$}  {is}\n"))
            .collect()
    }
}

/// Returns the width of a column in characters.
fn column_width(rows: &[[String; 3]], column: usize) -> usize {
    rows.iter()
        .map(|row| row[column].chars().count())
        .max()
        .unwrap_or(0)
}

/// Compares two locks: changed inputs in the order of the new lock, then removed inputs.
pub fn compare_locks(old: Option<&RecipeLock>, new: &RecipeLock) -> LockChanges {
    let mut changes = LockChanges::default();
    for entry in &new.inputs {
        let row = match old.and_then(|lock| lock.find_entry(&entry.id)) {
            Some(was) if was == entry => continue,
            Some(was) => (entry.id.clone(), was.describe(), is(was, entry)),
            None => (entry.id.clone(), "-".into(), entry.describe()),
        };
        changes.rows.push(row);
    }
    changes.add_removed(old, |id| new.find_entry(id).is_some());
    changes
}

/// Describes each key file that changed, as in `key A in keys/release.pub (was key B)`.
/// `None` if none changed.
fn other_keys(was: &[KeyFile], is: &[KeyFile]) -> Option<String> {
    let mut all: Vec<String> = Vec::new();
    for key in is {
        let changed = was
            .iter()
            .find(|before| before.file == key.file)
            .filter(|before| before.digest != key.digest)
            .map(|before| format!("{} in {} (was {})", key.key, key.file, before.key))
            .filter(|text| !all.contains(text));
        all.extend(changed);
    }
    (!all.is_empty()).then(|| all.join("; "))
}

/// Describes the new entry, and the reason for the change if the file is the same.
fn is(was: &LockEntry, entry: &LockEntry) -> String {
    let keys = was.keys.as_deref().zip(entry.keys.as_deref());
    let keys = keys.and_then(|(was, is)| other_keys(was, is));
    let is_same_file = was.digest == entry.digest && was.version == entry.version;
    match (is_same_file, keys) {
        (true, Some(keys)) => return format!("the same file, {keys}"),
        (false, Some(keys)) => return format!("{}, {keys}", entry.describe()),
        (false, None) => return entry.describe(),
        (true, None) => {}
    }
    let reason = if was.asked != entry.asked {
        "the recipe's rule for it changed"
    } else if !has_same_signers(was, entry) {
        "its signers changed"
    } else if was.signers != entry.signers && was.evidence == entry.evidence {
        "the details of its signatures changed"
    } else {
        "its evidence changed"
    };
    format!("the same file, {reason}")
}

/// Compares the signers without the times of their signatures and the remarks.
fn has_same_signers(was: &LockEntry, entry: &LockEntry) -> bool {
    was.signers.len() == entry.signers.len()
        && was.signers.iter().zip(&entry.signers).all(|(was, is)| {
            was.scheme == is.scheme && was.signer == is.signer && was.pinned_by == is.pinned_by
        })
}

/// Returns an error if versions would go down; `recipe` is quoted in the fix.
pub fn refuse_lower_versions(old: &RecipeLock, new: &RecipeLock, recipe: &str) -> Option<Error> {
    let lines: Vec<String> = new
        .inputs
        .iter()
        .filter_map(|entry| Some((old.find_entry(&entry.id)?, entry)))
        .filter(|(was, entry)| is_lower(was, entry))
        .map(|(was, entry)| {
            format!(
                "{}: {} -> {}",
                name_input(&entry.id),
                was.describe(),
                entry.describe()
            )
        })
        .collect();
    if lines.is_empty() {
        return None;
    }
    let error = Error::new(Kind::Recipe, "the lock would go back to an earlier version");
    Some(error.lines(lines).cure(format!(
        "if that is intended: `winimg lock --allow-rollback {recipe}`"
    )))
}

fn is_lower(was: &LockEntry, entry: &LockEntry) -> bool {
    let versions = was.version.as_deref().zip(entry.version.as_deref());
    versions.and_then(|(was, is)| version::order(is, was)) == Some(Ordering::Less)
}
