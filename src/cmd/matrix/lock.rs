//! `winimg matrix lock`: the locks of all variants, each input asked for once.

use std::collections::BTreeSet;

use serde_json::json;

use crate::cli::{self, RecipeArgs};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_base::text::count;
use winimg_recipe::lock::Lock;

use super::super::recipe::Look;
use super::super::{Context, lock, print, print_json};
use super::{Read, lock_path, source_of, variants};

pub fn run(args: &cli::MatrixLock, context: &Context) -> Result<()> {
    // Whatever the locks say now.
    let all = variants(&args.matrix, Look::Explain, context)?;
    let refresh = named(&args.refresh, &all)?;
    if !args.check {
        let folder = args.matrix.file.with_extension("locks");
        std::fs::create_dir_all(&folder).map_err(|e| Error::io("make", &folder, e))?;
    }
    let mut locks: Vec<Lock> = Vec::new();
    let mut stale: Vec<Error> = Vec::new();
    let mut documents = Vec::new();
    let mut text = String::new();
    for (read, refresh) in all.iter().zip(refresh) {
        let name = &read.variant.name.value;
        let source = source_of(&read.variant, context)?;
        let done = lock::lock(&one(args, read, refresh), &source, &locks, context);
        let done = done.map_err(|error| error.or_at(format!("the variant {name}")))?;
        locks.extend(done.lock);
        stale.extend(done.stale);
        if !done.text.is_empty() {
            text += &format!("{name}\n{}\n", indented(&done.text));
        }
        let mut document = json!(done.document);
        document["variant"] = json!(name);
        documents.push(document);
    }
    match args.json {
        true => print_json(&json!({ "variants": documents }))?,
        false => print(&text)?,
    }
    warn_of_others(args, &all, context);
    match stale.len() {
        0 => Ok(()),
        number => Err(would_change(number, &stale)),
    }
}

/// As `winimg lock` takes the variant.
fn one(args: &cli::MatrixLock, read: &Read, refresh: Vec<String>) -> cli::Lock {
    let name = &read.variant.name.value;
    cli::Lock {
        upgrade: Vec::new(),
        newest: Vec::new(),
        refresh,
        check: args.check,
        lock: Some(lock_path(&args.matrix.file, name)),
        json: args.json,
        allow_rollback: args.allow_rollback,
        recipe: RecipeArgs {
            recipe: read.variant.recipe.value.clone(),
            ..RecipeArgs::default()
        },
        network: cli::NetworkArgs {
            offline: args.network.offline,
        },
    }
}

/// Of each variant those of the names that it has: a variant need not have every input, but one of them must.
fn named(names: &[String], all: &[Read]) -> Result<Vec<Vec<String>>> {
    let mut of: Vec<Vec<String>> = vec![Vec::new(); all.len()];
    for name in names {
        let mut unknown = None;
        let mut is_known = false;
        for (read, of) in all.iter().zip(&mut of) {
            match super::super::inputs::named(&read.recipe, name) {
                Ok(_) => {
                    is_known = true;
                    of.push(name.clone());
                }
                Err(error) => unknown = Some(error),
            }
        }
        if let (false, Some(error)) = (is_known, unknown) {
            return Err(error);
        }
    }
    Ok(of)
}

fn indented(text: &str) -> String {
    let line = |line: &str| match line.is_empty() {
        true => "\n".to_owned(),
        false => format!("  {line}\n"),
    };
    text.lines().map(line).collect()
}

/// Locks beside those of the variants: of one that has another name now.
fn warn_of_others(args: &cli::MatrixLock, all: &[Read], context: &Context) {
    let folder = args.matrix.file.with_extension("locks");
    let own: BTreeSet<String> = all
        .iter()
        .map(|read| format!("{}.lock", read.variant.name.value))
        .collect();
    for name in io::files_below(&folder).unwrap_or_default() {
        if name.ends_with(".lock") && !own.contains(&name) {
            let path = folder.join(&name);
            let text = format!("{} is the lock of no variant: remove it", path.display());
            context.sink.warn(text);
        }
    }
}

fn would_change(number: usize, stale: &[Error]) -> Error {
    let fact = format!("{} would change", count(number, "lock"));
    Error::of_several(Kind::Recipe, fact, stale)
        .cure("run `winimg matrix lock` without --check, and commit what it writes")
}
