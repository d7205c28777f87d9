//! From what a build returned to its records, written and signed.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::json;
use uuid::Uuid;

use super::inventory::Inventory;
use super::manifest::{self, Manifest};
use super::provenance::{self, Asked, Byproduct};
use super::sign::{self, Signers};
use super::{clone, cyclonedx, packer, spdx};
use crate::engine::{Built, Request, StepRecord, earlier};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;
use winimg_base::io;
use winimg_base::text::{redact, redact_url};
use winimg_recipe::lock::LockFile;
use winimg_recipe::plan::Check;
use winimg_recipe::plan::{Entry, Plan};
use winimg_recipe::recipe::target::Output;
use winimg_recipe::recipe::{Address, ImageProof, InputId, InputSource, Origin};
use winimg_supply::fetch::image::Image;
use winimg_supply::store::{Blob, Expected, Store};

/// The records' names.
pub const MANIFEST: &str = earlier::MANIFEST;
const CYCLONEDX: &str = "sbom.cdx.json";
const SPDX: &str = "sbom.spdx.json";
const PROVENANCE: &str = "provenance.intoto.json";
/// What the provenance vouches for beside the artifacts.
pub const BYPRODUCTS: [&str; 3] = [MANIFEST, CYCLONEDX, SPDX];

/// What the records need beyond the build itself.
pub struct Recording<'a> {
    /// As it was given.
    pub recipe_path: &'a Path,
    pub started: SystemTime,
    /// The URI of the party that answers for this machine.
    pub builder: &'a str,
    pub signers: &'a Signers,
}

/// Writes the manifest, the SBOMs, the provenance and their signatures, and appends to `packer-manifest.json`; their paths.
pub fn write(
    request: &Request,
    recording: &Recording,
    manifest: &Manifest,
    cancel: &Cancel,
) -> Result<Vec<PathBuf>> {
    let inventory = Inventory::of(manifest, request.epoch);
    let mut files = vec![
        (MANIFEST, manifest.to_json()),
        (CYCLONEDX, cyclonedx::document(&inventory)),
        (SPDX, spdx::document(&inventory)),
    ];
    let byproducts: Vec<Byproduct> = files.iter().map(byproduct).collect();
    let asked = asked(request, recording);
    let statement = provenance::document(manifest, &asked, &byproducts);
    files.push((PROVENANCE, statement));

    // An earlier build's signatures do not speak of what is written now.
    sign::remove(&request.output)?;
    let mut paths = write_all(&request.output, &files)?;
    earlier::continue_records(&request.output)?;
    let packers = request.output.join("packer-manifest.json");
    packer::append(&packers, &packer_build(request, manifest, asked.invocation))?;
    paths.push(packers);
    let signed =
        sign_all(&request.output, recording.signers, request.epoch, cancel).map_err(|e| {
            e.lines([
                "the image and its records are whole, but not signed: `winimg sign` signs them",
            ])
        })?;
    paths.extend(signed);
    Ok(paths)
}

/// Removes what an earlier build recorded of artifacts that are others now.
pub fn remove_earlier(folder: &Path) -> Result<()> {
    sign::remove(folder)?;
    io::remove_if_there(&folder.join(MANIFEST))?;
    io::remove_if_there(&folder.join(PROVENANCE))
}

/// Signs the records that lie in `folder`; the signatures' paths.
pub fn sign_all(
    folder: &Path,
    signers: &Signers,
    epoch: i64,
    cancel: &Cancel,
) -> Result<Vec<PathBuf>> {
    if signers.is_empty() {
        return Ok(Vec::new());
    }
    let read = |name| {
        let path = folder.join(name);
        io::read_limited(&path, io::limit::RECORD).map_err(|e| Error::io("read", &path, e))
    };
    let (own, statement) = (read(MANIFEST)?, read(PROVENANCE)?);
    let manifest = Manifest::parse(&String::from_utf8_lossy(&own))?;
    let records = sign::Records {
        manifest: &own,
        statement: &statement,
        epoch,
        recipe: &format!("{}@{}", manifest.recipe.name, manifest.recipe.digest),
    };
    let files = signers.sign(&records, cancel)?;
    sign::remove(folder)?;
    write_all(folder, &files)
}

/// Each file's name and content; their paths.
fn write_all(folder: &Path, files: &[(&str, impl AsRef<[u8]>)]) -> Result<Vec<PathBuf>> {
    let write = |(name, content): &(&str, _)| {
        let path = folder.join(name);
        io::write_atomically(&path, AsRef::as_ref(content))?;
        Ok(path)
    };
    files.iter().map(write).collect()
}

fn byproduct((name, text): &(&'static str, String)) -> Byproduct {
    Byproduct {
        name,
        media_type: match *name {
            CYCLONEDX => "application/vnd.cyclonedx+json",
            SPDX => "application/spdx+json",
            _ => "application/json",
        },
        digest: Digest::sha256_of(text.as_bytes()),
    }
}

fn asked(request: &Request, recording: &Recording) -> Asked {
    let recipe = request.recipe;
    let key = recipe.media.product_key.as_ref();
    let key = key.map(|k| k.value.as_str()).filter(|k| *k != "kms");
    let variables = recipe.vars.iter().map(|var| {
        let value = match Some(var.value.as_str()) == key {
            true => "***".into(),
            false => redact_url(&var.value),
        };
        (var.name.clone(), value)
    });
    let set = recipe
        .effective
        .iter()
        .filter(|e| e.origin.starts_with("--set"));
    let made = |output: &Output| output.is_in(&recipe.outputs);
    let outputs = Output::ALL.into_iter().filter(made);
    let outputs = outputs.map(|output| output.name().to_owned());
    Asked {
        builder: recording.builder.into(),
        variables: variables.collect(),
        overrides: set.map(|e| (e.path.clone(), e.value.clone())).collect(),
        outputs: outputs.collect(),
        lock: request.lock.map(LockFile::digest),
        epoch: request.epoch,
        verified: request.verify,
        invocation: Uuid::new_v4(),
    }
}

/// The record of the build as it ended now; nothing has been tried of it.
pub fn manifest(request: &Request, recording: &Recording, built: &Built) -> Manifest {
    let recipe = request.recipe;
    Manifest {
        schema: manifest::Schema::V1,
        tool: manifest::Tool::this(),
        recipe: manifest::Recipe {
            name: recipe.name.value.clone(),
            description: recipe.description.clone(),
            path: io::slashed(recording.recipe_path),
            digest: recipe.digest.to_string(),
            lock: request.lock.map(|file| manifest::Lock {
                serial: file.lock.serial,
                digest: file.digest().to_string(),
                signers: request.lock_signers.to_vec(),
            }),
        },
        started: manifest::rfc3339(recording.started),
        finished: manifest::rfc3339(SystemTime::now()),
        host: manifest::Host {
            qemu: built.probe.version.clone(),
            accelerator: built.probe.accel.clone(),
            remarks: built.probe.remarks.clone(),
        },
        machine: Some(manifest::Machine {
            firmware: recipe.machine.firmware,
            secure_boot: recipe.machine.secure_boot,
            tpm: recipe.machine.tpm,
            disk_bus: Some(recipe.machine.disk_bus),
            cpus: Some(recipe.machine.cpus),
            memory: Some(recipe.machine.memory),
        }),
        layer: built.resumed.as_ref().map(|layer| manifest::Layer {
            key: layer.key.to_string(),
            after: layer.after().into(),
            made: manifest::rfc3339(
                SystemTime::UNIX_EPOCH + Duration::from_secs(layer.made.unsigned_abs()),
            ),
        }),
        inputs: inputs(request, built),
        windows: manifest::Windows {
            release: built.media.release.year().into(),
            edition: built.media.image.edition_id.clone(),
            image: built.media.image.name.clone(),
            display_name: built.media.image.display_name.clone(),
            build: built.media.image.version.clone(),
            language: built.media.language.clone(),
        },
        targets: clone::targets(recipe),
        steps: steps(request, built),
        clone: clone::checks(request.plan),
        artifacts: built.artifacts.iter().map(Into::into).collect(),
        export: Some(exported(request)),
        tries: Vec::new(),
        warnings: built.warnings.clone(),
    }
}

fn exported(request: &Request) -> manifest::Exported {
    let outputs = &request.recipe.outputs;
    let boxes = [
        (Output::BoxHyperv, &outputs.box_hyperv),
        (Output::BoxLibvirt, &outputs.box_libvirt),
        (Output::BoxVirtualbox, &outputs.box_virtualbox),
    ];
    let communicators = boxes.into_iter().filter_map(|(output, spec)| {
        let spec = spec.as_ref()?;
        Some((output.name().to_owned(), spec.communicator.clone()))
    });
    manifest::Exported {
        epoch: request.epoch,
        nested_virtualization: request.plan.starts_hypervisor(),
        hardware_version: outputs.ova.as_ref().and_then(|ova| ova.hardware_version),
        license_type: outputs.ami.as_ref().map(|ami| ami.license_type.clone()),
        communicators: communicators.collect(),
    }
}

fn inputs(request: &Request, built: &Built) -> Vec<manifest::Input> {
    let file = |id: &InputId, blob| {
        let asked = request.recipe.input(id)?;
        let origin = asked.origin()?;
        Some(match asked.source {
            InputSource::Component(component) => manifest::Input {
                version: component.version.clone(),
                license: component.license.clone(),
                ..input(id, origin, blob, request.store)
            },
            InputSource::Medium(_) | InputSource::Image(_) => {
                input(id, origin, blob, request.store)
            }
        })
    };
    let files = built.inputs.files.iter();
    let files = files.filter_map(|(id, blob)| file(id, blob));
    let images = built.inputs.images.iter().map(|i| image(request, i));
    files.chain(images).collect()
}

/// A container image by its manifest, which names all of it.
fn image(request: &Request, image: &Image) -> manifest::Input {
    let id = InputId::Image(image.name.clone());
    let asked = match request.recipe.input(&id).map(|input| input.source) {
        Some(InputSource::Image(image)) => Some(&image.proof),
        _ => None,
    };
    let digest = image.manifest.blob.digest().to_string();
    manifest::Input {
        id,
        version: image.os_version.clone(),
        license: None,
        mirror: request
            .store
            .mirror_of(&image.reference, image.manifest.blob.digest()),
        url: image.reference.clone(),
        size: image.size(),
        signers: Vec::new(),
        proof: match asked {
            Some(ImageProof::Unverified { reason }) => manifest::Proof::Unverified {
                reason: reason.value.clone(),
            },
            Some(ImageProof::Digest(pinned)) => manifest::Proof::Digest {
                expected: pinned.value.to_string(),
            },
            _ => manifest::Proof::Digest {
                expected: digest.clone(),
            },
        },
        digest,
    }
}

fn input(id: &InputId, origin: &Origin, blob: &Blob, store: &Store) -> manifest::Input {
    let mirror = match &origin.url.value {
        Address::Remote(url) => store.mirror_of(url.as_str(), blob.digest()),
        Address::Local(_) => None,
    };
    manifest::Input {
        mirror,
        id: id.clone(),
        version: None,
        license: None,
        url: origin.url.value.recorded(),
        size: blob.size(),
        digest: blob.digest().to_string(),
        proof: proof(blob.proof()),
        signers: blob.signers().to_vec(),
    }
}

fn proof(proof: &Expected) -> manifest::Proof {
    match proof {
        Expected::Digest(digest) => manifest::Proof::Digest {
            expected: digest.to_string(),
        },
        Expected::ChecksumFile { url, line, .. } => manifest::Proof::ChecksumFile {
            url: redact(url),
            entry: line.clone(),
        },
        Expected::Signed => manifest::Proof::Signed,
        Expected::Unverified { reason } => manifest::Proof::Unverified {
            reason: reason.clone(),
        },
    }
}

/// The checks are those of the plan's steps, in the same order.
fn steps(request: &Request, built: &Built) -> Vec<manifest::Step> {
    let checks = built.expected.iter().map(|e| e.checks.clone());
    let checks = checks.chain(std::iter::repeat(Vec::new()));
    let planned = request.plan.steps.iter();
    let inputs = planned.map(|step| match step.skipped {
        Some(_) => Vec::new(),
        None => taken(request.plan, &step.entries),
    });
    let inputs = inputs.chain(std::iter::repeat(Vec::new()));
    let steps = built.steps.iter().zip(checks).zip(inputs);
    steps
        .map(|((record, expects), inputs)| step(record, expects, inputs))
        .collect()
}

/// The inputs that payload entries are of.
fn taken(plan: &Plan, entries: &[u32]) -> Vec<InputId> {
    let entries = entries
        .iter()
        .filter_map(|&at| plan.payload.get(at as usize));
    let mut ids: Vec<InputId> = entries
        .filter_map(|entry| match entry {
            Entry::Image { image } => Some(InputId::Image(image.clone())),
            other => Some(InputId::Component(other.component()?.to_owned())),
        })
        .collect();
    ids.sort();
    ids.dedup();
    ids
}

fn step(record: &StepRecord, expects: Vec<Check>, inputs: Vec<InputId>) -> manifest::Step {
    manifest::Step {
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

fn packer_build(request: &Request, manifest: &Manifest, run: Uuid) -> packer::Build {
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
    let files = manifest.artifacts.iter().map(|a| packer::BuiltFile {
        name: a.file.clone(),
        size: a.size,
    });
    packer::Build {
        name: manifest.recipe.name.clone(),
        builder_type: "winimg",
        build_time: request.epoch,
        files: files.collect(),
        artifact_id: format!("{}@{}", manifest.recipe.name, manifest.recipe.digest),
        packer_run_uuid: run,
        custom_data,
    }
}
