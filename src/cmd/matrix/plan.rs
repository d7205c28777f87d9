//! `winimg matrix plan`: nothing is fetched, nothing is started.

use std::collections::BTreeMap;

use crate::cli;
use crate::engine::forecast::{Forecast, forecast};
use crate::matrix::Schedule;
use crate::matrix::overview::{self, Known, TITLES};
use winimg_base::error::Result;
use winimg_base::event::Phase;
use winimg_machine::vm::Platform;
use winimg_supply::store::Store;

use super::super::inputs::table;
use super::super::recipe::Look;
use super::super::{Context, hypervisor, print, print_json};
use super::{Read, schedule, values, variants};

pub fn run(args: &cli::MatrixPlan, context: &Context) -> Result<()> {
    let platform = hypervisor::platform(&args.hypervisor, context)?;
    let all = variants(&args.matrix, Look::Files(Some(platform)), context)?;
    for read in &all {
        hypervisor::fits(platform, &read.recipe, context)?;
    }
    let schedule = schedule(&all, &args.matrix.output, platform)?;
    let known = known(&schedule, &all, platform, context)?;
    match args.json {
        true => print_json(&overview::json(&schedule, &known)),
        false => {
            let rows = overview::rows(&schedule, &known);
            let table = table(&TITLES, &rows, &[4]);
            print(&format!(
                "{table}\n{}",
                overview::summary(&schedule, &known)
            ))
        }
    }
}

/// In the schedule's order.
fn known(
    schedule: &Schedule,
    all: &[Read],
    platform: Platform,
    context: &Context,
) -> Result<Vec<Known>> {
    let folder = context.cache_folder().ok().filter(|f| f.is_dir());
    let store = folder.map(|folder| Store::open(&folder)).transpose()?;
    let names = schedule.variants.iter().map(|v| v.name.as_str());
    let reads = names.filter_map(|name| all.iter().find(|r| r.variant.name.value == name));
    let reads: Vec<&Read> = reads.collect();
    let durations = durations(&reads, store.as_ref());
    let mut known = Vec::new();
    for (read, phases) in reads.into_iter().zip(durations) {
        let layers = match &store {
            Some(store) => forecast(&read.recipe, &read.plan, store, platform, &context.cancel)?,
            None => Forecast::None { outdated: 0 },
        };
        known.push(Known {
            recipe: read.variant.recipe.value.display().to_string(),
            values: values(&read.variant),
            lock: read.lock.as_ref().map(|path| path.display().to_string()),
            layers,
            phases,
        });
    }
    Ok(known)
}

/// Seconds of each phase: of the variant's own last build, else the mean of those of its siblings that say it.
fn durations(reads: &[&Read], store: Option<&Store>) -> Vec<BTreeMap<Phase, f64>> {
    let own = |read: &&Read| {
        let name = &read.recipe.name.value;
        store.map_or_else(BTreeMap::new, |store| store.last_durations(name))
    };
    let own: Vec<BTreeMap<Phase, f64>> = reads.iter().map(own).collect();
    let mut sums: BTreeMap<Phase, (f64, f64)> = BTreeMap::new();
    for (phase, seconds) in own.iter().flatten() {
        let (sum, number) = sums.entry(*phase).or_default();
        (*sum, *number) = (*sum + seconds, *number + 1.0);
    }
    let mean = sums
        .into_iter()
        .map(|(phase, (sum, number))| (phase, sum / number));
    let mean: BTreeMap<Phase, f64> = mean.collect();
    let all = own.into_iter().map(|own| {
        let mut all = mean.clone();
        all.extend(own);
        all
    });
    all.collect()
}
