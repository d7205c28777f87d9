//! `winimg diff`: compares two images by their manifests, disk usage records and disks.
//!
//! Pure except for `disk`, which reads. Facts that one side does not have are not compared; the
//! result lists them.

pub mod disk;
mod manifest;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::usage::{self, DiskUsage, FolderChange};

pub use manifest::collect_facts;
pub use text::render;

/// Properties of one item by name.
pub type DiffFields = BTreeMap<String, String>;
/// All known items with their properties.
pub type DiffFacts = BTreeMap<(DiffKind, String), DiffFields>;

/// Subject of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiffKind {
    /// The recipe and the winimg that built it.
    Build,
    Windows,
    Machine,
    Target,
    /// An input: its version, digest, proof and signers.
    Component,
    /// A file that a step wrote or removed.
    File,
    /// A registry value that a step set.
    Registry,
    /// A service as configured by a step or found on the disk.
    Service,
    /// An update, a feature or a capability that a step installed.
    Feature,
    /// A Windows package found on the disk.
    Package,
    /// Any other state of the image that a step ensures.
    Setting,
    Artifact,
}

/// One of the two images.
#[derive(Default)]
pub struct DiffSide {
    /// Path as given on the command line.
    pub name: String,
    pub manifest: Option<DiffFacts>,
    /// Services and packages.
    pub disk: Option<DiffFacts>,
    pub usage: Option<DiskUsage>,
}

/// The result. All sizes are bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(title = "winimg comparison of two images, version 1")]
pub struct ImageDiff {
    /// The version of this layout.
    pub schema: DiffSchema,
    pub a: String,
    pub b: String,
    pub differences: Vec<DiffEntry>,
    /// The folders whose size differs most.
    pub folders: Vec<FolderChange>,
    /// Facts that could not be compared, with the reason.
    pub not_compared: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub enum DiffSchema {
    #[default]
    #[serde(rename = "winimg/diff/1")]
    V1,
}

/// An item that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DiffEntry {
    pub kind: DiffKind,
    pub name: String,
    pub change: DiffChange,
    /// Properties that differ; all known ones if the item was added or removed.
    pub fields: Vec<DiffField>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiffChange {
    Added,
    Removed,
    Changed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DiffField {
    pub name: String,
    /// Absent if `a` does not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Absent if `b` does not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

impl ImageDiff {
    pub fn is_empty(&self) -> bool {
        self.differences.is_empty() && self.folders.is_empty()
    }
}

/// Returns the JSON Schema that `schemas/diff-1.json` contains.
pub fn generate_schema() -> String {
    format!("{:#}\n", schemars::schema_for!(ImageDiff).as_value())
}

pub fn compare(a: &DiffSide, b: &DiffSide) -> ImageDiff {
    let mut differences = Vec::new();
    let mut not_compared = Vec::new();
    let has_both_disks = a.disk.is_some() && b.disk.is_some();
    if let (Some(one), Some(other)) = (&a.manifest, &b.manifest) {
        if has_both_disks {
            // Disks list every service; manifests only those that steps created.
            collect_differences(&omit_services(one), &omit_services(other), &mut differences);
        } else {
            collect_differences(one, other, &mut differences);
        }
    }
    for side in [a, b].into_iter().filter(|side| side.manifest.is_none()) {
        not_compared.push(format!(
            "components, files, registry values and settings of steps, targets, artifacts: \
             {} has no manifest",
            side.name
        ));
    }
    if let (Some(one), Some(other)) = (&a.disk, &b.disk) {
        collect_differences(one, other, &mut differences);
    }
    for side in [a, b].into_iter().filter(|side| side.disk.is_none()) {
        not_compared.push(format!(
            "services and packages that no step names: the disk of {} was not read",
            side.name
        ));
    }
    let folders = match (&a.usage, &b.usage) {
        (Some(one), Some(other)) => usage::compare_folders(&one.root, &other.root),
        _ => Vec::new(),
    };
    for side in [a, b].into_iter().filter(|side| side.usage.is_none()) {
        not_compared.push(format!(
            "size by folder: {} has no disk usage record",
            side.name
        ));
    }
    differences.sort_by(|one, other| (one.kind, &one.name).cmp(&(other.kind, &other.name)));
    ImageDiff {
        schema: DiffSchema::V1,
        a: a.name.clone(),
        b: b.name.clone(),
        differences,
        folders,
        not_compared,
    }
}

fn omit_services(facts: &DiffFacts) -> DiffFacts {
    facts
        .iter()
        .filter(|((kind, _), _)| *kind != DiffKind::Service)
        .map(|(key, fields)| (key.clone(), fields.clone()))
        .collect()
}

fn collect_differences(a: &DiffFacts, b: &DiffFacts, found: &mut Vec<DiffEntry>) {
    let keys: BTreeSet<_> = a.keys().chain(b.keys()).collect();
    for key in keys {
        let (one, other) = (a.get(key), b.get(key));
        let change = match (one, other) {
            (None, _) => DiffChange::Added,
            (_, None) => DiffChange::Removed,
            _ => DiffChange::Changed,
        };
        let (kind, name) = key;
        let fields = compare_fields(one, other);
        if change != DiffChange::Changed || !fields.is_empty() {
            found.push(DiffEntry {
                kind: *kind,
                name: name.clone(),
                change,
                fields,
            });
        }
    }
}

fn compare_fields(a: Option<&DiffFields>, b: Option<&DiffFields>) -> Vec<DiffField> {
    let names: BTreeSet<&String> = a
        .into_iter()
        .chain(b)
        .flat_map(|fields| fields.keys())
        .collect();
    names
        .into_iter()
        .map(|name| DiffField {
            name: name.clone(),
            before: a.and_then(|fields| fields.get(name)).cloned(),
            after: b.and_then(|fields| fields.get(name)).cloned(),
        })
        .filter(|field| field.before != field.after)
        .collect()
}
