//! The files of an OVA where they lie in its tar, with the digests that its manifest has. (DMTF: DSP0243)
//!
//! Reads the two small ones; a disk goes from the tar to vCenter without being unpacked.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use roxmltree::Document;

use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};

/// Bytes of a descriptor or a manifest.
const LONGEST: u64 = 4 << 20;

/// What an OVA holds.
pub struct Package {
    /// The descriptor, then what it refers to.
    pub members: Vec<Member>,
    /// The networks that the machine's cards are in, by the descriptor's names of them.
    pub networks: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    /// Where it begins in the tar, bytes.
    pub start: u64,
    pub size: u64,
    pub sha256: Digest,
}

/// The manifest itself is sent by none but its digests: vCenter wants it with a certificate alone.
/// (vSphere Automation REST API Programming Guide: upload an OVF or OVA package)
pub fn package(path: &Path) -> Result<Package> {
    let unread = |e| Error::io("read", path, e);
    let mut file = File::open(path).map_err(unread)?;
    let mut places = BTreeMap::new();
    let mut archive = tar::Archive::new(BufReader::new(&file));
    for entry in archive.entries_with_seek().map_err(unread)? {
        let entry = entry.map_err(unread)?;
        let name = entry.path().map_err(unread)?.to_string_lossy().into_owned();
        places.insert(name, (entry.raw_file_position(), entry.size()));
    }
    let mut text = |ending: &str| -> Result<(String, String)> {
        let found = places.iter().find(|(name, _)| name.ends_with(ending));
        let (name, (start, size)) = found.ok_or_else(|| not_one(path, ending))?;
        file.seek(SeekFrom::Start(*start)).map_err(unread)?;
        let mut text = String::new();
        let read = (&mut file)
            .take((*size).min(LONGEST))
            .read_to_string(&mut text);
        read.map_err(unread)?;
        Ok((name.clone(), text))
    };
    let (descriptor, envelope) = text(".ovf")?;
    let digests = digests(&text(".mf")?.1);
    let not_xml = |_| not_one(path, "a descriptor in XML");
    let envelope = Document::parse(&envelope).map_err(not_xml)?;
    let mut members = Vec::new();
    for name in std::iter::once(descriptor).chain(named(&envelope, "File", "href")) {
        let (Some(&(start, size)), Some(sha256)) = (places.get(&name), digests.get(&name)) else {
            return Err(not_one(
                path,
                &format!("{name}, with its SHA-256 in the manifest"),
            ));
        };
        members.push(Member {
            start,
            size,
            sha256: sha256.clone(),
            name,
        });
    }
    Ok(Package {
        members,
        networks: named(&envelope, "Network", "name"),
    })
}

/// An attribute of each element of this name: the files that a descriptor refers to, and its networks.
fn named(envelope: &Document<'_>, element: &str, attribute: &str) -> Vec<String> {
    let nodes = envelope.descendants();
    let all = nodes.filter(|node| node.tag_name().name() == element);
    let names = all.filter_map(|node| node.attributes().find(|a| a.name() == attribute));
    names.map(|name| name.value().to_owned()).collect()
}

/// `SHA256(demo.ovf)= 0123…`
fn digests(manifest: &str) -> BTreeMap<String, Digest> {
    let line = |line: &str| {
        let (name, hex) = line.strip_prefix("SHA256(")?.split_once(")=")?;
        Some((name.to_owned(), Digest::from_hex(hex.trim()).ok()?))
    };
    manifest.lines().filter_map(line).collect()
}

fn not_one(path: &Path, lacks: &str) -> Error {
    Error::new(Kind::Publish, "this is not an OVA that a build wrote")
        .at(path.display())
        .expected(format!("the member {lacks}"))
}
