//! From the command line's recipe arguments to a `Recipe`, with every complaint shown at once.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use crate::cli::RecipeArgs;
use crate::diag::Diagnostics;
use crate::error::{Error, Kind, Result};
use crate::plan::{self, Plan};
use crate::recipe::{self, Options, Recipe};

/// Reads the recipe and makes its plan. Complaints go to standard error; any error among them ends with status 2.
pub fn read(args: &RecipeArgs) -> Result<(Recipe, Plan)> {
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
    show(&diagnostics);
    match planned.flatten() {
        Some(done) if !diagnostics.has_errors() => Ok(done),
        // The diagnostics have said it all.
        _ => Err(Error::new(Kind::Recipe, "")),
    }
}

fn show(diagnostics: &Diagnostics) {
    if !diagnostics.0.is_empty() {
        let color = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        eprint!("{}", diagnostics.render(color));
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
