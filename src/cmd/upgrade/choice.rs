//! Which later versions a recipe can have, each tried on its text.
//!
//! Reads the recipe again with each version alone; writes nothing. Refuses a version that would not lead to another file, or whose
//! digests the recipe cannot hold.

use std::result::Result as Outcome;

use winimg_base::diag::{Diagnostics, Severity};
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::plan;
use winimg_recipe::recipe::{Address, Component, ProofSpec, Put, Recipe, Slot, put};

use crate::cmd::documents::{Left, Taken};
use crate::cmd::source::Source;
use crate::cmd::successors::Listed;

use super::{Selection, Upgrade, component};

/// A version that a component is to have, and the key that holds it.
pub(super) struct Choice<'r> {
    component: &'r Component,
    slot: &'r Slot,
    /// As the key is written: with `v` or without.
    value: String,
}

/// What is taken; what is not is noted, or an error where it was named.
pub(super) fn choose<'r>(
    selection: &Selection,
    all: &[Listed],
    source: &Source,
    recipe: &'r Recipe,
    upgrade: &mut Upgrade,
) -> Result<Vec<Choice<'r>>> {
    let mut choices: Vec<Choice<'r>> = Vec::new();
    let mut refused = Vec::new();
    for one in all {
        let later = match selection.choice(one) {
            None => continue,
            Some(Err(left)) => {
                upgrade.left.push(left);
                continue;
            }
            Some(Ok(later)) => later,
        };
        let Some(component) = component(recipe, &one.name) else {
            continue;
        };
        let found = Choice::new(component, &later).and_then(|choice| {
            choice.alone_among(&choices)?;
            choice.try_out(&upgrade.before, source, recipe)?;
            Ok(choice)
        });
        match found {
            Ok(choice) => {
                upgrade.taken.push(Taken {
                    name: one.name.clone(),
                    was: one.version.clone(),
                    is: later,
                    key: choice.slot.to_string(),
                });
                choices.push(choice);
            }
            Err(why) if selection.is_named(&one.name) => {
                let fact = format!("{later} of `{}` cannot be taken: {why}", one.name);
                let cure = "write the version where the old one is, or its variables under [vars], and run `winimg lock`";
                let error = Error::new(Kind::Recipe, fact).from_place(&component.name.place);
                refused.push(error.cure(cure));
            }
            Err(why) => upgrade.left.push(Left {
                name: one.name.clone(),
                version: one.version.clone(),
                later,
                why,
            }),
        }
    }
    match refused.len() {
        0 => Ok(choices),
        1 => Err(refused.remove(0)),
        n => {
            let fact = format!("{n} versions cannot be taken");
            Err(Error::of_several(Kind::Recipe, fact, &refused))
        }
    }
}

impl<'r> Choice<'r> {
    fn new(component: &'r Component, later: &str) -> Outcome<Self, String> {
        let slot = match &component.version_slot {
            Some(Ok(slot)) => slot,
            Some(Err(why)) => return Err(format!("its version {why}")),
            None => return Err("it has no version".into()),
        };
        let value = match slot.written.starts_with('v') {
            true => format!("v{}", bare(later)),
            false => bare(later).to_string(),
        };
        Ok(Self {
            component,
            slot,
            value,
        })
    }

    pub(super) fn puts(&self) -> impl Iterator<Item = Put<'_>> {
        at(self.slot, &self.value, None)
    }

    /// Whether no other choice needs another value in the same key.
    fn alone_among(&self, others: &[Self]) -> Outcome<(), String> {
        let same = |other: &&Self| other.slot == self.slot && other.value != self.value;
        match others.iter().find(same) {
            None => Ok(()),
            Some(other) => Err(format!(
                "it shares {} with {}, which is to be {}",
                self.slot, other.component.name.value, other.value
            )),
        }
    }

    /// Whether the recipe with this version alone is good, and names another file.
    fn try_out(&self, text: &str, source: &Source, recipe: &Recipe) -> Outcome<(), String> {
        let text = put(text, &self.puts().collect::<Vec<_>>())?;
        let new = reread(source, &text).map_err(|found| {
            let mut errors = found.0.iter().filter(|d| d.severity == Severity::Error);
            let first = errors.next().map(|d| d.problem.fact.clone());
            format!("the recipe would be wrong: {}", first.unwrap_or_default())
        })?;
        let name = self.component.name.value.as_str();
        let changed = component(&new, name).ok_or("it would be gone")?;
        let (was, is) = (&self.component.version, &changed.version);
        if is.as_deref().map(bare) != Some(bare(&self.value)) {
            return Err(format!("{} would not change its version", self.slot));
        }
        let url = &changed.origin.url.value;
        if *url == self.component.origin.url.value {
            return Err("its URL does not name its version".into());
        }
        let was = bare(was.as_deref().unwrap_or_default());
        if let Some(old) = named_otherwise(was, bare(&self.value), url) {
            return Err(format!("its URL would still name {old}: {url}"));
        }
        for new in other_versions(recipe, &new) {
            if let Some(Err(why)) = &new.digest_slot {
                return Err(format!("the digest of {} {why}", new.name.value));
            }
        }
        Ok(())
    }
}

fn bare(version: &str) -> &str {
    version.strip_prefix('v').unwrap_or(version)
}

/// How the address of a later version still names the one before, as it is or with other separators.
fn named_otherwise(before: &str, later: &str, address: &Address) -> Option<String> {
    let text = match address {
        Address::Remote(url) => url.to_string(),
        Address::Local(path) => path.display().to_string(),
    };
    // 1.36.10 begins as 1.36.1.
    let text = text.replace(later, "");
    let spellings = ["_", "-", "."].map(|between| before.replace('.', between));
    // A single number is in many an address.
    let mut spellings = spellings.into_iter().filter(|_| before.contains('.'));
    spellings.find(|spelling| text.contains(spelling.as_str()))
}

/// A key of the recipe with what is to stand in it.
pub(super) fn at<'a>(
    slot: &'a Slot,
    value: &'a str,
    remark: Option<&'a str>,
) -> impl Iterator<Item = Put<'a>> {
    slot.keys.iter().map(move |key| Put {
        tables: slot.tables.iter().map(String::as_str).collect(),
        key,
        value: value.into(),
        instead_of: None,
        remark: remark.map(Into::into),
    })
}

/// The components of `new` with another URL and the old digest.
pub(super) fn other_versions<'n>(
    old: &'n Recipe,
    new: &'n Recipe,
) -> impl Iterator<Item = &'n Component> {
    new.components.iter().filter(|is| {
        component(old, &is.name.value).is_some_and(|was| {
            let (ProofSpec::Digest(before), ProofSpec::Digest(after)) =
                (&was.origin.proof, &is.origin.proof)
            else {
                return false;
            };
            was.origin.url.value != is.origin.url.value && before.value == after.value
        })
    })
}

impl Selection {
    /// The version to take, or why a later one is left; nothing where there is none.
    fn choice(&self, one: &Listed) -> Option<Outcome<String, Left>> {
        let later = one.later.as_ref().ok()?;
        let newest = later.newest.clone()?;
        if self.newest.contains(&one.name) {
            return Some(Ok(newest));
        }
        let left = |newest: String| Left {
            name: one.name.clone(),
            version: one.version.clone(),
            why: format!("it is of another series (`--newest {}` takes it)", one.name),
            later: newest,
        };
        Some(later.in_series.clone().ok_or_else(|| left(newest)))
    }
}

/// The recipe with another text.
pub(super) fn reread(source: &Source, text: &str) -> Outcome<Recipe, Diagnostics> {
    let mut options = source.options.clone();
    options.edited = Some(text.into());
    let (recipe, diagnostics) = plan::read(&source.path, &options);
    let recipe = recipe.ok_or(diagnostics)?;
    plan::make(&recipe)?;
    Ok(recipe)
}
