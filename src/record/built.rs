//! From what a build returned to its manifest and Packer's.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::manifest::{self, Manifest};
use super::packer;
use crate::build::{Built, Request, StepRecord};
use crate::error::Result;
use crate::fetch::image::Image;
use crate::lock::Lock;
use crate::recipe::{ImageProof, Origin};
use crate::store::{self, Blob};
use crate::text::redact;
use crate::verify::Check;

/// Writes `manifest.json` and appends to `packer-manifest.json`; their paths.
pub fn write(
    request: &Request,
    recipe_path: &Path,
    built: &Built,
    started: SystemTime,
) -> Result<Vec<PathBuf>> {
    let lock = request.lock.map(locked).transpose()?;
    let manifest = manifest(request, recipe_path, built, started, lock);
    let own = request.output.join("manifest.json");
    manifest.write(&own)?;
    let packers = request.output.join("packer-manifest.json");
    packer::append(&packers, &packer_build(request, &manifest))?;
    Ok(vec![own, packers])
}

fn locked(lock: &Lock) -> Result<manifest::Lock> {
    Ok(manifest::Lock {
        serial: lock.serial,
        digest: lock.digest()?.to_string(),
    })
}

fn manifest(
    request: &Request,
    recipe_path: &Path,
    built: &Built,
    started: SystemTime,
    lock: Option<manifest::Lock>,
) -> Manifest {
    let recipe = request.recipe;
    Manifest {
        schema: manifest::Schema::V1,
        tool: manifest::Tool::this(),
        recipe: manifest::Recipe {
            name: recipe.name.value.clone(),
            description: recipe.description.clone(),
            path: recipe_path.display().to_string(),
            digest: recipe.digest.to_string(),
            lock,
        },
        started: manifest::rfc3339(started),
        finished: manifest::rfc3339(SystemTime::now()),
        host: manifest::Host {
            qemu: built.probe.version.clone(),
            accelerator: built.probe.accel.clone(),
            remarks: built.probe.remarks.clone(),
        },
        inputs: inputs(request, built),
        windows: manifest::Windows {
            release: built.media.release.year().into(),
            edition: built.media.image.edition_id.clone(),
            image: built.media.image.name.clone(),
            display_name: built.media.image.display_name.clone(),
            build: built.media.image.version.clone(),
            language: built.media.language.clone(),
        },
        steps: steps(built),
        artifacts: built.artifacts.iter().map(Into::into).collect(),
        warnings: built.warnings.clone(),
    }
}

fn inputs(request: &Request, built: &Built) -> Vec<manifest::Input> {
    let media = &request.recipe.media;
    let mut inputs = vec![input("media.iso", None, &media.iso, &built.inputs.iso)];
    if let (Some(origin), Some(blob)) = (&media.virtio, &built.inputs.virtio) {
        inputs.push(input("media.virtio", None, origin, blob));
    }
    for (component, blob) in &built.inputs.components {
        let name = &component.name.value;
        inputs.push(manifest::Input {
            license: component.license.clone(),
            ..input(name, component.version.clone(), &component.origin, blob)
        });
    }
    inputs.extend(built.inputs.images.iter().map(|i| image(request, i)));
    inputs
}

/// A container image by its manifest, which names all of it.
fn image(request: &Request, image: &Image) -> manifest::Input {
    let wishes = &request.recipe.images;
    let wish = wishes.iter().find(|w| w.name.value == image.name);
    let digest = image.manifest.blob.digest().to_string();
    manifest::Input {
        name: format!("image {}", image.name),
        version: image.os_version.clone(),
        license: None,
        url: image.reference.clone(),
        size: image.size(),
        signers: Vec::new(),
        proof: match wish.map(|w| &w.proof) {
            Some(ImageProof::Unverified { reason }) => manifest::Proof::Unverified {
                reason: reason.value.clone(),
            },
            Some(ImageProof::Digest(pinned)) => manifest::Proof::Digest {
                expected: pinned.value.to_string(),
            },
            None => manifest::Proof::Digest {
                expected: digest.clone(),
            },
        },
        digest,
    }
}

fn input(name: &str, version: Option<String>, origin: &Origin, blob: &Blob) -> manifest::Input {
    manifest::Input {
        name: name.into(),
        version,
        license: None,
        url: redact(&origin.url.value),
        size: blob.size(),
        digest: blob.digest().to_string(),
        proof: proof(blob.proof()),
        signers: blob.signers().to_vec(),
    }
}

fn proof(proof: &store::Proof) -> manifest::Proof {
    match proof {
        store::Proof::Pinned { digest } => manifest::Proof::Digest {
            expected: digest.to_string(),
        },
        store::Proof::ChecksumFile { url, line, .. } => manifest::Proof::ChecksumFile {
            url: redact(url),
            entry: line.clone(),
        },
        store::Proof::Signed => manifest::Proof::Signed,
        store::Proof::Unverified { reason } => manifest::Proof::Unverified {
            reason: reason.clone(),
        },
    }
}

/// The checks are those of the plan's steps, in the same order.
fn steps(built: &Built) -> Vec<manifest::Step> {
    let checks = built.expected.iter().map(|e| e.checks.clone());
    let checks = checks.chain(std::iter::repeat(Vec::new()));
    let steps = built.steps.iter().zip(checks);
    steps
        .map(|(record, expects)| step(record, expects))
        .collect()
}

fn step(record: &StepRecord, expects: Vec<Check>) -> manifest::Step {
    manifest::Step {
        expects,
        name: record.name.clone(),
        verb: record.verb.into(),
        place: record.place.clone(),
        exit_codes: record.commands.iter().map(|c| c.exit_code).collect(),
        seconds: record.seconds,
        skipped: record.skipped.clone(),
    }
}

fn packer_build(request: &Request, manifest: &Manifest) -> packer::Build {
    let text = |value: &str| Value::String(value.into());
    let mut custom_data = Map::new();
    custom_data.insert("build_name".into(), text(&manifest.recipe.name));
    custom_data.insert("build_timestamp".into(), text(&request.epoch.to_string()));
    custom_data.insert("build_date".into(), text(&manifest.finished));
    custom_data.insert("os_name".into(), text(&manifest.windows.image));
    custom_data.insert("recipe_digest".into(), text(&manifest.recipe.digest));
    for input in &manifest.inputs {
        if let Some(version) = &input.version {
            custom_data.insert(
                format!("{}_version", input.name.replace('-', "_")),
                text(version),
            );
        }
    }
    packer::Build {
        name: manifest.recipe.name.clone(),
        builder_type: "winimg",
        build_time: request.epoch,
        files: manifest
            .artifacts
            .iter()
            .map(|a| packer::BuiltFile {
                name: a.file.clone(),
                size: a.size,
            })
            .collect(),
        artifact_id: format!("{}@{}", manifest.recipe.name, manifest.recipe.digest),
        packer_run_uuid: Uuid::new_v4(),
        custom_data,
    }
}
