//! Facts about an image from its manifest.

use serde::Serialize;
use serde_json::Value;

use super::{DiffFacts, DiffFields, DiffKind};
use crate::record::BuildManifest;
use crate::record::manifest::ManifestInput;
use winimg_base::event::InputProof;
use winimg_recipe::plan::{ImageCheck, keep_what_lasts};

/// Collects the facts that repeated builds have in common; omits times, hosts, logs and digests of
/// artifacts.
pub fn collect_facts(manifest: &BuildManifest) -> DiffFacts {
    let mut facts = DiffFacts::new();
    let mut add = |kind, name: &str, fields| {
        facts.insert((kind, name.to_owned()), fields);
    };
    let recipe = &manifest.recipe;
    add(
        DiffKind::Build,
        "recipe",
        to_field("digest", &recipe.digest),
    );
    add(
        DiffKind::Build,
        "recipe's name",
        to_field("name", &recipe.name),
    );
    add(
        DiffKind::Build,
        "winimg",
        to_field("version", &manifest.tool.version),
    );
    add(
        DiffKind::Windows,
        "Windows",
        collect_fields(&manifest.windows),
    );
    if let Some(machine) = &manifest.machine {
        add(DiffKind::Machine, "machine", collect_fields(machine));
    }
    for target in &manifest.targets {
        add(DiffKind::Target, target, DiffFields::new());
    }
    for input in &manifest.inputs {
        add(
            DiffKind::Component,
            &input.id.to_string(),
            collect_component(input),
        );
    }
    for artifact in &manifest.artifacts {
        add(
            DiffKind::Artifact,
            &artifact.kind,
            to_field("size", &artifact.size.to_string()),
        );
    }
    let mut expected: Vec<Vec<ImageCheck>> =
        manifest.steps.iter().map(|s| s.expects.clone()).collect();
    keep_what_lasts(expected.iter_mut());
    for check in expected.iter().flatten() {
        let (kind, name) = identify_check(check);
        let mut fields = collect_fields(check);
        fields.remove("check");
        add(kind, &name, fields);
    }
    facts
}

fn to_field(name: &str, value: &str) -> DiffFields {
    DiffFields::from([(name.to_owned(), value.to_owned())])
}

fn collect_component(input: &ManifestInput) -> DiffFields {
    let mut fields = collect_fields(input);
    fields
        .retain(|name, _| ["version", "license", "url", "size", "digest"].contains(&name.as_str()));
    let proof = InputProof::from(&input.proof);
    fields.insert("proof".into(), proof.to_string());
    let signers: Vec<String> = input
        .signers
        .iter()
        .map(|s| format!("{}: {}", s.scheme, s.signer))
        .collect();
    if !signers.is_empty() {
        fields.insert("signers".into(), signers.join("; "));
    }
    fields
}

/// Returns the kind of a check's subject and its unique name within that kind.
fn identify_check(check: &ImageCheck) -> (DiffKind, String) {
    match check {
        ImageCheck::File { path, .. }
        | ImageCheck::Exists { path }
        | ImageCheck::Missing { path } => (DiffKind::File, path.to_string()),
        ImageCheck::Registry { key, value, .. } => {
            let value = value.as_deref().unwrap_or("(default)");
            (DiffKind::Registry, format!("{key}: {value}"))
        }
        ImageCheck::Service(service) => (DiffKind::Service, service.name.clone()),
        ImageCheck::Feature { name, .. } => (DiffKind::Feature, format!("feature {name}")),
        ImageCheck::Capability { name, .. } => (DiffKind::Feature, format!("capability {name}")),
        ImageCheck::Update { kb } => (DiffKind::Feature, format!("update {kb}")),
        ImageCheck::Windows { .. } => (DiffKind::Setting, "Windows' update revision".into()),
        ImageCheck::PathFolder { folder } => (DiffKind::Setting, format!("Path: {folder}")),
        ImageCheck::Firewall(rule) => (DiffKind::Setting, format!("firewall rule {}", rule.name)),
        ImageCheck::Driver { driver } => (DiffKind::Setting, format!("driver {}", driver.inf)),
        ImageCheck::User { name, .. } => (DiffKind::Setting, format!("user {name}")),
        ImageCheck::Group { name, .. } => (DiffKind::Setting, format!("group {name}")),
        ImageCheck::Acl(acl) => (DiffKind::Setting, format!("access to {}", acl.path)),
        ImageCheck::Task { name, .. } => (DiffKind::Setting, format!("task {name}")),
        ImageCheck::ContainerImage { image, .. } => (
            DiffKind::Setting,
            format!("container image {}", image.reference),
        ),
    }
}

/// Returns the JSON properties of a value as text.
fn collect_fields(value: &impl Serialize) -> DiffFields {
    let value = serde_json::to_value(value).unwrap_or_default();
    let members = value.as_object().cloned().unwrap_or_default();
    members
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| match value {
            Value::String(text) => (name, text),
            other => (name, other.to_string()),
        })
        .collect()
}
