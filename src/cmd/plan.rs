//! `winimg validate` and `winimg plan`: nothing is fetched, nothing is started.

use crate::cli;
use crate::error::{Error, Kind, Result};
use crate::plan;

use super::{print, recipe};

pub fn validate(args: &cli::Validate) -> Result<()> {
    let (recipe, plan) = recipe::read(&args.recipe)?;
    print(&format!(
        "{} is sound: {} components, {} steps\n",
        args.recipe.recipe.display(),
        recipe.components.len(),
        plan.steps.len()
    ))
}

pub fn show(args: &cli::Plan) -> Result<()> {
    let (recipe, plan) = recipe::read(&args.recipe)?;
    if args.json {
        let json = serde_json::to_string_pretty(&plan::json(&recipe, &plan))
            .map_err(|e| Error::new(Kind::Failed, "cannot write the plan as JSON").because(e))?;
        return print(&format!("{json}\n"));
    }
    print(&plan::text(&recipe, &plan))
}
