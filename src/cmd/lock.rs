//! `winimg lock`: asks for what changed in the recipe, keeps what did not, and writes `recipe.lock`. Later versions go into the
//! recipe first (`upgrade`).

use std::path::Path;

use serde_json::json;

use crate::cli;
use winimg_base::diag::Diagnostics;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_recipe::lock::{self, Changes, Comparison, Entry, Lock, LockFile};
use winimg_recipe::recipe::{Address, InputId, LockSource, Recipe};
use winimg_supply::store::Store;

use super::documents::{Change, Locked};
use super::source::{self, Source};
use super::upgrade::{self, Upgrade};
use super::{Context, inputs, lock_rule, print, print_json, recipe, sign};

pub fn run(args: &cli::Lock, context: &Context) -> Result<()> {
    source::needs_file(&args.recipe, "lock")?;
    let source = source::source(&args.recipe, context)?;
    let done = lock(args, &source, &[], context)?;
    match args.json {
        true => print_json(&json!(done.document))?,
        false => print(&done.text)?,
    }
    done.stale.map_or(Ok(()), Err)
}

/// What became of a lock.
pub struct Done {
    pub document: Locked,
    /// For people; empty where `stale` says it.
    pub text: String,
    /// As the file is now; `None` where the recipe asks for more than anybody knows yet.
    pub lock: Option<Lock>,
    /// With `--check`: that the lock would change.
    pub stale: Option<Error>,
}

/// Locks one recipe. What it asks for as one of `siblings` did is locked as it is there.
pub fn lock(
    args: &cli::Lock,
    source: &Source,
    siblings: &[Lock],
    context: &Context,
) -> Result<Done> {
    if source.lock.is_some() {
        return Err(Error::new(Kind::Recipe, "a bundle cannot be locked again")
            .at(args.recipe.recipe.display())
            .cure("lock the recipe that it was made from, and bundle it again"));
    }
    let mut recipe = recipe::unlocked(source, context)?;
    let selection = upgrade::selected(args, &recipe)?;
    let path = args.lock.clone();
    let path = path.unwrap_or_else(|| Lock::beside(&source.path));
    let store = super::store(context)?;
    for left in store.sweep_beside(&path) {
        let left = left.display();
        let text = format!("removed what an interrupted run left: {left}");
        context.sink.note(text);
    }
    let mut file = earlier(&path, &recipe, context)?;
    if let Some(file) = &mut file {
        recipe::remember_lock(&store, &path, &file.lock)?;
        file.lock.complete(&recipe.asks);
    }
    let rule = lock_rule::rule(&recipe, context);
    if let Some(file) = &file {
        // What is kept of a lock that nobody signed would be signed with the rest.
        lock_rule::judge(&rule, file)?;
        lock_rule::check_age(file, &store, None, args.allow_rollback)?;
    }

    let upgrade = upgrade::upgrade(args, &selection, source, &recipe, &store, context)?;
    if let Some(changed) = &upgrade.recipe {
        recipe = changed.clone();
    }

    let old = file.as_ref().map(|file| &file.lock);
    let mut kept = kept(&recipe, old, &selection.anew);
    take_from(siblings, &mut kept, &recipe);
    // A container image is chosen for the medium that is locked.
    if let Some(iso) = kept.iter().find(|entry| entry.id == InputId::Iso) {
        let lock = LockSource::of(&path, &source.path, &iso.id);
        recipe.media.iso.locked = Some(iso.locked(lock));
    }
    let is_kept = |id: &InputId| kept.iter().any(|entry| entry.id == *id);
    let mut asks = recipe.asks.iter();
    if args.check && asks.any(|ask| !is_kept(&ask.id) && !selection.anew.contains(&ask.id)) {
        let changes = unanswered(&recipe, old, &kept);
        return Ok(would_change(&path, old, &upgrade, &changes));
    }
    let new = renewed(args, &recipe, old, &kept, &store, context)?;
    let same = |file: &&LockFile| lock::between(Some(&file.lock), &new).is_empty();
    match file.as_ref().filter(same) {
        Some(file) => unchanged(args, &path, file, &upgrade, context),
        None => {
            let done = finish(args, &path, old, new, &upgrade, &store)?;
            if done.document.written && !rule.signatures.is_empty() {
                let text = format!("sign it before it is used: winimg sign {}", path.display());
                context.sink.note(text);
            }
            Ok(done)
        }
    }
}

/// Fetches every input that has no entry any more: the new lock.
fn renewed(
    args: &cli::Lock,
    recipe: &Recipe,
    old: Option<&Lock>,
    kept: &[Entry],
    store: &Store,
    context: &Context,
) -> Result<Lock> {
    let anew = |id: &InputId| !kept.iter().any(|entry| entry.id == *id);
    let options = context.fetch_options(args.network.offline, recipe);
    let fetched = inputs::fetch(recipe, &anew, store, context, &options)?;
    let mut found: Vec<_> = fetched.into_iter().map(|f| (f.id, f.found)).collect();
    let mut inputs = Vec::new();
    for ask in &recipe.asks {
        let at = found.iter().position(|(id, _)| *id == ask.id);
        let entry = match at.map(|at| found.swap_remove(at)) {
            Some((_, found)) => Some(Entry::new(ask, found)),
            None => kept.iter().find(|entry| entry.id == ask.id).cloned(),
        };
        inputs.extend(entry);
    }
    let built = store.built_with(&recipe.name.value);
    let highest = old
        .map(|lock| lock.serial)
        .max(built.map(|built| built.serial));
    Ok(Lock {
        recipe: recipe.name.value.clone(),
        serial: highest.unwrap_or(0) + 1,
        inputs,
    })
}

/// The lock that is there. One of another recipe, or one that is not as it was written, is not built upon.
fn earlier(path: &Path, recipe: &Recipe, context: &Context) -> Result<Option<LockFile>> {
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
    let found = lock::drift(recipe, &file, Comparison::Whole);
    recipe::report(None, Diagnostics(found.0), context)
}

/// The entries that stay: what the recipe asks is unchanged, and nobody wants it anew.
fn kept(recipe: &Recipe, old: Option<&Lock>, anew: &[InputId]) -> Vec<Entry> {
    let mut kept = Vec::new();
    for ask in &recipe.asks {
        let entry = old.and_then(|lock| lock.entry(&ask.id));
        let entry = entry.filter(|e| e.is_asked_by(ask) && !anew.contains(&ask.id));
        kept.extend(entry.cloned());
    }
    kept
}

/// Adds what is locked already by another recipe that asks the same. A local file is not what a name says, and an image without a
/// build of its own was chosen for a medium.
fn take_from(siblings: &[Lock], kept: &mut Vec<Entry>, recipe: &Recipe) {
    for ask in &recipe.asks {
        let input = recipe.input(&ask.id);
        let origin = input.as_ref().and_then(|input| input.origin());
        let is_local = origin.is_some_and(|o| matches!(o.url.value, Address::Local(_)));
        if is_local || kept.iter().any(|entry| entry.id == ask.id) {
            continue;
        }
        let medium = |entries: &[Entry]| {
            let iso = entries.iter().find(|e| e.id == InputId::Iso);
            iso.map(|iso| iso.digest.clone())
        };
        let fits = |lock: &&Lock| {
            !matches!(ask.id, InputId::Image(_)) || medium(&lock.inputs) == medium(kept)
        };
        let same = siblings.iter().filter(fits).find_map(|lock| {
            let entry = lock.entry(&ask.id)?;
            entry.is_asked_by(ask).then(|| entry.clone())
        });
        kept.extend(same);
    }
}

/// What `--check` can say without asking anybody.
fn unanswered(recipe: &Recipe, old: Option<&Lock>, kept: &[Entry]) -> Changes {
    let mut changes = Changes::default();
    for ask in &recipe.asks {
        if !kept.iter().any(|entry| entry.id == ask.id) {
            changes.asked(ask, old.and_then(|lock| lock.entry(&ask.id)));
        }
    }
    changes.gone(old, |id| recipe.input(id).is_some());
    changes
}

/// What `--check` ends with where something changed.
fn would_change(path: &Path, old: Option<&Lock>, upgrade: &Upgrade, changes: &Changes) -> Done {
    let error = Error::new(Kind::Recipe, format!("{} would change", path.display()))
        .lines(changes.table().lines())
        .cure("run `winimg lock` without --check, and commit what it writes");
    Done {
        document: document(path, old, false, upgrade, changes),
        text: String::new(),
        lock: None,
        stale: Some(error),
    }
}

fn document(
    path: &Path,
    lock: Option<&Lock>,
    written: bool,
    upgrade: &Upgrade,
    changes: &Changes,
) -> Locked {
    let change = |(name, was, is): &(InputId, String, String)| Change {
        name: name.to_string(),
        was: was.clone(),
        is: is.clone(),
    };
    Locked {
        lock: path.display().to_string(),
        serial: lock.map(|lock| lock.serial),
        written,
        changes: changes.rows.iter().map(change).collect(),
        versions: upgrade.taken.clone(),
        left: upgrade.left.clone(),
    }
}

/// What is locked stays as it is; a file of an earlier schema is written in the present one.
fn unchanged(
    args: &cli::Lock,
    path: &Path,
    file: &LockFile,
    upgrade: &Upgrade,
    context: &Context,
) -> Result<Done> {
    if !args.check {
        // Its lock may have been ahead of the recipe.
        upgrade.write()?;
    }
    let (name, serial) = (path.display(), file.lock.serial);
    let mut text = format!("{name} is up to date, serial {serial}\n");
    let mut written = false;
    match file.notice(&args.recipe.recipe.display().to_string()) {
        Some(notice) if args.check => context.sink.note(notice),
        Some(_) => {
            sign::remove_beside(path)?;
            io::write_atomically(path, file.lock.text()?.as_bytes())?;
            let schema = lock::SCHEMA;
            text = format!(
                "{name} is written in schema {schema}; every input stays locked as it was, serial {serial}\n"
            );
            written = true;
        }
        None => {}
    }
    let nothing = Changes::default();
    Ok(Done {
        document: document(path, Some(&file.lock), written, upgrade, &nothing),
        text,
        lock: Some(file.lock.clone()),
        stale: None,
    })
}

/// Writes another lock than the one that is there, and says what changed.
fn finish(
    args: &cli::Lock,
    path: &Path,
    old: Option<&Lock>,
    new: Lock,
    upgrade: &Upgrade,
    store: &Store,
) -> Result<Done> {
    let changes = lock::between(old, &new);
    if args.check {
        return Ok(Done {
            lock: Some(new),
            ..would_change(path, old, upgrade, &changes)
        });
    }
    let recipe = args.recipe.recipe.display().to_string();
    let lower = old.filter(|_| !args.allow_rollback);
    if let Some(error) = lower.and_then(|old| lock::lowered(old, &new, &recipe)) {
        return Err(error);
    }
    // Before anything else may look for what it names.
    recipe::remember_lock(store, path, &new)?;
    let text = new.text()?;
    // The recipe first: between the two it has drifted from its lock, which every command says.
    upgrade.write()?;
    sign::remove_beside(path)?;
    io::write_atomically(path, text.as_bytes())?;
    let (table, serial) = (changes.table(), new.serial);
    Ok(Done {
        document: document(path, Some(&new), true, upgrade, &changes),
        text: format!("{table}\n{} is written, serial {serial}\n", path.display()),
        lock: Some(new),
        stale: None,
    })
}
