//! Finds the files of an OVA in its tar, with the digests in its manifest. (DMTF: DSP0243)
//!
//! Reads only descriptor and manifest; disks are sent from the tar to vCenter without unpacking.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use roxmltree::Document;

use super::super::tar_members::TarMembers;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};

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
    let mut tar = TarMembers::open(path)?;
    let (descriptor, envelope) = read_text(&mut tar, ".ovf", path)?;
    let digests = digests(&read_text(&mut tar, ".mf", path)?.1);
    let envelope = Document::parse(&envelope).map_err(|_| not_one(path, "a descriptor in XML"))?;
    let mut members = Vec::new();
    for name in std::iter::once(descriptor).chain(list_attributes(&envelope, "File", "href")) {
        let (Some((start, size)), Some(sha256)) = (tar.find(&name), digests.get(&name)) else {
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

/// Reads the first file whose name has this ending; returns its name and text.
fn read_text(members: &mut TarMembers, ending: &str, path: &Path) -> Result<(String, String)> {
    let name = members.find_ending(ending).map(str::to_owned);
    let name = name.ok_or_else(|| not_one(path, ending))?;
    let place = members.find(&name).ok_or_else(|| not_one(path, ending))?;
    let text = String::from_utf8(members.read(place)?)
        .map_err(|e| Error::io("read", path, io::Error::other(e)))?;
    Ok((name, text))
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
