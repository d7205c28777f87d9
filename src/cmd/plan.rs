//! `winimg validate` and `winimg plan`: nothing is fetched, nothing is started.

use crate::cli;
use crate::engine::forecast::{Forecast, forecast};
use crate::engine::outside::outside;
use winimg_base::error::Result;
use winimg_base::text::count;
use winimg_recipe::plan;
use winimg_supply::store::Store;

use super::inputs::{self, State};
use super::recipe::Look;
use super::{Context, hypervisor, print, print_json, recipe, source};

pub fn validate(args: &cli::Validate, context: &Context) -> Result<()> {
    let look = Look::Files(None);
    let opened = recipe::open(&args.recipe, &args.lock, look, context)?;
    let recipe::Opened { recipe, plan, .. } = &opened;
    let named = source::shown(&args.recipe);
    print(&format!(
        "{named} is valid: {}, {}\n{}",
        count(recipe.components.len(), "component"),
        count(plan.steps.len(), "step"),
        plan::undecided(recipe, &named)
    ))
}

pub fn show(args: &cli::Plan, context: &Context) -> Result<()> {
    let platform = hypervisor::platform(&args.hypervisor, context)?;
    let look = Look::Files(Some(platform));
    let opened = recipe::open(&args.recipe, &args.lock, look, context)?;
    let recipe::Opened { recipe, plan, .. } = &opened;
    let states = inputs::states(recipe, context);
    hypervisor::fits(platform, recipe, context)?;
    let outside = outside(recipe, platform)?;
    let folder = context.cache_folder().ok().filter(|f| f.is_dir());
    // A cache that cannot be written says nothing of layers, and a plan needs none.
    let store = folder.and_then(|folder| Store::open(&folder).ok());
    let layers = match store {
        Some(store) => forecast(recipe, plan, &store, platform, &context.cancel)?,
        None => Forecast::None { outdated: 0 },
    };
    if args.json {
        let mut value = plan::json(recipe, plan);
        value["bootstrap"] = outside.json();
        value["inputs"] = states.iter().map(State::json).collect();
        value["layers"] = layers.json();
        return print_json(&value);
    }
    let text = plan::text(recipe, plan);
    print(&format!(
        "{text}\n{}\nInputs\n{}\nLayers\n{}{}",
        outside.text(),
        inputs::rendered(&states),
        layers.text(),
        plan::undecided(recipe, &source::shown(&args.recipe))
    ))
}
