//! `winimg targets`: what images can be for, from the files of the current folder, of `WINIMG_RECIPES` and of winimg.

use serde_json::json;

use super::{Context, print, print_json, recipe, source};
use crate::cli;
use winimg_base::diag::suggestion;
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::recipe::Options;
use winimg_recipe::recipe::target::{self, Target};

pub fn run(args: &cli::Targets, context: &Context) -> Result<()> {
    let targets = known(context)?;
    match &args.name {
        None if args.json => print_json(&json!({ "schema": 1, "targets": targets })),
        None => print(&target::list(&targets)),
        Some(name) => {
            let one = named(name, &targets)?;
            match args.json {
                true => print_json(&json!({ "schema": 1, "target": one })),
                false => print(&target::text(one)),
            }
        }
    }
}

/// All of them; a file that is wrong is an error.
pub fn known(context: &Context) -> Result<Vec<Target>> {
    let (search, shipped) = source::search_dirs(context)?;
    let options = Options {
        search,
        shipped,
        ..Options::default()
    };
    let (targets, problems) = target::all(&options);
    recipe::report(Some(targets), problems, context)
}

pub fn named<'t>(name: &str, targets: &'t [Target]) -> Result<&'t Target> {
    let found = targets.iter().find(|target| target.name == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
        let fact = format!("there is no target `{name}`");
        Error::new(Kind::Recipe, fact).cure(suggestion(name, &names, "targets"))
    })
}
