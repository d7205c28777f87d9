//! `winimg lock`: resolves inputs that changed in the recipe, keeps the others, and writes
//! `recipe.lock`. `upgrade` writes later versions into the recipe first.

use std::path::Path;

use serde_json::json;

use crate::cli;
use winimg_base::diag::Diagnostics;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_recipe::lock::{self, LockChanges, LockComparison, LockEntry, LockFile, RecipeLock};
use winimg_recipe::{FileAddress, InputId, LockSource, Recipe};
use winimg_supply::store::Store;

use super::documents::{LockChange, LockResult};
use super::source::{self, RecipeSource};
use super::upgrade::{self, RecipeUpgrade};
use super::{CommandContext, inputs, lock_rule, print, print_json, recipe, signers};

pub fn run(args: &cli::LockArgs, context: &CommandContext) -> Result<()> {
    source::require_file(&args.recipe, "lock")?;
    let source = source::open_source(&args.recipe, context)?;
    let done = lock(args, &source, &[], context)?;
    if args.json {
        print_json(&json!(done.document))?;
    } else {
        print(&done.text)?;
    }
    done.stale.map_or(Ok(()), Err)
}

/// Result of locking a recipe.
pub struct LockOutcome {
    pub document: LockResult,
    /// Human-readable result; empty if `stale` is set.
    pub text: String,
    /// The resulting lock; `None` if `--check` would have to resolve inputs.
    pub lock: Option<RecipeLock>,
    /// Error of `--check` that the lock would change.
    pub stale: Option<Error>,
}

/// Locks one recipe. Reuses entries of `siblings` for inputs that they resolved by the same rule.
pub fn lock(
    args: &cli::LockArgs,
    source: &RecipeSource,
    siblings: &[RecipeLock],
    context: &CommandContext,
) -> Result<LockOutcome> {
    if source.lock.is_some() {
        return Err(Error::new(Kind::Recipe, "a bundle cannot be locked again")
            .at(args.recipe.recipe.display())
            .cure("lock the original recipe, and bundle it again"));
    }
    let mut recipe = recipe::read_unlocked(source, context)?;
    let selection = upgrade::select(args, &recipe)?;
    let path = args
        .lock
        .clone()
        .unwrap_or_else(|| RecipeLock::path_for(&source.path));
    let store = super::open_store(context)?;
    for leftover in store.sweep_beside(&path) {
        context.sink.note(format!(
            "removed a leftover of an interrupted run: {}",
            leftover.display()
        ));
    }
    let mut file = read_earlier(&path, &recipe, context)?;
    if let Some(file) = &mut file {
        recipe::record_lock(&store, &path, &file.lock)?;
        file.lock.complete(&recipe.lock_requests);
    }
    let rule = lock_rule::merge_rules(&recipe, context);
    if let Some(file) = &file {
        // Entries kept from an unsigned lock would end up in the signed one.
        lock_rule::check_signatures(&rule, file)?;
        lock_rule::check_age(file, &store, None, args.allow_rollback)?;
    }

    let upgrade = upgrade::upgrade(args, &selection, source, &recipe, &store, context)?;
    if let Some(changed) = &upgrade.recipe {
        recipe = changed.clone();
    }

    let old = file.as_ref().map(|file| &file.lock);
    let mut kept = keep_entries(&recipe, old, &selection.anew);
    take_sibling_entries(siblings, &mut kept, &recipe);
    // Container images are resolved for the locked medium.
    if let Some(iso) = kept.iter().find(|entry| entry.id == InputId::Iso) {
        let lock = LockSource::for_input(&path, &source.path, &iso.id);
        recipe.media.iso.locked = Some(iso.to_locked(lock));
    }
    let has_unresolved = recipe
        .lock_requests
        .iter()
        .any(|ask| !has_entry(&kept, &ask.id) && !selection.anew.contains(&ask.id));
    if args.check && has_unresolved {
        let changes = find_unresolved(&recipe, old, &kept);
        return Ok(report_change(&path, old, &upgrade, &changes));
    }
    let new = resolve_inputs(args, &recipe, old, &kept, &store, context)?;
    match &file {
        Some(file) if lock::compare_locks(Some(&file.lock), &new).is_empty() => {
            keep_lock(args, &path, file, &upgrade, context)
        }
        _ => {
            let done = write_lock(args, &path, old, new, &upgrade, &store)?;
            if done.document.written && !rule.signatures.is_empty() {
                context.sink.note(format!(
                    "sign the lock before using it: winimg sign {}",
                    path.display()
                ));
            }
            Ok(done)
        }
    }
}

fn has_entry(entries: &[LockEntry], id: &InputId) -> bool {
    entries.iter().any(|entry| entry.id == *id)
}

/// Fetches the inputs without an entry in `kept`, and returns the new lock.
fn resolve_inputs(
    args: &cli::LockArgs,
    recipe: &Recipe,
    old: Option<&RecipeLock>,
    kept: &[LockEntry],
    store: &Store,
    context: &CommandContext,
) -> Result<RecipeLock> {
    let options = context.fetch_options(args.network.offline, recipe);
    let fetched = inputs::fetch(
        recipe,
        &|id: &InputId| !has_entry(kept, id),
        store,
        context,
        &options,
    )?;
    let mut found: Vec<_> = fetched.into_iter().map(|f| (f.id, f.found)).collect();
    let mut inputs = Vec::new();
    for ask in &recipe.lock_requests {
        let at = found.iter().position(|(id, _)| *id == ask.id);
        let entry = match at.map(|at| found.swap_remove(at)) {
            Some((_, found)) => Some(LockEntry::new(ask, found)),
            None => kept.iter().find(|entry| entry.id == ask.id).cloned(),
        };
        inputs.extend(entry);
    }
    let built = store.built_with(&recipe.name.value);
    let highest = old
        .map(|lock| lock.serial)
        .max(built.map(|built| built.serial));
    Ok(RecipeLock {
        recipe: recipe.name.value.clone(),
        serial: highest.unwrap_or(0) + 1,
        inputs,
    })
}

/// Reads the existing lock. Rejects one of another recipe or one edited by hand.
fn read_earlier(
    path: &Path,
    recipe: &Recipe,
    context: &CommandContext,
) -> Result<Option<LockFile>> {
    if !path.exists() {
        return Ok(None);
    }
    let file = match LockFile::read(path) {
        Ok(file) => file,
        Err(found) => return recipe::report(None, found, context),
    };
    if file.lock.recipe == recipe.name.value {
        return Ok(Some(file));
    }
    let found = lock::find_drift(recipe, &file, LockComparison::Full);
    recipe::report(None, Diagnostics(found.0), context)
}

/// Returns the entries whose rules in the recipe are unchanged and that are not to be refreshed.
fn keep_entries(recipe: &Recipe, old: Option<&RecipeLock>, anew: &[InputId]) -> Vec<LockEntry> {
    let mut kept = Vec::new();
    for ask in &recipe.lock_requests {
        kept.extend(
            old.and_then(|lock| lock.find_entry(&ask.id))
                .filter(|e| e.matches_request(ask) && !anew.contains(&ask.id))
                .cloned(),
        );
    }
    kept
}

/// Adds entries of other recipes that have the same rule. Skips local files, whose content may
/// differ, and container images resolved for another medium.
fn take_sibling_entries(siblings: &[RecipeLock], kept: &mut Vec<LockEntry>, recipe: &Recipe) {
    for ask in &recipe.lock_requests {
        let input = recipe.find_input(&ask.id);
        let origin = input.as_ref().and_then(|input| input.origin());
        let is_local = origin.is_some_and(|o| matches!(o.url.value, FileAddress::Local(_)));
        if is_local || has_entry(kept, &ask.id) {
            continue;
        }
        let is_image = matches!(ask.id, InputId::Image(_));
        let same = siblings
            .iter()
            .filter(|lock| {
                !is_image || find_medium_digest(&lock.inputs) == find_medium_digest(kept)
            })
            .find_map(|lock| {
                let entry = lock.find_entry(&ask.id)?;
                entry.matches_request(ask).then(|| entry.clone())
            });
        kept.extend(same);
    }
}

fn find_medium_digest(entries: &[LockEntry]) -> Option<&Digest> {
    entries
        .iter()
        .find(|entry| entry.id == InputId::Iso)
        .map(|iso| &iso.digest)
}

/// Returns the changes that are known without resolving inputs, for `--check`.
fn find_unresolved(recipe: &Recipe, old: Option<&RecipeLock>, kept: &[LockEntry]) -> LockChanges {
    let mut changes = LockChanges::default();
    for ask in &recipe.lock_requests {
        if !has_entry(kept, &ask.id) {
            changes.add_unresolved(ask, old.and_then(|lock| lock.find_entry(&ask.id)));
        }
    }
    changes.add_removed(old, |id| recipe.find_input(id).is_some());
    changes
}

/// Returns the result of `--check` for a lock that would change.
fn report_change(
    path: &Path,
    old: Option<&RecipeLock>,
    upgrade: &RecipeUpgrade,
    changes: &LockChanges,
) -> LockOutcome {
    let error = Error::new(Kind::Recipe, format!("{} would change", path.display()))
        .lines(changes.render_table().lines())
        .cure("run `winimg lock` without --check, and commit the lock");
    LockOutcome {
        document: to_document(path, old, false, upgrade, changes),
        text: String::new(),
        lock: None,
        stale: Some(error),
    }
}

fn to_document(
    path: &Path,
    lock: Option<&RecipeLock>,
    written: bool,
    upgrade: &RecipeUpgrade,
    changes: &LockChanges,
) -> LockResult {
    LockResult {
        lock: path.display().to_string(),
        serial: lock.map(|lock| lock.serial),
        written,
        changes: changes
            .rows
            .iter()
            .map(|(name, was, is)| LockChange {
                name: name.to_string(),
                was: was.clone(),
                is: is.clone(),
            })
            .collect(),
        versions: upgrade.taken.clone(),
        left: upgrade.left.clone(),
    }
}

/// Keeps the lock; rewrites a file of an older schema in the current one.
fn keep_lock(
    args: &cli::LockArgs,
    path: &Path,
    file: &LockFile,
    upgrade: &RecipeUpgrade,
    context: &CommandContext,
) -> Result<LockOutcome> {
    if !args.check {
        // The lock may already contain the upgraded versions.
        upgrade.write()?;
    }
    let (name, serial) = (path.display(), file.lock.serial);
    let mut text = format!("{name} is up to date, serial {serial}\n");
    let mut written = false;
    match file.describe_upgrade(&args.recipe.recipe.display().to_string()) {
        Some(notice) if args.check => context.sink.note(notice),
        Some(_) => {
            signers::remove_signatures(path)?;
            io::write_atomically(path, file.lock.render()?.as_bytes())?;
            let schema = lock::SCHEMA;
            text = format!(
                "{name} is upgraded to schema {schema}; all inputs are unchanged, serial {serial}\n"
            );
            written = true;
        }
        None => {}
    }
    let nothing = LockChanges::default();
    Ok(LockOutcome {
        document: to_document(path, Some(&file.lock), written, upgrade, &nothing),
        text,
        lock: Some(file.lock.clone()),
        stale: None,
    })
}

/// Writes the changed lock and reports the changes.
fn write_lock(
    args: &cli::LockArgs,
    path: &Path,
    old: Option<&RecipeLock>,
    new: RecipeLock,
    upgrade: &RecipeUpgrade,
    store: &Store,
) -> Result<LockOutcome> {
    let changes = lock::compare_locks(old, &new);
    if args.check {
        return Ok(LockOutcome {
            lock: Some(new),
            ..report_change(path, old, upgrade, &changes)
        });
    }
    let recipe = args.recipe.recipe.display().to_string();
    let lower = old.filter(|_| !args.allow_rollback);
    if let Some(error) = lower.and_then(|old| lock::refuse_lower_versions(old, &new, &recipe)) {
        return Err(error);
    }
    // First protect the named files from pruning.
    recipe::record_lock(store, path, &new)?;
    let text = new.render()?;
    // The recipe first: if interrupted in between, every command reports that the lock is out of
    // date.
    upgrade.write()?;
    signers::remove_signatures(path)?;
    io::write_atomically(path, text.as_bytes())?;
    let (table, serial) = (changes.render_table(), new.serial);
    Ok(LockOutcome {
        document: to_document(path, Some(&new), true, upgrade, &changes),
        text: format!("{table}\nwrote {}, serial {serial}\n", path.display()),
        lock: Some(new),
        stale: None,
    })
}
