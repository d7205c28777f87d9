//! `winimg matrix plan`: all variants in build order, as a table and as JSON.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::{Schedule, ScheduledVariant, SharedParts};
use crate::engine::forecast::Forecast;
use winimg_base::event::Phase;
use winimg_base::text::{count, format_duration};

/// Details of one variant besides its place in the schedule.
pub struct VariantDetails {
    /// The recipe's file.
    pub recipe: String,
    /// Name of the value for each axis.
    pub values: BTreeMap<String, String>,
    /// The lock file in use.
    pub lock: Option<String>,
    pub layers: Forecast,
    /// Seconds per phase of its last build on this host, or else of its siblings' builds.
    pub phases: BTreeMap<Phase, f64>,
}

/// The point at which a build starts when its turn comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum StartPoint {
    Installs,
    /// Starts from a layer of an earlier build or of a variant before it.
    Resumes,
    /// The finished disk exists.
    Exports,
}

impl StartPoint {
    /// Returns true if a build that starts here runs this phase.
    fn has_phase(self, phase: Phase) -> bool {
        match phase {
            Phase::Install => self == Self::Installs,
            Phase::Boot => self == Self::Resumes,
            Phase::Provision | Phase::Seal => self != Self::Exports,
            Phase::Fetch | Phase::Media | Phase::Verify | Phase::Export => true,
            Phase::Try => false,
        }
    }
}

impl VariantDetails {
    fn find_start(&self, variant: &ScheduledVariant) -> StartPoint {
        match self.layers.count_cached() {
            Some((held, all)) if held == all => StartPoint::Exports,
            Some((held, _)) if held > 0 => StartPoint::Resumes,
            _ if variant.is_first => StartPoint::Installs,
            _ => StartPoint::Resumes,
        }
    }

    /// Estimates the build's duration in seconds; `None` without data from an earlier build.
    fn estimate_seconds(&self, variant: &ScheduledVariant) -> Option<f64> {
        let start = self.find_start(variant);
        let seconds: Vec<f64> = self
            .phases
            .iter()
            .filter(|(phase, _)| start.has_phase(**phase))
            .map(|(_, seconds)| *seconds)
            .collect();
        (!seconds.is_empty()).then(|| seconds.iter().sum())
    }

    fn describe_cache(&self) -> String {
        match (&self.layers, self.layers.count_cached()) {
            (_, Some((held, all))) if held == all => "the finished disk".into(),
            (_, Some((held, all))) if held > 0 => format!("{held} of {all} parts"),
            (Forecast::Unknown(_), _) => "unknown until the inputs are fetched".into(),
            (Forecast::Undecided, _) => "unknown until the recipe is complete".into(),
            (Forecast::None { .. } | Forecast::Known(_), _) => "-".into(),
        }
    }
}

/// Renders the rows of the table, under [`TITLES`].
pub fn render_rows(schedule: &Schedule, known: &[VariantDetails]) -> Vec<Vec<String>> {
    schedule
        .variants
        .iter()
        .zip(known)
        .map(|(variant, known)| render_row(schedule, variant, known))
        .collect()
}

fn render_row(
    schedule: &Schedule,
    variant: &ScheduledVariant,
    known: &VariantDetails,
) -> Vec<String> {
    let at = schedule
        .installations
        .iter()
        .position(|i| i.key == variant.installation);
    let word = if variant.is_first { "makes" } else { "uses" };
    let shares = match &variant.shares {
        None => "-".into(),
        Some(SharedParts { with, parts }) => format!("{parts} of {} with {with}", variant.parts),
    };
    let seconds = known.estimate_seconds(variant);
    vec![
        variant.name.clone(),
        format!("{word} {}", at.map_or(0, |at| at + 1)),
        shares,
        known.describe_cache(),
        seconds.map_or_else(|| "-".into(), format_duration),
        if known.lock.is_some() { "yes" } else { "no" }.into(),
    ]
}

pub const TITLES: [&str; 6] = [
    "variant",
    "installation",
    "shares",
    "in the cache",
    "expected",
    "locked",
];

/// Renders the line below the table.
pub fn render_summary(schedule: &Schedule, known: &[VariantDetails]) -> String {
    let variants = count(schedule.variants.len(), "variant");
    let installations = count(schedule.installations.len(), "installation");
    let mut text = format!("{variants}, {installations} of Windows in total");
    let seconds: Option<Vec<f64>> = schedule
        .variants
        .iter()
        .zip(known)
        .map(|(variant, known)| known.estimate_seconds(variant))
        .collect();
    if let Some(seconds) = seconds {
        text += &format!(
            "; {} when built sequentially",
            format_duration(seconds.iter().sum())
        );
    }
    text + "\n"
}

pub fn to_json(schedule: &Schedule, known: &[VariantDetails]) -> Value {
    let variants: Vec<Value> = schedule
        .variants
        .iter()
        .zip(known)
        .map(|(variant, known)| {
            let mut value = json!(variant);
            value["recipe"] = json!(known.recipe);
            value["values"] = json!(known.values);
            value["lock"] = json!(known.lock);
            value["start"] = json!(known.find_start(variant));
            value["layers"] = known.layers.render_json();
            value["expected_seconds"] = json!(known.estimate_seconds(variant));
            value
        })
        .collect();
    json!({ "installations": schedule.installations, "variants": variants })
}
