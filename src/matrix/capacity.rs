//! Chooses the builds that may start now: as many as the host can run, and none that would repeat
//! an installation already in progress.

use winimg_base::digest::Digest;

use super::{Schedule, ScheduledVariant};

/// Resources of this host for all machines together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostResources {
    pub cpus: u32,
    /// In bytes; `None` if the system does not report it.
    pub memory: Option<u64>,
    /// Maximum number of concurrent builds.
    pub jobs: Option<usize>,
}

/// Progress of a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariantProgress {
    Waiting,
    /// `is_installed`: its installation was made or found, so others can start from it.
    Running {
        is_installed: bool,
    },
    /// `is_installed` as for a running variant.
    Ended {
        is_installed: bool,
    },
    /// Is not built.
    Left,
}

impl VariantProgress {
    /// Returns true if others can start from its installation.
    pub fn is_installed(&self) -> bool {
        match self {
            Self::Running { is_installed } | Self::Ended { is_installed } => *is_installed,
            Self::Waiting | Self::Left => false,
        }
    }
}

/// Returns the indices of the variants that may start, in the schedule's order. `states` belong to
/// its variants.
///
/// A variant without enough resources blocks the ones behind it, so that a large one gets its turn;
/// if nothing is running it starts anyway.
pub fn find_startable(
    schedule: &Schedule,
    states: &[VariantProgress],
    host: &HostResources,
) -> Vec<usize> {
    let mut taken = UsedResources::default();
    let mut installed: Vec<&Digest> = Vec::new();
    let mut installing: Vec<&Digest> = Vec::new();
    for (variant, state) in schedule.variants.iter().zip(states) {
        if matches!(state, VariantProgress::Running { .. }) {
            taken.add(variant);
        }
        if state.is_installed() {
            installed.push(&variant.installation);
        } else if matches!(state, VariantProgress::Running { .. }) {
            installing.push(&variant.installation);
        }
    }
    let mut start = Vec::new();
    for (index, (variant, state)) in schedule.variants.iter().zip(states).enumerate() {
        let installation = &variant.installation;
        let waits = installing.contains(&installation) && !installed.contains(&installation);
        if *state != VariantProgress::Waiting || waits {
            continue;
        }
        if !taken.fits(variant, host) {
            break;
        }
        taken.add(variant);
        installing.push(installation);
        start.push(index);
    }
    start
}

/// Resources that running builds use.
#[derive(Default)]
struct UsedResources {
    builds: usize,
    cpus: u32,
    memory: u64,
}

impl UsedResources {
    fn add(&mut self, variant: &ScheduledVariant) {
        self.builds += 1;
        self.cpus = self.cpus.saturating_add(variant.cpus);
        self.memory = self.memory.saturating_add(variant.memory);
    }

    /// Returns true if one more fits. The first always does: its build reports missing resources.
    fn fits(&self, variant: &ScheduledVariant, host: &HostResources) -> bool {
        let Self {
            builds,
            cpus,
            memory,
        } = *self;
        if builds == 0 {
            return true;
        }
        let has_room = host
            .memory
            .is_none_or(|all| memory.saturating_add(variant.memory) <= all);
        has_room
            && cpus.saturating_add(variant.cpus) <= host.cpus
            && host.jobs.is_none_or(|jobs| builds < jobs)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::fmt::Write as _;

    use super::super::VariantCandidate;
    use super::*;

    fn variant(name: &str, cpus: u32, gib: u64) -> VariantCandidate {
        // `a1`: the installation, then the variant.
        let keys = [&name[..1], name].map(|key| Digest::sha256_of(key.as_bytes()));
        VariantCandidate {
            name: name.into(),
            arguments: Vec::new(),
            keys: keys.to_vec(),
            cpus,
            memory: gib << 30,
            disk: 64 << 30,
        }
    }

    /// Plays all builds. Each is installed after its first tick and ends after its third; `fails`
    /// end at once, without an installation.
    fn played(candidates: &[VariantCandidate], host: &HostResources, fails: &[&str]) -> String {
        let schedule = Schedule::from_candidates(candidates.to_vec());
        let mut states = vec![VariantProgress::Waiting; schedule.variants.len()];
        let mut ages: VecDeque<(usize, u32)> = VecDeque::new();
        let mut text = String::new();
        for tick in 0..50 {
            let mut line = String::new();
            for (index, age) in &mut ages {
                *age += 1;
                let name = &schedule.variants[*index].name;
                let is_failed = fails.contains(&name.as_str());
                if is_failed || *age == 3 {
                    let is_installed = !is_failed;
                    states[*index] = VariantProgress::Ended { is_installed };
                    let _ = write!(line, " {name} ends,");
                } else if *age == 1 {
                    states[*index] = VariantProgress::Running { is_installed: true };
                }
            }
            let has_ended =
                |state: &VariantProgress| matches!(state, VariantProgress::Ended { .. });
            ages.retain(|(index, _)| !has_ended(&states[*index]));
            for index in find_startable(&schedule, &states, host) {
                states[index] = VariantProgress::Running {
                    is_installed: false,
                };
                ages.push_back((index, 0));
                let _ = write!(line, " {} starts,", schedule.variants[index].name);
            }
            if !line.is_empty() {
                let _ = writeln!(text, "{tick}:{}", line.trim_end_matches(','));
            }
            if states.iter().all(has_ended) {
                return text;
            }
        }
        panic!("it never ends:\n{text}");
    }

    fn six() -> Vec<VariantCandidate> {
        ["a1", "a2", "b1", "a3", "b2", "c1"]
            .map(|name| variant(name, 2, 4))
            .to_vec()
    }

    #[test]
    fn as_many_run_as_fit_and_sharers_wait() {
        let host = |cpus, gib: u64, jobs| HostResources {
            cpus,
            memory: Some(gib << 30),
            jobs,
        };
        let mut text = String::new();
        for (title, host) in [
            ("room for all", host(64, 256, None)),
            ("room for two", host(5, 256, None)),
            ("memory for one", host(64, 7, None)),
            ("--jobs 3", host(64, 256, Some(3))),
            ("less than one needs", host(1, 1, None)),
        ] {
            let _ = writeln!(text, "{title}\n{}", played(&six(), &host, &[]));
        }
        insta::assert_snapshot!(text);
    }

    #[test]
    fn after_a_failed_installation_the_next_one_makes_it() {
        let host = HostResources {
            cpus: 64,
            memory: None,
            jobs: None,
        };
        assert_eq!(
            played(&six()[..2], &host, &["a1"]),
            "0: a1 starts\n1: a1 ends, a2 starts\n4: a2 ends\n"
        );
    }

    #[test]
    fn a_large_one_gets_its_turn() {
        let host = HostResources {
            cpus: 8,
            memory: None,
            jobs: None,
        };
        let all = [("a1", 4), ("b1", 8), ("c1", 4)];
        let all = all.map(|(name, cpus)| variant(name, cpus, 4));
        assert_eq!(
            played(&all, &host, &[]),
            "0: a1 starts\n3: a1 ends, b1 starts\n6: b1 ends, c1 starts\n9: c1 ends\n"
        );
    }
}
