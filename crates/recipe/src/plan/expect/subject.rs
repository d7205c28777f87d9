//! Subjects of checks, by which the later checks that may override one are found.

use std::iter::successors;

use super::find_path;
use crate::ops::check::{ImageCheck, service_key};
use crate::{GuestPath, RegistryKey};

/// Subject of a check. Names are in lower case.
#[derive(PartialEq, Eq, Hash)]
pub enum CheckSubject {
    Path(GuestPath),
    /// The folder, or something in it.
    InFolder(GuestPath),
    Key(RegistryKey),
    /// The key, or something below it.
    InKey(RegistryKey),
    Service(String),
    PathFolder(GuestPath),
    Firewall(String),
    Feature(String),
    Capability(String),
    Driver,
    User(String),
    Group(String),
    Task(String),
    Update(String),
    Windows,
    ContainerImage(GuestPath),
}

impl CheckSubject {
    /// Returns everything that a later check is found by.
    pub fn list_of_later<F, D, I>(check: &ImageCheck<F, D, I>) -> Vec<Self> {
        let mut all = vec![Self::of(check)];
        if let Some(path) = find_path(check) {
            all.extend(with_folders(path).map(Self::InFolder));
        }
        if let Some(key) = find_key(check) {
            all.extend(with_parents(&key).map(Self::InKey));
        }
        all
    }

    /// Returns everything that finds the later checks that may override this one. Checks that it
    /// does not find leave this one as it is.
    pub fn list_of_earlier<F, D, I>(check: &ImageCheck<F, D, I>) -> Vec<Self> {
        let mut all = vec![Self::of(check)];
        // A folder or a key above it may be removed later.
        if let Some(path) = find_path(check) {
            all.extend(with_folders(path).map(Self::Path));
        }
        if let Some(key) = find_key(check) {
            all.extend(with_parents(&key).map(Self::Key));
        }
        match check {
            ImageCheck::Missing { path } => all.push(Self::InFolder(path.clone())),
            ImageCheck::Registry { key, .. } => all.push(Self::InKey(key.clone())),
            ImageCheck::Group { members, .. } => {
                all.extend(members.iter().map(|name| Self::User(name.to_lowercase())));
            }
            _ => {}
        }
        all
    }

    fn of<F, D, I>(check: &ImageCheck<F, D, I>) -> Self {
        match check {
            ImageCheck::File { path, .. }
            | ImageCheck::Exists { path }
            | ImageCheck::Missing { path } => Self::Path(path.clone()),
            ImageCheck::Acl(acl) => Self::Path(acl.path.clone()),
            ImageCheck::Registry { key, .. } => Self::Key(key.clone()),
            ImageCheck::Service(service) => Self::Service(service.name.to_lowercase()),
            ImageCheck::PathFolder { folder } => Self::PathFolder(folder.clone()),
            ImageCheck::Firewall(rule) => Self::Firewall(rule.name.to_lowercase()),
            ImageCheck::Feature { name, .. } => Self::Feature(name.to_lowercase()),
            ImageCheck::Capability { name, .. } => Self::Capability(name.to_lowercase()),
            ImageCheck::Driver { .. } => Self::Driver,
            ImageCheck::User { name, .. } => Self::User(name.to_lowercase()),
            ImageCheck::Group { name, .. } => Self::Group(name.to_lowercase()),
            ImageCheck::Task { name, .. } => Self::Task(name.to_lowercase()),
            ImageCheck::Update { kb } => Self::Update(kb.clone()),
            ImageCheck::Windows { .. } => Self::Windows,
            ImageCheck::ContainerImage { root, .. } => Self::ContainerImage(root.clone()),
        }
    }
}

/// Returns the path and the folders it is in.
pub fn with_folders(path: &GuestPath) -> impl Iterator<Item = GuestPath> {
    successors(Some(path.clone()), GuestPath::parent)
}

/// Returns the key and the keys it is in.
fn with_parents(key: &RegistryKey) -> impl Iterator<Item = RegistryKey> {
    successors(Some(key.clone()), RegistryKey::parent)
}

fn find_key<F, D, I>(check: &ImageCheck<F, D, I>) -> Option<RegistryKey> {
    match check {
        ImageCheck::Registry { key, .. } => Some(key.clone()),
        ImageCheck::Service(service) => Some(service_key(&service.name)),
        _ => None,
    }
}
