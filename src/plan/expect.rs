//! Which expectations still hold at the end: a file that a later step removes is not looked for.

use super::path::is_below;
use super::{Expectation, PlannedStep};

/// Drops every expectation that a later one contradicts or repeats.
pub(super) fn keep_what_lasts(steps: &mut [PlannedStep]) {
    let mut later: Vec<Expectation> = Vec::new();
    for step in steps.iter_mut().rev() {
        let mut kept = Vec::new();
        for expectation in step.expects.drain(..).rev() {
            if !later.iter().any(|l| overrides(l, &expectation)) {
                kept.push(expectation.clone());
            }
            later.push(expectation);
        }
        kept.reverse();
        step.expects = kept;
    }
}

fn overrides(later: &Expectation, earlier: &Expectation) -> bool {
    use Expectation::{Missing, RegistryValue, Service};
    if let (Some(a), Some(b)) = (path(later), path(earlier)) {
        return match later {
            // Gone, with what was below it; and a file below it means it came back.
            Missing { .. } => is_below(b, a),
            _ if matches!(earlier, Missing { .. }) => is_below(a, b),
            _ => a.eq_ignore_ascii_case(b),
        };
    }
    match (later, earlier) {
        (
            RegistryValue {
                key: a,
                value: v,
                data,
            },
            RegistryValue {
                key: b, value: w, ..
            },
        ) => match v {
            None if *data == crate::recipe::RegistryData::Absent => is_below(b, a),
            v => a.eq_ignore_ascii_case(b) && same_name(v.as_deref(), w.as_deref()),
        },
        (
            Service {
                name: a,
                command_line,
                start,
                ..
            },
            Service {
                name: b,
                command_line: c,
                start: s,
                ..
            },
        ) => {
            a.eq_ignore_ascii_case(b)
                && (command_line.is_some() || c.is_none())
                && (start.is_some() || s.is_none())
        }
        (
            RegistryValue {
                key, value: None, ..
            },
            Service { name, .. },
        ) => key.eq_ignore_ascii_case(&service_key(name)),
        (
            Service { name, .. },
            RegistryValue {
                key, value: None, ..
            },
        ) => key.eq_ignore_ascii_case(&service_key(name)),
        _ => later == earlier,
    }
}

/// The key that a service has while it exists.
pub(super) fn service_key(name: &str) -> String {
    format!(r"HKLM\SYSTEM\CurrentControlSet\Services\{name}")
}

fn path(expectation: &Expectation) -> Option<&str> {
    match expectation {
        Expectation::FileFrom { path, .. }
        | Expectation::TreeFrom { path, .. }
        | Expectation::Exists { path }
        | Expectation::Missing { path } => Some(path),
        _ => None,
    }
}

fn same_name(a: Option<&str>, b: Option<&str>) -> bool {
    a.unwrap_or_default().to_lowercase() == b.unwrap_or_default().to_lowercase()
}
