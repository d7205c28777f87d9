//! The targets that the built-in recipes and the host's own folders define.

use super::{CommandContext, recipe, source};
use winimg_base::diag::suggest;
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::ReadOptions;
use winimg_recipe::target::{self, TargetSpec};

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
