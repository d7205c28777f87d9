//! The files of an image that go to a destination, each judged by the manifest first.
//!
//! Refuses an image one of whose files is not what the build wrote.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::super::verify::not_beside;
use crate::record::Manifest;
use crate::record::built::MANIFEST;
use crate::record::manifest::Artifact;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io::{self, NotWithin};
use winimg_recipe::recipe::target::Output;
use winimg_supply::publish::{Destination, DiskFormat, File, Image, Import, Role};

/// The records of an image and what they are; those that are not there were not made.
const RECORDS: [(&str, &str); 8] = [
    ("sbom.cdx.json", "application/vnd.cyclonedx+json"),
    ("sbom.spdx.json", "application/spdx+json"),
    ("provenance.intoto.json", "application/vnd.in-toto+json"),
    (
        "provenance.sigstore.json",
        "application/vnd.dev.sigstore.bundle.v0.3+json",
    ),
    (
        "provenance.dsse.json",
        "application/vnd.dsse.envelope.v1+json",
    ),
    ("provenance.intoto.json.minisig", "application/x-minisig"),
    ("manifest.json.sig", "application/octet-stream"),
    ("manifest.json.minisig", "application/x-minisig"),
];

/// The files that go, each as the manifest lists it.
pub fn judged(
    manifest: &Manifest,
    folder: &Path,
    destination: &Destination,
    only: &[String],
) -> Result<Image> {
    let wanted = wanted(manifest, destination, only)?;
    let mut files = Vec::new();
    let mut faults = Vec::new();
    for artifact in &wanted {
        let found = io::file_within(folder, &artifact.file);
        match found.map_err(|why| not_beside(&artifact.file, why)) {
            Err(fault) => faults.push(fault),
            Ok(found) => match fault(artifact, &found.path)? {
                Some(fault) => faults.push(fault),
                None => files.push(file(artifact, found.path)?),
            },
        }
    }
    let is_ami = matches!(destination, Destination::Ami(_));
    let takes_records = matches!(Takes::of(destination), Takes::All | Takes::First(_));
    let mut records = Vec::new();
    for (name, media_type) in RECORDS.into_iter().chain([(MANIFEST, "application/json")]) {
        match io::file_within(folder, name) {
            _ if !takes_records => {}
            Ok(found) => records.push((name, media_type, found.path)),
            Err(NotWithin::Missing) => {}
            Err(why) => faults.push(not_beside(name, why)),
        }
    }
    if !faults.is_empty() {
        let fact = format!(
            "{} not what the build wrote",
            match faults.len() {
                1 => "1 file is".to_owned(),
                n => format!("{n} files are"),
            }
        );
        return Err(Error::new(Kind::Publish, fact)
            .at(folder.display())
            .lines(faults)
            .cure("publish from the folder of the build, or build again"));
    }
    if is_ami {
        files = vec![imported(&wanted, files, folder)?];
    }
    for (name, media_type, path) in records {
        let (sha256, size) = io::sha256(&path)?;
        files.push(File {
            name: name.into(),
            path,
            size,
            sha256,
            media_type,
            role: Role::Record,
        });
    }
    Ok(Image {
        name: manifest.recipe.name.clone(),
        version: manifest.windows.build.clone(),
        created: manifest.finished.clone(),
        firmware: manifest.machine.as_ref().map(|machine| machine.firmware),
        files,
    })
}

/// Which outputs a destination takes.
enum Takes {
    All,
    /// This one, unless `--only` names others.
    First(Output),
    /// This one, with the disk that it speaks of.
    Alone(Output),
    /// The first of these that is there, or the one that `--only` names.
    One(&'static [Output]),
}

impl Takes {
    fn of(destination: &Destination) -> Self {
        match destination {
            Destination::Bucket(_)
            | Destination::Blobs(_)
            | Destination::Gcs(_)
            | Destination::Server(_)
            | Destination::Artifact(_) => Self::All,
            Destination::Azure(_) => Self::Alone(Output::Vhd),
            Destination::ContainerDisk(_) => Self::First(Output::ContainerDisk),
            Destination::Ami(_) => Self::Alone(Output::Ami),
            Destination::Glance(_) => Self::One(&[Output::Qcow2, Output::Raw]),
            Destination::Vsphere(_) => Self::Alone(Output::Ova),
        }
    }
}

/// The artifacts that `--only` names, or those that the destination takes.
fn wanted<'m>(
    manifest: &'m Manifest,
    destination: &Destination,
    only: &[String],
) -> Result<Vec<&'m Artifact>> {
    let takes = Takes::of(destination);
    let own = match takes {
        Takes::All => Vec::new(),
        Takes::One(outputs) => vec![one_of(outputs, manifest, only)?.name().to_owned()],
        Takes::First(output) | Takes::Alone(output) => vec![output.name().to_owned()],
    };
    let only = match (&takes, only) {
        (Takes::All, only) => only,
        (Takes::First(_), []) | (Takes::Alone(_) | Takes::One(_), _) => &own,
        (Takes::First(_), only) => only,
    };
    let kinds: BTreeSet<&str> = manifest.artifacts.iter().map(|a| a.kind.as_str()).collect();
    let unknown: Vec<&str> = only
        .iter()
        .map(String::as_str)
        .filter(|kind| !kinds.contains(kind))
        .collect();
    if !unknown.is_empty() {
        let kinds: Vec<&str> = kinds.into_iter().collect();
        return Err(
            Error::new(Kind::Recipe, "the image has no such output")
                .at("--only")
                .expected(format!("of {}", kinds.join(", ")))
                .found(unknown.join(", "))
                .cure("add it under [outputs] and build again, or make it from what is there: winimg export"),
        );
    }
    let all = manifest.artifacts.iter();
    let named = |a: &&Artifact| only.is_empty() || only.contains(&a.kind);
    let disks: Vec<&str> = match takes {
        Takes::Alone(_) => all
            .clone()
            .filter(named)
            .filter_map(|a| a.disk.as_deref())
            .collect(),
        Takes::All | Takes::First(_) | Takes::One(_) => Vec::new(),
    };
    Ok(all
        .filter(|a| named(a) || disks.contains(&a.file.as_str()))
        .collect())
}

/// The output that goes where one alone does.
fn one_of(outputs: &'static [Output], manifest: &Manifest, only: &[String]) -> Result<Output> {
    let is_there = |output: &&Output| manifest.artifacts.iter().any(|a| a.kind == output.name());
    let is_wanted = |output: &&Output| only.is_empty() || only == [output.name()];
    let found = outputs.iter().filter(is_wanted).find(is_there);
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = outputs.iter().map(|output| output.name()).collect();
        let kinds: BTreeSet<&str> = manifest.artifacts.iter().map(|a| a.kind.as_str()).collect();
        let kinds: Vec<&str> = kinds.into_iter().collect();
        Error::new(Kind::Recipe, "the image has no output for this destination")
            .at(if only.is_empty() { "--to" } else { "--only" })
            .expected(format!("one of {}", names.join(", ")))
            .found(if only.is_empty() { kinds.join(", ") } else { only.join(", ") })
            .cure("add it under [outputs] and build again, or make it from what is there: winimg export")
    })
}

/// Why a file is not the one that the manifest lists.
fn fault(artifact: &Artifact, path: &Path) -> Result<Option<String>> {
    let (digest, size) = io::sha256(path)?;
    if (digest.hex().as_str(), size) == (artifact.sha256.as_str(), artifact.size) {
        return Ok(None);
    }
    Ok(Some(format!(
        "{}: expected {} bytes, sha256:{}; found {size} bytes, {digest}",
        artifact.file, artifact.size, artifact.sha256
    )))
}

fn file(artifact: &Artifact, path: PathBuf) -> Result<File> {
    let broken = |why| Error::failed(format!("the manifest's digest {why}"));
    Ok(File {
        name: artifact.file.clone(),
        path,
        size: artifact.size,
        sha256: Digest::from_hex(&artifact.sha256).map_err(broken)?,
        media_type: match artifact.kind.as_str() {
            "ova" | "container_disk" => "application/x-tar",
            "ami" => "application/json",
            _ => "application/octet-stream",
        },
        role: match artifact.kind.as_str() {
            kind if kind == Output::ContainerDisk.name() => Role::ContainerDisk,
            kind if kind == Output::Ova.name() => Role::Ova,
            kind if kind == Output::Qcow2.name() => Role::Disk(DiskFormat::Qcow2),
            kind if kind == Output::Raw.name() => Role::Disk(DiskFormat::Raw),
            kind if kind == Output::Vhd.name() => Role::Disk(DiskFormat::Vhd),
            _ => Role::Artifact,
        },
    })
}

/// The disk that the export's request to VM Import speaks of, of these two.
fn imported(listed: &[&Artifact], files: Vec<File>, folder: &Path) -> Result<File> {
    let (requests, disks): (Vec<_>, Vec<_>) = listed
        .iter()
        .zip(files)
        .partition(|(artifact, _)| artifact.kind == Output::Ami.name());
    let first = |files: Vec<(_, File)>| files.into_iter().next().map(|(_, file)| file);
    let (Some(request), Some(disk)) = (first(requests), first(disks)) else {
        return Err(
            Error::failed("the manifest lists no disk for its request to import one")
                .at(folder.display()),
        );
    };
    let text = io::read_text_limited(&request.path, io::limit::TEXT);
    let text = text.map_err(|e| Error::io("read", &request.path, e))?;
    let import: Import = serde_json::from_str(&text).map_err(|e| {
        Error::failed("this is not a request to import a disk that winimg wrote")
            .at(request.path.display())
            .because(e)
            .cure("make it again: winimg export")
    })?;
    Ok(File {
        role: Role::Imported(Box::new(import)),
        ..disk
    })
}
