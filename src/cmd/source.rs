//! Where a recipe comes from: a file, a bundle or standard input, and what the command line and the environment add to it.
//!
//! Reads no recipe. Refuses the name of one of winimg's recipes where a file of the user's is wanted.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cli::RecipeArgs;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_recipe::recipe::{self, Options};
use winimg_supply::bundle;
use winimg_supply::store::Watch;

use super::Context;

pub struct Source {
    pub path: PathBuf,
    pub options: Options,
    /// A bundle's own lock.
    pub lock: Option<PathBuf>,
}

/// Where the recipe stands, and what the command line and the environment add to it. A bundle is put into the store.
pub fn source(args: &RecipeArgs, context: &Context) -> Result<Source> {
    let vars: Vec<_> = args.vars.iter().map(|v| pair(v)).collect::<Result<_>>()?;
    let piped = match is_piped(args) {
        true => Some(standard_input()?),
        false => None,
    };
    if piped.is_none() {
        refuse_names_of_shipped(&args.recipe)?;
    }
    if piped.is_none() && bundle::is_bundle(&args.recipe)? {
        let store = super::store(context)?;
        let name = args.recipe.display().to_string();
        let watch = Watch::new(name, Arc::clone(&context.sink), context.cancel.clone());
        let mut admitted = bundle::admit(&args.recipe, &store, &watch)?;
        // What is said here is said last; the packs are the bundle's own.
        let options = &mut admitted.options;
        options.sigstore_root = context.host.sigstore_root.clone();
        options.vars.extend(vars);
        options
            .image_builder_vars
            .extend(args.image_builder_vars.iter().cloned());
        options.var_files.extend(args.var_files.iter().cloned());
        options.env.extend(environment());
        options.set.extend(args.set.iter().cloned());
        return Ok(Source {
            path: admitted.recipe,
            options: admitted.options,
            lock: Some(admitted.lock),
        });
    }
    let (search, shipped) = search_dirs(context)?;
    let options = Options {
        search,
        shipped,
        piped,
        edited: None,
        vars,
        image_builder_vars: args.image_builder_vars.clone(),
        var_files: args.var_files.clone(),
        env: environment(),
        set: args.set.clone(),
        overlay: recipe::Overlay::default(),
        moved: Vec::new(),
        within: None,
        sigstore_root: context.host.sigstore_root.clone(),
    };
    Ok(Source {
        path: args.recipe.clone(),
        options,
        lock: None,
    })
}

/// `-`: the recipe comes on standard input.
fn is_piped(args: &RecipeArgs) -> bool {
    args.recipe == Path::new("-")
}

/// Refuses a recipe from standard input for what has to find it again: a lock beside it, records, bundles.
pub fn needs_file(args: &RecipeArgs, command: &str) -> Result<()> {
    if !is_piped(args) {
        return Ok(());
    }
    let fact = format!("`winimg {command}` needs the recipe as a file, not from standard input");
    let cure = format!("write it to a file: winimg {command} recipe.toml");
    Err(Error::new(Kind::Recipe, fact).cure(cure))
}

pub fn shown(args: &RecipeArgs) -> String {
    match is_piped(args) {
        true => recipe::PIPED.into(),
        false => args.recipe.display().to_string(),
    }
}

fn standard_input() -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = io::limit::TEXT;
    std::io::stdin()
        .take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| Error::new(Kind::Failed, "cannot read standard input").because(e))?;
    if bytes.len() as u64 > limit {
        let fact = format!("standard input has more than {} MiB", limit >> 20);
        return Err(Error::new(Kind::Recipe, fact).expected("a recipe"));
    }
    Ok(bytes)
}

/// The name of one of winimg's recipes where a file is wanted, and no such file: it is to be written first.
fn refuse_names_of_shipped(path: &Path) -> Result<()> {
    let name = path.to_str().unwrap_or_default();
    let name = name.strip_suffix(".toml").unwrap_or(name);
    if path.exists() || !super::shipped::recipes().iter().any(|own| own == name) {
        return Ok(());
    }
    let fact = format!("there is no file {}", path.display());
    let cure = format!(
        "{name} is one of winimg's recipes: `winimg init {name}` writes my-{name}.toml on top of it"
    );
    Err(Error::new(Kind::Recipe, fact).cure(cure))
}

/// A variable that is not UTF-8 cannot be one of ours.
fn environment() -> Vec<(String, String)> {
    let both = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(both).collect()
}

fn pair(text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err(Error::new(Kind::Recipe, "--var is not NAME=VALUE").found(text)),
    }
}

/// Where an `include` is looked for when it is not beside the file that names it: `$WINIMG_RECIPES`, the folder that is
/// installed with the program or the source tree's own `recipes`; where there is neither, those that are part of the program.
/// Then the same without `$WINIMG_RECIPES`: what comes with winimg.
pub fn search_dirs(context: &Context) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
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
        installed.push(super::shipped::folder(context)?);
    }
    dirs.extend(installed.iter().cloned());
    Ok((dirs, installed))
}
