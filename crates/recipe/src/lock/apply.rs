//! Applies a lock to a recipe, or reports every way in which the recipe has drifted from it.

use std::path::{Path, PathBuf};

use super::{LockEntry, LockFile, RecipeLock, name_input};
use crate::{
    InputId, KeyFile, LockRequest, LockSource, LockedImage, LockedInput, Recipe, RequestedProof,
};
use winimg_base::diag::{Diagnostic, Diagnostics};
use winimg_base::text::Place;

/// Strictness of the comparison between recipe and lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockComparison {
    /// Everything is compared.
    Full,
    /// Queries of URLs are ignored, because a bundle does not contain them.
    WithoutQueries,
}

/// Applies the lock to the recipe's inputs. Every drift is an error; inputs that only the lock has
/// are warnings. On error the recipe is unchanged.
pub fn apply_lock(recipe: &mut Recipe, file: &LockFile, comparison: LockComparison) -> Diagnostics {
    let found = find_drift(recipe, file, comparison);
    if found.has_errors() {
        return found;
    }
    let path = recipe_path(recipe);
    let locked = |id: &InputId| {
        let entry = file.lock.find_entry(id)?;
        Some(entry.to_locked(choose_source(file, &path, id, comparison)))
    };
    recipe.media.iso.locked = locked(&InputId::Iso);
    if let Some(virtio) = &mut recipe.media.virtio {
        virtio.locked = locked(&InputId::Virtio);
    }
    for component in &mut recipe.components {
        let id = InputId::Component(component.name.value.clone());
        component.origin.locked = locked(&id);
    }
    for image in &mut recipe.images {
        let id = InputId::Image(image.name.value.clone());
        image.locked = file.lock.find_entry(&id).map(|entry| LockedImage {
            top: entry
                .evidence
                .first()
                .map_or(&entry.digest, |e| &e.digest)
                .clone(),
            manifest: entry.digest.clone(),
            source: choose_source(file, &path, &id, comparison),
        });
    }
    found
}

/// Returns the path of the recipe's own file, for use in a command.
fn recipe_path(recipe: &Recipe) -> PathBuf {
    let first = recipe.files.first().map(|file| file.path.clone());
    first.unwrap_or_else(|| "RECIPE".into())
}

/// Returns the lock to name in messages. A bundle's lock is never rewritten.
fn choose_source(
    file: &LockFile,
    recipe: &Path,
    id: &InputId,
    comparison: LockComparison,
) -> LockSource {
    match comparison {
        LockComparison::Full => LockSource::for_input(&file.path, recipe, id),
        LockComparison::WithoutQueries => LockSource {
            name: file.name.clone(),
            refresh: None,
        },
    }
}

impl LockSource {
    /// Returns the lock's name with the command that resolves the input again and writes it there.
    pub fn for_input(path: &Path, recipe: &Path, id: &InputId) -> Self {
        let name = path.file_name().unwrap_or(path.as_os_str());
        let folder = path.parent().unwrap_or(Path::new(""));
        let matrix = folder.with_extension("toml");
        let command = if folder.extension().is_some_and(|e| e == "locks") && matrix.is_file() {
            format!("winimg matrix lock {}", matrix.display())
        } else if *path == RecipeLock::path_for(recipe) {
            format!("winimg lock {}", recipe.display())
        } else {
            format!("winimg lock {} --lock {}", recipe.display(), path.display())
        };
        Self {
            name: name.to_string_lossy().into_owned(),
            refresh: Some(format!("{command} --refresh {}", id.to_argument())),
        }
    }
}

impl LockEntry {
    /// Returns true if the recipe still requests the input in the same way.
    pub fn matches_request(&self, request: &LockRequest) -> bool {
        self.id == request.id
            && find_differences(request, self, "", LockComparison::Full).is_empty()
    }

    /// Returns what must be found again according to the lock that `source` names.
    pub fn to_locked(&self, source: LockSource) -> LockedInput {
        LockedInput {
            digest: self.digest.clone(),
            size: self.size,
            evidence: self
                .evidence
                .iter()
                .map(|e| (e.url.clone(), e.digest.clone()))
                .collect(),
            source,
        }
    }
}

/// Reports how the recipe and the lock differ.
pub fn find_drift(recipe: &Recipe, file: &LockFile, comparison: LockComparison) -> Diagnostics {
    let lock = &file.lock;
    let path = recipe_path(recipe).display().to_string();
    if lock.recipe != recipe.name.value {
        let fact = format!(
            "{} belongs to the recipe `{}`, but this one is named `{}`",
            file.name, lock.recipe, recipe.name.value
        );
        let help = format!(
            "pass the right lock with `--lock`; if the recipe was renamed, remove the lock and run \
             `winimg lock {path}`"
        );
        let error = Diagnostic::error(fact)
            .at(&recipe.name.place, "")
            .help(help);
        return Diagnostics(vec![error]);
    }
    let mut found = Diagnostics::default();
    for request in &recipe.lock_requests {
        let facts = match lock.find_entry(&request.id) {
            Some(entry) => find_differences(request, entry, &file.name, comparison),
            None => {
                let fact = format!("{} is not in {}", name_input(&request.id), file.name);
                vec![LockDifference::new(fact, &request.place)]
            }
        };
        for difference in facts {
            let help = if difference.is_key {
                format!(
                    "if its publisher changed the key: `winimg lock {path} --refresh {}` checks \
                     the file with the new key and records it",
                    request.id.to_argument()
                )
            } else {
                format!("run `winimg lock {path}` to resolve and record it")
            };
            let error = Diagnostic::error(difference.fact);
            found.push(error.at(difference.place, "").help(help));
        }
    }
    for (entry, place) in lock.inputs.iter().zip(&file.places) {
        if !recipe
            .lock_requests
            .iter()
            .any(|request| request.id == entry.id)
        {
            let fact = format!(
                "{} has {}, which the recipe no longer uses",
                file.name,
                name_input(&entry.id)
            );
            let help = format!("run `winimg lock {path}` to remove it");
            found.push(Diagnostic::warning(fact).at(place, "").help(help));
        }
    }
    found
}

/// One way in which the recipe and the lock differ.
struct LockDifference<'a> {
    fact: String,
    place: &'a Place,
    /// A key file contains a different key; the recipe itself is unchanged.
    is_key: bool,
}

impl<'a> LockDifference<'a> {
    fn new(fact: String, place: &'a Place) -> Self {
        Self {
            fact,
            place,
            is_key: false,
        }
    }
}

/// Returns the parts of the request that changed since the lock was written. If the version
/// changed, only that is reported, because the URL and the pin follow from it.
fn find_differences<'a>(
    request: &'a LockRequest,
    entry: &LockEntry,
    file: &str,
    comparison: LockComparison,
) -> Vec<LockDifference<'a>> {
    let what = name_input(&request.id);
    let version = request.version.as_ref().map(|v| v.value.as_str());
    if version != entry.version.as_deref() {
        let locked = entry.version.as_ref();
        let locked = locked.map_or("no version".to_string(), |v| format!("version {v}"));
        let place = request
            .version
            .as_ref()
            .map_or(&request.place, |v| &v.place);
        let requested = version.unwrap_or("none");
        let fact = format!("{what}: {file} was made for {locked}, the recipe asks for {requested}");
        return vec![LockDifference::new(fact, place)];
    }
    let mut found = Vec::new();
    if request.url.value != entry.url {
        let (locked, requested) = (&entry.url, &request.url.value);
        let fact = format!("{what}: {file} was made for {locked}, the recipe asks for {requested}");
        found.push(LockDifference::new(fact, &request.url.place));
    }
    // An undecided proof is already listed with the other open decisions.
    if request.proof.value != RequestedProof::Undecided && request.proof.value != entry.proof {
        let fact = format!(
            "{what}: {file} was made with the proof `{}`, the recipe has `{}`",
            entry.proof, request.proof.value
        );
        found.push(LockDifference::new(fact, &request.proof.place));
    }
    let rules = request.rules.as_ref();
    let place = rules.map_or(&request.place, |rules| &rules.place);
    let has_same_rules = rules.map(|r| &r.value) == entry.rules.as_ref();
    if !has_same_rules {
        let difference = match (rules, &entry.rules) {
            (Some(_), None) => "now requires a signature",
            (Some(_), Some(_)) => "changed its signature rule",
            (None, _) => "no longer requires a signature",
        };
        let fact = format!("{what}: the recipe {difference} since {file} was written");
        found.push(LockDifference::new(fact, place));
    }
    if let Some(was) = entry.keys.as_ref().filter(|_| has_same_rules) {
        found.extend(changed_keys(was, &request.keys).map(|(was, is)| LockDifference {
            fact: format!(
                "the key of {what}'s signature changed since {file} was written: {} contains {} \
                 (was {})",
                is.file, is.key, was.key
            ),
            place,
            is_key: true,
        }));
    }
    let locked_digest = entry.asked.as_ref();
    // The digest in a lock of schema 2 also covers credentials, so it is comparable only if the
    // URL has a query.
    let is_comparable = request.has_query || entry.keys.is_some();
    let is_decided = request.proof.value != RequestedProof::Undecided;
    let is_different = is_comparable
        && is_decided
        && locked_digest.is_some_and(|digest| *digest != request.digest);
    if found.is_empty() && is_different && comparison == LockComparison::Full {
        let fact = format!("{what}: {file} was made with a different query in its URL");
        found.push(LockDifference::new(fact, &request.url.place));
    }
    found
}

/// Returns the pairs of key files (recorded, present) whose key changed. The rules, which name the
/// files, are the same.
fn changed_keys<'a>(
    was: &'a [KeyFile],
    is: &'a [KeyFile],
) -> impl Iterator<Item = (&'a KeyFile, &'a KeyFile)> {
    let mut reported: Vec<&str> = Vec::new();
    was.iter().zip(is).filter(move |(was, is)| {
        let is_new = was.digest != is.digest && !reported.contains(&is.file.as_str());
        if is_new {
            reported.push(&is.file);
        }
        is_new
    })
}
