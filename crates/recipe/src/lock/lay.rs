//! A lock laid into a recipe, or every way in which the recipe has drifted from it.

use super::{Entry, LockFile, called};
use crate::recipe::{Ask, InputId, Locked, LockedImage, Recipe};
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
    let lock = &file.lock;
    let media = &mut recipe.media;
    media.iso.locked = lock.entry(&InputId::Iso).map(Entry::locked);
    if let Some(virtio) = &mut media.virtio {
        virtio.locked = lock.entry(&InputId::Virtio).map(Entry::locked);
    }
    for component in &mut recipe.components {
        let id = InputId::Component(component.name.value.clone());
        component.origin.locked = lock.entry(&id).map(Entry::locked);
    }
    for image in &mut recipe.images {
        let entry = lock.entry(&InputId::Image(image.name.value.clone()));
        image.locked = entry.map(|entry| LockedImage {
            top: entry
                .evidence
                .first()
                .map_or(&entry.digest, |e| &e.digest)
                .clone(),
            manifest: entry.digest.clone(),
        });
    }
    found
}

impl Entry {
    /// Whether the recipe asks for it as it did.
    pub fn is_asked_by(&self, ask: &Ask) -> bool {
        self.id == ask.id && differences(ask, self, "", Comparison::Whole).is_empty()
    }

    /// What has to be found again.
    pub fn locked(&self) -> Locked {
        let evidence = self.evidence.iter();
        Locked {
            digest: self.digest.clone(),
            size: self.size,
            evidence: evidence
                .map(|e| (e.url.clone(), e.digest.clone()))
                .collect(),
        }
    }
}

/// How the recipe and the lock differ, in words.
pub fn drift(recipe: &Recipe, file: &LockFile, comparison: Comparison) -> Diagnostics {
    let lock = &file.lock;
    let path = recipe.files.first().map(|f| f.path.display().to_string());
    let path = path.unwrap_or_else(|| "RECIPE".into());
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
                vec![(fact, &ask.place)]
            }
        };
        for (fact, place) in facts {
            let help = format!("`winimg lock {path}` asks for it and writes down what it is");
            found.push(Diagnostic::error(fact).at(place, "").help(help));
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

/// What is asked now and was not when the lock was written. Another version says it all: URL and pin follow it.
fn differences<'a>(
    ask: &'a Ask,
    entry: &Entry,
    file: &str,
    comparison: Comparison,
) -> Vec<(String, &'a Place)> {
    let what = called(&ask.id);
    let other = |was: &str, is: &str| {
        format!("{what}: {file} was made for {was}, the recipe asks for {is}")
    };
    let version = ask.version.as_ref().map(|v| v.value.as_str());
    if version != entry.version.as_deref() {
        let was = entry.version.as_ref();
        let was = was.map_or("no version".to_string(), |v| format!("version {v}"));
        let place = ask.version.as_ref().map_or(&ask.place, |v| &v.place);
        return vec![(other(&was, version.unwrap_or("none")), place)];
    }
    let mut facts = Vec::new();
    if ask.url.value != entry.url {
        facts.push((other(&entry.url, &ask.url.value), &ask.url.place));
    }
    if ask.proof.value != entry.proof {
        let fact = format!(
            "{what}: {file} was made for the proof `{}`, the recipe has `{}`",
            entry.proof, ask.proof.value
        );
        facts.push((fact, &ask.proof.place));
    }
    let rules = ask.rules.as_ref();
    if rules.map(|r| &r.value) != entry.rules.as_ref() {
        let difference = match (rules, &entry.rules) {
            (Some(_), None) => "without a signature, the recipe asks for one",
            (Some(_), Some(_)) => "for another signature than the recipe asks for",
            (None, _) => "for a signature, the recipe asks for none",
        };
        let place = rules.map_or(&ask.place, |rules| &rules.place);
        facts.push((format!("{what}: {file} was made {difference}"), place));
    }
    let whole = entry.asked.as_ref();
    let is_other = whole.is_some_and(|digest| *digest != ask.digest);
    if facts.is_empty() && is_other && comparison == Comparison::Whole {
        let fact = format!("{what}: {file} was made for another query in its URL");
        facts.push((fact, &ask.url.place));
    }
    facts
}
