//! `winimg matrix plan`: every variant in its turn, as a table and as JSON.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::{Schedule, Shared, Variant};
use crate::engine::forecast::Forecast;
use winimg_base::event::Phase;
use winimg_base::text::{count, duration};

/// What is known of one variant beside its place in the schedule.
pub struct Known {
    /// The recipe's file.
    pub recipe: String,
    /// Of each axis the name of its value.
    pub values: BTreeMap<String, String>,
    /// The lock that is obeyed.
    pub lock: Option<String>,
    pub layers: Forecast,
    /// Seconds of each phase of its last build here, or of its siblings' where it has none.
    pub phases: BTreeMap<Phase, f64>,
}

/// How much of a build is here, or will be when its turn comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Start {
    Installs,
    /// From a layer: of an earlier build, or of a variant before it.
    Resumes,
    /// The finished disk is here.
    Exports,
}

impl Known {
    fn start(&self, variant: &Variant) -> Start {
        match self.layers.held() {
            Some((held, all)) if held == all => Start::Exports,
            Some((held, _)) if held > 0 => Start::Resumes,
            _ if variant.is_first => Start::Installs,
            _ => Start::Resumes,
        }
    }

    /// Seconds of the phases that the build has; `None` where no earlier build says any.
    fn expected(&self, variant: &Variant) -> Option<f64> {
        let start = self.start(variant);
        let is_passed = |phase: Phase| match phase {
            Phase::Install => start == Start::Installs,
            Phase::Boot => start == Start::Resumes,
            Phase::Provision | Phase::Seal => start != Start::Exports,
            Phase::Fetch | Phase::Media | Phase::Verify | Phase::Export => true,
            Phase::Try => false,
        };
        let passed: Vec<f64> = self
            .phases
            .iter()
            .filter(|(phase, _)| is_passed(**phase))
            .map(|(_, seconds)| *seconds)
            .collect();
        (!passed.is_empty()).then(|| passed.iter().sum())
    }

    fn cached(&self) -> String {
        match (&self.layers, self.layers.held()) {
            (_, Some((held, all))) if held == all => "the finished disk".into(),
            (_, Some((held, all))) if held > 0 => format!("{held} of {all} parts"),
            (Forecast::Unknown(_), _) => "unknown before the inputs are fetched".into(),
            (Forecast::Undecided, _) => "unknown before all is decided".into(),
            (Forecast::None { .. } | Forecast::Known(_), _) => "-".into(),
        }
    }
}

/// The rows of the table, under [`TITLES`].
pub fn rows(schedule: &Schedule, known: &[Known]) -> Vec<Vec<String>> {
    let row = |(variant, known): (&Variant, &Known)| {
        let at = schedule
            .installations
            .iter()
            .position(|i| i.key == variant.installation);
        let word = if variant.is_first { "makes" } else { "takes" };
        let shares = match &variant.shares {
            None => "-".into(),
            Some(Shared { with, parts }) => format!("{parts} of {} with {with}", variant.parts),
        };
        let minutes = known.expected(variant);
        vec![
            variant.name.clone(),
            format!("{word} {}", at.map_or(0, |at| at + 1)),
            shares,
            known.cached(),
            minutes.map_or_else(|| "-".into(), duration),
            if known.lock.is_some() { "yes" } else { "no" }.into(),
        ]
    };
    schedule.variants.iter().zip(known).map(row).collect()
}

pub const TITLES: [&str; 6] = [
    "variant",
    "installation",
    "shares",
    "in the cache",
    "expected",
    "locked",
];

/// What stands below the table.
pub fn summary(schedule: &Schedule, known: &[Known]) -> String {
    let variants = count(schedule.variants.len(), "variant");
    let installations = count(schedule.installations.len(), "installation");
    let mut text = format!("{variants}, {installations} of Windows in all");
    let each = schedule.variants.iter().zip(known);
    let each: Option<Vec<f64>> = each
        .map(|(variant, known)| known.expected(variant))
        .collect();
    if let Some(each) = each {
        text += &format!("; {} one after the other", duration(each.iter().sum()));
    }
    text + "\n"
}

pub fn json(schedule: &Schedule, known: &[Known]) -> Value {
    let variant = |(variant, known): (&Variant, &Known)| {
        let mut value = json!(variant);
        value["recipe"] = json!(known.recipe);
        value["values"] = json!(known.values);
        value["lock"] = json!(known.lock);
        value["start"] = json!(known.start(variant));
        value["layers"] = known.layers.json();
        value["expected_seconds"] = json!(known.expected(variant));
        value
    };
    let variants: Vec<Value> = schedule.variants.iter().zip(known).map(variant).collect();
    json!({ "installations": schedule.installations, "variants": variants })
}
