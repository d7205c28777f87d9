//! Finds the files of an OVA in its tar, with the digests in its manifest. (DMTF: DSP0243)
//!
//! Reads only descriptor and manifest; disks are sent from the tar to vCenter without unpacking.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use roxmltree::Document;

use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};

/// Maximum size of a descriptor or a manifest in bytes.
const LONGEST: u64 = 4 << 20;

/// Content of an OVA.
pub struct OvaContent {
    /// The descriptor, then the files that it refers to.
    pub members: Vec<OvaEntry>,
    /// Networks of the machine's cards, by their names in the descriptor.
    pub networks: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OvaEntry {
    pub name: String,
    /// Offset in the tar in bytes.
    pub start: u64,
    pub size: u64,
    pub sha256: Digest,
}

/// Reads the content of an OVA. The manifest is not sent, only its digests: vCenter wants it with a
/// certificate only.
/// (vSphere Automation REST API Programming Guide: upload an OVF or OVA package)
pub fn package(path: &Path) -> Result<OvaContent> {
    let mut file = File::open(path).map_err(|e| Error::io("read", path, e))?;
    let places = list_places(&file).map_err(|e| Error::io("read", path, e))?;
    let (descriptor, envelope) = read_text(&mut file, &places, ".ovf", path)?;
    let digests = digests(&read_text(&mut file, &places, ".mf", path)?.1);
    let envelope = Document::parse(&envelope).map_err(|_| not_one(path, "a descriptor in XML"))?;
    let mut members = Vec::new();
    for name in std::iter::once(descriptor).chain(list_attributes(&envelope, "File", "href")) {
        let (Some(&(start, size)), Some(sha256)) = (places.get(&name), digests.get(&name)) else {
            return Err(not_one(
                path,
                &format!("{name}, with its SHA-256 in the manifest"),
            ));
        };
        members.push(OvaEntry {
            start,
            size,
            sha256: sha256.clone(),
            name,
        });
    }
    Ok(OvaContent {
        members,
        networks: list_attributes(&envelope, "Network", "name"),
    })
}

/// Lists the offset and size of each file in the tar.
fn list_places(file: &File) -> std::io::Result<BTreeMap<String, (u64, u64)>> {
    let mut places = BTreeMap::new();
    let mut archive = tar::Archive::new(BufReader::new(file));
    for entry in archive.entries_with_seek()? {
        let entry = entry?;
        let name = entry.path()?.to_string_lossy().into_owned();
        places.insert(name, (entry.raw_file_position(), entry.size()));
    }
    Ok(places)
}

/// Reads the first file whose name has this ending; returns its name and text.
fn read_text(
    file: &mut File,
    places: &BTreeMap<String, (u64, u64)>,
    ending: &str,
    path: &Path,
) -> Result<(String, String)> {
    let found = places.iter().find(|(name, _)| name.ends_with(ending));
    let (name, (start, size)) = found.ok_or_else(|| not_one(path, ending))?;
    let mut text = String::new();
    file.seek(SeekFrom::Start(*start))
        .and_then(|_| file.take((*size).min(LONGEST)).read_to_string(&mut text))
        .map_err(|e| Error::io("read", path, e))?;
    Ok((name.clone(), text))
}

/// Lists an attribute of all elements with this name: the files of a descriptor, or its networks.
fn list_attributes(envelope: &Document<'_>, element: &str, attribute: &str) -> Vec<String> {
    let nodes = envelope.descendants();
    let all = nodes.filter(|node| node.tag_name().name() == element);
    let names = all.filter_map(|node| node.attributes().find(|a| a.name() == attribute));
    names.map(|name| name.value().to_owned()).collect()
}

/// Parses lines such as `SHA256(demo.ovf)= 0123…`.
fn digests(manifest: &str) -> BTreeMap<String, Digest> {
    manifest
        .lines()
        .filter_map(|line| {
            let (name, hex) = line.strip_prefix("SHA256(")?.split_once(")=")?;
            Some((name.to_owned(), Digest::from_hex(hex.trim()).ok()?))
        })
        .collect()
}

fn not_one(path: &Path, lacks: &str) -> Error {
    Error::new(Kind::Publish, "this is not an OVA written by a build")
        .at(path.display())
        .expected(format!("the member {lacks}"))
}
