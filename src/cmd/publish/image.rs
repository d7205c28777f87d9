//! Selects the files to publish, and checks them against the manifest.
//!
//! Rejects an image with a file that differs from what the build wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::super::verify::describe_unreadable;
use crate::record::BuildManifest;
use crate::record::manifest::ManifestArtifact;
use crate::record::writer::MANIFEST;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io::{self, ContainedFileError};
use winimg_recipe::OutputFormat;
use winimg_supply::publish::{
    AcceptedOutputs, Destination, FileRole, PublishFile, PublishImage, refuse_flag,
};

/// File names and media types of an image's records; not every build writes all of them.
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

/// Refuses `--only` where the destination leaves no choice.
pub fn refuse_only(destination: &Destination, only: &[String]) -> Result<()> {
    match destination.outputs() {
        AcceptedOutputs::Alone { refusal, .. } if !only.is_empty() => {
            Err(refuse_flag("only", refusal, destination))
        }
        _ => Ok(()),
    }
}

/// Returns the files to publish, checked against the manifest.
pub fn check_files(
    manifest: &BuildManifest,
    folder: &Path,
    destination: &Destination,
    only: &[String],
) -> Result<PublishImage> {
    let wanted = select_artifacts(manifest, destination, only)?;
    let mut files = Vec::new();
    let mut faults = Vec::new();
    for artifact in &wanted {
        let found = io::find_contained_file(folder, &artifact.file);
        match found.map_err(|why| describe_unreadable(&artifact.file, why)) {
            Err(fault) => faults.push(fault),
            Ok(found) => match compare_file(artifact, &found.path)? {
                Some(fault) => faults.push(fault),
                None => files.push(to_publish_file(artifact, found.path)?),
            },
        }
    }
    let takes_records = matches!(
        destination.outputs(),
        AcceptedOutputs::All | AcceptedOutputs::First(_)
    );
    let mut records = Vec::new();
    for (name, media_type) in RECORDS.into_iter().chain([(MANIFEST, "application/json")]) {
        match io::find_contained_file(folder, name) {
            _ if !takes_records => {}
            Ok(found) => records.push((name, media_type, found.path)),
            Err(ContainedFileError::Missing) => {}
            Err(why) => faults.push(describe_unreadable(name, why)),
        }
    }
    if !faults.is_empty() {
        let fact = format!(
            "{} from what the build wrote",
            match faults.len() {
                1 => "1 file differs".to_owned(),
                n => format!("{n} files differ"),
            }
        );
        return Err(Error::new(Kind::Publish, fact)
            .at(folder.display())
            .lines(faults)
            .cure("publish from the build's output folder, or build again"));
    }
    for (name, media_type, path) in records {
        let (sha256, size) = io::compute_sha256(&path)?;
        files.push(PublishFile {
            name: name.into(),
            path,
            size,
            sha256,
            media_type,
            role: FileRole::Record,
        });
    }
    Ok(PublishImage {
        name: manifest.recipe.name.clone(),
        version: manifest.windows.build.clone(),
        created: manifest.finished.clone(),
        firmware: manifest.machine.as_ref().map(|machine| machine.firmware),
        properties: BTreeMap::new(),
        files,
    })
}

/// Returns the artifacts that `--only` names, or those that the destination accepts.
fn select_artifacts<'m>(
    manifest: &'m BuildManifest,
    destination: &Destination,
    only: &[String],
) -> Result<Vec<&'m ManifestArtifact>> {
    let takes = destination.outputs();
    let own = match takes {
        AcceptedOutputs::All => Vec::new(),
        AcceptedOutputs::One(outputs) => {
            vec![choose_output(outputs, manifest, only)?.name().to_owned()]
        }
        AcceptedOutputs::First(output) | AcceptedOutputs::Alone { output, .. } => {
            vec![output.name().to_owned()]
        }
    };
    let only = match (&takes, only) {
        (AcceptedOutputs::All, only) => only,
        (AcceptedOutputs::First(_), [])
        | (AcceptedOutputs::Alone { .. } | AcceptedOutputs::One(_), _) => &own,
        (AcceptedOutputs::First(_), only) => only,
    };
    let kinds: BTreeSet<&str> = manifest.artifacts.iter().map(|a| a.kind.as_str()).collect();
    let unknown: Vec<&str> = only
        .iter()
        .map(String::as_str)
        .filter(|kind| !kinds.contains(kind))
        .collect();
    if !unknown.is_empty() {
        let kinds: Vec<&str> = kinds.into_iter().collect();
        return Err(Error::new(Kind::Recipe, "the image has no such output")
            .at("--only")
            .expected(format!("one of {}", kinds.join(", ")))
            .found(unknown.join(", "))
            .cure(MISSING_OUTPUT));
    }
    let artifacts = &manifest.artifacts;
    let disks: Vec<&str> = match takes {
        AcceptedOutputs::Alone { .. } => artifacts
            .iter()
            .filter(|a| is_selected(a, only))
            .filter_map(|a| a.disk.as_deref())
            .collect(),
        AcceptedOutputs::All | AcceptedOutputs::First(_) | AcceptedOutputs::One(_) => Vec::new(),
    };
    Ok(artifacts
        .iter()
        .filter(|a| is_selected(a, only) || disks.contains(&a.file.as_str()))
        .collect())
}

fn is_selected(artifact: &ManifestArtifact, only: &[String]) -> bool {
    only.is_empty() || only.contains(&artifact.kind)
}

/// Returns the output for a destination that accepts only one.
fn choose_output(
    outputs: &'static [OutputFormat],
    manifest: &BuildManifest,
    only: &[String],
) -> Result<OutputFormat> {
    let found = outputs
        .iter()
        .filter(|output| only.is_empty() || only == [output.name()])
        .find(|output| manifest.artifacts.iter().any(|a| a.kind == output.name()));
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = outputs.iter().map(|output| output.name()).collect();
        let kinds: BTreeSet<&str> = manifest.artifacts.iter().map(|a| a.kind.as_str()).collect();
        let kinds: Vec<&str> = kinds.into_iter().collect();
        let (at, found) = if only.is_empty() {
            ("--to", kinds.join(", "))
        } else {
            ("--only", only.join(", "))
        };
        Error::new(Kind::Recipe, "the image has no output for this destination")
            .at(at)
            .expected(format!("one of {}", names.join(", ")))
            .found(found)
            .cure(MISSING_OUTPUT)
    })
}

const MISSING_OUTPUT: &str =
    "add it under [outputs] and build again, or convert an existing one with `winimg export`";

/// Describes how a file differs from the manifest, if it does.
fn compare_file(artifact: &ManifestArtifact, path: &Path) -> Result<Option<String>> {
    let (digest, size) = io::compute_sha256(path)?;
    if (digest.hex().as_str(), size) == (artifact.sha256.as_str(), artifact.size) {
        return Ok(None);
    }
    Ok(Some(format!(
        "{}: expected {} bytes, sha256:{}; found {size} bytes, {digest}",
        artifact.file, artifact.size, artifact.sha256
    )))
}

fn to_publish_file(artifact: &ManifestArtifact, path: PathBuf) -> Result<PublishFile> {
    Ok(PublishFile {
        name: artifact.file.clone(),
        path,
        size: artifact.size,
        sha256: Digest::from_hex(&artifact.sha256)
            .map_err(|why| Error::failed(format!("the manifest's digest {why}")))?,
        media_type: match artifact.kind.as_str() {
            "ova" | "container_disk" => "application/x-tar",
            "ami" => "application/json",
            _ => "application/octet-stream",
        },
        role: FileRole::Output(artifact.kind.clone()),
    })
}
