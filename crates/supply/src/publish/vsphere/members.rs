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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    /// Where it begins in the tar, bytes.
    pub start: u64,
    pub size: u64,
    pub sha256: Digest,
}

/// The descriptor, then what it refers to. The manifest itself is sent by none but its digests: vCenter wants it with a certificate alone.
/// (vSphere Automation REST API Programming Guide: upload an OVF or OVA package)
pub fn members(path: &Path) -> Result<Vec<Member>> {
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
    let references = references(&envelope).ok_or_else(|| not_one(path, "a descriptor in XML"))?;
    let mut members = Vec::new();
    for name in std::iter::once(descriptor).chain(references) {
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
    Ok(members)
}

/// The files that a descriptor refers to.
fn references(envelope: &str) -> Option<Vec<String>> {
    let document = Document::parse(envelope).ok()?;
    let nodes = document.descendants();
    let files = nodes.filter(|node| node.tag_name().name() == "File");
    let names = files.filter_map(|file| file.attributes().find(|a| a.name() == "href"));
    Some(names.map(|name| name.value().to_owned()).collect())
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
