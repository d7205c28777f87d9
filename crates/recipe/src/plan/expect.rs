//! Which checks still hold at the end: a file that a later step removes is not looked for.
//!
//! A check that a later one contradicts or repeats is dropped; of a service only the settings that a later step did not touch
//! are kept. So no two of those that are left contradict each other. Asked twice: of a plan, and again when the files of its
//! trees are known.

use std::collections::HashSet;

use super::check::{Check, Files, Service};
use crate::recipe::{GuestPath, RegistryData, RegistryKey};

/// Drops, or cuts down, every check that a later one overrides; and that a file is there where its bytes are expected: one
/// that is gone is reported once. The lists are those of the steps, in their order.
pub fn keep_what_lasts<'a, F, D, I>(lists: impl Iterator<Item = &'a mut Vec<Check<F, D, I>>>)
where
    F: Files + Clone + PartialEq + 'a,
    D: Clone + PartialEq + 'a,
    I: Clone + PartialEq + 'a,
{
    let mut lists: Vec<_> = lists.collect();
    let mut later = Later::default();
    for list in lists.iter_mut().rev() {
        let mut kept = Vec::new();
        for check in list.drain(..).rev() {
            kept.extend(later.leaves(check.clone()));
            later.add(check);
        }
        kept.reverse();
        **list = kept;
    }
    let checks = lists.iter().flat_map(|list| list.iter());
    let files: HashSet<GuestPath> = checks.filter_map(one_file).cloned().collect();
    for list in lists {
        list.retain(|check| match check {
            Check::Exists { path } => !files.contains(path),
            _ => true,
        });
    }
}

/// What later steps ask for. An archive has thousands of files, so these are looked up and not compared one by one.
struct Later<F, D, I> {
    files: HashSet<GuestPath>,
    others: Vec<Check<F, D, I>>,
}

impl<F, D, I> Default for Later<F, D, I> {
    fn default() -> Self {
        Self {
            files: HashSet::new(),
            others: Vec::new(),
        }
    }
}

impl<F, D, I> Later<F, D, I>
where
    F: Files + PartialEq,
    D: PartialEq,
    I: PartialEq,
{
    fn add(&mut self, check: Check<F, D, I>) {
        match one_file(&check) {
            Some(path) => drop(self.files.insert(path.clone())),
            None => self.others.push(check),
        }
    }

    /// What is left of an earlier check.
    fn leaves(&self, check: Check<F, D, I>) -> Option<Check<F, D, I>> {
        let written = match &check {
            Check::File { path, .. } | Check::Exists { path } => self.files.contains(path),
            // It came back, with a file in it.
            Check::Missing { path } => self.files.iter().any(|file| file.starts_with(path)),
            _ => false,
        };
        let mut others = self.others.iter();
        others.try_fold(Some(check).filter(|_| !written)?, outlives)
    }
}

/// Whose bytes are expected.
fn one_file<F: Files, D, I>(check: &Check<F, D, I>) -> Option<&GuestPath> {
    match check {
        Check::File { path, content } if !content.is_tree() => Some(path),
        _ => None,
    }
}

/// What is left of a check after a later one that names no bytes of a file.
fn outlives<F, D, I>(earlier: Check<F, D, I>, later: &Check<F, D, I>) -> Option<Check<F, D, I>>
where
    F: Files + PartialEq,
    D: PartialEq,
    I: PartialEq,
{
    if *later == earlier {
        return None;
    }
    match earlier {
        Check::File { .. } | Check::Exists { .. } | Check::Missing { .. } => {
            (!rewritten_path(&earlier, later)).then_some(earlier)
        }
        Check::Service(service) => service_after(service, later).map(Check::Service),
        Check::Registry { .. } => (!rewritten(&earlier, later)).then_some(earlier),
        Check::Group { .. } => group(earlier, later),
        other => (!replaced(&other, later)).then_some(other),
    }
}

/// Whether a later check says something else of the file or folder.
fn rewritten_path<F: Files, D, I>(earlier: &Check<F, D, I>, later: &Check<F, D, I>) -> bool {
    let (Some(a), Some(b)) = (path(later), path(earlier)) else {
        return false;
    };
    match (later, earlier) {
        // Gone, with what was below it. Of a tree's files only those that are gone go: which, is known when its files are.
        (Check::Missing { .. }, _) => b.starts_with(a),
        // A file below it means it came back.
        (_, Check::Missing { .. }) => a.starts_with(b),
        // Whose it is says nothing of what it is, nor does that it is there.
        (Check::Acl(_), _) | (Check::Exists { .. }, Check::File { .. }) => false,
        // Two archives in one folder add up; which of them wrote a file last is known when their files are.
        (Check::File { .. }, Check::File { content, .. }) if content.is_tree() => false,
        _ => a == b,
    }
}

/// Every setting that the later one says is no longer the earlier one's to say. Nothing said: the service is there.
fn service_after<F, D, I>(mut earlier: Service, later: &Check<F, D, I>) -> Option<Service> {
    let own = service_key(&earlier.name);
    match later {
        Check::Service(later) if same(&earlier.name, &later.name) => {
            let said = SETTINGS.into_iter().filter(|one| later.says(*one));
            said.for_each(|one| earlier.forget(one));
        }
        Check::Registry {
            key,
            value: None,
            data: RegistryData::Absent,
        } => return (!own.starts_with(key)).then_some(earlier),
        Check::Registry {
            key,
            value: Some(value),
            ..
        } if *key == own => setting(value)
            .into_iter()
            .for_each(|one| earlier.forget(one)),
        _ => return Some(earlier),
    }
    SETTINGS
        .iter()
        .any(|one| earlier.says(*one))
        .then_some(earlier)
}

#[derive(Clone, Copy)]
enum Setting {
    Start,
    CommandLine,
    Depends,
    Account,
    Failure,
}

const SETTINGS: [Setting; 5] = [
    Setting::Start,
    Setting::CommandLine,
    Setting::Depends,
    Setting::Account,
    Setting::Failure,
];

impl Service {
    fn says(&self, setting: Setting) -> bool {
        match setting {
            Setting::Start => self.start.is_some(),
            Setting::CommandLine => self.command_line.is_some(),
            Setting::Depends => !self.depends.is_empty(),
            Setting::Account => self.account.is_some(),
            Setting::Failure => !self.restart_delays.is_empty(),
        }
    }

    fn forget(&mut self, setting: Setting) {
        match setting {
            Setting::Start => self.start = None,
            Setting::CommandLine => self.command_line = None,
            Setting::Depends => self.depends.clear(),
            Setting::Account => self.account = None,
            Setting::Failure => self.restart_delays.clear(),
        }
    }
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

/// Whether a later check says something else of the registry value or key.
fn rewritten<F, D, I>(earlier: &Check<F, D, I>, later: &Check<F, D, I>) -> bool {
    let Check::Registry { key, value, data } = earlier else {
        return false;
    };
    let is_gone = value.is_none() && *data == RegistryData::Absent;
    match later {
        Check::Registry {
            key: later_key,
            value: None,
            data: RegistryData::Absent,
        } => key.starts_with(later_key),
        // The key was to be gone, and is there again with a value in it.
        Check::Registry { key: later_key, .. } if is_gone => later_key.starts_with(key),
        Check::Registry {
            key: later_key,
            value: later_value,
            ..
        } => key == later_key && same_name(value.as_deref(), later_value.as_deref()),
        Check::Service(service) if is_gone => service_key(&service.name).starts_with(key),
        Check::Service(service) => {
            let setting = value.as_deref().and_then(setting);
            setting.is_some_and(|one| service.says(one)) && *key == service_key(&service.name)
        }
        _ => false,
    }
}

/// Members add up; an account that is gone is nobody's member any more.
fn group<F, D, I>(mut earlier: Check<F, D, I>, later: &Check<F, D, I>) -> Option<Check<F, D, I>> {
    let Check::Group {
        name,
        present,
        members,
    } = &mut earlier
    else {
        return Some(earlier);
    };
    let over = match later {
        Check::Group {
            name: later_name,
            present: later_present,
            ..
        } if same(name, later_name) => !(*present && *later_present),
        Check::User {
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

/// What a later check of the same name replaces as a whole.
fn replaced<F, D, I>(earlier: &Check<F, D, I>, later: &Check<F, D, I>) -> bool {
    use Check::{Acl, Capability, Feature, Firewall, Missing, Task, User};
    match (earlier, later) {
        (Firewall(a), Firewall(b)) => same(&a.name, &b.name),
        (User { name: a, .. }, User { name: b, .. })
        | (Task { name: a, .. }, Task { name: b, .. })
        | (Feature { name: a, .. }, Feature { name: b, .. })
        | (Capability { name: a, .. }, Capability { name: b, .. }) => same(a, b),
        (Acl(a), Acl(b)) => a.path == b.path,
        (Acl(a), Missing { path }) => a.path.starts_with(path),
        _ => false,
    }
}

/// The key that a service has while it exists.
pub(super) fn service_key(name: &str) -> RegistryKey {
    RegistryKey::known(r"HKLM\SYSTEM\CurrentControlSet\Services").join(name)
}

/// The file or folder that the check says is there, or is not.
fn path<F, D, I>(check: &Check<F, D, I>) -> Option<&GuestPath> {
    match check {
        Check::File { path, .. } | Check::Exists { path } | Check::Missing { path } => Some(path),
        Check::Acl(acl) => Some(&acl.path),
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
