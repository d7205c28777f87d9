//! A lock laid into a recipe, or every way in which the recipe has drifted from it.

use std::path::{Path, PathBuf};

use super::{Entry, Lock, LockFile, called};
use crate::recipe::{Ask, AskedProof, InputId, KeyFile, LockSource, Locked, LockedImage, Recipe};
use winimg_base::diag::{Diagnostic, Diagnostics};
use winimg_base::text::Place;

/// How much of what was asked has to be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// All of it.
    Whole,
    /// All but the queries of URLs: a bundle does not carry them.
    Shown,
}

/// Lays the lock into the recipe's inputs. The complaints: every drift as an error, and as warnings what the lock has
/// and the recipe has not. With an error among them the recipe is as it was.
pub fn lay(recipe: &mut Recipe, file: &LockFile, comparison: Comparison) -> Diagnostics {
    let found = drift(recipe, file, comparison);
    if found.has_errors() {
        return found;
    }
    let path = path_of(recipe);
    let entry = |id: InputId| {
        let entry = file.lock.entry(&id)?;
        Some((entry, source(file, &path, &id, comparison)))
    };
    let locked = |id| entry(id).map(|(entry, source)| entry.locked(source));
    let media = &mut recipe.media;
    media.iso.locked = locked(InputId::Iso);
    if let Some(virtio) = &mut media.virtio {
        virtio.locked = locked(InputId::Virtio);
    }
    for component in &mut recipe.components {
        component.origin.locked = locked(InputId::Component(component.name.value.clone()));
    }
    for image in &mut recipe.images {
        let entry = entry(InputId::Image(image.name.value.clone()));
        image.locked = entry.map(|(entry, source)| LockedImage {
            top: entry
                .evidence
                .first()
                .map_or(&entry.digest, |e| &e.digest)
                .clone(),
            manifest: entry.digest.clone(),
            source,
        });
    }
    found
}

/// The recipe's own file, for a command.
fn path_of(recipe: &Recipe) -> PathBuf {
    let first = recipe.files.first().map(|file| file.path.clone());
    first.unwrap_or_else(|| "RECIPE".into())
}

/// Returns the lock that messages name. That of a bundle is not written again.
fn source(file: &LockFile, recipe: &Path, id: &InputId, comparison: Comparison) -> LockSource {
    match comparison {
        Comparison::Whole => LockSource::of(&file.path, recipe, id),
        Comparison::Shown => LockSource {
            name: file.name.clone(),
            refresh: None,
        },
    }
}

impl LockSource {
    /// Returns the lock's name with the command that resolves the input again and writes it there.
    pub fn of(path: &Path, recipe: &Path, id: &InputId) -> Self {
        let name = path.file_name().unwrap_or(path.as_os_str());
        let folder = path.parent().unwrap_or(Path::new(""));
        let matrix = folder.with_extension("toml");
        let command = if folder.extension().is_some_and(|e| e == "locks") && matrix.is_file() {
            format!("winimg matrix lock {}", matrix.display())
        } else if *path == Lock::beside(recipe) {
            format!("winimg lock {}", recipe.display())
        } else {
            format!("winimg lock {} --lock {}", recipe.display(), path.display())
        };
        Self {
            name: name.to_string_lossy().into_owned(),
            refresh: Some(format!("{command} --refresh {}", id.argument())),
        }
    }
}

impl Entry {
    /// Whether the recipe asks for it as it did.
    pub fn is_asked_by(&self, ask: &Ask) -> bool {
        self.id == ask.id && differences(ask, self, "", Comparison::Whole).is_empty()
    }

    /// What has to be found again, by the lock that `source` names.
    pub fn locked(&self, source: LockSource) -> Locked {
        let evidence = self.evidence.iter();
        Locked {
            digest: self.digest.clone(),
            size: self.size,
            evidence: evidence
                .map(|e| (e.url.clone(), e.digest.clone()))
                .collect(),
            source,
        }
    }
}

/// How the recipe and the lock differ, in words.
pub fn drift(recipe: &Recipe, file: &LockFile, comparison: Comparison) -> Diagnostics {
    let lock = &file.lock;
    let path = path_of(recipe).display().to_string();
    if lock.recipe != recipe.name.value {
        let fact = format!(
            "{} is of the recipe `{}`, and this one is called `{}`",
            file.name, lock.recipe, recipe.name.value
        );
        let help = format!(
            "name the right one with `--lock`; for a recipe that was renamed, remove the lock and run `winimg lock {path}`"
        );
        let complaint = Diagnostic::error(fact)
            .at(&recipe.name.place, "")
            .help(help);
        return Diagnostics(vec![complaint]);
    }
    let mut found = Diagnostics::default();
    for ask in &recipe.asks {
        let facts = match lock.entry(&ask.id) {
            Some(entry) => differences(ask, entry, &file.name, comparison),
            None => {
                let fact = format!("{} is not in {}", called(&ask.id), file.name);
                vec![Difference::new(fact, &ask.place)]
            }
        };
        for difference in facts {
            let help = if difference.is_key {
                format!(
                    "if its publisher changed the key: `winimg lock {path} --refresh {}` judges the file by the new one and records it",
                    ask.id.argument()
                )
            } else {
                format!("`winimg lock {path}` asks for it and writes down what it is")
            };
            let error = Diagnostic::error(difference.fact);
            found.push(error.at(difference.place, "").help(help));
        }
    }
    for (entry, place) in lock.inputs.iter().zip(&file.places) {
        if !recipe.asks.iter().any(|ask| ask.id == entry.id) {
            let fact = format!(
                "{} has {}, which the recipe no longer asks for",
                file.name,
                called(&entry.id)
            );
            let help = format!("`winimg lock {path}` drops it");
            found.push(Diagnostic::warning(fact).at(place, "").help(help));
        }
    }
    found
}

/// One way in which the recipe and the lock differ.
struct Difference<'a> {
    fact: String,
    place: &'a Place,
    /// A key file holds another key, and the recipe itself is the same.
    is_key: bool,
}

impl<'a> Difference<'a> {
    fn new(fact: String, place: &'a Place) -> Self {
        Self {
            fact,
            place,
            is_key: false,
        }
    }
}

/// What is asked now and was not when the lock was written. Another version says it all: URL and pin follow it.
fn differences<'a>(
    ask: &'a Ask,
    entry: &Entry,
    file: &str,
    comparison: Comparison,
) -> Vec<Difference<'a>> {
    let what = called(&ask.id);
    let other = |was: &str, is: &str| {
        format!("{what}: {file} was made for {was}, the recipe asks for {is}")
    };
    let version = ask.version.as_ref().map(|v| v.value.as_str());
    if version != entry.version.as_deref() {
        let was = entry.version.as_ref();
        let was = was.map_or("no version".to_string(), |v| format!("version {v}"));
        let place = ask.version.as_ref().map_or(&ask.place, |v| &v.place);
        let fact = other(&was, version.unwrap_or("none"));
        return vec![Difference::new(fact, place)];
    }
    let mut found = Vec::new();
    if ask.url.value != entry.url {
        let fact = other(&entry.url, &ask.url.value);
        found.push(Difference::new(fact, &ask.url.place));
    }
    // What is not decided yet is listed with what is to be decided.
    if ask.proof.value != AskedProof::Undecided && ask.proof.value != entry.proof {
        let fact = format!(
            "{what}: {file} was made for the proof `{}`, the recipe has `{}`",
            entry.proof, ask.proof.value
        );
        found.push(Difference::new(fact, &ask.proof.place));
    }
    let rules = ask.rules.as_ref();
    let place = rules.map_or(&ask.place, |rules| &rules.place);
    let has_same_rules = rules.map(|r| &r.value) == entry.rules.as_ref();
    if !has_same_rules {
        let difference = match (rules, &entry.rules) {
            (Some(_), None) => "without a signature, the recipe asks for one",
            (Some(_), Some(_)) => "for another signature than the recipe asks for",
            (None, _) => "for a signature, the recipe asks for none",
        };
        let fact = format!("{what}: {file} was made {difference}");
        found.push(Difference::new(fact, place));
    }
    if let Some(was) = entry.keys.as_ref().filter(|_| has_same_rules) {
        found.extend(changed_keys(was, &ask.keys).map(|(was, is)| Difference {
            fact: format!(
                "the key of {what}'s signature changed since {file} was made: {} holds {}, and held {}",
                is.file, is.key, was.key
            ),
            place,
            is_key: true,
        }));
    }
    let whole = entry.asked.as_ref();
    // A lock of schema 2 has a digest over credentials, too: without a query nothing else is left to compare.
    let is_comparable = ask.has_query || entry.keys.is_some();
    let is_decided = ask.proof.value != AskedProof::Undecided;
    let is_other = is_comparable && is_decided && whole.is_some_and(|digest| *digest != ask.digest);
    if found.is_empty() && is_other && comparison == Comparison::Whole {
        let fact = format!("{what}: {file} was made for another query in its URL");
        found.push(Difference::new(fact, &ask.url.place));
    }
    found
}

/// Pairs of key files that hold another key now, what was recorded first. The rules, which name the files, are the same.
fn changed_keys<'a>(
    was: &'a [KeyFile],
    is: &'a [KeyFile],
) -> impl Iterator<Item = (&'a KeyFile, &'a KeyFile)> {
    let mut told: Vec<&str> = Vec::new();
    was.iter().zip(is).filter(move |(was, is)| {
        let is_new = was.digest != is.digest && !told.contains(&is.file.as_str());
        if is_new {
            told.push(&is.file);
        }
        is_new
    })
}
