//! Which expectations still hold at the end: a file that a later step removes is not looked for.

use super::path::is_below;
use super::{Expectation, PlannedStep};

/// Drops every expectation that a later one contradicts or repeats.
pub(super) fn keep_what_lasts(steps: &mut [PlannedStep]) {
    let mut later: Vec<Expectation> = Vec::new();
    for step in steps.iter_mut().rev() {
        let mut kept = Vec::new();
        for expectation in step.expects.drain(..).rev() {
            let said_again = later.iter().any(|l| overrides(l, &expectation));
            let lasting = (!said_again).then(|| without_changed(&later, expectation.clone()));
            kept.extend(lasting.flatten());
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
        _ => later == earlier || same_thing(later, earlier),
    }
}

/// Both speak of the same rule, account, list or task, and the later one says all there is to say.
fn same_thing(later: &Expectation, earlier: &Expectation) -> bool {
    use Expectation::{Acl, Firewall, Group, Task, User};
    match (later, earlier) {
        // Windows compares rule names by character; netsh's `delete rule` takes them in any case.
        (Firewall(a), Firewall(b)) => same_name(Some(&a.name), Some(&b.name)),
        (User { name: a, .. }, User { name: b, .. })
        | (Task { name: a, .. }, Task { name: b, .. }) => same_name(Some(a), Some(b)),
        (Acl(a), Acl(b)) => same_name(Some(&a.path), Some(&b.path)),
        // Gone with its file or folder.
        (Expectation::Missing { path }, Acl(acl)) => is_below(&acl.path, path),
        // Members only ever join, so each membership lasts unless the group or the member goes.
        (
            Group {
                name: a,
                present: false,
                ..
            },
            Group { name: b, .. },
        )
        | (
            Group { name: a, .. },
            Group {
                name: b,
                present: false,
                ..
            },
        ) => same_name(Some(a), Some(b)),
        _ => false,
    }
}

/// The expectation without what later ones change: a service step may say only part of a service, and a user who
/// goes is in no group. `None` when nothing is left of it.
fn without_changed(later: &[Expectation], mut expectation: Expectation) -> Option<Expectation> {
    use Expectation::{Group, Service, User};
    for other in later {
        match (other, &mut expectation) {
            (
                Service {
                    name: a,
                    command_line,
                    start,
                    depends,
                    account,
                    restart_delays,
                },
                Service {
                    name: b,
                    command_line: c,
                    start: s,
                    depends: d,
                    account: o,
                    restart_delays: r,
                },
            ) if a.eq_ignore_ascii_case(b) => {
                c.take_if(|_| command_line.is_some());
                s.take_if(|_| start.is_some());
                o.take_if(|_| account.is_some());
                if !depends.is_empty() {
                    d.clear();
                }
                if !restart_delays.is_empty() {
                    r.clear();
                }
            }
            (
                User {
                    name,
                    present: false,
                    ..
                },
                Group { members, .. },
            ) => members.retain(|member| !same_name(Some(member), Some(name))),
            _ => {}
        }
    }
    let emptied = match &expectation {
        // That it exists is said by the later one.
        Service {
            command_line: None,
            start: None,
            account: None,
            depends,
            restart_delays,
            name,
        } => {
            let again = |e: &Expectation| matches!(e, Service { name: n, .. } if n.eq_ignore_ascii_case(name));
            depends.is_empty() && restart_delays.is_empty() && later.iter().any(again)
        }
        _ => false,
    };
    (!emptied).then_some(expectation)
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
