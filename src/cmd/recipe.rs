//! From the command line's recipe arguments to a `Recipe`, with every complaint shown at once.

use std::path::PathBuf;

use crate::cli::RecipeArgs;
use crate::error::{Error, Kind, Result};
use crate::event::Event;
use crate::plan::{self, Plan};
use crate::recipe::{self, Options, Recipe};

use super::Context;

/// Reads the recipe and makes its plan. Complaints are told as they are; any error among them ends with status 2.
pub fn read(args: &RecipeArgs, context: &Context) -> Result<(Recipe, Plan)> {
    let options = Options {
        search: search_dirs(),
        vars: args.vars.iter().map(|v| pair(v)).collect::<Result<_>>()?,
        var_files: args.var_files.clone(),
        env: std::env::vars().collect(),
        set: args.set.clone(),
    };
    let (recipe, mut diagnostics) = recipe::read(&args.recipe, &options);
    let planned = recipe.map(|recipe| match plan::make(&recipe) {
        Ok(plan) => Some((recipe, plan)),
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

fn pair(text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err(Error::new(Kind::Recipe, "--var is not NAME=VALUE").found(text)),
    }
}

/// Where an `include` is looked for when it is not beside the file that names it: `$WINIMG_RECIPES`, the folder that is
/// installed with the program, and the source tree's own `recipes`.
fn search_dirs() -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = std::env::var_os("WINIMG_RECIPES")
        .map(|paths| std::env::split_paths(&paths).collect())
        .unwrap_or_default();
    if let Some(bin) = std::env::current_exe()
        .ok()
        .and_then(|exe| exe.parent().map(PathBuf::from))
    {
        dirs.push(bin.join("../share/winimg/recipes"));
        dirs.push(bin.join("../../recipes"));
    }
    dirs
}
