//! Upgrades versions for `winimg lock`: chooses them from the publishers' lists and writes them
//! into the recipe's text, with new digests where it pins digests.
//!
//! Changes only the given recipe, no included files. Versions that cannot be written are reported
//! and skipped. The file is written only after the new recipe is locked, which verifies every
//! input.

mod choice;

use std::fs;
use std::path::{Path, PathBuf};

use crate::cli;
use crate::engine::inputs::merge_errors;
use crate::report::render_table;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_recipe::{ComponentSpec, InputId, ProofSpec, Recipe, RecipeEdit, ValueSlot, put};
use winimg_supply::fetch::documents::Documents;
use winimg_supply::store::Store;

use super::documents::{DeadUrl, SkippedVersion, UpgradedVersion};
use super::pinned_input::{FIRST_USE, PinRequest, PinnedInput};
use super::source::RecipeSource;
use super::successors::{fail_if_unreachable, read_lists};
use super::{CommandContext, inputs, print, recipe};
use choice::{VersionChoice, choose, create_edits, find_stale_digests, read_changed};

/// Components selected on the command line.
#[derive(Default)]
pub struct UpgradeSelection {
    /// Upgrade every component with a list within its series.
    all: bool,
    /// Upgrade these within their series.
    named: Vec<String>,
    /// Upgrade these to any series.
    newest: Vec<String>,
    /// Resolve these again.
    pub anew: Vec<InputId>,
}

/// Changes to the recipe.
#[derive(Default)]
pub struct RecipeUpgrade {
    /// The changed recipe; `None` without changes.
    pub recipe: Option<Recipe>,
    pub taken: Vec<UpgradedVersion>,
    pub left: Vec<SkippedVersion>,
    file: PathBuf,
    before: String,
    after: String,
}

pub fn select(args: &cli::LockArgs, recipe: &Recipe) -> Result<UpgradeSelection> {
    let mut selection = UpgradeSelection::default();
    for name in &args.upgrade {
        let has_list = has_list(recipe, name);
        match name.as_str() {
            "" => selection.all = true,
            _ if has_list => selection.named.push(name.clone()),
            _ => selection.anew.push(inputs::find_input(recipe, name)?),
        }
    }
    for name in &args.newest {
        inputs::find_input(recipe, name)?;
        if !has_list(recipe, name) {
            let fact = format!("`{name}` has no version list");
            let cure = "add `versions` to its table (docs/outdated.md), or edit the version itself";
            return Err(Error::new(Kind::Recipe, fact).cure(cure));
        }
        selection.newest.push(name.clone());
    }
    for name in &args.refresh {
        selection.anew.push(inputs::find_input(recipe, name)?);
    }
    Ok(selection)
}

fn has_list(recipe: &Recipe, name: &str) -> bool {
    find_component(recipe, name).is_some_and(|c| c.versions.is_some() && c.version.is_some())
}

fn find_component<'r>(recipe: &'r Recipe, name: &str) -> Option<&'r ComponentSpec> {
    recipe.components.iter().find(|c| c.name.value == name)
}

impl UpgradeSelection {
    fn contains(&self, name: &str) -> bool {
        self.all || self.is_named(name)
    }

    /// Checks if the component was given by name, so that skipping it is an error.
    fn is_named(&self, name: &str) -> bool {
        self.named.iter().chain(&self.newest).any(|one| one == name)
    }
}

/// Chooses versions, changes the recipe's text, and reads it again. Writes nothing; fetches no
/// inputs with `--check`.
pub fn upgrade(
    args: &cli::LockArgs,
    selection: &UpgradeSelection,
    source: &RecipeSource,
    recipe: &Recipe,
    store: &Store,
    context: &CommandContext,
) -> Result<RecipeUpgrade> {
    let mut upgrade = RecipeUpgrade::default();
    if !selection.all && selection.named.is_empty() && selection.newest.is_empty() {
        return Ok(upgrade);
    }
    // Write through symbolic links.
    let path = &args.recipe.recipe;
    upgrade.file = fs::canonicalize(path).map_err(|e| Error::io("find", path, e))?;
    upgrade.before = read(&upgrade.file)?;
    let options = context.fetch_options(args.network.offline, recipe);
    let documents = Documents::new(store, &context.sink, &context.cancel, &options);
    let all = read_lists(recipe, &|name| selection.contains(name), &documents)?;
    let unreachable: Vec<DeadUrl> = all
        .iter()
        .filter_map(|one| {
            Some(DeadUrl {
                name: one.name.clone(),
                url: one.list.clone(),
                why: one.later.as_ref().err()?.clone(),
            })
        })
        .collect();
    fail_if_unreachable(&unreachable)?;

    let choices = choose(selection, &all, source, recipe, &mut upgrade)?;
    if !args.json {
        print(&upgrade.render())?;
    }
    if choices.is_empty() {
        return Ok(upgrade);
    }
    let versions: Vec<RecipeEdit<'_>> = choices.iter().flat_map(VersionChoice::to_edits).collect();
    upgrade.after = apply_edits(&upgrade.before, &versions, &upgrade.file)?;
    let mut new = check_text(source, &upgrade.after, context)?;
    if !args.check {
        let pins = pin_digests(args, recipe, &new, store, context)?;
        if !pins.is_empty() {
            let puts: Vec<RecipeEdit<'_>> = pins.iter().flat_map(DigestPin::to_edits).collect();
            upgrade.after = apply_edits(&upgrade.after, &puts, &upgrade.file)?;
            new = check_text(source, &upgrade.after, context)?;
        }
        if !args.json && !pins.is_empty() {
            let text: String = pins.iter().map(DigestPin::describe).collect();
            print(&format!("{}{FIRST_USE}\n", text.trim_start()))?;
        }
    }
    upgrade.recipe = Some(new);
    Ok(upgrade)
}

/// A new digest, and the recipe key to write it to.
struct DigestPin {
    pinned: PinnedInput,
    hex: String,
    remark: String,
    slot: ValueSlot,
}

/// Downloads and pins upgraded components that have a digest: trust on first use, as with `winimg
/// pin`.
fn pin_digests(
    args: &cli::LockArgs,
    old: &Recipe,
    new: &Recipe,
    store: &Store,
    context: &CommandContext,
) -> Result<Vec<DigestPin>> {
    let requests = inputs::collect_requests(new);
    let (mut pins, mut failed) = (Vec::new(), Vec::new());
    for is in find_stale_digests(old, new) {
        let id = InputId::Component(is.name.value.clone());
        let request = requests.iter().find(|request| request.id == id);
        let (Some(request), Some(Ok(slot)), ProofSpec::Digest(digest)) =
            (request, &is.digest_slot, &is.origin.proof)
        else {
            continue;
        };
        let wanted = PinRequest::from_upgrade(request.clone(), digest.value.algorithm);
        match wanted.fetch(args.network.offline, new, store, context) {
            Ok(pinned) => pins.push(DigestPin {
                hex: pinned.hex(),
                remark: pinned.render_remark(),
                slot: slot.clone(),
                pinned,
            }),
            Err(error) if error.kind() == Kind::Cancelled => return Err(error),
            Err(error) => failed.push(error),
        }
    }
    if failed.is_empty() {
        Ok(pins)
    } else {
        Err(merge_errors(failed))
    }
}

impl DigestPin {
    fn to_edits(&self) -> impl Iterator<Item = RecipeEdit<'_>> {
        create_edits(&self.slot, &self.hex, Some(&self.remark))
    }

    fn describe(&self) -> String {
        self.pinned.describe(&format!("pinned as {}", self.slot))
    }
}

fn read(path: &Path) -> Result<String> {
    io::read_text_limited(path, io::limit::TEXT).map_err(|e| Error::io("read", path, e))
}

fn apply_edits(text: &str, all: &[RecipeEdit<'_>], file: &Path) -> Result<String> {
    put(text, all).map_err(|why| {
        let fact = "cannot write the versions into the recipe";
        Error::new(Kind::Recipe, fact).at(file.display()).found(why)
    })
}

/// Reads the recipe with a changed text, and reports its diagnostics.
fn check_text(source: &RecipeSource, text: &str, context: &CommandContext) -> Result<Recipe> {
    match read_changed(source, text) {
        Ok(recipe) => Ok(recipe),
        Err(found) => recipe::report(None, found, context),
    }
}

impl RecipeUpgrade {
    /// Writes the recipe; fails if the file has changed since it was read.
    pub fn write(&self) -> Result<()> {
        if self.recipe.is_none() {
            return Ok(());
        }
        if read(&self.file)? != self.before {
            let fact = format!("{} was changed in the meantime", self.file.display());
            let cure = "run the command again";
            return Err(Error::new(Kind::Recipe, fact).cure(cure));
        }
        io::write_atomically(&self.file, self.after.as_bytes())
    }

    fn render(&self) -> String {
        let mut text = String::new();
        if self.taken.is_empty() {
            text += "no version is upgraded\n";
        } else {
            let rows: Vec<Vec<String>> = self
                .taken
                .iter()
                .map(|one| {
                    vec![
                        one.name.clone(),
                        one.was.clone(),
                        one.is.clone(),
                        one.key.clone(),
                    ]
                })
                .collect();
            text += &render_table(
                &["name", "version", "new version", "written as"],
                &rows,
                &[],
            );
        }
        for one in &self.left {
            text += &format!("{}: {} is skipped: {}\n", one.name, one.later, one.why);
        }
        text + "\n"
    }
}
