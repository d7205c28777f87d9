//! Windows Installer packages: the signature is in one stream, and its digest covers all others.
//!
//! The digest covers the contents of the streams in the order of their names' bytes; with
//! MsiDigitalSignatureEx also names, sizes, class identifiers and times. Refuses a package with
//! bytes outside its streams, bytes behind the signature, or names that readers could resolve to
//! different streams. (Microsoft: MS-CFB; Windows Installer: MsiDigitalSignature table)

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::Context;
use cfb::{CompoundFile, Entry};

use super::super::uncovered::UncoveredRange;
use super::compound::{self, SIGNATURE, malformed, refuse_uncovered};
use super::source::{SignedSource, refuse_unreadable};
use crate::x509::hash::HashKind;
use crate::x509::tlv;
use crate::{RefusalReason, SignatureRefusal};

const METADATA: &str = "\u{5}MsiDigitalSignatureEx";

const NOT_EXTENDED: &str =
    "the names and bounds of the package's streams are not signed, only their contents";

/// Maximum depth of storages: transforms and nested packages have two levels.
const MAX_DEPTH: usize = 16;
const MAX_SIGNATURE_SIZE: u64 = 16 << 20;

/// 100 ns ticks from 1601 to 1970.
const UNIX_EPOCH_TICKS: u64 = 116_444_736_000_000_000;

type MsiPackage<'a> = CompoundFile<&'a mut SignedSource>;

/// Returns the PKCS#7 DER; `None` if the file is not signed. Refuses bytes that no signature
/// covers.
pub(super) fn read_signature(file: &mut SignedSource) -> Result<Option<Vec<u8>>, SignatureRefusal> {
    if let Err(refusal) = open_package(file).map(drop) {
        // An error in the tables is more specific.
        compound::find_slack(file)?;
        return Err(refusal);
    }
    let Some(bytes) = small_stream(&mut open_package(file)?, SIGNATURE)? else {
        return Ok(None);
    };
    compound::find_slack(file)?;
    let (der, rest) = tlv::parse_first(&bytes, tlv::SEQUENCE, "the package's signature")?;
    if !rest.is_empty() {
        return Err(refuse_uncovered(format!(
            "unsigned bytes after the signature in its stream: {}",
            rest.len()
        )));
    }
    Ok(Some(der.raw.to_vec()))
}

/// Computes the digest that is signed.
pub(super) fn compute_digest(
    file: &mut SignedSource,
    algorithm: HashKind,
) -> Result<Vec<u8>, SignatureRefusal> {
    let mut package = open_package(file)?;
    let mut hash = algorithm.start();
    if let Some(signed) = small_stream(&mut package, METADATA)? {
        let found = hash_metadata(&package, of_length(signed.len())?)?;
        if found != signed {
            let fact = "the names, sizes or times of the package's streams differ from those \
                that were \
                 signed";
            return Err(RefusalReason::Changed
                .refusal(fact)
                .expected(hex::encode(&signed))
                .found(hex::encode(&found)));
        }
        hash.update(&signed);
    }
    hash_contents(&mut package, Path::new("/"), 0, &mut hash)?;
    hash.update(&package.root_entry().clsid().to_bytes_le());
    Ok(hash.finish().as_ref().to_vec())
}

/// Returns the ranges outside all streams.
pub(super) fn list_uncovered(
    file: &mut SignedSource,
) -> Result<Vec<UncoveredRange>, SignatureRefusal> {
    compound::list_uncovered(file)
}

/// Returns remarks about what a valid signature of this package does not cover, or refuses the
/// package if the recipe requires that.
pub(super) fn collect_remarks(
    file: &mut SignedSource,
    needs_extended: bool,
) -> Result<Vec<String>, SignatureRefusal> {
    let mut remarks = Vec::new();
    let is_extended = open_package(file)?.is_stream(METADATA);
    if !is_extended && needs_extended {
        return Err(RefusalReason::Uncovered
            .refusal(NOT_EXTENDED)
            .expected("MsiDigitalSignatureEx, as signtool adds it")
            .cure("pin the package with sha256 and allow it with `extended = \"optional\"`"));
    }
    if !is_extended {
        remarks.push(format!("{NOT_EXTENDED} (no MsiDigitalSignatureEx)"));
    }
    let left = compound::find_slack(file)?.left;
    if left > 0 {
        remarks.push(format!(
            "the package contains {left} unsigned bytes after the ends of streams, or in unused \
             mini sectors or entries"
        ));
    }
    Ok(remarks)
}

fn open_package(file: &mut SignedSource) -> Result<MsiPackage<'_>, SignatureRefusal> {
    CompoundFile::open(file).map_err(malformed)
}

/// Reads a small stream of the root.
fn small_stream(
    package: &mut MsiPackage<'_>,
    name: &str,
) -> Result<Option<Vec<u8>>, SignatureRefusal> {
    if !package.is_stream(name) {
        return Ok(None);
    }
    let mut stream = package.open_stream(name).map_err(refuse_unreadable)?;
    let length = stream.len();
    if length > MAX_SIGNATURE_SIZE {
        return Err(malformed(format!("its signature has {length} bytes")));
    }
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).map_err(refuse_unreadable)?;
    if bytes.len() as u64 != length {
        return Err(malformed("its signature is cut off"));
    }
    Ok(Some(bytes))
}

/// Returns the algorithm of MsiDigitalSignatureEx, which only its length determines.
fn of_length(length: usize) -> Result<HashKind, SignatureRefusal> {
    match length {
        32 => Ok(HashKind::Sha256),
        48 => Ok(HashKind::Sha384),
        64 => Ok(HashKind::Sha512),
        20 => Err(RefusalReason::Weak
            .refusal(
                "the names and sizes of its streams are signed with SHA-1, which can be forged",
            )
            .expected("SHA-256, SHA-384 or SHA-512")
            .found("SHA-1")
            .cure("ask the publisher for a file signed with SHA-256")),
        _ => Err(malformed(format!(
            "its MsiDigitalSignatureEx has {length} bytes, which is not the length of a digest"
        ))),
    }
}

/// Returns the members of a storage, sorted by their names in UTF-16LE, without the two signatures
/// in the root.
fn list_members(
    package: &MsiPackage<'_>,
    storage: &Path,
    depth: usize,
) -> Result<Vec<Entry>, SignatureRefusal> {
    if depth > MAX_DEPTH {
        return Err(malformed(format!(
            "its storages are more than {MAX_DEPTH} deep"
        )));
    }
    let mut names = BTreeSet::new();
    let mut members: Vec<(Vec<u8>, Entry)> = Vec::new();
    for entry in package.read_storage(storage).map_err(refuse_unreadable)? {
        let name = entry.name();
        // Streams are opened by path: with such names, readers could find different streams.
        if matches!(name, "" | "." | "..") {
            return Err(malformed(format!("it has a stream named {name:?}")));
        }
        if !names.insert(name.to_uppercase()) {
            return Err(malformed(format!("it has two streams named {name:?}")));
        }
        if depth > 0 || !matches!(name, SIGNATURE | METADATA) {
            members.push((name_with_end(name), entry));
        }
    }
    members.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(members.into_iter().map(|(_, entry)| entry).collect())
}

/// Encodes a name with its terminating NUL, which determines the order of names with a common
/// prefix.
fn name_with_end(name: &str) -> Vec<u8> {
    name.encode_utf16()
        .chain([0])
        .flat_map(u16::to_le_bytes)
        .collect()
}

/// Hashes every stream's bytes, then the storage's class identifier.
fn hash_contents(
    package: &mut MsiPackage<'_>,
    storage: &Path,
    depth: usize,
    hash: &mut Context,
) -> Result<(), SignatureRefusal> {
    for entry in list_members(package, storage, depth)? {
        if entry.is_stream() {
            hash_stream(package, &entry, hash)?;
        } else {
            let path: PathBuf = entry.path().into();
            hash_contents(package, &path, depth + 1, hash)?;
            hash.update(&entry.clsid().to_bytes_le());
        }
    }
    Ok(())
}

fn hash_stream(
    package: &mut MsiPackage<'_>,
    entry: &Entry,
    hash: &mut Context,
) -> Result<(), SignatureRefusal> {
    let mut stream = package
        .open_stream(entry.path())
        .map_err(refuse_unreadable)?;
    let mut buffer = vec![0; 1 << 16];
    let mut left = entry.len();
    loop {
        let read = stream.read(&mut buffer).map_err(refuse_unreadable)?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
        left = left.saturating_sub(read as u64);
    }
    if left > 0 {
        return Err(malformed(format!(
            "its stream {:?} is cut off",
            entry.name()
        )));
    }
    Ok(())
}

/// Computes the hash in MsiDigitalSignatureEx, which covers everything about the streams except for
/// their contents.
fn hash_metadata(
    package: &MsiPackage<'_>,
    algorithm: HashKind,
) -> Result<Vec<u8>, SignatureRefusal> {
    let mut hash = algorithm.start();
    let root = package.root_entry();
    hash.update(&root.clsid().to_bytes_le());
    hash.update(&root.state_bits().to_le_bytes());
    members_metadata(package, Path::new("/"), 0, &mut hash)?;
    Ok(hash.finish().as_ref().to_vec())
}

fn members_metadata(
    package: &MsiPackage<'_>,
    storage: &Path,
    depth: usize,
    hash: &mut Context,
) -> Result<(), SignatureRefusal> {
    for entry in list_members(package, storage, depth)? {
        let name = name_with_end(entry.name());
        hash.update(&name[..name.len() - 2]);
        if entry.is_stream() {
            // Only the low half of the size is hashed.
            hash.update(&(entry.len() as u32).to_le_bytes());
        } else {
            hash.update(&entry.clsid().to_bytes_le());
        }
        hash.update(&entry.state_bits().to_le_bytes());
        hash.update(&to_ticks(entry.created()).to_le_bytes());
        hash.update(&to_ticks(entry.modified()).to_le_bytes());
        if entry.is_storage() {
            members_metadata(package, entry.path(), depth + 1, hash)?;
        }
    }
    Ok(())
}

/// Converts a time to the unit of the directory: 100 ns since 1601.
fn to_ticks(time: SystemTime) -> u64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => UNIX_EPOCH_TICKS.saturating_add(duration_ticks(after)),
        Err(before) => UNIX_EPOCH_TICKS.saturating_sub(duration_ticks(before.duration())),
    }
}

fn duration_ticks(duration: Duration) -> u64 {
    (duration.as_nanos() / 100) as u64
}
