//! What a manifest says of an image, thing by thing.

use serde::Serialize;
use serde_json::Value;

use super::{Facts, Fields, Kind};
use crate::record::Manifest;
use crate::record::manifest::Input;
use winimg_base::event::Proof;
use winimg_recipe::plan::{Check, keep_what_lasts};

/// What differs between two builds of the same on two days is left out: times, hosts, logs, digests of artifacts.
pub fn facts(manifest: &Manifest) -> Facts {
    let mut facts = Facts::new();
    let mut add = |kind, name: &str, fields| {
        facts.insert((kind, name.to_owned()), fields);
    };
    let one = |name: &str, value: &str| Fields::from([(name.to_owned(), value.to_owned())]);
    let recipe = &manifest.recipe;
    add(Kind::Build, "recipe", one("digest", &recipe.digest));
    add(Kind::Build, "recipe's name", one("name", &recipe.name));
    add(
        Kind::Build,
        "winimg",
        one("version", &manifest.tool.version),
    );
    add(Kind::Windows, "Windows", flat(&manifest.windows));
    if let Some(machine) = &manifest.machine {
        add(Kind::Machine, "machine", flat(machine));
    }
    for target in &manifest.targets {
        add(Kind::Target, target, Fields::new());
    }
    for input in &manifest.inputs {
        add(Kind::Component, &input.id.to_string(), component(input));
    }
    for artifact in &manifest.artifacts {
        add(
            Kind::Artifact,
            &artifact.kind,
            one("size", &artifact.size.to_string()),
        );
    }
    let mut expected: Vec<Vec<Check>> = manifest.steps.iter().map(|s| s.expects.clone()).collect();
    keep_what_lasts(expected.iter_mut());
    for check in expected.iter().flatten() {
        let (kind, name) = named(check);
        let mut fields = flat(check);
        fields.remove("check");
        add(kind, &name, fields);
    }
    facts
}

fn component(input: &Input) -> Fields {
    let mut fields = flat(input);
    fields
        .retain(|name, _| ["version", "license", "url", "size", "digest"].contains(&name.as_str()));
    let proof = Proof::from(&input.proof);
    fields.insert("proof".into(), proof.to_string());
    let signers = input
        .signers
        .iter()
        .map(|s| format!("{}: {}", s.scheme, s.signer));
    let signers: Vec<String> = signers.collect();
    if !signers.is_empty() {
        fields.insert("signers".into(), signers.join("; "));
    }
    fields
}

/// What a check is about, and what tells it from others of its kind.
fn named(check: &Check) -> (Kind, String) {
    match check {
        Check::File { path, .. } | Check::Exists { path } | Check::Missing { path } => {
            (Kind::File, path.to_string())
        }
        Check::Registry { key, value, .. } => {
            let value = value.as_deref().unwrap_or("(default)");
            (Kind::Registry, format!("{key}: {value}"))
        }
        Check::Service(service) => (Kind::Service, service.name.clone()),
        Check::Feature { name, .. } => (Kind::Feature, format!("feature {name}")),
        Check::Capability { name, .. } => (Kind::Feature, format!("capability {name}")),
        Check::Update { kb } => (Kind::Feature, format!("update {kb}")),
        Check::Windows { .. } => (Kind::Setting, "Windows' update revision".into()),
        Check::PathFolder { folder } => (Kind::Setting, format!("Path: {folder}")),
        Check::Firewall(rule) => (Kind::Setting, format!("firewall rule {}", rule.name)),
        Check::Driver { driver } => (Kind::Setting, format!("driver {}", driver.inf)),
        Check::User { name, .. } => (Kind::Setting, format!("user {name}")),
        Check::Group { name, .. } => (Kind::Setting, format!("group {name}")),
        Check::Acl(acl) => (Kind::Setting, format!("access to {}", acl.path)),
        Check::Task { name, .. } => (Kind::Setting, format!("task {name}")),
        Check::ContainerImage { image, .. } => (
            Kind::Setting,
            format!("container image {}", image.reference),
        ),
    }
}

/// The properties of a value as a manifest has them.
fn flat(value: &impl Serialize) -> Fields {
    let value = serde_json::to_value(value).unwrap_or_default();
    let members = value.as_object().cloned().unwrap_or_default();
    let text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let said = members.into_iter().filter(|(_, value)| !value.is_null());
    said.map(|(name, value)| (name, text(value))).collect()
}
