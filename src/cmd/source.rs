//! Source of a recipe: a file, a bundle or standard input, with values from the command line and
//! the environment.
//!
//! Does not read the recipe. Rejects the name of a built-in recipe where a file is required.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cli::RecipeArgs;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_recipe::{self as recipe, ReadOptions};
use winimg_supply::bundle;
use winimg_supply::store::ProgressWatch;

use super::CommandContext;

pub struct RecipeSource {
    pub path: PathBuf,
    pub options: ReadOptions,
    /// A bundle's own lock.
    pub lock: Option<PathBuf>,
}

/// Returns the recipe's path, and its values from the command line and the environment. Imports a
/// bundle into the store.
pub fn open_source(args: &RecipeArgs, context: &CommandContext) -> Result<RecipeSource> {
    let vars: Vec<_> = args
        .vars
        .iter()
        .map(|v| parse_pair(v))
        .collect::<Result<_>>()?;
    let piped = if is_piped(args) {
        Some(read_stdin()?)
    } else {
        None
    };
    if piped.is_none() {
        refuse_names_of_shipped(&args.recipe)?;
    }
    if piped.is_none() && bundle::is_bundle(&args.recipe)? {
        let store = super::open_store(context)?;
        let name = args.recipe.display().to_string();
        let watch = ProgressWatch::new(name, Arc::clone(&context.sink), context.cancel.clone());
        let mut admitted = bundle::admit(&args.recipe, &store, &watch)?;
        // The command line overrides the bundle's values; the packs are the bundle's own.
        let options = &mut admitted.options;
        options.sigstore_root = context.host.sigstore_root.clone();
        options.vars.extend(vars);
        options
            .image_builder_vars
            .extend(args.image_builder_vars.iter().cloned());
        options.var_files.extend(args.var_files.iter().cloned());
        options.env.extend(read_environment());
        options.set.extend(args.set.iter().cloned());
        return Ok(RecipeSource {
            path: admitted.recipe,
            options: admitted.options,
            lock: Some(admitted.lock),
        });
    }
    let (search, shipped) = find_search_dirs(context)?;
    let options = ReadOptions {
        search,
        shipped,
        piped,
        edited: None,
        vars,
        image_builder_vars: args.image_builder_vars.clone(),
        var_files: args.var_files.clone(),
        env: read_environment(),
        set: args.set.clone(),
        overlay: recipe::RecipeOverlay::default(),
        moved: Vec::new(),
        within: None,
        sigstore_root: context.host.sigstore_root.clone(),
    };
    Ok(RecipeSource {
        path: args.recipe.clone(),
        options,
        lock: None,
    })
}

/// Checks if the recipe is `-`, standard input.
fn is_piped(args: &RecipeArgs) -> bool {
    args.recipe == Path::new("-")
}

/// Rejects a recipe from standard input for commands that need its path: for a lock beside it,
/// records or bundles.
pub fn require_file(args: &RecipeArgs, command: &str) -> Result<()> {
    if !is_piped(args) {
        return Ok(());
    }
    let fact = format!("`winimg {command}` cannot read the recipe from standard input");
    let cure = format!("save it to a file: winimg {command} recipe.toml");
    Err(Error::new(Kind::Recipe, fact).cure(cure))
}

pub fn describe(args: &RecipeArgs) -> String {
    if is_piped(args) {
        recipe::PIPED.into()
    } else {
        args.recipe.display().to_string()
    }
}

fn read_stdin() -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = io::limit::TEXT;
    std::io::stdin()
        .take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| Error::new(Kind::Failed, "cannot read standard input").because(e))?;
    if bytes.len() as u64 > limit {
        let fact = format!("standard input is larger than {} MiB", limit >> 20);
        return Err(Error::new(Kind::Recipe, fact).expected("a recipe"));
    }
    Ok(bytes)
}

/// Rejects the name of a built-in recipe if there is no such file.
fn refuse_names_of_shipped(path: &Path) -> Result<()> {
    let name = path.to_str().unwrap_or_default();
    let name = name.strip_suffix(".toml").unwrap_or(name);
    if path.exists()
        || !super::builtin_recipes::list_recipes()
            .iter()
            .any(|own| own == name)
    {
        return Ok(());
    }
    let fact = format!("there is no file {}", path.display());
    let cure = format!(
        "{name} is a built-in recipe: `winimg init {name}` writes my-{name}.toml based on it"
    );
    Err(Error::new(Kind::Recipe, fact).cure(cure))
}

/// Returns the environment without variables that are not UTF-8, which cannot be ours.
fn read_environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

fn parse_pair(text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err(Error::new(Kind::Recipe, "--var must be NAME=VALUE").found(text)),
    }
}

/// Returns the search path for an `include` that is not beside its file: `$WINIMG_RECIPES`, then
/// the folder installed with the program or the source tree's `recipes`, or else the embedded
/// recipes. The second list is the same without `$WINIMG_RECIPES`, which is everything that comes
/// with winimg.
pub fn find_search_dirs(context: &CommandContext) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
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
        installed.push(super::builtin_recipes::ensure_folder(context)?);
    }
    dirs.extend(installed.iter().cloned());
    Ok((dirs, installed))
}
