//! Later versions for `winimg lock`: chosen from the publishers' lists and put into the recipe's text, with new digests where it
//! pins digests.
//!
//! Changes the recipe that it is given and no file that it includes. What the recipe cannot hold is named and left as it is. Nothing
//! is written here before the lock of the new recipe is made, which proves every input.

mod choice;

use std::fs;
use std::path::{Path, PathBuf};

use crate::cli;
use crate::engine::inputs::together;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_recipe::recipe::{Component, InputId, ProofSpec, Put, Recipe, Slot, put};
use winimg_supply::fetch::documents::Documents;
use winimg_supply::store::Store;

use super::documents::{Dead, Left, Taken};
use super::pin::{FIRST_USE, Pinned, Wanted};
use super::source::Source;
use super::successors::{listed, unanswered};
use super::{Context, inputs, print, recipe};
use choice::{Choice, at, choose, other_versions, reread};

/// What the command line asks for.
#[derive(Default)]
pub struct Selection {
    /// Every component with a list, within its series.
    all: bool,
    /// These within their series.
    named: Vec<String>,
    /// These, whatever the series.
    newest: Vec<String>,
    /// Asked for again, whatever their versions.
    pub anew: Vec<InputId>,
}

/// What becomes of the recipe.
#[derive(Default)]
pub struct Upgrade {
    /// The changed recipe; none where nothing is taken.
    pub recipe: Option<Recipe>,
    pub taken: Vec<Taken>,
    pub left: Vec<Left>,
    file: PathBuf,
    before: String,
    after: String,
}

pub fn selected(args: &cli::Lock, recipe: &Recipe) -> Result<Selection> {
    let mut selection = Selection::default();
    for name in &args.upgrade {
        let has_list = has_list(recipe, name);
        match name.as_str() {
            "" => selection.all = true,
            _ if has_list => selection.named.push(name.clone()),
            _ => selection.anew.push(inputs::named(recipe, name)?),
        }
    }
    for name in &args.newest {
        inputs::named(recipe, name)?;
        if !has_list(recipe, name) {
            let fact = format!("nothing says where the versions of `{name}` are listed");
            let cure = "write `versions` into its table (docs/outdated.md), or the version itself";
            return Err(Error::new(Kind::Recipe, fact).cure(cure));
        }
        selection.newest.push(name.clone());
    }
    for name in &args.refresh {
        selection.anew.push(inputs::named(recipe, name)?);
    }
    Ok(selection)
}

fn has_list(recipe: &Recipe, name: &str) -> bool {
    component(recipe, name).is_some_and(|c| c.versions.is_some() && c.version.is_some())
}

fn component<'r>(recipe: &'r Recipe, name: &str) -> Option<&'r Component> {
    recipe.components.iter().find(|c| c.name.value == name)
}

impl Selection {
    fn takes(&self, name: &str) -> bool {
        self.all || self.is_named(name)
    }

    /// It was asked for by its name, so that leaving it is a failure.
    fn is_named(&self, name: &str) -> bool {
        let mut names = self.named.iter().chain(&self.newest);
        names.any(|one| one == name)
    }
}

/// Chooses, changes the recipe's text, and reads it again. Nothing is written, and with `--check` no input is fetched.
pub fn upgrade(
    args: &cli::Lock,
    selection: &Selection,
    source: &Source,
    recipe: &Recipe,
    store: &Store,
    context: &Context,
) -> Result<Upgrade> {
    let mut upgrade = Upgrade::default();
    if !selection.all && selection.named.is_empty() && selection.newest.is_empty() {
        return Ok(upgrade);
    }
    // A link stays one.
    let path = &args.recipe.recipe;
    upgrade.file = fs::canonicalize(path).map_err(|e| Error::io("find", path, e))?;
    upgrade.before = read(&upgrade.file)?;
    let options = context.fetch_options(args.network.offline, recipe);
    let documents = Documents::new(store, &context.sink, &context.cancel, &options);
    let all = listed(recipe, &|name| selection.takes(name), &documents)?;
    let silent = all.iter().filter_map(|one| {
        Some(Dead {
            name: one.name.clone(),
            url: one.list.clone(),
            why: one.later.as_ref().err()?.clone(),
        })
    });
    unanswered(&silent.collect::<Vec<_>>())?;

    let choices = choose(selection, &all, source, recipe, &mut upgrade)?;
    if !args.json {
        print(&upgrade.text())?;
    }
    if choices.is_empty() {
        return Ok(upgrade);
    }
    let versions: Vec<Put<'_>> = choices.iter().flat_map(Choice::puts).collect();
    upgrade.after = edited(&upgrade.before, &versions, &upgrade.file)?;
    let mut new = checked(source, &upgrade.after, context)?;
    if !args.check {
        let pins = pins(args, recipe, &new, store, context)?;
        if !pins.is_empty() {
            let puts: Vec<Put<'_>> = pins.iter().flat_map(Pin::puts).collect();
            upgrade.after = edited(&upgrade.after, &puts, &upgrade.file)?;
            new = checked(source, &upgrade.after, context)?;
        }
        if !args.json && !pins.is_empty() {
            let text: String = pins.iter().map(Pin::text).collect();
            print(&format!("{}{FIRST_USE}\n", text.trim_start()))?;
        }
    }
    upgrade.recipe = Some(new);
    Ok(upgrade)
}

/// A new digest, and the key that holds it.
struct Pin {
    pinned: Pinned,
    hex: String,
    remark: String,
    slot: Slot,
}

/// Fetches what has another version and a digest of its own: trust on first use, as `winimg pin`.
fn pins(
    args: &cli::Lock,
    old: &Recipe,
    new: &Recipe,
    store: &Store,
    context: &Context,
) -> Result<Vec<Pin>> {
    let requests = inputs::requests(new);
    let (mut pins, mut failed) = (Vec::new(), Vec::new());
    for is in other_versions(old, new) {
        let id = InputId::Component(is.name.value.clone());
        let request = requests.iter().find(|request| request.id == id);
        let (Some(request), Some(Ok(slot)), ProofSpec::Digest(digest)) =
            (request, &is.digest_slot, &is.origin.proof)
        else {
            continue;
        };
        let wanted = Wanted::anew(request.clone(), digest.value.algorithm);
        match wanted.fetched(args.network.offline, new, store, context) {
            Ok(pinned) => pins.push(Pin {
                hex: pinned.hex(),
                remark: pinned.remark(),
                slot: slot.clone(),
                pinned,
            }),
            Err(error) if error.kind() == Kind::Cancelled => return Err(error),
            Err(error) => failed.push(error),
        }
    }
    match failed.is_empty() {
        true => Ok(pins),
        false => Err(together(failed)),
    }
}

impl Pin {
    fn puts(&self) -> impl Iterator<Item = Put<'_>> {
        at(&self.slot, &self.hex, Some(&self.remark))
    }

    fn text(&self) -> String {
        self.pinned.described(&format!("pinned as {}", self.slot))
    }
}

fn read(path: &Path) -> Result<String> {
    io::read_text_limited(path, io::limit::TEXT).map_err(|e| Error::io("read", path, e))
}

fn edited(text: &str, all: &[Put<'_>], file: &Path) -> Result<String> {
    put(text, all).map_err(|why| {
        let fact = "the versions cannot be written into the recipe";
        Error::new(Kind::Recipe, fact).at(file.display()).found(why)
    })
}

/// The recipe with another text; what is wrong with it is shown.
fn checked(source: &Source, text: &str, context: &Context) -> Result<Recipe> {
    match reread(source, text) {
        Ok(recipe) => Ok(recipe),
        Err(found) => recipe::report(None, found, context),
    }
}

impl Upgrade {
    /// Writes the recipe, unless it is another one by now.
    pub fn write(&self) -> Result<()> {
        if self.recipe.is_none() {
            return Ok(());
        }
        if read(&self.file)? != self.before {
            let fact = format!("{} was changed meanwhile", self.file.display());
            let cure = "run the command again";
            return Err(Error::new(Kind::Recipe, fact).cure(cure));
        }
        io::write_atomically(&self.file, self.after.as_bytes())
    }

    fn text(&self) -> String {
        let mut text = String::new();
        if self.taken.is_empty() {
            text += "no later version is taken\n";
        } else {
            let row = |one: &Taken| {
                vec![
                    one.name.clone(),
                    one.was.clone(),
                    one.is.clone(),
                    one.key.clone(),
                ]
            };
            let rows: Vec<Vec<String>> = self.taken.iter().map(row).collect();
            text += &inputs::table(&["name", "version", "later", "written as"], &rows, &[]);
        }
        for one in &self.left {
            text += &format!("{}: {} is left: {}\n", one.name, one.later, one.why);
        }
        text + "\n"
    }
}
