//! `winimg matrix lock`: locks all variants; resolves each input once.

use std::collections::BTreeSet;

use serde_json::json;

use crate::cli::{self, RecipeArgs};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_base::text::count;
use winimg_recipe::lock::RecipeLock;

use super::super::recipe::RecipePurpose;
use super::super::{CommandContext, lock, print, print_json};
use super::{VariantRecipe, find_source, lock_path, read_variants};

pub fn run(args: &cli::MatrixLockArgs, context: &CommandContext) -> Result<()> {
    // The present locks do not matter here.
    let all = read_variants(&args.matrix, RecipePurpose::Explain, context)?;
    let refresh = select_inputs(&args.refresh, &all)?;
    if !args.check {
        let folder = args.matrix.file.with_extension("locks");
        std::fs::create_dir_all(&folder).map_err(|e| Error::io("create", &folder, e))?;
    }
    let mut locks: Vec<RecipeLock> = Vec::new();
    let mut stale: Vec<Error> = Vec::new();
    let mut documents = Vec::new();
    let mut text = String::new();
    for (read, refresh) in all.iter().zip(refresh) {
        let name = &read.variant.name.value;
        let source = find_source(&read.variant, context)?;
        let done = lock::lock(
            &lock_arguments(args, read, refresh),
            &source,
            &locks,
            context,
        )
        .map_err(|error| error.or_at(format!("variant {name}")))?;
        locks.extend(done.lock);
        stale.extend(done.stale);
        if !done.text.is_empty() {
            text += &format!("{name}\n{}\n", format_indented(&done.text));
        }
        let mut document = json!(done.document);
        document["variant"] = json!(name);
        documents.push(document);
    }
    if args.json {
        print_json(&json!({ "variants": documents }))?;
    } else {
        print(&text)?;
    }
    warn_of_strays(args, &all, context);
    match stale.len() {
        0 => Ok(()),
        number => Err(report_change(number, &stale)),
    }
}

/// Returns the arguments of `winimg lock` for the variant.
fn lock_arguments(
    args: &cli::MatrixLockArgs,
    read: &VariantRecipe,
    refresh: Vec<String>,
) -> cli::LockArgs {
    let name = &read.variant.name.value;
    cli::LockArgs {
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

/// Returns the named inputs of each variant. A variant need not have every input, but at least one
/// variant must.
fn select_inputs(names: &[String], all: &[VariantRecipe]) -> Result<Vec<Vec<String>>> {
    let mut of: Vec<Vec<String>> = vec![Vec::new(); all.len()];
    for name in names {
        let mut unknown = None;
        let mut is_known = false;
        for (read, of) in all.iter().zip(&mut of) {
            match super::super::inputs::find_input(&read.recipe, name) {
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

fn format_indented(text: &str) -> String {
    text.lines()
        .map(|line| {
            if line.is_empty() {
                "\n".to_owned()
            } else {
                format!("  {line}\n")
            }
        })
        .collect()
}

/// Warns of lock files that belong to no variant, as after one was renamed.
fn warn_of_strays(args: &cli::MatrixLockArgs, all: &[VariantRecipe], context: &CommandContext) {
    let folder = args.matrix.file.with_extension("locks");
    let own: BTreeSet<String> = all
        .iter()
        .map(|read| format!("{}.lock", read.variant.name.value))
        .collect();
    for name in io::files_below(&folder).unwrap_or_default() {
        if name.ends_with(".lock") && !own.contains(&name) {
            let path = folder.join(&name);
            context.sink.warn(format!(
                "{} does not belong to any variant: remove it",
                path.display()
            ));
        }
    }
}

fn report_change(number: usize, stale: &[Error]) -> Error {
    let fact = format!("{} would change", count(number, "lock"));
    Error::from_several(Kind::Recipe, fact, stale)
        .cure("run `winimg matrix lock` without --check, and commit the locks")
}
