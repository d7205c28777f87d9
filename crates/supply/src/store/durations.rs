//! Durations of the phases of each recipe's last build, only for display.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use winimg_base::error::Result;
use winimg_base::event::Phase;

use super::{Store, read_record, write_record};

const FORMAT: u32 = 1;

#[derive(Default, Serialize, Deserialize)]
struct PhaseDurations {
    format: u32,
    /// Seconds of each successful phase.
    phases: BTreeMap<Phase, f64>,
}

impl Store {
    /// Returns the seconds of the phase's last success for a recipe of this name.
    pub fn last_duration(&self, recipe: &str, phase: Phase) -> Option<f64> {
        self.read_durations(recipe).phases.get(&phase).copied()
    }

    /// Returns the seconds of each phase's last success for a recipe of this name.
    pub fn last_durations(&self, recipe: &str) -> BTreeMap<Phase, f64> {
        self.read_durations(recipe).phases
    }

    /// Records a duration. With concurrent builds the later one wins.
    pub fn record_duration(&self, recipe: &str, phase: Phase, seconds: f64) -> Result<()> {
        let mut durations = self.read_durations(recipe);
        durations.format = FORMAT;
        // More precision would be meaningless.
        let tenths = (seconds * 10.0).round() / 10.0;
        durations.phases.insert(phase, tenths);
        write_record(&self.record_path("durations", recipe), &durations)
    }

    fn read_durations(&self, recipe: &str) -> PhaseDurations {
        let found: Option<PhaseDurations> = read_record(&self.record_path("durations", recipe));
        found
            .filter(|found| found.format == FORMAT)
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_duration_of_each_recipe_and_phase_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path()).expect("a store");
        assert_eq!(store.last_duration("node", Phase::Install), None);
        for (recipe, phase, seconds) in [
            ("node", Phase::Install, 900.0),
            ("node", Phase::Export, 61.26),
            ("other", Phase::Install, 5.0),
            ("node", Phase::Install, 840.04),
        ] {
            store.record_duration(recipe, phase, seconds).expect("kept");
        }
        assert_eq!(store.last_duration("node", Phase::Install), Some(840.0));
        assert_eq!(store.last_duration("node", Phase::Export), Some(61.3));
        assert_eq!(store.last_duration("node", Phase::Seal), None);
        let path = store.record_path("durations", "node");
        let text = std::fs::read_to_string(&path).expect("the record");
        for other in ["{", &text.replace("\"format\": 1", "\"format\": 2")] {
            std::fs::write(&path, other).expect("written");
            assert_eq!(store.last_duration("node", Phase::Install), None, "{other}");
        }
    }
}
