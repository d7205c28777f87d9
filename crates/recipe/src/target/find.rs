//! Finds targets: `targets/NAME.toml` beside the file that names one, then in the search path of
//! packs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{TargetSpec, read};
use crate::document::sources::{self, RecipeSources};
use crate::{PathRoot, ReadOptions};
use winimg_base::diag::{Diagnostic, Diagnostics, suggest};
use winimg_base::text::{Located, Place, SourceText};

/// Folder of targets, beside the recipe and in each folder of `Options::search`.
const FOLDER: &str = "targets";

/// A target with the files that it was read from.
pub struct LoadedTarget {
    pub target: TargetSpec,
    pub files: Vec<(PathBuf, PathRoot)>,
}

/// Lists the names of all targets that are available at this place.
pub fn list_names(sources: &RecipeSources, place: &Place) -> BTreeSet<String> {
    sources
        .list_folders(place)
        .iter()
        .flat_map(|folder| list_stems(&folder.join(FOLDER)))
        .collect()
}

fn list_stems(folder: &Path) -> Vec<String> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter_map(|name| Some(name.strip_suffix(".toml")?.to_owned()))
        .collect()
}

/// Loads the target of this name with its includes, relative to the file that names it, otherwise
/// to the recipe. The place of an error is the name, or in the target's file.
pub fn load_target(
    name: &Located<String>,
    sources: &RecipeSources,
    recipe: &Place,
) -> Result<LoadedTarget, Diagnostic> {
    let (name, place) = (name.value.as_str(), &name.place);
    let (near, far) = (list_names(sources, place), list_names(sources, recipe));
    let from = if near.contains(name) { place } else { recipe };
    let known: BTreeSet<String> = near.into_iter().chain(far).collect();
    if !known.contains(name) {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let fact = format!("there is no target `{name}`");
        let help = suggest(name, &known, "targets");
        let own = format!("put a target of your own in {FOLDER}/NAME.toml beside the recipe");
        return Err(Diagnostic::error(fact).at(place, "").help(help).help(own));
    }
    let mut files = Vec::new();
    let source = load(&format!("{name}.toml"), sources, from, &mut files)?;
    let (mut target, includes) = read::read_target(name, &source)?;
    for (file, at) in includes {
        // From the same place, so that a custom target can include built-in rules.
        let source =
            load(&file, sources, from, &mut files).map_err(|d| d.at(&at, "included here"))?;
        let (rules, notes) = read::read_shared(&source)?;
        target.rules.extend(rules);
        target.notes.extend(notes);
    }
    Ok(LoadedTarget { target, files })
}

/// Reads a file in the folder of targets.
fn load(
    file: &str,
    sources: &RecipeSources,
    place: &Place,
    files: &mut Vec<(PathBuf, PathRoot)>,
) -> Result<Arc<SourceText>, Diagnostic> {
    let found = sources
        .look_up(&format!("{FOLDER}/{file}"), place)
        .map_err(|problem| problem.at(place, ""))?;
    let text = sources::read_text(&found.path).map_err(|why| {
        Diagnostic::error(format!("cannot read {}: {why}", found.name)).at(place, "")
    })?;
    let source = sources.source_of(found.name, text, (&found.path, &found.root));
    files.push((found.path, found.root));
    Ok(Arc::new(source))
}

/// Loads all targets of the current folder and of the search path, by name.
pub fn load_all(options: &ReadOptions) -> (Vec<TargetSpec>, Diagnostics) {
    let mut sources = RecipeSources::from_options(options, Path::new(""));
    let start = sources.add("winimg targets", String::new(), PathBuf::new());
    let place = Place::new(&start, 0..0);
    let mut targets = Vec::new();
    let mut problems = Diagnostics::default();
    for name in list_names(&sources, &place) {
        let name = Located::new(name, place.clone());
        match load_target(&name, &sources, &place) {
            Ok(found) => targets.push(found.target),
            Err(problem) => problems.push(problem),
        }
    }
    (targets, problems)
}
