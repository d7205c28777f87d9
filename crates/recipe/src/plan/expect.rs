//! Determines which checks still apply to the finished image: a file that a later step removes is
//! not expected.
//!
//! A check that a later one contradicts or repeats is dropped; for a service, only settings that no
//! later step touches are kept. The remaining checks never contradict each other. This runs twice:
//! on a plan, and again when the files of its trees are known.

mod subject;

use std::collections::{BTreeSet, HashMap, HashSet};

use super::check::{CheckedContent, ImageCheck, ServiceCheck, service_key};
use crate::{GuestPath, RegistryValueData};
use subject::{CheckSubject, with_folders};

/// Drops, or reduces, every check that a later one overrides. Also drops the check that a file
/// exists if its content is checked, so that a missing file is reported once. The lists are those
/// of the steps, in order.
pub fn keep_what_lasts<'a, F, D, I>(lists: impl Iterator<Item = &'a mut Vec<ImageCheck<F, D, I>>>)
where
    F: CheckedContent + Clone + PartialEq + 'a,
    D: Clone + PartialEq + 'a,
    I: Clone + PartialEq + 'a,
{
    let mut lists: Vec<_> = lists.collect();
    let mut later = LaterChecks::default();
    for list in lists.iter_mut().rev() {
        let mut kept = Vec::new();
        for check in list.drain(..).rev() {
            kept.extend(later.reduce(check.clone()));
            later.add(check);
        }
        kept.reverse();
        **list = kept;
    }
    let checks = lists.iter().flat_map(|list| list.iter());
    let files: HashSet<GuestPath> = checks.filter_map(one_file).cloned().collect();
    for list in lists {
        list.retain(|check| match check {
            ImageCheck::Exists { path } => !files.contains(path),
            _ => true,
        });
    }
}

/// Checks of later steps. There may be thousands, so they are looked up, not compared one by one.
struct LaterChecks<F, D, I> {
    files: HashSet<GuestPath>,
    /// The folders of these files.
    folders: HashSet<GuestPath>,
    others: Vec<ImageCheck<F, D, I>>,
    /// Their indices, ascending.
    by_subject: HashMap<CheckSubject, Vec<usize>>,
}

impl<F, D, I> Default for LaterChecks<F, D, I> {
    fn default() -> Self {
        Self {
            files: HashSet::new(),
            folders: HashSet::new(),
            others: Vec::new(),
            by_subject: HashMap::new(),
        }
    }
}

impl<F, D, I> LaterChecks<F, D, I>
where
    F: CheckedContent + PartialEq,
    D: PartialEq,
    I: PartialEq,
{
    fn add(&mut self, check: ImageCheck<F, D, I>) {
        match one_file(&check) {
            Some(path) => {
                self.files.insert(path.clone());
                for folder in with_folders(path).skip(1) {
                    if !self.folders.insert(folder) {
                        break;
                    }
                }
            }
            None => {
                for subject in CheckSubject::list_of_later(&check) {
                    let indices = self.by_subject.entry(subject).or_default();
                    indices.push(self.others.len());
                }
                self.others.push(check);
            }
        }
    }

    /// Returns the part of an earlier check that is not overridden.
    fn reduce(&self, check: ImageCheck<F, D, I>) -> Option<ImageCheck<F, D, I>> {
        let written = match &check {
            ImageCheck::File { path, .. } | ImageCheck::Exists { path } => {
                self.files.contains(path)
            }
            // The folder exists again, with a file in it.
            ImageCheck::Missing { path } => {
                self.files.contains(path) || self.folders.contains(path)
            }
            _ => false,
        };
        if written {
            return None;
        }
        let indices: BTreeSet<usize> = CheckSubject::list_of_earlier(&check)
            .iter()
            .filter_map(|subject| self.by_subject.get(subject))
            .flatten()
            .copied()
            .collect();
        indices.into_iter().try_fold(check, |check, index| {
            reduce_check(check, &self.others[index])
        })
    }
}

/// Returns the path of a check of a single file's content.
fn one_file<F: CheckedContent, D, I>(check: &ImageCheck<F, D, I>) -> Option<&GuestPath> {
    match check {
        ImageCheck::File { path, content } if !content.is_tree() => Some(path),
        _ => None,
    }
}

/// Returns the part of a check that a later one, which is not about a single file's content, does
/// not override.
fn reduce_check<F, D, I>(
    earlier: ImageCheck<F, D, I>,
    later: &ImageCheck<F, D, I>,
) -> Option<ImageCheck<F, D, I>>
where
    F: CheckedContent + PartialEq,
    D: PartialEq,
    I: PartialEq,
{
    if *later == earlier {
        return None;
    }
    match earlier {
        ImageCheck::File { .. } | ImageCheck::Exists { .. } | ImageCheck::Missing { .. } => {
            (!rewritten_path(&earlier, later)).then_some(earlier)
        }
        ImageCheck::Service(service) => service_after(service, later).map(ImageCheck::Service),
        ImageCheck::Registry { .. } => {
            (!is_registry_overridden(&earlier, later)).then_some(earlier)
        }
        ImageCheck::Group { .. } => group(earlier, later),
        other => (!is_replaced(&other, later)).then_some(other),
    }
}

/// Returns true if a later check overrides that of a file or folder.
fn rewritten_path<F: CheckedContent, D, I>(
    earlier: &ImageCheck<F, D, I>,
    later: &ImageCheck<F, D, I>,
) -> bool {
    let (Some(a), Some(b)) = (find_path(later), find_path(earlier)) else {
        return false;
    };
    match (later, earlier) {
        // Removed, with everything below it. For a tree, this is decided once its files are known.
        (ImageCheck::Missing { .. }, _) => b.starts_with(a),
        // A file below it means that it exists again.
        (_, ImageCheck::Missing { .. }) => a.starts_with(b),
        // Access rights and existence do not override content.
        (ImageCheck::Acl(_), _) | (ImageCheck::Exists { .. }, ImageCheck::File { .. }) => false,
        // Two archives in one folder add up. Which of them wrote a file last is decided once their
        // files are known.
        (ImageCheck::File { .. }, ImageCheck::File { content, .. }) if content.is_tree() => false,
        _ => a == b,
    }
}

/// Removes the settings that a later check overrides. `None` if no setting remains.
fn service_after<F, D, I>(
    mut earlier: ServiceCheck,
    later: &ImageCheck<F, D, I>,
) -> Option<ServiceCheck> {
    let own = service_key(&earlier.name);
    match later {
        ImageCheck::Service(later) if is_same_name(&earlier.name, &later.name) => {
            for setting in SETTINGS.into_iter().filter(|one| later.has_setting(*one)) {
                earlier.forget(setting);
            }
        }
        ImageCheck::Registry {
            key,
            value: None,
            data: RegistryValueData::Absent,
        } => return (!own.starts_with(key)).then_some(earlier),
        ImageCheck::Registry {
            key,
            value: Some(value),
            ..
        } if *key == own => {
            if let Some(setting) = find_setting(value) {
                earlier.forget(setting);
            }
        }
        _ => return Some(earlier),
    }
    SETTINGS
        .iter()
        .any(|one| earlier.has_setting(*one))
        .then_some(earlier)
}

#[derive(Clone, Copy)]
enum ServiceSetting {
    Start,
    CommandLine,
    Depends,
    Account,
    Failure,
}

const SETTINGS: [ServiceSetting; 5] = [
    ServiceSetting::Start,
    ServiceSetting::CommandLine,
    ServiceSetting::Depends,
    ServiceSetting::Account,
    ServiceSetting::Failure,
];

impl ServiceCheck {
    fn has_setting(&self, setting: ServiceSetting) -> bool {
        match setting {
            ServiceSetting::Start => self.start.is_some(),
            ServiceSetting::CommandLine => self.command_line.is_some(),
            ServiceSetting::Depends => !self.depends.is_empty(),
            ServiceSetting::Account => self.account.is_some(),
            ServiceSetting::Failure => !self.restart_delays.is_empty(),
        }
    }

    fn forget(&mut self, setting: ServiceSetting) {
        match setting {
            ServiceSetting::Start => self.start = None,
            ServiceSetting::CommandLine => self.command_line = None,
            ServiceSetting::Depends => self.depends.clear(),
            ServiceSetting::Account => self.account = None,
            ServiceSetting::Failure => self.restart_delays.clear(),
        }
    }
}

/// Returns the setting that a registry value of a service belongs to (Microsoft:
/// HKLM\SYSTEM\CurrentControlSet\Services registry tree).
fn find_setting(value: &str) -> Option<ServiceSetting> {
    Some(match value.to_ascii_lowercase().as_str() {
        "start" | "delayedautostart" => ServiceSetting::Start,
        "imagepath" => ServiceSetting::CommandLine,
        "dependonservice" | "dependongroup" => ServiceSetting::Depends,
        "objectname" => ServiceSetting::Account,
        "failureactions" => ServiceSetting::Failure,
        _ => return None,
    })
}

/// Returns true if a later check overrides that of a registry value or key.
fn is_registry_overridden<F, D, I>(
    earlier: &ImageCheck<F, D, I>,
    later: &ImageCheck<F, D, I>,
) -> bool {
    let ImageCheck::Registry { key, value, data } = earlier else {
        return false;
    };
    let is_gone = value.is_none() && *data == RegistryValueData::Absent;
    match later {
        ImageCheck::Registry {
            key: later_key,
            value: None,
            data: RegistryValueData::Absent,
        } => key.starts_with(later_key),
        // The key was expected to be gone, but exists again with a value in it.
        ImageCheck::Registry { key: later_key, .. } if is_gone => later_key.starts_with(key),
        ImageCheck::Registry {
            key: later_key,
            value: later_value,
            ..
        } => key == later_key && same_name(value.as_deref(), later_value.as_deref()),
        ImageCheck::Service(service) if is_gone => service_key(&service.name).starts_with(key),
        ImageCheck::Service(service) => {
            let setting = value.as_deref().and_then(find_setting);
            setting.is_some_and(|one| service.has_setting(one))
                && *key == service_key(&service.name)
        }
        _ => false,
    }
}

/// Returns the part of a group check that a later check does not override. Members add up; a
/// removed account is no longer a member.
fn group<F, D, I>(
    mut earlier: ImageCheck<F, D, I>,
    later: &ImageCheck<F, D, I>,
) -> Option<ImageCheck<F, D, I>> {
    let ImageCheck::Group {
        name,
        present,
        members,
    } = &mut earlier
    else {
        return Some(earlier);
    };
    let over = match later {
        ImageCheck::Group {
            name: later_name,
            present: later_present,
            ..
        } if is_same_name(name, later_name) => !(*present && *later_present),
        ImageCheck::User {
            name: gone,
            present: false,
            ..
        } => {
            members.retain(|m| !is_same_name(m, gone));
            false
        }
        _ => false,
    };
    (!over).then_some(earlier)
}

/// Returns true if a later check with the same name replaces the earlier one entirely.
fn is_replaced<F, D, I>(earlier: &ImageCheck<F, D, I>, later: &ImageCheck<F, D, I>) -> bool {
    use ImageCheck::{Acl, Capability, Feature, Firewall, Missing, Task, User};
    match (earlier, later) {
        (Firewall(a), Firewall(b)) => is_same_name(&a.name, &b.name),
        (User { name: a, .. }, User { name: b, .. })
        | (Task { name: a, .. }, Task { name: b, .. })
        | (Feature { name: a, .. }, Feature { name: b, .. })
        | (Capability { name: a, .. }, Capability { name: b, .. }) => is_same_name(a, b),
        (Acl(a), Acl(b)) => a.path == b.path,
        (Acl(a), Missing { path }) => a.path.starts_with(path),
        _ => false,
    }
}

/// Returns the file or folder of a check.
fn find_path<F, D, I>(check: &ImageCheck<F, D, I>) -> Option<&GuestPath> {
    match check {
        ImageCheck::File { path, .. }
        | ImageCheck::Exists { path }
        | ImageCheck::Missing { path } => Some(path),
        ImageCheck::Acl(acl) => Some(&acl.path),
        _ => None,
    }
}

/// Compares two names the way Windows does.
fn is_same_name(a: &str, b: &str) -> bool {
    a.to_lowercase() == b.to_lowercase()
}

fn same_name(a: Option<&str>, b: Option<&str>) -> bool {
    is_same_name(a.unwrap_or_default(), b.unwrap_or_default())
}

#[cfg(test)]
mod tests;
