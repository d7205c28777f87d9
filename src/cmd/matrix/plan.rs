//! `winimg matrix plan`: shows all variants. Downloads nothing and starts no VM.

use std::collections::BTreeMap;

use crate::cli;
use crate::engine::forecast::{Forecast, compute_forecast};
use crate::matrix::Schedule;
use crate::matrix::overview::{self, TITLES, VariantDetails};
use winimg_base::error::Result;
use winimg_base::event::Phase;
use winimg_machine::vm::HypervisorKind;
use winimg_supply::store::Store;

use super::super::recipe::RecipePurpose;
use super::super::{CommandContext, hypervisor, print, print_json};
use super::{VariantRecipe, collect_values, read_variants, schedule};
use crate::report::render_table;

pub fn run(args: &cli::MatrixPlanArgs, context: &CommandContext) -> Result<()> {
    let platform = hypervisor::choose_platform(&args.hypervisor, context)?;
    let all = read_variants(&args.matrix, RecipePurpose::Files(Some(platform)), context)?;
    for read in &all {
        hypervisor::check_recipe(platform, &read.recipe, context)?;
    }
    let schedule = schedule(&all, &args.matrix.output, platform)?;
    let known = collect_details(&schedule, &all, platform, context)?;
    if args.json {
        return print_json(&overview::to_json(&schedule, &known));
    }
    let rows = overview::render_rows(&schedule, &known);
    let table = render_table(&TITLES, &rows, &[4]);
    print(&format!(
        "{table}\n{}",
        overview::render_summary(&schedule, &known)
    ))
}

/// Collects the facts about each variant, in the schedule's order.
fn collect_details(
    schedule: &Schedule,
    all: &[VariantRecipe],
    platform: HypervisorKind,
    context: &CommandContext,
) -> Result<Vec<VariantDetails>> {
    let folder = context.cache_folder().ok().filter(|f| f.is_dir());
    let store = folder.map(|folder| Store::open(&folder)).transpose()?;
    let reads: Vec<&VariantRecipe> = schedule
        .variants
        .iter()
        .filter_map(|v| all.iter().find(|r| r.variant.name.value == v.name))
        .collect();
    let durations = estimate_durations(&reads, store.as_ref());
    let mut known = Vec::new();
    for (read, phases) in reads.into_iter().zip(durations) {
        let layers = match &store {
            Some(store) => {
                compute_forecast(&read.recipe, &read.plan, store, platform, &context.cancel)?
            }
            None => Forecast::None { outdated: 0 },
        };
        known.push(VariantDetails {
            recipe: read.variant.recipe.value.display().to_string(),
            values: collect_values(&read.variant),
            lock: read.lock.as_ref().map(|path| path.display().to_string()),
            layers,
            phases,
        });
    }
    Ok(known)
}

/// Returns the seconds of each phase, from the variant's last build or else the mean of other
/// variants.
fn estimate_durations(
    reads: &[&VariantRecipe],
    store: Option<&Store>,
) -> Vec<BTreeMap<Phase, f64>> {
    let own: Vec<BTreeMap<Phase, f64>> = reads
        .iter()
        .map(|read| match store {
            Some(store) => store.last_durations(&read.recipe.name.value),
            None => BTreeMap::new(),
        })
        .collect();
    let mut sums: BTreeMap<Phase, (f64, f64)> = BTreeMap::new();
    for (phase, seconds) in own.iter().flatten() {
        let (sum, number) = sums.entry(*phase).or_default();
        (*sum, *number) = (*sum + seconds, *number + 1.0);
    }
    let mean: BTreeMap<Phase, f64> = sums
        .into_iter()
        .map(|(phase, (sum, number))| (phase, sum / number))
        .collect();
    own.into_iter()
        .map(|own| {
            let mut all = mean.clone();
            all.extend(own);
            all
        })
        .collect()
}
