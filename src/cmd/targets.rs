//! `winimg targets`: lists the targets in the current folder, in `WINIMG_RECIPES` and built into
//! winimg.

use serde_json::json;

use super::{CommandContext, print, print_json, recipe, source};
use crate::cli;
use winimg_base::diag::suggest;
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::recipe::ReadOptions;
use winimg_recipe::recipe::target::{self, TargetSpec};

pub fn run(args: &cli::TargetsArgs, context: &CommandContext) -> Result<()> {
    let targets = read_targets(context)?;
    match &args.name {
        None if args.json => print_json(&json!({ "schema": 1, "targets": targets })),
        None => print(&target::list(&targets)),
        Some(name) => {
            let one = find_target(name, &targets)?;
            if args.json {
                print_json(&json!({ "schema": 1, "target": one }))
            } else {
                print(&target::render_target(one))
            }
        }
    }
}

/// Reads all targets; an invalid file is an error.
pub fn read_targets(context: &CommandContext) -> Result<Vec<TargetSpec>> {
    let (search, shipped) = source::find_search_dirs(context)?;
    let options = ReadOptions {
        search,
        shipped,
        ..ReadOptions::default()
    };
    let (targets, problems) = target::load_all(&options);
    recipe::report(Some(targets), problems, context)
}

pub fn find_target<'t>(name: &str, targets: &'t [TargetSpec]) -> Result<&'t TargetSpec> {
    targets
        .iter()
        .find(|target| target.name == name)
        .ok_or_else(|| {
            let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
            let fact = format!("there is no target `{name}`");
            Error::new(Kind::Recipe, fact).cure(suggest(name, &names, "targets"))
        })
}
