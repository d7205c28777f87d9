//! `provenance.intoto.json`: how the artifacts came to be (in-toto Statement v1 with SLSA provenance v1).
//!
//! Everything that a user could set is an external parameter; every input is a resolved dependency with its proof and
//! its signers. `docs/provenance.md` is the template that `buildType` names.

use std::path::Path;

use serde_json::{Map, Value, json};
use url::Url;
use uuid::Uuid;

use super::manifest::{Input, Manifest};
use super::purl::split;
use super::said;
use winimg_base::digest::Digest;
use winimg_recipe::recipe::InputId;

/// in-toto: Statement layer, version 1.
pub const STATEMENT: &str = "https://in-toto.io/Statement/v1";
/// SLSA: Provenance, version 1; the later versions of SLSA keep the name.
pub const PREDICATE: &str = "https://slsa.dev/provenance/v1";
/// The template of `docs/provenance.md`.
pub const BUILD_TYPE: &str = "urn:winimg:build:v1";
/// Where nobody says who builds: a machine whose user can change all that happens on it.
pub const WORKSTATION: &str = "urn:winimg:workstation";

/// What the manifest does not say about a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The URI of the party that answers for the machine that builds.
    pub builder: String,
    /// Each variable and its value.
    pub variables: Vec<(String, String)>,
    /// `--set`: path, and value as JSON.
    pub overrides: Vec<(String, String)>,
    /// `vhd`, `ova` …
    pub outputs: Vec<String>,
    /// SHA-256 of the recipe's lock, when it has one.
    pub lock: Option<Digest>,
    /// Seconds since 1970 for the times in the artifacts.
    pub epoch: i64,
    /// `--no-verify` was not given.
    pub verified: bool,
    pub invocation: Uuid,
}

/// A record that the build wrote beside its artifacts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Byproduct {
    pub name: &'static str,
    pub media_type: &'static str,
    pub digest: Digest,
}

/// The statement, with a final newline.
pub fn document(manifest: &Manifest, asked: &Asked, byproducts: &[Byproduct]) -> String {
    let subjects = manifest
        .artifacts
        .iter()
        .map(|a| json!({ "name": a.file, "digest": { "sha256": a.sha256 } }));
    let statement = json!({
        "_type": STATEMENT,
        "subject": subjects.collect::<Value>(),
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": external(manifest, asked),
                "internalParameters": internal(manifest),
                "resolvedDependencies": manifest.inputs.iter().map(dependency).collect::<Value>(),
            },
            "runDetails": {
                "builder": builder(manifest, asked),
                "metadata": {
                    "invocationId": asked.invocation.urn().to_string(),
                    "startedOn": manifest.started,
                    "finishedOn": manifest.finished,
                },
                "byproducts": byproducts.iter().map(byproduct).collect::<Value>(),
            },
        },
    });
    format!("{statement:#}\n")
}

fn external(manifest: &Manifest, asked: &Asked) -> Value {
    let variables = asked.variables.iter().map(|(k, v)| (k.clone(), json!(v)));
    let overrides = asked.overrides.iter().map(|(path, value)| {
        let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
        (path.clone(), value)
    });
    let mut all = json!({
        "recipe": {
            "name": manifest.recipe.name,
            "path": manifest.recipe.path,
            "digest": digest_set(&manifest.recipe.digest),
        },
        "variables": Value::from_iter(variables),
        "overrides": Value::from_iter(overrides),
        "outputs": asked.outputs,
        "sourceDateEpoch": asked.epoch,
        "verify": asked.verified,
    });
    if let Some(lock) = &asked.lock {
        all["lock"] = json!({ "digest": digest_set(&lock.to_string()) });
    }
    all
}

fn internal(manifest: &Manifest) -> Value {
    let host = &manifest.host;
    json!({
        "accelerator": host.accelerator,
        "qemu": host.qemu,
        "remarks": host.remarks,
    })
}

fn builder(manifest: &Manifest, asked: &Asked) -> Value {
    let tool = &manifest.tool;
    let version = said(json!({
        "winimg": tool.version,
        "qemu": manifest.host.qemu,
        "winimg-commit": tool.commit,
    }));
    json!({ "id": asked.builder, "version": version })
}

/// A ResourceDescriptor (in-toto: Statement v1, fields).
fn dependency(input: &Input) -> Value {
    let (uri, path) = uri(input);
    said(json!({
        "name": input.id,
        "uri": uri,
        "digest": digest_set(&input.digest),
        "annotations": said(json!({
            "path": path,
            "mirror": input.mirror,
            "version": input.version,
            "size": input.size.to_string(),
            "proof": input.proof,
            "signers": input.signers,
        })),
    }))
}

/// An address as a URI; a path that is none is said as a path.
fn uri(input: &Input) -> (Option<String>, Option<&str>) {
    let url = input.url.as_str();
    if let InputId::Image(_) = input.id {
        return (Some(super::purl::image(url, &input.digest)), None);
    }
    let bare = url.strip_suffix("?…").unwrap_or(url);
    match bare.contains("://") {
        true => (Some(bare.to_owned()), None),
        false => match Url::from_file_path(Path::new(url)) {
            Ok(uri) => (Some(uri.into()), None),
            Err(()) => (None, Some(url)),
        },
    }
}

fn digest_set(digest: &str) -> Value {
    let (algorithm, hex) = split(digest);
    Value::Object(Map::from_iter([(algorithm, json!(hex))]))
}

fn byproduct(record: &Byproduct) -> Value {
    json!({
        "name": record.name,
        "digest": digest_set(&record.digest.to_string()),
        "mediaType": record.media_type,
    })
}
