//! The contents of an image for both SBOMs: Windows, every input, and the files known to be in the
//! guest.
//!
//! Contains only reproducible data from the manifest: no digests of artifacts, no durations, no
//! times, and nothing about the host. Does not guess: files that an installer unpacks are not
//! listed.

use std::collections::BTreeMap;

use super::license::SpdxLicense;
use super::manifest::{BuildManifest, ManifestInput, ManifestProof, ManifestStep};
use super::purl;
use winimg_recipe::InputId;
use winimg_recipe::plan::ImageCheck;
use winimg_trust::Signer;

/// The data of the SBOMs. The recipe's digest identifies the image before it is built.
pub struct SbomInventory<'a> {
    pub manifest: &'a BuildManifest,
    /// `SOURCE_DATE_EPOCH` as RFC 3339, UTC.
    pub created: String,
    /// CPE 2.3 of Windows, if the build number is valid in one.
    pub cpe: Option<String>,
    /// Properties of Windows, such as its edition.
    pub facts: Vec<(&'static str, String)>,
    pub parts: Vec<SbomPart>,
    /// Files that the recipe itself wrote.
    pub files: Vec<SbomFile>,
}

/// Kind of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SbomPartKind {
    /// A component of the recipe.
    Component,
    /// The Windows medium.
    Medium,
    /// The medium of the virtio drivers.
    Drivers,
    ContainerImage,
}

/// An input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SbomPart {
    pub kind: SbomPartKind,
    pub id: InputId,
    /// The id as text.
    pub name: String,
    pub version: Option<String>,
    pub size: u64,
    /// `sha256` or `sha512`, and lower-case hex.
    pub digest: (String, String),
    /// HTTP(S) URL without credentials and query; absent for local files of the build machine.
    pub url: Option<String>,
    pub purl: String,
    pub license: SpdxLicense,
    /// A text such as `digest`, `checksum-file …`, `signed` or `unverified: …`.
    pub proof: String,
    /// One line per signature.
    pub signers: Vec<String>,
    /// Guest paths of complete copies.
    pub paths: Vec<String>,
    /// Files in the guest that come from it.
    pub files: Vec<SbomFile>,
}

/// A file of the finished image, or the INF of a driver in its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SbomFile {
    pub is_driver: bool,
    /// Guest path, or the INF's name for a driver.
    pub path: String,
    /// In bytes.
    pub size: Option<u64>,
    pub sha256: String,
    /// The last step that wrote it.
    pub step: String,
}

impl<'a> SbomInventory<'a> {
    /// Builds the inventory; `epoch` is `SOURCE_DATE_EPOCH` in Unix seconds.
    pub fn from_manifest(manifest: &'a BuildManifest, epoch: i64) -> Self {
        let mut parts: Vec<SbomPart> = manifest
            .inputs
            .iter()
            .map(|input| build_part(input, manifest))
            .collect();
        let mut written_files = Vec::new();
        for (file, inputs) in collect_files(&manifest.steps) {
            let origin = find_origin(&file, &inputs, &parts);
            match origin.and_then(|index| parts.get_mut(index)) {
                Some(part) => {
                    if part.digest.1 == file.sha256 && !file.is_driver {
                        part.paths.push(file.path.clone());
                    }
                    part.files.push(file);
                }
                None => written_files.push(file),
            }
        }
        Self {
            manifest,
            created: format_time(epoch),
            cpe: build_cpe(manifest),
            facts: collect_facts(manifest),
            parts,
            files: written_files,
        }
    }
}

/// Formats Unix seconds as `2026-01-31T12:00:00Z`.
pub fn format_time(epoch: i64) -> String {
    jiff::Timestamp::from_second(epoch)
        .map(|t| t.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
        .unwrap_or_default()
}

fn collect_facts(manifest: &BuildManifest) -> Vec<(&'static str, String)> {
    let windows = &manifest.windows;
    let mut facts = vec![
        ("release", windows.release.clone()),
        ("edition", windows.edition.clone()),
        ("image", windows.image.clone()),
        ("language", windows.language.clone()),
    ];
    facts.extend(iter_checks(manifest).filter_map(|check| match check {
        ImageCheck::Update { kb } => Some(("update", kb.clone())),
        _ => None,
    }));
    facts
}

/// Returns the CPE name of Windows (NVD: CPE Dictionary, `microsoft:windows_server_2022` and the
/// like); the version is the build.
fn build_cpe(manifest: &BuildManifest) -> Option<String> {
    let (release, build) = (&manifest.windows.release, &manifest.windows.build);
    (is_numeric(build) && is_numeric(release))
        .then(|| format!("cpe:2.3:o:microsoft:windows_server_{release}:{build}:*:*:*:*:*:x64:*"))
}

fn is_numeric(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.')
}

/// Returns the image checks of all steps.
fn iter_checks(manifest: &BuildManifest) -> impl Iterator<Item = &ImageCheck> {
    manifest.steps.iter().flat_map(|step| &step.expects)
}

fn build_part(input: &ManifestInput, manifest: &BuildManifest) -> SbomPart {
    let kind = match input.id {
        InputId::Iso => SbomPartKind::Medium,
        InputId::Virtio => SbomPartKind::Drivers,
        InputId::Component(_) => SbomPartKind::Component,
        InputId::Image(_) => SbomPartKind::ContainerImage,
    };
    let name = input.id.to_string();
    let url = (kind != SbomPartKind::ContainerImage)
        .then(|| to_public_url(&input.url))
        .flatten();
    let version = match kind {
        SbomPartKind::Medium => Some(manifest.windows.build.clone()),
        _ => input.version.clone(),
    };
    SbomPart {
        purl: match kind {
            SbomPartKind::ContainerImage => purl::build_image_purl(&input.url, &input.digest),
            _ => purl::build_file_purl(&name, version.as_deref(), url.as_deref(), &input.digest),
        },
        kind,
        id: input.id.clone(),
        name,
        version,
        size: input.size,
        digest: purl::split_digest(&input.digest),
        url,
        license: SpdxLicense::parse(input.license.as_deref()),
        proof: describe_proof(&input.proof),
        signers: input.signers.iter().map(describe_signer).collect(),
        paths: find_image_roots(input, kind, manifest),
        files: Vec::new(),
    }
}

/// Returns the content stores that contain a container image.
fn find_image_roots(
    input: &ManifestInput,
    kind: SbomPartKind,
    manifest: &BuildManifest,
) -> Vec<String> {
    if kind != SbomPartKind::ContainerImage {
        return Vec::new();
    }
    iter_checks(manifest)
        .filter_map(|check| match check {
            ImageCheck::ContainerImage { image, root } if image.digest == input.digest => {
                Some(root.to_string())
            }
            _ => None,
        })
        .collect()
}

/// Returns an HTTP(S) URL, which means the same on every machine, without the manifest's mark for a
/// hidden query.
pub fn to_public_url(url: &str) -> Option<String> {
    let lower = url.to_ascii_lowercase();
    let is_remote = lower.starts_with("https://") || lower.starts_with("http://");
    is_remote.then(|| url.strip_suffix("?…").unwrap_or(url).to_owned())
}

fn describe_proof(proof: &ManifestProof) -> String {
    match proof {
        ManifestProof::Digest { .. } => "digest".into(),
        ManifestProof::ChecksumFile { url, entry } => match to_public_url(url) {
            Some(url) => format!("checksum-file {url}: {entry}"),
            None => format!("checksum-file: {entry}"),
        },
        ManifestProof::Signed => "signed".into(),
        ManifestProof::Unverified { reason } => format!("unverified: {reason}"),
    }
}

fn describe_signer(signer: &Signer) -> String {
    let at = signer.signed_at.as_ref().map(|at| format!(", signed {at}"));
    format!(
        "{}: {} ({}){}",
        signer.scheme,
        signer.signer,
        signer.pinned_by,
        at.unwrap_or_default()
    )
}

/// Returns the files that the steps expect, each once and sorted by path, with the inputs of the
/// last step that writes it.
fn collect_files(steps: &[ManifestStep]) -> Vec<(SbomFile, Vec<InputId>)> {
    let mut all = BTreeMap::new();
    for step in steps {
        for check in &step.expects {
            let (is_driver, path, size, sha256) = match check {
                ImageCheck::File { path, content } => {
                    (false, path.as_str(), Some(content.size), &content.sha256)
                }
                ImageCheck::Driver { driver } => (true, driver.inf.as_str(), None, &driver.sha256),
                _ => continue,
            };
            let file = SbomFile {
                is_driver,
                path: path.to_owned(),
                size,
                sha256: sha256.clone(),
                step: step.name.clone(),
            };
            // File names are case-insensitive. Two drivers may have an INF with the same name.
            let unique = if is_driver { sha256.as_str() } else { "" };
            let key = (is_driver, path.to_lowercase(), unique.to_owned());
            all.insert(key, (file, step.inputs.clone()));
        }
    }
    all.into_values().collect()
}

/// Returns the index of the input that a file comes from: the only input of its step, or the one
/// with the same bytes.
fn find_origin(file: &SbomFile, inputs: &[InputId], parts: &[SbomPart]) -> Option<usize> {
    match inputs {
        [only] => parts.iter().position(|p| p.id == *only),
        _ => parts
            .iter()
            .position(|p| inputs.contains(&p.id) && p.digest.1 == file.sha256),
    }
}
