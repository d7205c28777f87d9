//! Where targets are: `targets/NAME.toml` beside the file that names one, then in the folders where packs are looked for.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::sources::{self, Sources};
use super::super::{Options, Root};
use super::{Target, read};
use winimg_base::diag::{Diagnostic, Diagnostics, suggestion};
use winimg_base::text::{Located, Place, Source};

/// The folder below the recipe's and below each of `Options::search`.
const FOLDER: &str = "targets";

/// A target, and the files that it was read from.
pub struct Found {
    pub target: Target,
    pub files: Vec<(PathBuf, Root)>,
}

/// Every target's name that is known at this place.
pub fn names(sources: &Sources, place: &Place) -> BTreeSet<String> {
    let folders = sources.folders(place);
    let folders = folders.iter().map(|folder| folder.join(FOLDER));
    folders.flat_map(|folder| stems(&folder)).collect()
}

fn stems(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let stem = |name: String| Some(name.strip_suffix(".toml")?.to_owned());
    files.filter_map(stem).collect()
}

/// The target of this name, with all that it includes: from the file that names it, otherwise from the recipe. What is wrong
/// has its place where it is named, or in the target's file.
pub fn named(
    name: &Located<String>,
    sources: &Sources,
    recipe: &Place,
) -> Result<Found, Diagnostic> {
    let (name, place) = (name.value.as_str(), &name.place);
    let (near, far) = (names(sources, place), names(sources, recipe));
    let from = match near.contains(name) {
        true => place,
        false => recipe,
    };
    let known: BTreeSet<String> = near.into_iter().chain(far).collect();
    if !known.contains(name) {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let fact = format!("there is no target `{name}`");
        let help = suggestion(name, &known, "targets");
        let own = format!("a target of your own is {FOLDER}/NAME.toml beside the recipe");
        return Err(Diagnostic::error(fact).at(place, "").help(help).help(own));
    }
    let mut files = Vec::new();
    let source = load(&format!("{name}.toml"), sources, from, &mut files)?;
    let (mut target, includes) = read::target(name, &source)?;
    for (file, at) in includes {
        // From that same place: a target of one's own can include the rules of those that come with winimg.
        let source =
            load(&file, sources, from, &mut files).map_err(|d| d.at(&at, "included here"))?;
        let (rules, notes) = read::shared(&source)?;
        target.rules.extend(rules);
        target.notes.extend(notes);
    }
    Ok(Found { target, files })
}

/// The text of a file below the folder.
fn load(
    file: &str,
    sources: &Sources,
    place: &Place,
    files: &mut Vec<(PathBuf, Root)>,
) -> Result<Arc<Source>, Diagnostic> {
    let found = sources.look_up(&format!("{FOLDER}/{file}"), place);
    let found = found.map_err(|problem| problem.at(place, ""))?;
    let text = sources::read_text(&found.path).map_err(|why| {
        Diagnostic::error(format!("cannot read {}: {why}", found.name)).at(place, "")
    })?;
    let source = sources.source_of(found.name, text, (&found.path, &found.root));
    files.push((found.path, found.root));
    Ok(Arc::new(source))
}

/// Every target of the current folder and of these options', by name.
pub fn all(options: &Options) -> (Vec<Target>, Diagnostics) {
    let mut sources = Sources::of(options, Path::new(""));
    let start = sources.add("winimg targets", String::new(), PathBuf::new());
    let place = Place::new(&start, 0..0);
    let mut targets = Vec::new();
    let mut problems = Diagnostics::default();
    for name in names(&sources, &place) {
        let name = Located::new(name, place.clone());
        match named(&name, &sources, &place) {
            Ok(found) => targets.push(found.target),
            Err(problem) => problems.push(problem),
        }
    }
    (targets, problems)
}
