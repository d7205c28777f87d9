//! Windows Installer packages: the signature in its stream, and the digest over all the others.
//!
//! The digest goes over the contents of the streams in the order of their names' bytes; where the publisher signed with
//! MsiDigitalSignatureEx, also over names, sizes, class identifiers and times. Refuses a package that has bytes outside of
//! its streams, bytes behind the signature, or names that two readers could take for different streams.
//! (Microsoft: MS-CFB; Windows Installer: MsiDigitalSignature table)

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::Context;
use cfb::{CompoundFile, Entry};

use super::super::hash::HashKind;
use super::super::place::Open;
use super::super::{Reason, Refusal, tlv};
use super::compound::{self, malformed, uncovered};
use super::source::{Source, unreadable};

pub(super) const SIGNATURE: &str = "\u{5}DigitalSignature";
const METADATA: &str = "\u{5}MsiDigitalSignatureEx";

const NOT_EXTENDED: &str =
    "the names and bounds of the package's streams are not signed, only their bytes in a row";

/// Storages within storages: transforms and nested packages are two deep.
const DEEPEST: usize = 16;
const LONGEST_SIGNATURE: u64 = 16 << 20;

/// 100 ns ticks from 1601 to 1970.
const UNIX_EPOCH_TICKS: u64 = 116_444_736_000_000_000;

type Package<'a> = CompoundFile<&'a mut Source>;

/// The PKCS#7 DER; `None` when the file is not signed. Refuses what no signature covers.
pub(super) fn signature(file: &mut Source) -> Result<Option<Vec<u8>>, Refusal> {
    if let Err(refusal) = package(file).map(drop) {
        // The tables say more about what is cut off than what they point to.
        compound::slack(file)?;
        return Err(refusal);
    }
    let Some(bytes) = small_stream(&mut package(file)?, SIGNATURE)? else {
        return Ok(None);
    };
    compound::slack(file)?;
    let (der, rest) = tlv::first(&bytes, tlv::SEQUENCE, "the package's signature")?;
    if !rest.is_empty() {
        return Err(uncovered(format!(
            "bytes follow the signature in its stream, which it does not cover: {}",
            rest.len()
        )));
    }
    Ok(Some(der.raw.to_vec()))
}

/// The digest that the signature is about.
pub(super) fn digest(file: &mut Source, algorithm: HashKind) -> Result<Vec<u8>, Refusal> {
    let mut package = package(file)?;
    let mut hash = algorithm.start();
    if let Some(signed) = small_stream(&mut package, METADATA)? {
        let found = metadata(&package, of_length(signed.len())?)?;
        if found != signed {
            let fact =
                "the names, sizes or times of the package's streams are not those that were signed";
            return Err(Reason::Changed
                .refusal(fact)
                .expected(hex::encode(&signed))
                .found(hex::encode(&found)));
        }
        hash.update(&signed);
    }
    contents(&mut package, Path::new("/"), 0, &mut hash)?;
    hash.update(&package.root_entry().clsid().to_bytes_le());
    Ok(hash.finish().as_ref().to_vec())
}

/// The places that no stream is.
pub(super) fn open(file: &mut Source) -> Result<Vec<Open>, Refusal> {
    compound::open(file)
}

/// What a good signature of this package does not say; refused where that is what the recipe asks for.
pub(super) fn remarks(file: &mut Source, needs_extended: bool) -> Result<Vec<String>, Refusal> {
    let mut remarks = Vec::new();
    let is_extended = package(file)?.is_stream(METADATA);
    if !is_extended && needs_extended {
        return Err(Reason::Uncovered
            .refusal(NOT_EXTENDED)
            .expected("MsiDigitalSignatureEx, as signtool adds it")
            .cure("pin the package with sha256 and allow it with `extended = \"optional\"`"));
    }
    if !is_extended {
        remarks.push(format!("{NOT_EXTENDED} (no MsiDigitalSignatureEx)"));
    }
    let left = compound::slack(file)?.left;
    if left > 0 {
        remarks.push(format!(
            "{left} bytes stand behind the ends of streams, or in small sectors or entries of the package that no stream has, so no signature covers them"
        ));
    }
    Ok(remarks)
}

fn package(file: &mut Source) -> Result<Package<'_>, Refusal> {
    CompoundFile::open(file).map_err(malformed)
}

/// A stream of the root that is small by its nature.
fn small_stream(package: &mut Package<'_>, name: &str) -> Result<Option<Vec<u8>>, Refusal> {
    if !package.is_stream(name) {
        return Ok(None);
    }
    let mut stream = package.open_stream(name).map_err(unreadable)?;
    let length = stream.len();
    if length > LONGEST_SIGNATURE {
        return Err(malformed(format!("its signature has {length} bytes")));
    }
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 != length {
        return Err(malformed("its signature is cut off"));
    }
    Ok(Some(bytes))
}

/// The algorithm of MsiDigitalSignatureEx is said by nothing but its length.
fn of_length(length: usize) -> Result<HashKind, Refusal> {
    match length {
        32 => Ok(HashKind::Sha256),
        48 => Ok(HashKind::Sha384),
        64 => Ok(HashKind::Sha512),
        20 => Err(Reason::Weak
            .refusal(
                "the names and sizes of its streams are signed by SHA-1, which others can forge",
            )
            .expected("SHA-256, SHA-384 or SHA-512")
            .found("SHA-1")
            .cure("ask the publisher for a file signed with SHA-256")),
        _ => Err(malformed(format!(
            "its MsiDigitalSignatureEx has {length} bytes, which is no digest"
        ))),
    }
}

/// The members of a storage by the bytes of their names in UTF-16LE, and without the two signatures in the root.
fn sorted(package: &Package<'_>, storage: &Path, depth: usize) -> Result<Vec<Entry>, Refusal> {
    if depth > DEEPEST {
        return Err(malformed(format!(
            "its storages are more than {DEEPEST} deep"
        )));
    }
    let mut names = BTreeSet::new();
    let mut members: Vec<(Vec<u8>, Entry)> = Vec::new();
    for entry in package.read_storage(storage).map_err(unreadable)? {
        let name = entry.name();
        // A stream is opened by its path: one reader would find another stream by such a name, or only one of two.
        if matches!(name, "" | "." | "..") {
            return Err(malformed(format!("it has a stream of the name {name:?}")));
        }
        if !names.insert(name.to_uppercase()) {
            return Err(malformed(format!(
                "it has two streams of the name {name:?}"
            )));
        }
        if depth > 0 || !matches!(name, SIGNATURE | METADATA) {
            members.push((name_with_end(name), entry));
        }
    }
    members.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(members.into_iter().map(|(_, entry)| entry).collect())
}

/// With its terminating NUL, which decides the order of names that begin alike.
fn name_with_end(name: &str) -> Vec<u8> {
    name.encode_utf16()
        .chain([0])
        .flat_map(u16::to_le_bytes)
        .collect()
}

/// Every stream's bytes, then the storage's class identifier.
fn contents(
    package: &mut Package<'_>,
    storage: &Path,
    depth: usize,
    hash: &mut Context,
) -> Result<(), Refusal> {
    for entry in sorted(package, storage, depth)? {
        if entry.is_stream() {
            stream(package, &entry, hash)?;
        } else {
            let path: PathBuf = entry.path().into();
            contents(package, &path, depth + 1, hash)?;
            hash.update(&entry.clsid().to_bytes_le());
        }
    }
    Ok(())
}

fn stream(package: &mut Package<'_>, entry: &Entry, hash: &mut Context) -> Result<(), Refusal> {
    let mut stream = package.open_stream(entry.path()).map_err(unreadable)?;
    let mut buffer = vec![0; 1 << 16];
    let mut left = entry.len();
    loop {
        let read = stream.read(&mut buffer).map_err(unreadable)?;
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

/// The hash that MsiDigitalSignatureEx holds: everything about the streams but their contents.
fn metadata(package: &Package<'_>, algorithm: HashKind) -> Result<Vec<u8>, Refusal> {
    let mut hash = algorithm.start();
    let root = package.root_entry();
    hash.update(&root.clsid().to_bytes_le());
    hash.update(&root.state_bits().to_le_bytes());
    members_metadata(package, Path::new("/"), 0, &mut hash)?;
    Ok(hash.finish().as_ref().to_vec())
}

fn members_metadata(
    package: &Package<'_>,
    storage: &Path,
    depth: usize,
    hash: &mut Context,
) -> Result<(), Refusal> {
    for entry in sorted(package, storage, depth)? {
        let name = name_with_end(entry.name());
        hash.update(&name[..name.len() - 2]);
        if entry.is_stream() {
            // Only the low half of the size.
            hash.update(&(entry.len() as u32).to_le_bytes());
        } else {
            hash.update(&entry.clsid().to_bytes_le());
        }
        hash.update(&entry.state_bits().to_le_bytes());
        hash.update(&ticks(entry.created()).to_le_bytes());
        hash.update(&ticks(entry.modified()).to_le_bytes());
        if entry.is_storage() {
            members_metadata(package, entry.path(), depth + 1, hash)?;
        }
    }
    Ok(())
}

/// As it stands in the directory: 100 ns since 1601.
fn ticks(time: SystemTime) -> u64 {
    let of = |duration: std::time::Duration| (duration.as_nanos() / 100) as u64;
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => UNIX_EPOCH_TICKS.saturating_add(of(after)),
        Err(before) => UNIX_EPOCH_TICKS.saturating_sub(of(before.duration())),
    }
}
