//! Which expectations still hold at the end: a file that a later step removes is not looked for.
//!
//! An expectation that a later one contradicts or repeats is dropped; of a service only the settings that a later step
//! did not touch are kept. So no two of those that are left contradict each other.

use super::path::is_below;
use super::{Expectation, PlannedStep};
use crate::recipe::RegistryData;

/// Drops, or cuts down, every expectation that a later one overrides.
pub(super) fn keep_what_lasts(steps: &mut [PlannedStep]) {
    keep(steps.iter_mut().map(|step| &mut step.expects));
}

fn keep<'a>(lists: impl DoubleEndedIterator<Item = &'a mut Vec<Expectation>>) {
    let mut later: Vec<Expectation> = Vec::new();
    for list in lists.rev() {
        let mut kept = Vec::new();
        for expectation in list.drain(..).rev() {
            let left = later.iter().try_fold(expectation.clone(), outlives);
            kept.extend(left);
            later.push(expectation);
        }
        kept.reverse();
        *list = kept;
    }
}

/// What is left of an expectation after a later one.
fn outlives(earlier: Expectation, later: &Expectation) -> Option<Expectation> {
    if *later == earlier {
        return None;
    }
    match earlier {
        Expectation::FileFrom { .. }
        | Expectation::TreeFrom { .. }
        | Expectation::Exists { .. }
        | Expectation::Missing { .. } => content(earlier, later),
        Expectation::Service { .. } => service(earlier, later),
        Expectation::RegistryValue { .. } => (!rewritten(&earlier, later)).then_some(earlier),
        Expectation::Group { .. } => group(earlier, later),
        other => (!replaced(&other, later)).then_some(other),
    }
}

fn content(earlier: Expectation, later: &Expectation) -> Option<Expectation> {
    let (Some(a), Some(b)) = (path(later), path(&earlier)) else {
        return Some(earlier);
    };
    let over = match (later, &earlier) {
        // Gone, with what was below it; and a file below it means it came back.
        (Expectation::Missing { .. }, Expectation::Missing { .. }) => is_below(b, a),
        // Of a tree's files only those that are gone go: which, is known when its files are.
        (Expectation::Missing { .. }, _) => is_below(b, a),
        (_, Expectation::Missing { .. }) => is_below(a, b),
        // Whose it is says nothing of what it is, nor does that it is there.
        (Expectation::Acl(_), _)
        | (
            Expectation::Exists { .. },
            Expectation::FileFrom { .. } | Expectation::TreeFrom { .. },
        ) => false,
        // Two archives in one folder add up; which of them wrote a file last is known when their files are.
        (Expectation::TreeFrom { .. }, Expectation::TreeFrom { .. }) => false,
        _ => same(a, b),
    };
    (!over).then_some(earlier)
}

/// Every setting that the later one says is no longer the earlier one's to say. Nothing said: the service is there.
fn service(mut earlier: Expectation, later: &Expectation) -> Option<Expectation> {
    let Expectation::Service {
        name,
        command_line,
        start,
        depends,
        account,
        restart_delays,
    } = &mut earlier
    else {
        return Some(earlier);
    };
    match later {
        Expectation::Service {
            name: later_name,
            command_line: later_line,
            start: later_start,
            depends: later_depends,
            account: later_account,
            restart_delays: later_delays,
        } if same(name, later_name) => {
            *command_line = command_line.take().filter(|_| later_line.is_none());
            *start = start.filter(|_| later_start.is_none());
            *account = account.take().filter(|_| later_account.is_none());
            if !later_depends.is_empty() {
                depends.clear();
            }
            if !later_delays.is_empty() {
                restart_delays.clear();
            }
        }
        Expectation::RegistryValue {
            key,
            value: None,
            data: RegistryData::Absent,
        } => return (!is_below(&service_key(name), key)).then_some(earlier),
        Expectation::RegistryValue {
            key,
            value: Some(value),
            ..
        } if same(key, &service_key(name)) => match setting(value) {
            Some(Setting::Start) => *start = None,
            Some(Setting::CommandLine) => *command_line = None,
            Some(Setting::Depends) => depends.clear(),
            Some(Setting::Account) => *account = None,
            Some(Setting::Failure) => restart_delays.clear(),
            None => {}
        },
        _ => return Some(earlier),
    }
    let silent = command_line.is_none()
        && start.is_none()
        && account.is_none()
        && depends.is_empty()
        && restart_delays.is_empty();
    (!silent).then_some(earlier)
}

enum Setting {
    Start,
    CommandLine,
    Depends,
    Account,
    Failure,
}

/// Where the service control manager keeps it (Microsoft: HKLM\SYSTEM\CurrentControlSet\Services registry tree).
fn setting(value: &str) -> Option<Setting> {
    Some(match value.to_ascii_lowercase().as_str() {
        "start" | "delayedautostart" => Setting::Start,
        "imagepath" => Setting::CommandLine,
        "dependonservice" | "dependongroup" => Setting::Depends,
        "objectname" => Setting::Account,
        "failureactions" => Setting::Failure,
        _ => return None,
    })
}

/// Whether a later expectation says something else of the registry value or key.
fn rewritten(earlier: &Expectation, later: &Expectation) -> bool {
    let Expectation::RegistryValue { key, value, data } = earlier else {
        return false;
    };
    match later {
        Expectation::RegistryValue {
            key: later_key,
            value: None,
            data: RegistryData::Absent,
        } => is_below(key, later_key),
        Expectation::RegistryValue {
            key: later_key,
            value: later_value,
            ..
        } => match (value, data) {
            // The key was to be gone, and is there again with a value in it.
            (None, RegistryData::Absent) => is_below(later_key, key),
            _ => same(key, later_key) && same_name(value.as_deref(), later_value.as_deref()),
        },
        Expectation::Service {
            name,
            command_line,
            start,
            depends,
            account,
            restart_delays,
        } => {
            let own = service_key(name);
            let said = match value.as_deref().and_then(setting) {
                Some(Setting::Start) => start.is_some(),
                Some(Setting::CommandLine) => command_line.is_some(),
                Some(Setting::Depends) => !depends.is_empty(),
                Some(Setting::Account) => account.is_some(),
                Some(Setting::Failure) => !restart_delays.is_empty(),
                None => false,
            };
            match (value, data) {
                (None, RegistryData::Absent) => is_below(&own, key),
                _ => said && same(key, &own),
            }
        }
        _ => false,
    }
}

/// Members add up; an account that is gone is nobody's member any more.
fn group(mut earlier: Expectation, later: &Expectation) -> Option<Expectation> {
    let Expectation::Group {
        name,
        present,
        members,
    } = &mut earlier
    else {
        return Some(earlier);
    };
    let over = match later {
        Expectation::Group {
            name: later_name,
            present: later_present,
            ..
        } if same(name, later_name) => !(*present && *later_present),
        Expectation::User {
            name: gone,
            present: false,
            ..
        } => {
            members.retain(|m| !same(m, gone));
            false
        }
        _ => false,
    };
    (!over).then_some(earlier)
}

/// What a later expectation of the same name replaces as a whole.
fn replaced(earlier: &Expectation, later: &Expectation) -> bool {
    use Expectation::{Acl, Capability, Feature, Firewall, Missing, Task, User};
    match (earlier, later) {
        (Firewall(a), Firewall(b)) => same(&a.name, &b.name),
        (User { name: a, .. }, User { name: b, .. })
        | (Task { name: a, .. }, Task { name: b, .. })
        | (Feature { name: a, .. }, Feature { name: b, .. })
        | (Capability { name: a, .. }, Capability { name: b, .. }) => same(a, b),
        (Acl(a), Acl(b)) => same(&a.path, &b.path),
        (Acl(a), Missing { path }) => is_below(&a.path, path),
        _ => false,
    }
}

/// The key that a service has while it exists.
pub(super) fn service_key(name: &str) -> String {
    format!(r"HKLM\SYSTEM\CurrentControlSet\Services\{name}")
}

/// The file or folder that the expectation says is there, or is not.
fn path(expectation: &Expectation) -> Option<&str> {
    match expectation {
        Expectation::FileFrom { path, .. }
        | Expectation::TreeFrom { path, .. }
        | Expectation::Exists { path }
        | Expectation::Missing { path } => Some(path),
        Expectation::Acl(acl) => Some(&acl.path),
        _ => None,
    }
}

/// As Windows compares names.
fn same(a: &str, b: &str) -> bool {
    a.to_lowercase() == b.to_lowercase()
}

fn same_name(a: Option<&str>, b: Option<&str>) -> bool {
    same(a.unwrap_or_default(), b.unwrap_or_default())
}

#[cfg(test)]
mod tests;
