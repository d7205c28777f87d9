//! Orders variants so that they share as many layers as possible.

use serde::Serialize;

use winimg_base::digest::Digest;

/// A variant that has no place among the others yet.
#[derive(Clone, Debug)]
pub struct VariantCandidate {
    pub name: String,
    /// Arguments of `winimg build`.
    pub arguments: Vec<String>,
    /// One key for each part of the build, the installation first: variants that start with the
    /// same keys share layers ([`outline`](super::outline)).
    pub keys: Vec<Digest>,
    pub cpus: u32,
    /// In bytes.
    pub memory: u64,
    /// Maximum size of the machine's disk in bytes.
    pub disk: u64,
}

/// All builds of a matrix.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Schedule {
    /// In the order in which they are first needed.
    pub installations: Vec<ScheduledInstallation>,
    /// Grouped by installation, and within it by shared steps.
    pub variants: Vec<ScheduledVariant>,
}

/// One installation of Windows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScheduledInstallation {
    /// Stable for the same recipes and locks; not the key of a layer.
    pub key: Digest,
    /// The variant whose build makes it.
    pub first: String,
    /// Variants that start from its layer.
    pub sharers: Vec<String>,
}

/// One build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScheduledVariant {
    pub name: String,
    /// Arguments of `winimg build`.
    pub arguments: Vec<String>,
    /// The key of its installation.
    pub installation: Digest,
    /// True for the variant that makes the installation.
    pub is_first: bool,
    /// Number of parts of its build: the installation and each step.
    pub parts: usize,
    /// Parts that an earlier variant has already built.
    pub shares: Option<SharedParts>,
    pub cpus: u32,
    /// In bytes.
    pub memory: u64,
    /// Maximum size of the machine's disk in bytes.
    pub disk: u64,
}

/// The leading parts of a build that it has in common with another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SharedParts {
    /// Name of the other variant.
    pub with: String,
    /// Number of parts.
    pub parts: usize,
}

impl Schedule {
    pub fn from_candidates(candidates: Vec<VariantCandidate>) -> Self {
        let places: Vec<Vec<usize>> = candidates
            .iter()
            .map(|c| find_places(c, &candidates))
            .collect();
        let mut ordered: Vec<(Vec<usize>, VariantCandidate)> =
            places.into_iter().zip(candidates).collect();
        // A stable sort: variants that share nothing keep the order of the matrix.
        ordered.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut schedule = Self::default();
        let mut before: Option<VariantCandidate> = None;
        for (_, candidate) in ordered {
            let variant = place_variant(&candidate, before.as_ref());
            let known = schedule.installations.iter_mut();
            match known.rev().find(|i| i.key == variant.installation) {
                Some(installation) => installation.sharers.push(variant.name.clone()),
                None => schedule.installations.push(ScheduledInstallation {
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

/// Returns for each part the index of the first candidate that has all parts up to it. Sorting by
/// these makes candidates with common parts neighbours.
fn find_places(candidate: &VariantCandidate, all: &[VariantCandidate]) -> Vec<usize> {
    (1..=candidate.keys.len())
        .map(|parts| {
            all.iter()
                .position(|other| count_common_parts(other, candidate) >= parts)
                .unwrap_or(all.len())
        })
        .collect()
}

fn count_common_parts(a: &VariantCandidate, b: &VariantCandidate) -> usize {
    a.keys
        .iter()
        .zip(&b.keys)
        .take_while(|(a, b)| a == b)
        .count()
}

/// Returns the variant that follows `before`, the one with which it shares the most.
fn place_variant(
    candidate: &VariantCandidate,
    before: Option<&VariantCandidate>,
) -> ScheduledVariant {
    let shares = before.and_then(|before| {
        let parts = count_common_parts(before, candidate);
        let with = before.name.clone();
        (parts > 0).then_some(SharedParts { with, parts })
    });
    // A chain starts with its installation.
    let installation = candidate.keys.first().cloned();
    ScheduledVariant {
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

    fn candidate(name: &str, parts: &str) -> VariantCandidate {
        let key = |end: usize| Digest::sha256_of(&parts.as_bytes()[..end]);
        VariantCandidate {
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
        let line = |v: &ScheduledVariant| match &v.shares {
            None => format!("{} installs\n", v.name),
            Some(SharedParts { with, parts }) => {
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
        let schedule = Schedule::from_candidates(all.map(|(n, p)| candidate(n, p)).to_vec());
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
        let again: Vec<VariantCandidate> = all.iter().rev().map(|(n, p)| candidate(n, p)).collect();
        assert_eq!(Schedule::from_candidates(again).installations.len(), 2);
    }
}
