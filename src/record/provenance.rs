//! `provenance.intoto.json`: the origin of the artifacts (in-toto Statement v1 with SLSA provenance
//! v1).
//!
//! Everything that a user can set is an external parameter; every input is a resolved dependency
//! with its proof and its signers. `docs/provenance.md` is the template that `buildType` names.

use std::path::Path;

use serde_json::{Map, Value, json};
use url::Url;
use uuid::Uuid;

use super::manifest::{BuildManifest, ManifestInput};
use super::purl::split_digest;
use super::remove_empty;
use winimg_base::digest::Digest;
use winimg_recipe::InputId;

/// in-toto: Statement layer, version 1.
pub const STATEMENT: &str = "https://in-toto.io/Statement/v1";
/// SLSA: Provenance, version 1; the later versions of SLSA keep the name.
pub const PREDICATE: &str = "https://slsa.dev/provenance/v1";
/// The template of `docs/provenance.md`.
pub const BUILD_TYPE: &str = "urn:winimg:build:v1";
/// The default builder: a machine whose user can change everything on it.
pub const WORKSTATION: &str = "urn:winimg:workstation";

/// Parameters of a build that are not in the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvenanceParameters {
    /// URI of the party responsible for the build machine.
    pub builder: String,
    /// Each variable and its value.
    pub variables: Vec<(String, String)>,
    /// `--set`: path, and value as JSON.
    pub overrides: Vec<(String, String)>,
    /// `vhd`, `ova` …
    pub outputs: Vec<String>,
    /// SHA-256 of the recipe's lock, when it has one.
    pub lock: Option<Digest>,
    /// Unix seconds for the times in the artifacts.
    pub epoch: i64,
    /// True unless `--no-verify` was given.
    pub verified: bool,
    pub invocation: Uuid,
}

/// A record that the build wrote beside its artifacts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvenanceByproduct {
    pub name: &'static str,
    pub media_type: &'static str,
    pub digest: Digest,
}

/// Renders the statement, with a final newline.
pub fn render_statement(
    manifest: &BuildManifest,
    asked: &ProvenanceParameters,
    byproducts: &[ProvenanceByproduct],
) -> String {
    let subjects = manifest
        .artifacts
        .iter()
        .map(|a| json!({ "name": a.file, "digest": { "sha256": a.sha256 } }));
    let dependencies: Value = manifest.inputs.iter().map(describe_dependency).collect();
    let statement = json!({
        "_type": STATEMENT,
        "subject": subjects.collect::<Value>(),
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": list_external_parameters(manifest, asked),
                "internalParameters": list_internal_parameters(manifest),
                "resolvedDependencies": dependencies,
            },
            "runDetails": {
                "builder": describe_builder(manifest, asked),
                "metadata": {
                    "invocationId": asked.invocation.urn().to_string(),
                    "startedOn": manifest.started,
                    "finishedOn": manifest.finished,
                },
                "byproducts": byproducts.iter().map(describe_byproduct).collect::<Value>(),
            },
        },
    });
    format!("{statement:#}\n")
}

fn list_external_parameters(manifest: &BuildManifest, asked: &ProvenanceParameters) -> Value {
    let variables = asked.variables.iter().map(|(k, v)| (k.clone(), json!(v)));
    let overrides = asked.overrides.iter().map(|(path, value)| {
        let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
        (path.clone(), value)
    });
    let mut all = json!({
        "recipe": {
            "name": manifest.recipe.name,
            "path": manifest.recipe.path,
            "digest": build_digest_set(&manifest.recipe.digest),
        },
        "variables": Value::from_iter(variables),
        "overrides": Value::from_iter(overrides),
        "outputs": asked.outputs,
        "sourceDateEpoch": asked.epoch,
        "verify": asked.verified,
    });
    if let Some(lock) = &asked.lock {
        all["lock"] = json!({ "digest": build_digest_set(&lock.to_string()) });
    }
    all
}

fn list_internal_parameters(manifest: &BuildManifest) -> Value {
    let host = &manifest.host;
    json!({
        "accelerator": host.accelerator,
        "qemu": host.qemu,
        "remarks": host.remarks,
    })
}

fn describe_builder(manifest: &BuildManifest, asked: &ProvenanceParameters) -> Value {
    let tool = &manifest.tool;
    let version = remove_empty(json!({
        "winimg": tool.version,
        "qemu": manifest.host.qemu,
        "winimg-commit": tool.commit,
    }));
    json!({ "id": asked.builder, "version": version })
}

/// Returns a ResourceDescriptor (in-toto: Statement v1, fields).
fn describe_dependency(input: &ManifestInput) -> Value {
    let (uri, path) = resolve_uri(input);
    remove_empty(json!({
        "name": input.id,
        "uri": uri,
        "digest": build_digest_set(&input.digest),
        "annotations": remove_empty(json!({
            "path": path,
            "mirror": input.mirror,
            "version": input.version,
            "size": input.size.to_string(),
            "proof": input.proof,
            "signers": input.signers,
        })),
    }))
}

/// Returns the address as a URI, or else as a path.
fn resolve_uri(input: &ManifestInput) -> (Option<String>, Option<&str>) {
    let url = input.url.as_str();
    if let InputId::Image(_) = input.id {
        return (
            Some(super::purl::build_image_purl(url, &input.digest)),
            None,
        );
    }
    let bare = url.strip_suffix("?…").unwrap_or(url);
    if bare.contains("://") {
        (Some(bare.to_owned()), None)
    } else {
        match Url::from_file_path(Path::new(url)) {
            Ok(uri) => (Some(uri.into()), None),
            Err(()) => (None, Some(url)),
        }
    }
}

fn build_digest_set(digest: &str) -> Value {
    let (algorithm, hex) = split_digest(digest);
    Value::Object(Map::from_iter([(algorithm, json!(hex))]))
}

fn describe_byproduct(record: &ProvenanceByproduct) -> Value {
    json!({
        "name": record.name,
        "digest": build_digest_set(&record.digest.to_string()),
        "mediaType": record.media_type,
    })
}
