//! `winimg diff`: what differs between two images, as far as their manifests, their records of disk usage and their disks say.
//!
//! Pure but for `disk`, which reads. What one side does not say is not compared, and the result names it.

pub mod disk;
mod manifest;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::usage::{self, Change, DiskUsage};

pub use manifest::facts;
pub use text::text;

/// What is known of one thing, by the names of its properties.
pub type Fields = BTreeMap<String, String>;
/// All things of which something is known.
pub type Facts = BTreeMap<(Kind, String), Fields>;

/// What a difference is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The recipe and the winimg that built it.
    Build,
    Windows,
    Machine,
    Target,
    /// What went in: by version, digest, proof and signers.
    Component,
    /// A file that a step put there or removed.
    File,
    /// A value of the registry that a step set.
    Registry,
    /// As a step set it, or as the disk has it.
    Service,
    /// An update, a feature or a capability that a step installed.
    Feature,
    /// A package of Windows' servicing, as the disk has it.
    Package,
    /// Everything else that has to hold in the image because of a step.
    Setting,
    Artifact,
}

/// One image, as far as it is known.
#[derive(Default)]
pub struct Side {
    /// As it was given.
    pub name: String,
    pub manifest: Option<Facts>,
    /// Services and packages.
    pub disk: Option<Facts>,
    pub usage: Option<DiskUsage>,
}

/// The result. All sizes are bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(title = "winimg comparison of two images, version 1")]
pub struct Diff {
    /// The version of this layout.
    pub schema: Schema,
    pub a: String,
    pub b: String,
    pub differences: Vec<Difference>,
    /// The folders whose size differs most.
    pub folders: Vec<Change>,
    /// What could not be compared, and why.
    pub not_compared: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Schema {
    #[default]
    #[serde(rename = "winimg/diff/1")]
    V1,
}

/// One thing that is not the same in both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Difference {
    pub kind: Kind,
    pub name: String,
    pub change: How,
    /// The properties that differ; of what was added or removed all that are known.
    pub fields: Vec<Field>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum How {
    Added,
    Removed,
    Changed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Field {
    pub name: String,
    /// Absent: `a` does not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Absent: `b` does not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

impl Diff {
    pub fn is_empty(&self) -> bool {
        self.differences.is_empty() && self.folders.is_empty()
    }
}

/// The JSON Schema, as `schemas/diff-1.json` holds it.
pub fn schema() -> String {
    format!("{:#}\n", schemars::schema_for!(Diff).as_value())
}

pub fn compare(a: &Side, b: &Side) -> Diff {
    let mut differences = Vec::new();
    let mut not_compared = Vec::new();
    let mut lack = |what: &str, has: [bool; 2], source: &str| {
        for (side, _) in [a, b].into_iter().zip(has).filter(|(_, has)| !has) {
            not_compared.push(format!("{what}: {} has no {source}", side.name));
        }
    };
    let are_read = a.disk.is_some() && b.disk.is_some();
    if let (Some(one), Some(other)) = (&a.manifest, &b.manifest) {
        // Disks know of every service; manifests only of those that steps made.
        let keep = |facts: &Facts| -> Facts {
            let kept = facts
                .iter()
                .filter(|((kind, _), _)| !are_read || *kind != Kind::Service);
            kept.map(|(key, fields)| (key.clone(), fields.clone()))
                .collect()
        };
        collect(&keep(one), &keep(other), &mut differences);
    }
    lack(
        "components, files, registry values and settings of steps, targets, artifacts",
        [a.manifest.is_some(), b.manifest.is_some()],
        "manifest",
    );
    if let (Some(one), Some(other)) = (&a.disk, &b.disk) {
        collect(one, other, &mut differences);
    }
    lack(
        "services and packages that no step names",
        [a.disk.is_some(), b.disk.is_some()],
        "disk that was read",
    );
    let folders = match (&a.usage, &b.usage) {
        (Some(one), Some(other)) => usage::changes(&one.root, &other.root),
        _ => Vec::new(),
    };
    lack(
        "size by folder",
        [a.usage.is_some(), b.usage.is_some()],
        "record of disk usage",
    );
    differences.sort_by(|one, other| (one.kind, &one.name).cmp(&(other.kind, &other.name)));
    Diff {
        schema: Schema::V1,
        a: a.name.clone(),
        b: b.name.clone(),
        differences,
        folders,
        not_compared,
    }
}

fn collect(a: &Facts, b: &Facts, found: &mut Vec<Difference>) {
    let keys: BTreeSet<_> = a.keys().chain(b.keys()).collect();
    for key in keys {
        let (one, other) = (a.get(key), b.get(key));
        let change = match (one, other) {
            (None, _) => How::Added,
            (_, None) => How::Removed,
            _ => How::Changed,
        };
        let (kind, name) = key;
        let fields = fields(one, other);
        if change != How::Changed || !fields.is_empty() {
            found.push(Difference {
                kind: *kind,
                name: name.clone(),
                change,
                fields,
            });
        }
    }
}

fn fields(a: Option<&Fields>, b: Option<&Fields>) -> Vec<Field> {
    let names: BTreeSet<&String> = a
        .into_iter()
        .chain(b)
        .flat_map(|fields| fields.keys())
        .collect();
    let fields = names.into_iter().map(|name| Field {
        name: name.clone(),
        before: a.and_then(|fields| fields.get(name)).cloned(),
        after: b.and_then(|fields| fields.get(name)).cloned(),
    });
    fields.filter(|field| field.before != field.after).collect()
}
