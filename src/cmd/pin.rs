//! `winimg pin`: downloads unverified inputs, shows them, and writes their digests into the recipe.
//!
//! This is trust on first use, and the output says so: a digest ensures that later builds use the
//! same bytes, not that these are the right ones. Changes only the given recipe, no included files.

use std::fs;

use crate::cli;
use crate::engine::inputs::merge_errors;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_recipe::{InputId, Recipe, RecipeEdit, UndecidedValue, put};

use super::pinned_input::{FIRST_USE, PinRequest, PinnedInput};
use super::{CommandContext, inputs, print, recipe, source};

pub fn run(args: &cli::PinArgs, context: &CommandContext) -> Result<()> {
    source::require_file(&args.recipe, "pin")?;
    let source = source::open_source(&args.recipe, context)?;
    let shown = args.recipe.recipe.display().to_string();
    if source.lock.is_some() {
        return Err(Error::new(Kind::Recipe, "a bundle cannot be changed")
            .at(shown)
            .cure("pin the original recipe, lock it, and bundle it again"));
    }
    let recipe = recipe::read_undecided(&source, context)?;
    let wanted = select_inputs(&recipe, &args.inputs)?;
    if wanted.is_empty() {
        let rest = render_undecided(&recipe);
        return print(&format!(
            "{shown}: every input has a digest or signature\n{rest}"
        ));
    }
    let store = super::open_store(context)?;
    let mut pinned: Vec<PinnedInput> = Vec::new();
    let mut failed = Vec::new();
    for one in wanted {
        match one.fetch(args.network.offline, &recipe, &store, context) {
            Ok(done) => pinned.push(done),
            Err(error) if error.kind() == Kind::Cancelled => return Err(error),
            Err(error) => failed.push(error),
        }
    }
    check_shared_variables(&pinned)?;
    if !args.dry_run && !pinned.is_empty() {
        write(args, &pinned)?;
    }
    let mut text = String::new();
    for one in &pinned {
        text += &one.render_outcome(&shown, args.dry_run);
    }
    if !pinned.is_empty() {
        text += FIRST_USE;
    }
    text += &render_undecided(&recipe);
    print(text.trim_start())?;
    if failed.is_empty() {
        Ok(())
    } else {
        Err(merge_errors(failed))
    }
}

/// Returns the named inputs, or all without a digest or signature.
fn select_inputs(recipe: &Recipe, names: &[String]) -> Result<Vec<PinRequest>> {
    let ids: Vec<InputId> = match names {
        [] => recipe
            .undecided
            .iter()
            .filter_map(find_missing_proof)
            .collect(),
        names => names
            .iter()
            .map(|name| inputs::find_input(recipe, name))
            .collect::<Result<_>>()?,
    };
    let requests = inputs::collect_requests(recipe);
    let mut all: Vec<PinRequest> = Vec::new();
    for id in ids {
        if all.iter().any(|one| one.missing.input == id) {
            continue;
        }
        let request = requests.iter().find(|r| r.id == id).ok_or_else(|| {
            Error::new(Kind::Recipe, format!("`{id}` cannot be pinned"))
                .cure("to pin a container image, set `digest` in its table")
        })?;
        all.push(PinRequest::from_undecided(request.clone())?);
    }
    Ok(all)
}

fn find_missing_proof(one: &UndecidedValue) -> Option<InputId> {
    match one {
        UndecidedValue::Proof(missing) => Some(missing.input.clone()),
        UndecidedValue::Variable { .. } => None,
    }
}

/// Fails if one variable is the digest of two different files.
fn check_shared_variables(pinned: &[PinnedInput]) -> Result<()> {
    for (index, one) in pinned.iter().enumerate() {
        let Some(variable) = &one.wanted.missing.variable else {
            continue;
        };
        let other = pinned[..index].iter().find(|other| {
            other.wanted.missing.variable.as_ref() == Some(variable) && other.digest != one.digest
        });
        if let Some(other) = other {
            let fact = format!(
                "`{}` is the digest of two inputs that differ, {} and {}",
                variable.name, other.wanted.missing.input, one.wanted.missing.input
            );
            return Err(Error::new(Kind::Recipe, fact)
                .or_place(&one.wanted.missing.place)
                .cure("give each input its own variable"));
        }
    }
    Ok(())
}

fn write(args: &cli::PinArgs, pinned: &[PinnedInput]) -> Result<()> {
    // Write through symbolic links.
    let path = &args.recipe.recipe;
    let path = fs::canonicalize(path).map_err(|e| Error::io("find", path, e))?;
    let text =
        io::read_text_limited(&path, io::limit::TEXT).map_err(|e| Error::io("read", &path, e))?;
    let all: Vec<RecipeEdit<'_>> = pinned.iter().map(PinnedInput::to_edit).collect();
    let text = put(&text, &all).map_err(|why| {
        Error::new(Kind::Recipe, "cannot write the digests into the recipe")
            .at(path.display())
            .found(why)
    })?;
    io::write_atomically(&path, text.as_bytes())
}

/// Lists the undecided variables, which no download can decide.
fn render_undecided(recipe: &Recipe) -> String {
    let open: String = recipe
        .undecided
        .iter()
        .filter_map(|one| match one {
            UndecidedValue::Variable { variable, .. } => {
                Some(format!("  {}: {}\n", variable.name, variable.why))
            }
            UndecidedValue::Proof(_) => None,
        })
        .collect();
    if open.is_empty() {
        open
    } else {
        format!("\nStill missing under [vars]\n{open}")
    }
}
