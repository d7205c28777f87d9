//! From the command line's recipe arguments to a `Recipe`, with every complaint shown at once.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::answer;
use crate::cli::RecipeArgs;
use crate::diag::{Diagnostic, Diagnostics, Severity};
use crate::error::{Error, Kind, Result};
use crate::event::Event;
use crate::plan::{self, Entry, Plan};
use crate::recipe::{self, Options, Recipe, Verb};

use super::Context;

/// Reads the recipe and makes its plan. Complaints are told as they are; any error among them ends with status 2.
pub fn read(args: &RecipeArgs, context: &Context) -> Result<(Recipe, Plan)> {
    let options = Options {
        search: search_dirs()?,
        vars: args.vars.iter().map(|v| pair(v)).collect::<Result<_>>()?,
        image_builder_vars: args.image_builder_vars.clone(),
        var_files: args.var_files.clone(),
        env: environment(),
        set: args.set.clone(),
        moved: Vec::new(),
    };
    let (recipe, mut diagnostics) = recipe::read(&args.recipe, &options);
    let planned = recipe.map(|recipe| match plan::make(&recipe) {
        Ok(plan) => {
            diagnostics.0.extend(plan.warnings.0.iter().cloned());
            judge_template(&recipe, &mut diagnostics);
            judge_seal(&recipe, &plan, &mut diagnostics);
            Some((recipe, plan))
        }
        Err(more) => {
            diagnostics.0.extend(more.0);
            None
        }
    });
    let summary = diagnostics.summary();
    let sound = !diagnostics.has_errors();
    if !diagnostics.0.is_empty() {
        context
            .sink
            .emit(&Event::Diagnostics { found: diagnostics });
    }
    match planned.flatten() {
        Some(done) if sound => Ok(done),
        _ => Err(Error::new(Kind::Recipe, summary).told()),
    }
}

/// A variable that is not UTF-8 cannot be one of ours.
fn environment() -> Vec<(String, String)> {
    let both = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(both).collect()
}

/// What is wrong with the team's own answer file as far as it can be told before its medium is known.
fn judge_template(recipe: &Recipe, diagnostics: &mut Diagnostics) {
    let Some(path) = &recipe.setup.answer_file else {
        return;
    };
    let found =
        answer::read_template(path).and_then(|template| answer::check_template(&template, recipe));
    match found {
        Ok(mut found) => {
            if recipe.setup.lint_is_advice {
                found
                    .0
                    .iter_mut()
                    .for_each(|d| d.severity = Severity::Warning);
            }
            diagnostics.0.append(&mut found.0);
        }
        Err(error) => diagnostics.push(Diagnostic::error(error.to_string()).at(&path.place, "")),
    }
}

/// What is wrong with the answer file that sysprep is given, as the plan renders it.
fn judge_seal(recipe: &Recipe, plan: &Plan, diagnostics: &mut Diagnostics) {
    let own = recipe.steps.iter().find_map(|step| match &step.verb {
        Verb::Generalize { answer_file, .. } if step.skipped.is_none() => answer_file.as_ref(),
        _ => None,
    });
    let Some(own) = own else { return };
    let sealing = plan.steps.iter().filter(|s| s.verb == "generalize");
    let entries = sealing.flat_map(|s| &s.entries);
    let entries = entries.filter_map(|&index| plan.payload.get(index as usize));
    let rendered = entries.filter_map(|entry| match entry {
        Entry::Text { file, text, .. } if file == "seal.xml" => Some(text),
        _ => None,
    });
    for text in rendered {
        let name = own.value.display().to_string();
        diagnostics.0.extend(answer::lint_clone(&name, text).0);
    }
}

fn pair(text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err(Error::new(Kind::Recipe, "--var is not NAME=VALUE").found(text)),
    }
}

/// Where an `include` is looked for when it is not beside the file that names it: `$WINIMG_RECIPES`, the folder that is
/// installed with the program or the source tree's own `recipes`; where there is neither, those that are part of the program.
fn search_dirs() -> Result<Vec<PathBuf>> {
    let mut dirs: Vec<PathBuf> = std::env::var_os("WINIMG_RECIPES")
        .map(|paths| std::env::split_paths(&paths).collect())
        .unwrap_or_default();
    let mut installed = Vec::new();
    if let Some(bin) = std::env::current_exe()
        .ok()
        .and_then(|exe| exe.parent().map(PathBuf::from))
    {
        installed.push(bin.join("../share/winimg/recipes"));
        installed.push(bin.join("../../recipes"));
    }
    installed.retain(|dir| dir.join("packs").is_dir());
    if installed.is_empty() {
        installed.push(super::shipped::folder()?);
    }
    dirs.append(&mut installed);
    Ok(dirs)
}
