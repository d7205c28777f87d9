//! What an image is made of, as both SBOMs describe it: Windows, every input, and the files that are known to be in the guest.
//!
//! Taken from the manifest alone, and only what the same recipe and lock give again: no artifact's digest, no duration,
//! no time of the run, nothing of the host and no path on it. Refuses to guess: what an installer unpacks is not listed.

use std::collections::BTreeMap;

use super::license::License;
use super::manifest::{Input, Manifest, Proof, Step};
use super::purl;
use winimg_recipe::plan::Check;
use winimg_recipe::recipe::InputId;
use winimg_trust::Signer;

/// What the SBOMs speak of. The recipe's digest identifies the image before it is built.
pub struct Inventory<'a> {
    pub manifest: &'a Manifest,
    /// RFC 3339, UTC: of `SOURCE_DATE_EPOCH`.
    pub created: String,
    /// CPE 2.3 of Windows, where the medium's build has a form that one can hold.
    pub cpe: Option<String>,
    /// The edition of Windows and the like.
    pub facts: Vec<(&'static str, String)>,
    pub parts: Vec<Part>,
    /// Files that the recipe itself wrote.
    pub files: Vec<File>,
}

/// What kind of thing an input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
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
pub struct Part {
    pub kind: Kind,
    pub id: InputId,
    /// The id as text.
    pub name: String,
    pub version: Option<String>,
    pub size: u64,
    /// `sha256` or `sha512`, and lower-case hex.
    pub digest: (String, String),
    /// http(s), without credentials and query; absent for what came from a file of the building machine.
    pub url: Option<String>,
    pub purl: String,
    pub license: License,
    /// In words: `digest`, `checksum-file …`, `signed`, `unverified: …`.
    pub proof: String,
    /// Each signature in one line.
    pub signers: Vec<String>,
    /// Where in the guest it is as a whole.
    pub paths: Vec<String>,
    /// What is in the guest because of it.
    pub files: Vec<File>,
}

/// A file of the finished image, or the INF of a driver in its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub is_driver: bool,
    /// In the guest; of a driver, the INF's name.
    pub path: String,
    /// Bytes.
    pub size: Option<u64>,
    pub sha256: String,
    /// The step that has the last word.
    pub step: String,
}

impl<'a> Inventory<'a> {
    /// `epoch`: seconds since 1970, `SOURCE_DATE_EPOCH`'s.
    pub fn of(manifest: &'a Manifest, epoch: i64) -> Self {
        let mut parts: Vec<Part> = manifest
            .inputs
            .iter()
            .map(|input| part(input, manifest))
            .collect();
        let mut own = Vec::new();
        for (file, inputs) in files(&manifest.steps) {
            let from = origin(&file, &inputs, &parts);
            match from.and_then(|at| parts.get_mut(at)) {
                Some(part) => {
                    if part.digest.1 == file.sha256 && !file.is_driver {
                        part.paths.push(file.path.clone());
                    }
                    part.files.push(file);
                }
                None => own.push(file),
            }
        }
        Self {
            manifest,
            created: moment(epoch),
            cpe: cpe(manifest),
            facts: facts(manifest),
            parts,
            files: own,
        }
    }
}

/// Seconds since 1970 as `2026-01-31T12:00:00Z`.
pub fn moment(epoch: i64) -> String {
    jiff::Timestamp::from_second(epoch)
        .map(|t| t.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
        .unwrap_or_default()
}

fn facts(manifest: &Manifest) -> Vec<(&'static str, String)> {
    let w = &manifest.windows;
    let mut facts = vec![
        ("release", w.release.clone()),
        ("edition", w.edition.clone()),
        ("image", w.image.clone()),
        ("language", w.language.clone()),
    ];
    facts.extend(checks(manifest).filter_map(|check| match check {
        Check::Update { kb } => Some(("update", kb.clone())),
        _ => None,
    }));
    facts
}

/// NVD: CPE Dictionary, `microsoft:windows_server_2022` and its sisters; the version is the build.
fn cpe(manifest: &Manifest) -> Option<String> {
    let (release, build) = (&manifest.windows.release, &manifest.windows.build);
    let numeric =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    (numeric(build) && numeric(release))
        .then(|| format!("cpe:2.3:o:microsoft:windows_server_{release}:{build}:*:*:*:*:*:x64:*"))
}

/// What the steps expect of the image.
fn checks(manifest: &Manifest) -> impl Iterator<Item = &Check> {
    manifest.steps.iter().flat_map(|step| &step.expects)
}

fn part(input: &Input, manifest: &Manifest) -> Part {
    let kind = match input.id {
        InputId::Iso => Kind::Medium,
        InputId::Virtio => Kind::Drivers,
        InputId::Component(_) => Kind::Component,
        InputId::Image(_) => Kind::ContainerImage,
    };
    let name = input.id.to_string();
    let url = (kind != Kind::ContainerImage)
        .then(|| public_url(&input.url))
        .flatten();
    let version = match kind {
        Kind::Medium => Some(manifest.windows.build.clone()),
        _ => input.version.clone(),
    };
    Part {
        purl: match kind {
            Kind::ContainerImage => purl::image(&input.url, &input.digest),
            _ => purl::file(&name, version.as_deref(), url.as_deref(), &input.digest),
        },
        kind,
        id: input.id.clone(),
        name,
        version,
        size: input.size,
        digest: purl::split(&input.digest),
        url,
        license: License::read(input.license.as_deref()),
        proof: proof(&input.proof),
        signers: input.signers.iter().map(signer).collect(),
        paths: images_root(input, kind, manifest),
        files: Vec::new(),
    }
}

/// The content store that holds a container image.
fn images_root(input: &Input, kind: Kind, manifest: &Manifest) -> Vec<String> {
    if kind != Kind::ContainerImage {
        return Vec::new();
    }
    let roots = checks(manifest).filter_map(|check| match check {
        Check::ContainerImage { image, root } if image.digest == input.digest => {
            Some(root.to_string())
        }
        _ => None,
    });
    roots.collect()
}

/// An address that means the same on every machine. The manifest's mark for a query that is not shown is taken away.
pub fn public_url(url: &str) -> Option<String> {
    let lower = url.to_ascii_lowercase();
    let remote = lower.starts_with("https://") || lower.starts_with("http://");
    remote.then(|| url.strip_suffix("?…").unwrap_or(url).to_owned())
}

fn proof(proof: &Proof) -> String {
    match proof {
        Proof::Digest { .. } => "digest".into(),
        Proof::ChecksumFile { url, entry } => match public_url(url) {
            Some(url) => format!("checksum-file {url}: {entry}"),
            None => format!("checksum-file: {entry}"),
        },
        Proof::Signed => "signed".into(),
        Proof::Unverified { reason } => format!("unverified: {reason}"),
    }
}

fn signer(s: &Signer) -> String {
    let at = s.signed_at.as_ref().map(|at| format!(", signed {at}"));
    format!(
        "{}: {} ({}){}",
        s.scheme,
        s.signer,
        s.pinned_by,
        at.unwrap_or_default()
    )
}

/// The files that the steps expect, each once, with the inputs of the step that has the last word; by path.
fn files(steps: &[Step]) -> Vec<(File, Vec<InputId>)> {
    let mut all = BTreeMap::new();
    for step in steps {
        for check in &step.expects {
            let (is_driver, path, size, sha256) = match check {
                Check::File { path, content } => {
                    (false, path.as_str(), Some(content.size), &content.sha256)
                }
                Check::Driver { driver } => (true, driver.inf.as_str(), None, &driver.sha256),
                _ => continue,
            };
            let file = File {
                is_driver,
                path: path.to_owned(),
                size,
                sha256: sha256.clone(),
                step: step.name.clone(),
            };
            // Windows' names are the same in either case. Two drivers may bring an INF of one name.
            let unique = if is_driver { sha256.as_str() } else { "" };
            let key = (is_driver, path.to_lowercase(), unique.to_owned());
            all.insert(key, (file, step.inputs.clone()));
        }
    }
    all.into_values().collect()
}

/// The input that a file is of: the one with its bytes, else the only one that its step took from.
fn origin(file: &File, inputs: &[InputId], parts: &[Part]) -> Option<usize> {
    let named = |part: &&Part| inputs.contains(&part.id);
    let same = |part: &&Part| part.digest.1 == file.sha256;
    let found = match inputs {
        [only] => Some(only),
        _ => parts.iter().filter(named).find(same).map(|p| &p.id),
    };
    let id = found?;
    parts.iter().position(|p| p.id == *id)
}
