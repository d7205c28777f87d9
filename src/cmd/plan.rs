//! `winimg validate` and `winimg plan`. Download nothing and start no VM.

use crate::cli;
use crate::engine::forecast::{Forecast, compute_forecast};
use crate::engine::guest_commands::collect_commands;
use winimg_base::error::Result;
use winimg_base::text::count;
use winimg_recipe::plan;
use winimg_supply::store::Store;

use super::inputs::{self, InputState};
use super::recipe::RecipePurpose;
use super::{CommandContext, hypervisor, print, print_json, recipe, source};

pub fn validate(args: &cli::ValidateArgs, context: &CommandContext) -> Result<()> {
    let look = RecipePurpose::Files(None);
    let opened = recipe::open(&args.recipe, &args.lock, look, context)?;
    let recipe::OpenedRecipe { recipe, plan, .. } = &opened;
    let named = source::describe(&args.recipe);
    print(&format!(
        "{named} is valid: {}, {}\n{}",
        count(recipe.components.len(), "component"),
        count(plan.steps.len(), "step"),
        plan::render_undecided(recipe, &named)
    ))
}

pub fn show(args: &cli::PlanArgs, context: &CommandContext) -> Result<()> {
    let platform = hypervisor::choose_platform(&args.hypervisor, context)?;
    let look = RecipePurpose::Files(Some(platform));
    let opened = recipe::open(&args.recipe, &args.lock, look, context)?;
    let recipe::OpenedRecipe { recipe, plan, .. } = &opened;
    let states = inputs::collect_states(recipe, context);
    hypervisor::check_recipe(platform, recipe, context)?;
    let outside = collect_commands(recipe, platform)?;
    let folder = context.cache_folder().ok().filter(|f| f.is_dir());
    // A plan works without a usable cache; it only shows no layers then.
    let store = folder.and_then(|folder| Store::open(&folder).ok());
    let layers = match store {
        Some(store) => compute_forecast(recipe, plan, &store, platform, &context.cancel)?,
        None => Forecast::None { outdated: 0 },
    };
    if args.json {
        let mut value = plan::render_json(recipe, plan);
        value["bootstrap"] = outside.render_json();
        value["inputs"] = states.iter().map(InputState::to_json).collect();
        value["layers"] = layers.render_json();
        return print_json(&value);
    }
    let text = plan::render_text(recipe, plan);
    print(&format!(
        "{text}\n{}\nInputs\n{}\nLayers\n{}{}",
        outside.render_text(),
        inputs::render_states(&states),
        layers.render_text(),
        plan::render_undecided(recipe, &source::describe(&args.recipe))
    ))
}
