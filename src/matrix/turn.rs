//! Which builds may start now: as many as the host carries, and none that would install what another one installs already.

use winimg_base::digest::Digest;

use super::{Schedule, Variant};

/// What machines may take of this host together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    pub cpus: u32,
    /// Bytes; `None` where the system does not say it.
    pub memory: Option<u64>,
    /// Builds at once.
    pub jobs: Option<usize>,
}

/// How far a variant is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Waiting,
    /// Its installation is made, or was found: others can go on from it.
    Running {
        is_installed: bool,
    },
    /// It ended; likewise.
    Ended {
        is_installed: bool,
    },
    /// Not to be built.
    Left,
}

impl State {
    /// Whether others can go on from its installation.
    pub fn is_installed(&self) -> bool {
        match self {
            Self::Running { is_installed } | Self::Ended { is_installed } => *is_installed,
            Self::Waiting | Self::Left => false,
        }
    }
}

/// Those that may start, in the schedule's order. `states` are those of its variants.
///
/// A variant that finds no room keeps those behind it waiting, so that a large one gets its turn; where nothing runs it starts all the
/// same.
pub fn startable(schedule: &Schedule, states: &[State], host: &Host) -> Vec<usize> {
    let all = || schedule.variants.iter().zip(states);
    let is_running = |state: &State| matches!(state, State::Running { .. });
    let running: Vec<&Variant> = all()
        .filter(|(_, s)| is_running(s))
        .map(|(v, _)| v)
        .collect();
    let mut taken = Taken::of(&running);
    let of = |wanted: fn(&State) -> bool| {
        let found = all().filter(move |(_, state)| wanted(state));
        found
            .map(|(v, _)| &v.installation)
            .collect::<Vec<&Digest>>()
    };
    let made = of(State::is_installed);
    let mut installing = of(|s| {
        matches!(
            s,
            State::Running {
                is_installed: false
            }
        )
    });
    let mut start = Vec::new();
    for (index, (variant, state)) in all().enumerate() {
        let installation = &variant.installation;
        let waits = installing.contains(&installation) && !made.contains(&installation);
        if *state != State::Waiting || waits {
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

/// What runs takes.
#[derive(Default)]
struct Taken {
    builds: usize,
    cpus: u32,
    memory: u64,
}

impl Taken {
    fn of(running: &[&Variant]) -> Self {
        let mut taken = Self::default();
        running.iter().for_each(|variant| taken.add(variant));
        taken
    }

    fn add(&mut self, variant: &Variant) {
        self.builds += 1;
        self.cpus = self.cpus.saturating_add(variant.cpus);
        self.memory = self.memory.saturating_add(variant.memory);
    }

    /// Whether one more fits. The first always does: its own build says what it lacks.
    fn fits(&self, variant: &Variant, host: &Host) -> bool {
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

    use super::super::Candidate;
    use super::*;

    fn variant(name: &str, cpus: u32, gib: u64) -> Candidate {
        // `a1`: the installation, then the variant.
        let keys = [&name[..1], name].map(|key| Digest::sha256_of(key.as_bytes()));
        Candidate {
            name: name.into(),
            arguments: Vec::new(),
            keys: keys.to_vec(),
            cpus,
            memory: gib << 30,
            disk: 64 << 30,
        }
    }

    /// Plays all builds. Each is installed after its first tick and ends after its third; `fails` end at once, without an installation.
    fn played(candidates: &[Candidate], host: &Host, fails: &[&str]) -> String {
        let schedule = Schedule::of(candidates.to_vec());
        let mut states = vec![State::Waiting; schedule.variants.len()];
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
                    states[*index] = State::Ended { is_installed };
                    let _ = write!(line, " {name} ends,");
                } else if *age == 1 {
                    states[*index] = State::Running { is_installed: true };
                }
            }
            let has_ended = |state: &State| matches!(state, State::Ended { .. });
            ages.retain(|(index, _)| !has_ended(&states[*index]));
            for index in startable(&schedule, &states, host) {
                states[index] = State::Running {
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

    fn six() -> Vec<Candidate> {
        ["a1", "a2", "b1", "a3", "b2", "c1"]
            .map(|name| variant(name, 2, 4))
            .to_vec()
    }

    #[test]
    fn as_many_run_as_fit_and_sharers_wait() {
        let host = |cpus, gib: u64, jobs| Host {
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
        let host = Host {
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
        let host = Host {
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
