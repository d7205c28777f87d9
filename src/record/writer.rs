//! Writes and signs the records of a finished build.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::json;
use uuid::Uuid;

use super::inventory::SbomInventory;
use super::manifest::{self, BuildManifest};
use super::provenance::{self, ProvenanceByproduct, ProvenanceParameters};
use super::sign::{self, Signers};
use super::{clone_checks, cyclonedx, packer, spdx};
use crate::engine::earlier::{self, CYCLONEDX, PROVENANCE, SPDX};
use crate::engine::{BuildRequest, FinishedBuild, StepRecord};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;
use winimg_base::io;
use winimg_base::text::{redact, redact_if_url};
use winimg_recipe::lock::LockFile;
use winimg_recipe::plan::ImageCheck;
use winimg_recipe::plan::{BuildPlan, PayloadEntry};
use winimg_recipe::{DownloadSpec, FileAddress, ImageProof, InputId, InputSource};
use winimg_supply::fetch::image::FetchedImage;
use winimg_supply::store::{ExpectedBytes, Store, StoredBlob};

pub use crate::engine::earlier::MANIFEST;
/// Records that the provenance covers besides the artifacts.
pub const BYPRODUCTS: [&str; 3] = [MANIFEST, CYCLONEDX, SPDX];

/// Data for the records besides the build's result.
pub struct RecordContext<'a> {
    /// Path as the user gave it.
    pub recipe_path: &'a Path,
    pub started: SystemTime,
    /// URI of the party responsible for this machine.
    pub builder: &'a str,
    pub signers: &'a Signers,
}

/// Writes the manifest, the SBOMs, the provenance and their signatures, and appends to
/// `packer-manifest.json`. Returns their paths.
pub fn write_records(
    request: &BuildRequest,
    recording: &RecordContext,
    manifest: &BuildManifest,
    cancel: &Cancel,
) -> Result<Vec<PathBuf>> {
    let inventory = SbomInventory::from_manifest(manifest, request.epoch);
    let mut files = vec![
        (MANIFEST, manifest.to_json()),
        (CYCLONEDX, cyclonedx::render_document(&inventory)),
        (SPDX, spdx::render_document(&inventory)),
    ];
    let byproducts: Vec<ProvenanceByproduct> = files.iter().map(describe_byproduct).collect();
    let parameters = collect_parameters(request, recording);
    let statement = provenance::render_statement(manifest, &parameters, &byproducts);
    files.push((PROVENANCE, statement));

    // An earlier build's signatures do not match the new records.
    sign::remove_signatures(&request.output)?;
    let mut paths = write_all(&request.output, &files)?;
    earlier::continue_records(&request.output)?;
    let packer_manifest = request.output.join(earlier::PACKER_MANIFEST);
    packer::append(
        &packer_manifest,
        &build_packer_entry(request, manifest, parameters.invocation),
    )?;
    paths.push(packer_manifest);
    let signed =
        sign_all(&request.output, recording.signers, request.epoch, cancel).map_err(|e| {
            e.lines(["the image and its records are complete but not signed: run `winimg sign`"])
        })?;
    paths.extend(signed);
    Ok(paths)
}

/// Removes an earlier build's records of artifacts that are about to be replaced.
pub fn remove_earlier(folder: &Path) -> Result<()> {
    sign::remove_signatures(folder)?;
    io::remove_if_exists(&folder.join(MANIFEST))?;
    io::remove_if_exists(&folder.join(PROVENANCE))
}

/// Signs the records in `folder`. Returns the signatures' paths.
pub fn sign_all(
    folder: &Path,
    signers: &Signers,
    epoch: i64,
    cancel: &Cancel,
) -> Result<Vec<PathBuf>> {
    if signers.is_empty() {
        return Ok(Vec::new());
    }
    let manifest_bytes = read_record(&folder.join(MANIFEST))?;
    let statement = read_record(&folder.join(PROVENANCE))?;
    let manifest = BuildManifest::parse(&String::from_utf8_lossy(&manifest_bytes))?;
    let records = sign::RecordsToSign {
        manifest: &manifest_bytes,
        statement: &statement,
        epoch,
        recipe: &format!("{}@{}", manifest.recipe.name, manifest.recipe.digest),
    };
    let files = signers.sign(&records, cancel)?;
    sign::remove_signatures(folder)?;
    write_all(folder, &files)
}

fn read_record(path: &Path) -> Result<Vec<u8>> {
    io::read_limited(path, io::limit::RECORD).map_err(|e| Error::io("read", path, e))
}

/// Writes files given by name and content. Returns their paths.
fn write_all(folder: &Path, files: &[(&str, impl AsRef<[u8]>)]) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for (name, content) in files {
        let path = folder.join(name);
        io::write_atomically(&path, content.as_ref())?;
        paths.push(path);
    }
    Ok(paths)
}

fn describe_byproduct((name, text): &(&'static str, String)) -> ProvenanceByproduct {
    ProvenanceByproduct {
        name,
        media_type: match *name {
            CYCLONEDX => "application/vnd.cyclonedx+json",
            SPDX => "application/spdx+json",
            _ => "application/json",
        },
        digest: Digest::sha256_of(text.as_bytes()),
    }
}

fn collect_parameters(request: &BuildRequest, recording: &RecordContext) -> ProvenanceParameters {
    let recipe = request.recipe;
    let key = recipe.media.product_key.as_ref();
    let key = key.map(|k| k.value.as_str()).filter(|k| *k != "kms");
    let variables = recipe.vars.iter().map(|var| {
        let value = if Some(var.value.as_str()) == key {
            "***".into()
        } else {
            redact_if_url(&var.value)
        };
        (var.name.clone(), value)
    });
    let overrides = recipe
        .effective
        .iter()
        .filter(|e| e.origin.starts_with("--set"));
    let outputs = recipe.outputs.formats().map(|one| one.name().to_owned());
    ProvenanceParameters {
        builder: recording.builder.into(),
        variables: variables.collect(),
        overrides: overrides
            .map(|e| (e.path.clone(), e.value.clone()))
            .collect(),
        outputs: outputs.collect(),
        lock: request.lock.map(LockFile::digest),
        epoch: request.epoch,
        verified: request.verify,
        invocation: Uuid::new_v4(),
    }
}

/// Builds the manifest of a build that ends now, without trials.
pub fn build_manifest(
    request: &BuildRequest,
    recording: &RecordContext,
    built: &FinishedBuild,
) -> BuildManifest {
    let recipe = request.recipe;
    BuildManifest {
        schema: manifest::ManifestSchema::V1,
        tool: manifest::Tool::this(),
        recipe: manifest::ManifestRecipe {
            name: recipe.name.value.clone(),
            description: recipe.description.clone(),
            path: io::to_slashes(recording.recipe_path),
            digest: recipe.digest.to_string(),
            lock: request.lock.map(|file| manifest::ManifestLock {
                serial: file.lock.serial,
                digest: file.digest().to_string(),
                signers: request.lock_signers.to_vec(),
            }),
        },
        started: manifest::format_rfc3339(recording.started),
        finished: manifest::format_rfc3339(SystemTime::now()),
        host: manifest::ManifestHost::new(built.platform, &built.probe),
        machine: Some(manifest::ManifestMachine {
            firmware: recipe.machine.firmware,
            secure_boot: recipe.machine.secure_boot,
            tpm: recipe.machine.tpm,
            disk_bus: Some(recipe.machine.disk_bus),
            cpus: Some(recipe.machine.cpus),
            memory: Some(recipe.machine.memory),
        }),
        layer: built.resumed.as_ref().map(|layer| manifest::ManifestLayer {
            key: layer.key.to_string(),
            after: layer.last_link_name().into(),
            made: manifest::format_rfc3339(
                SystemTime::UNIX_EPOCH + Duration::from_secs(layer.made.unsigned_abs()),
            ),
        }),
        inputs: record_inputs(request, built),
        windows: manifest::ManifestWindows {
            release: built.media.release.year().into(),
            edition: built.media.image.edition_id.clone(),
            image: built.media.image.name.clone(),
            display_name: built.media.image.display_name.clone(),
            build: built.media.image.version.clone(),
            language: built.media.language.clone(),
        },
        targets: clone_checks::list_targets(recipe),
        steps: record_steps(request, built),
        clone: clone_checks::list_checks(request.plan),
        artifacts: built.artifacts.iter().map(Into::into).collect(),
        export: Some(collect_export_settings(request)),
        tries: Vec::new(),
        warnings: built.warnings.clone(),
    }
}

fn collect_export_settings(request: &BuildRequest) -> manifest::ExportSettings {
    let outputs = &request.recipe.outputs;
    let communicators = outputs.formats().filter_map(|format| {
        let options = outputs.vagrant_box(format)?;
        Some((format.name().to_owned(), options.communicator.clone()))
    });
    manifest::ExportSettings {
        epoch: request.epoch,
        nested_virtualization: request.plan.starts_hypervisor(),
        hardware_version: outputs.ova().and_then(|ova| ova.hardware_version),
        license_type: outputs.ami().map(|ami| ami.license_type.clone()),
        communicators: communicators.collect(),
    }
}

fn record_inputs(request: &BuildRequest, built: &FinishedBuild) -> Vec<manifest::ManifestInput> {
    let files = built
        .inputs
        .files
        .iter()
        .filter_map(|(id, blob)| record_file(request, id, blob));
    let images = built.inputs.images.iter().map(|i| record_image(request, i));
    files.chain(images).collect()
}

fn record_file(
    request: &BuildRequest,
    id: &InputId,
    blob: &StoredBlob,
) -> Option<manifest::ManifestInput> {
    let input = request.recipe.find_input(id)?;
    let record = record_input(id, input.origin()?, blob, request.store);
    Some(match input.source {
        InputSource::Component(component) => manifest::ManifestInput {
            version: component.version.clone(),
            license: component.license.clone(),
            ..record
        },
        InputSource::Medium(_) | InputSource::Image(_) => record,
    })
}

/// Records a container image by its manifest, which covers all of it.
fn record_image(request: &BuildRequest, image: &FetchedImage) -> manifest::ManifestInput {
    let id = InputId::Image(image.name.clone());
    let proof = match request.recipe.find_input(&id).map(|input| input.source) {
        Some(InputSource::Image(image)) => Some(&image.proof),
        _ => None,
    };
    let digest = image.manifest.blob.digest().to_string();
    manifest::ManifestInput {
        id,
        version: image.os_version.clone(),
        license: None,
        mirror: request
            .store
            .mirror_of(&image.reference, image.manifest.blob.digest()),
        url: image.reference.clone(),
        size: image.size(),
        signers: Vec::new(),
        proof: match proof {
            Some(ImageProof::Unverified { reason }) => manifest::ManifestProof::Unverified {
                reason: reason.value.clone(),
            },
            Some(ImageProof::Digest(pinned)) => manifest::ManifestProof::Digest {
                expected: pinned.value.to_string(),
            },
            _ => manifest::ManifestProof::Digest {
                expected: digest.clone(),
            },
        },
        digest,
    }
}

fn record_input(
    id: &InputId,
    origin: &DownloadSpec,
    blob: &StoredBlob,
    store: &Store,
) -> manifest::ManifestInput {
    let mirror = match &origin.url.value {
        FileAddress::Remote(url) => store.mirror_of(url.as_str(), blob.digest()),
        FileAddress::Local(_) => None,
    };
    manifest::ManifestInput {
        mirror,
        id: id.clone(),
        version: None,
        license: None,
        url: origin.url.value.to_recorded(),
        size: blob.size(),
        digest: blob.digest().to_string(),
        proof: convert_proof(blob.proof()),
        signers: blob.signers().to_vec(),
    }
}

fn convert_proof(proof: &ExpectedBytes) -> manifest::ManifestProof {
    match proof {
        ExpectedBytes::Digest(digest) => manifest::ManifestProof::Digest {
            expected: digest.to_string(),
        },
        ExpectedBytes::ChecksumFile { url, line, .. } => manifest::ManifestProof::ChecksumFile {
            url: redact(url),
            entry: line.clone(),
        },
        ExpectedBytes::Signed => manifest::ManifestProof::Signed,
        ExpectedBytes::Unverified { reason } => manifest::ManifestProof::Unverified {
            reason: reason.clone(),
        },
    }
}

/// Records the steps; checks and planned steps are in the same order as the built ones.
fn record_steps(request: &BuildRequest, built: &FinishedBuild) -> Vec<manifest::ManifestStep> {
    let checks = built
        .expected
        .iter()
        .map(|e| e.checks.clone())
        .chain(std::iter::repeat(Vec::new()));
    let inputs = request
        .plan
        .steps
        .iter()
        .map(|step| match step.skipped {
            Some(_) => Vec::new(),
            None => find_inputs(request.plan, &step.entries),
        })
        .chain(std::iter::repeat(Vec::new()));
    built
        .steps
        .iter()
        .zip(checks)
        .zip(inputs)
        .map(|((record, expects), inputs)| record_step(record, expects, inputs))
        .collect()
}

/// Returns the inputs that payload entries come from.
fn find_inputs(plan: &BuildPlan, entries: &[u32]) -> Vec<InputId> {
    let mut ids: Vec<InputId> = entries
        .iter()
        .filter_map(|&at| plan.payload.get(at as usize))
        .filter_map(|entry| match entry {
            PayloadEntry::Image { image } => Some(InputId::Image(image.clone())),
            other => Some(InputId::Component(other.component()?.to_owned())),
        })
        .collect();
    ids.sort();
    ids.dedup();
    ids
}

fn record_step(
    record: &StepRecord,
    expects: Vec<ImageCheck>,
    inputs: Vec<InputId>,
) -> manifest::ManifestStep {
    manifest::ManifestStep {
        expects,
        inputs,
        name: record.name.clone(),
        verb: record.verb.clone(),
        place: record.place.clone(),
        exit_codes: record.commands.iter().map(|c| c.exit_code).collect(),
        seconds: record.seconds,
        skipped: record.skipped.clone(),
    }
}

fn build_packer_entry(
    request: &BuildRequest,
    manifest: &BuildManifest,
    run: Uuid,
) -> packer::PackerBuild {
    let mut custom_data = json!({
        "build_name": manifest.recipe.name,
        "build_timestamp": request.epoch.to_string(),
        "build_date": manifest.finished,
        "os_name": manifest.windows.image,
        "recipe_digest": manifest.recipe.digest,
    });
    for input in &manifest.inputs {
        if let Some(version) = &input.version {
            let name = input.id.to_string().replace('-', "_");
            custom_data[format!("{name}_version")] = json!(version);
        }
    }
    let files = manifest.artifacts.iter().map(|a| packer::PackerFile {
        name: a.file.clone(),
        size: a.size,
    });
    packer::PackerBuild {
        name: manifest.recipe.name.clone(),
        builder_type: "winimg",
        build_time: request.epoch,
        files: files.collect(),
        artifact_id: format!("{}@{}", manifest.recipe.name, manifest.recipe.digest),
        packer_run_uuid: run,
        custom_data,
    }
}
