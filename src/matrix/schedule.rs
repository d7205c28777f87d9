//! The order in which variants share most, and who makes what the others take.

use serde::Serialize;

use winimg_base::digest::Digest;

/// A variant before its place among the others is known.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub name: String,
    /// What follows `winimg build`.
    pub arguments: Vec<String>,
    /// Of each part of the build, the installation first: where two variants begin with the same keys they share layers
    /// ([`outline`](super::outline)).
    pub keys: Vec<Digest>,
    pub cpus: u32,
    /// Bytes.
    pub memory: u64,
    /// Bytes: as large as the machine's disk may grow.
    pub disk: u64,
}

/// All builds of a matrix.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Schedule {
    /// In the order in which they are first needed.
    pub installations: Vec<Installation>,
    /// Those that share an installation stand behind each other, and among them those that share steps.
    pub variants: Vec<Variant>,
}

/// One installation of Windows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Installation {
    /// The same in every run with the same recipes and locks; not the key of a layer.
    pub key: Digest,
    /// The variant whose build makes it.
    pub first: String,
    /// Those that go on from its layer.
    pub sharers: Vec<String>,
}

/// One build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Variant {
    pub name: String,
    /// What follows `winimg build`.
    pub arguments: Vec<String>,
    /// The key of its installation.
    pub installation: Digest,
    /// Whether it makes that installation.
    pub is_first: bool,
    /// How many parts its build has: the installation and each step.
    pub parts: usize,
    /// What a variant before it has made already.
    pub shares: Option<Shared>,
    pub cpus: u32,
    /// Bytes.
    pub memory: u64,
    /// Bytes: as large as the machine's disk may grow.
    pub disk: u64,
}

/// The beginning of a build that another one has as well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shared {
    /// The variant.
    pub with: String,
    /// How many parts.
    pub parts: usize,
}

impl Schedule {
    pub fn of(candidates: Vec<Candidate>) -> Self {
        let places: Vec<Vec<usize>> = candidates.iter().map(|c| places(c, &candidates)).collect();
        let mut ordered: Vec<(Vec<usize>, Candidate)> =
            places.into_iter().zip(candidates).collect();
        // Stable: what shares nothing stays as the matrix has it.
        ordered.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut schedule = Self::default();
        let mut before: Option<Candidate> = None;
        for (_, candidate) in ordered {
            let variant = placed(&candidate, before.as_ref());
            let known = schedule.installations.iter_mut();
            match known.rev().find(|i| i.key == variant.installation) {
                Some(installation) => installation.sharers.push(variant.name.clone()),
                None => schedule.installations.push(Installation {
                    key: variant.installation.clone(),
                    first: variant.name.clone(),
                    sharers: Vec::new(),
                }),
            }
            schedule.variants.push(variant);
            before = Some(candidate);
        }
        schedule
    }
}

/// Of each part the first candidate that has all up to it: by these, those that share are neighbours.
fn places(candidate: &Candidate, all: &[Candidate]) -> Vec<usize> {
    let first = |parts: usize| {
        let has = |other: &Candidate| common(other, candidate) >= parts;
        all.iter().position(has).unwrap_or(all.len())
    };
    (1..=candidate.keys.len()).map(first).collect()
}

fn common(a: &Candidate, b: &Candidate) -> usize {
    let both = a.keys.iter().zip(&b.keys);
    both.take_while(|(a, b)| a == b).count()
}

/// The variant behind `before`, with which it shares as much as with any other before it.
fn placed(candidate: &Candidate, before: Option<&Candidate>) -> Variant {
    let shares = before.and_then(|before| {
        let parts = common(before, candidate);
        let with = before.name.clone();
        (parts > 0).then_some(Shared { with, parts })
    });
    // A chain begins with its installation.
    let installation = candidate.keys.first().cloned();
    Variant {
        name: candidate.name.clone(),
        arguments: candidate.arguments.clone(),
        installation: installation.unwrap_or_else(|| Digest::sha256_of(candidate.name.as_bytes())),
        is_first: shares.is_none(),
        parts: candidate.keys.len(),
        shares,
        cpus: candidate.cpus,
        memory: candidate.memory,
        disk: candidate.disk,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(name: &str, parts: &str) -> Candidate {
        let key = |end: usize| Digest::sha256_of(&parts.as_bytes()[..end]);
        Candidate {
            name: name.into(),
            arguments: vec!["r.toml".into()],
            keys: (1..=parts.len()).map(key).collect(),
            cpus: 2,
            memory: 4 << 30,
            disk: 64 << 30,
        }
    }

    /// Of each variant its name, whether it makes its installation, and what it shares with whom.
    fn shown(schedule: &Schedule) -> String {
        let line = |v: &Variant| match &v.shares {
            None => format!("{} installs\n", v.name),
            Some(Shared { with, parts }) => {
                format!("{} takes {parts} of {} with {with}\n", v.name, v.parts)
            }
        };
        schedule.variants.iter().map(line).collect()
    }

    #[test]
    fn those_that_share_more_stand_nearer() {
        // One letter a part, the installation first.
        let all = [
            ("1.34-2022", "aux4s"),
            ("1.34-2025", "bux4s"),
            ("1.35-2022", "aux5s"),
            ("1.35-2025", "bux5s"),
            ("debug-2022", "aud"),
            ("1.34-2022-again", "aux4t"),
        ];
        let schedule = Schedule::of(all.map(|(n, p)| candidate(n, p)).to_vec());
        assert_eq!(
            shown(&schedule),
            "\
1.34-2022 installs
1.34-2022-again takes 4 of 5 with 1.34-2022
1.35-2022 takes 3 of 5 with 1.34-2022-again
debug-2022 takes 2 of 3 with 1.35-2022
1.34-2025 installs
1.35-2025 takes 3 of 5 with 1.34-2025
"
        );
        let installations = &schedule.installations;
        let sharers: Vec<&[String]> = installations.iter().map(|i| &i.sharers[..]).collect();
        assert_eq!(
            sharers,
            [
                &["1.34-2022-again", "1.35-2022", "debug-2022"].map(String::from)[..],
                &["1.35-2025"].map(String::from)
            ]
        );
        let again: Vec<Candidate> = all.iter().rev().map(|(n, p)| candidate(n, p)).collect();
        assert_eq!(Schedule::of(again).installations.len(), 2);
    }
}
