//! Chooses later versions by trying each one in the recipe's text.
//!
//! Reads the recipe again with each version alone; writes nothing. Rejects a version that would not
//! change the file's URL, or whose digests cannot be written into the recipe.

use std::result::Result as Outcome;

use winimg_base::diag::{Diagnostics, Severity};
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::plan;
use winimg_recipe::{ComponentSpec, FileAddress, ProofSpec, Recipe, RecipeEdit, ValueSlot, put};

use crate::cmd::documents::{SkippedVersion, UpgradedVersion};
use crate::cmd::source::RecipeSource;
use crate::cmd::successors::ListedComponent;

use super::{RecipeUpgrade, UpgradeSelection, find_component};

/// A new version of a component, and the recipe key to write it to.
pub(super) struct VersionChoice<'r> {
    component: &'r ComponentSpec,
    slot: &'r ValueSlot,
    /// Value of the key, with or without `v`.
    value: String,
}

/// Chooses versions, and records both chosen and skipped ones in `upgrade`. Fails if a component
/// given by name cannot be upgraded.
pub(super) fn choose<'r>(
    selection: &UpgradeSelection,
    all: &[ListedComponent],
    source: &RecipeSource,
    recipe: &'r Recipe,
    upgrade: &mut RecipeUpgrade,
) -> Result<Vec<VersionChoice<'r>>> {
    let mut choices: Vec<VersionChoice<'r>> = Vec::new();
    let mut refused = Vec::new();
    for one in all {
        let later = match selection.choose_version(one) {
            None => continue,
            Some(Err(left)) => {
                upgrade.left.push(left);
                continue;
            }
            Some(Ok(later)) => later,
        };
        let Some(component) = find_component(recipe, &one.name) else {
            continue;
        };
        let found = VersionChoice::new(component, &later).and_then(|choice| {
            choice.check_conflicts(&choices)?;
            choice.try_out(&upgrade.before, source, recipe)?;
            Ok(choice)
        });
        match found {
            Ok(choice) => {
                upgrade.taken.push(UpgradedVersion {
                    name: one.name.clone(),
                    was: one.version.clone(),
                    is: later,
                    key: choice.slot.to_string(),
                });
                choices.push(choice);
            }
            Err(why) if selection.is_named(&one.name) => {
                let fact = format!("cannot upgrade `{}` to {later}: {why}", one.name);
                let cure = "edit the version in the recipe, or its variables under [vars], \
                            and run `winimg lock`";
                let error = Error::new(Kind::Recipe, fact).or_place(&component.name.place);
                refused.push(error.cure(cure));
            }
            Err(why) => upgrade.left.push(SkippedVersion {
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
            let fact = format!("{n} components cannot be upgraded");
            Err(Error::from_several(Kind::Recipe, fact, &refused))
        }
    }
}

impl<'r> VersionChoice<'r> {
    fn new(component: &'r ComponentSpec, later: &str) -> Outcome<Self, String> {
        let slot = match &component.version_slot {
            Some(Ok(slot)) => slot,
            Some(Err(why)) => return Err(format!("its version {why}")),
            None => return Err("it has no version".into()),
        };
        let value = if slot.written.starts_with('v') {
            format!("v{}", strip_v(later))
        } else {
            strip_v(later).to_string()
        };
        Ok(Self {
            component,
            slot,
            value,
        })
    }

    pub(super) fn to_edits(&self) -> impl Iterator<Item = RecipeEdit<'_>> {
        create_edits(self.slot, &self.value, None)
    }

    /// Fails if another choice needs a different value for the same key.
    fn check_conflicts(&self, others: &[Self]) -> Outcome<(), String> {
        match others
            .iter()
            .find(|other| other.slot == self.slot && other.value != self.value)
        {
            None => Ok(()),
            Some(other) => Err(format!(
                "it shares {} with {}, which is upgraded to {}",
                self.slot, other.component.name.value, other.value
            )),
        }
    }

    /// Checks that the recipe with only this version changed is valid and has a different URL.
    fn try_out(&self, text: &str, source: &RecipeSource, recipe: &Recipe) -> Outcome<(), String> {
        let text = put(text, &self.to_edits().collect::<Vec<_>>())?;
        let new = read_changed(source, &text).map_err(|found| {
            let first = found
                .0
                .iter()
                .find(|d| d.severity == Severity::Error)
                .map(|d| d.problem.fact.clone());
            format!("the recipe would be invalid: {}", first.unwrap_or_default())
        })?;
        let name = self.component.name.value.as_str();
        let changed = find_component(&new, name).ok_or("it would disappear from the recipe")?;
        let (was, is) = (&self.component.version, &changed.version);
        if is.as_deref().map(strip_v) != Some(strip_v(&self.value)) {
            return Err(format!(
                "setting {} would not change its version",
                self.slot
            ));
        }
        let url = &changed.origin.url.value;
        if *url == self.component.origin.url.value {
            return Err("its URL does not contain the version".into());
        }
        let was = strip_v(was.as_deref().unwrap_or_default());
        if let Some(old) = find_old_version(was, strip_v(&self.value), url) {
            return Err(format!("its URL would still contain {old}: {url}"));
        }
        for new in find_stale_digests(recipe, &new) {
            if let Some(Err(why)) = &new.digest_slot {
                return Err(format!("the digest of {} {why}", new.name.value));
            }
        }
        Ok(())
    }
}

fn strip_v(version: &str) -> &str {
    version.strip_prefix('v').unwrap_or(version)
}

/// Returns the old version's spelling, with any separators, if the URL of the later version still
/// contains it.
fn find_old_version(before: &str, later: &str, address: &FileAddress) -> Option<String> {
    let text = match address {
        FileAddress::Remote(url) => url.to_string(),
        FileAddress::Local(path) => path.display().to_string(),
    };
    // A single number occurs in many URLs.
    if !before.contains('.') {
        return None;
    }
    // The later version may start with the old one: 1.36.10 and 1.36.1.
    let text = text.replace(later, "");
    ["_", "-", "."]
        .map(|between| before.replace('.', between))
        .into_iter()
        .find(|spelling| text.contains(spelling.as_str()))
}

/// Returns edits that write `value` to the keys of a slot.
pub(super) fn create_edits<'a>(
    slot: &'a ValueSlot,
    value: &'a str,
    remark: Option<&'a str>,
) -> impl Iterator<Item = RecipeEdit<'a>> {
    slot.keys.iter().map(move |key| RecipeEdit {
        tables: slot.tables.iter().map(String::as_str).collect(),
        key,
        value: value.into(),
        instead_of: None,
        remark: remark.map(Into::into),
    })
}

/// Returns the components of `new` whose URL changed but whose digest did not.
pub(super) fn find_stale_digests<'n>(
    old: &'n Recipe,
    new: &'n Recipe,
) -> impl Iterator<Item = &'n ComponentSpec> {
    new.components.iter().filter(|is| {
        find_component(old, &is.name.value).is_some_and(|was| {
            let (ProofSpec::Digest(before), ProofSpec::Digest(after)) =
                (&was.origin.proof, &is.origin.proof)
            else {
                return false;
            };
            was.origin.url.value != is.origin.url.value && before.value == after.value
        })
    })
}

impl UpgradeSelection {
    /// Returns the version to upgrade to, or the reason to skip it; `None` without a later version.
    fn choose_version(&self, one: &ListedComponent) -> Option<Outcome<String, SkippedVersion>> {
        let later = one.later.as_ref().ok()?;
        let newest = later.newest.clone()?;
        if self.newest.contains(&one.name) {
            return Some(Ok(newest));
        }
        Some(later.in_series.clone().ok_or_else(|| SkippedVersion {
            name: one.name.clone(),
            version: one.version.clone(),
            why: format!("different series (use `--newest {}`)", one.name),
            later: newest,
        }))
    }
}

/// Reads the recipe with a changed text.
pub(super) fn read_changed(source: &RecipeSource, text: &str) -> Outcome<Recipe, Diagnostics> {
    let mut options = source.options.clone();
    options.edited = Some(text.into());
    let (recipe, diagnostics) = plan::read(&source.path, &options);
    let recipe = recipe.ok_or(diagnostics)?;
    plan::make(&recipe)?;
    Ok(recipe)
}
