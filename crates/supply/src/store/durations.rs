//! How long each phase took when a recipe was last built here. People are shown it; nothing is decided by it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use winimg_base::error::Result;
use winimg_base::event::Phase;

use super::{Store, read_record, write_record};

const FORMAT: u32 = 1;

#[derive(Default, Serialize, Deserialize)]
struct Durations {
    format: u32,
    /// Seconds, of each phase that ended well.
    phases: BTreeMap<Phase, f64>,
}

impl Store {
    /// Seconds that the phase took when a recipe of this name last passed it.
    pub fn last_duration(&self, recipe: &str, phase: Phase) -> Option<f64> {
        self.durations(recipe).phases.get(&phase).copied()
    }

    /// Seconds of every phase that a recipe of this name passed, each when it last did.
    pub fn last_durations(&self, recipe: &str) -> BTreeMap<Phase, f64> {
        self.durations(recipe).phases
    }

    /// Of two builds at once the later one is remembered.
    pub fn record_duration(&self, recipe: &str, phase: Phase, seconds: f64) -> Result<()> {
        let mut durations = self.durations(recipe);
        durations.format = FORMAT;
        // Of the host's pace no more is known than this.
        let tenths = (seconds * 10.0).round() / 10.0;
        durations.phases.insert(phase, tenths);
        write_record(&self.record_of("durations", recipe), &durations)
    }

    fn durations(&self, recipe: &str) -> Durations {
        let found: Option<Durations> = read_record(&self.record_of("durations", recipe));
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
        let path = store.record_of("durations", "node");
        let text = std::fs::read_to_string(&path).expect("the record");
        for other in ["{", &text.replace("\"format\": 1", "\"format\": 2")] {
            std::fs::write(&path, other).expect("written");
            assert_eq!(store.last_duration("node", Phase::Install), None, "{other}");
        }
    }
}
