//! Likely causes of a machine that is stuck at an unreadable screen.

use serde::Deserialize;

use super::CATALOGUE;
use crate::vm::HypervisorKind;
use crate::vm::purpose::MachinePurpose;

/// Likely causes in one phase of a machine.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StuckSymptom {
    pub id: String,
    purposes: Vec<MachinePurpose>,
    /// `None`: any.
    hypervisor: Option<HypervisorKind>,
    /// The firmware has started nothing since the last restart.
    #[serde(default)]
    before_loader: bool,
    max_restarts: Option<u32>,
    /// Bytes on the disk.
    max_written: Option<u64>,
    /// Most likely first.
    pub causes: Vec<String>,
    pub source: String,
}

/// Facts about a stuck machine.
pub struct StuckMachine {
    pub purpose: MachinePurpose,
    pub hypervisor: HypervisorKind,
    /// The firmware has started something since the last restart.
    pub started: bool,
    pub restarts: u32,
    pub disk_written: u64,
}

impl StuckSymptom {
    fn fits(&self, seen: &StuckMachine) -> bool {
        self.purposes.contains(&seen.purpose)
            && self.hypervisor.is_none_or(|kind| kind == seen.hypervisor)
            && !(self.before_loader && seen.started)
            && self.max_restarts.is_none_or(|most| seen.restarts <= most)
            && self
                .max_written
                .is_none_or(|most| seen.disk_written <= most)
    }
}

/// Returns the first row that fits a stuck machine.
pub fn find_stuck(seen: &StuckMachine) -> Option<&'static StuckSymptom> {
    CATALOGUE.stuck.iter().find(|row| row.fits(seen))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_phase_of_setup_has_its_own_first_cause() {
        let phases = [
            (false, 0, 0),
            (true, 0, 0),
            (true, 0, 1),
            (true, 0, 1 << 30),
            (true, 1, 1 << 30),
            (true, 2, 1 << 30),
        ];
        let rows: BTreeSet<&String> = phases
            .iter()
            .map(|&(started, restarts, disk_written)| {
                let row = find_stuck(&StuckMachine {
                    purpose: MachinePurpose::Install,
                    hypervisor: HypervisorKind::Qemu,
                    started,
                    restarts,
                    disk_written,
                });
                &row.expect("a row").causes[0]
            })
            .collect();
        assert_eq!(rows.len(), phases.len());
    }

    #[test]
    fn every_purpose_has_causes_on_every_hypervisor() {
        use MachinePurpose::{Boot, Clone, Install, Steps};
        for purpose in [Install, Boot, Steps, Clone] {
            for hypervisor in [HypervisorKind::Qemu, HypervisorKind::HyperV] {
                for (started, restarts) in [(false, 0), (true, 0), (true, 9)] {
                    let seen = StuckMachine {
                        purpose,
                        hypervisor,
                        started,
                        restarts,
                        disk_written: u64::MAX,
                    };
                    assert!(find_stuck(&seen).is_some(), "{purpose:?} {hypervisor:?}");
                }
            }
        }
    }
}
