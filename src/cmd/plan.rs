//! `winimg validate` and `winimg plan`: nothing is fetched, nothing is started.

use crate::cli;
use crate::error::{Error, Kind, Result};
use crate::plan;

use super::{Context, print, recipe};

pub fn validate(args: &cli::Validate, context: &Context) -> Result<()> {
    let (recipe, plan) = recipe::read(&args.recipe, context)?;
    print(&format!(
        "{} is sound: {}, {}\n",
        args.recipe.recipe.display(),
        count(recipe.components.len(), "component"),
        count(plan.steps.len(), "step")
    ))
}

/// `1 step`, `2 steps`
fn count(number: usize, noun: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{s}")
}

pub fn show(args: &cli::Plan, context: &Context) -> Result<()> {
    let (recipe, plan) = recipe::read(&args.recipe, context)?;
    if args.json {
        let json = serde_json::to_string_pretty(&plan::json(&recipe, &plan))
            .map_err(|e| Error::new(Kind::Failed, "cannot write the plan as JSON").because(e))?;
        return print(&format!("{json}\n"));
    }
    print(&plan::text(&recipe, &plan))
}
