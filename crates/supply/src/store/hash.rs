//! What a file's bytes are, and whether that is what was asked for.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use winimg_base::digest::{Algorithm, Digest, Hasher};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;

use super::blob::Stamp;
use super::{Expected, Terms, Watch};

/// What hashing a file gave.
pub(super) struct Hashed {
    pub sha256: Digest,
    /// Only where it was asked for.
    pub sha512: Option<Digest>,
    pub stamp: Stamp,
}

impl Hashed {
    fn as_expected(&self, expected: &Digest) -> &Digest {
        match (expected.algorithm, &self.sha512) {
            (Algorithm::Sha512, Some(sha512)) => sha512,
            _ => &self.sha256,
        }
    }
}

/// Reads the file once, from one descriptor, for all digests that are wanted; its SHA-512 where there is one to compare with.
pub(super) fn hash(path: &Path, sha512: Option<&Digest>, watch: &Watch) -> Result<Hashed> {
    let io = |e| unreadable(path, e);
    let mut file = File::open(path).map_err(io)?;
    let stamp = Stamp::of(&file.metadata().map_err(io)?);
    let mut sha256 = Hasher::new(Algorithm::Sha256);
    let mut sha512 = sha512.map(|_| Hasher::new(Algorithm::Sha512));
    let progress = watch.named(format!("checking {}", watch.what));
    let mut buffer = vec![0; 1 << 20];
    let mut done = 0;
    loop {
        let n = file.read(&mut buffer).map_err(io)?;
        if n == 0 {
            break;
        }
        sha256.update(&buffer[..n]);
        if let Some(sha512) = &mut sha512 {
            sha512.update(&buffer[..n]);
        }
        done += n as u64;
        // Small files are done before anyone could read about it.
        if stamp.size >= 64 << 20 {
            progress.bytes(done, Some(stamp.size))?;
        }
    }
    if Stamp::of(&file.metadata().map_err(io)?) != stamp || done != stamp.size {
        return Err(changed(path));
    }
    Ok(Hashed {
        sha256: sha256.finish(),
        sha512: sha512.map(Hasher::finish),
        stamp,
    })
}

/// Copies all bytes: their SHA-256, and how many they are.
pub(crate) fn copy_hashed(
    mut from: impl Read,
    mut to: impl Write,
    cancel: &Cancel,
    unread: impl Fn(std::io::Error) -> Error,
    unwritten: impl Fn(std::io::Error) -> Error,
) -> Result<(Digest, u64)> {
    let (mut hasher, mut size) = (Hasher::new(Algorithm::Sha256), 0);
    let mut buffer = vec![0; 1 << 20];
    loop {
        cancel.check()?;
        let n = from.read(&mut buffer).map_err(&unread)?;
        if n == 0 {
            return Ok((hasher.finish(), size));
        }
        hasher.update(&buffer[..n]);
        to.write_all(&buffer[..n]).map_err(&unwritten)?;
        size += n as u64;
    }
}

pub(super) fn mismatch(hashed: &Hashed, terms: &Terms, watch: &Watch) -> Option<Error> {
    let expected = &terms.expected;
    let differs = |digest: &&Digest| hashed.as_expected(digest) != *digest;
    let mut named = expected.digest().into_iter().chain(expected.sha512());
    let Some(digest) = named.find(differs) else {
        return terms.other_than_locked(&hashed.sha256, watch);
    };
    let found = hashed.as_expected(digest);
    let who = match expected {
        Expected::ChecksumFile { .. } => "checksum file",
        _ => "recipe",
    };
    let error = Error::new(
        Kind::Unproved,
        format!("{} is not the file that the {who} names", watch.what),
    )
    .expected(digest)
    .found(format!("{found} ({} bytes)", hashed.stamp.size));
    Some(match expected {
        Expected::ChecksumFile { url, line, .. } => error
            .lines([format!("{url} says: {line}")])
            .cure("one of the two files was replaced or damaged on its server: ask the publisher"),
        _ => error.cure(
            "if the publisher replaced the file and you trust the new one, put its digest into the recipe; \
             nothing is downloaded again for that",
        ),
    })
}

/// Names a file that came compressed although nobody asked for that: unpacked it is the wanted one.
pub(super) fn explained(error: Error, path: &Path, hashed: &Hashed, terms: &Terms) -> Error {
    let wanted = terms.expected.digest().into_iter();
    let mut wanted = wanted.chain(terms.expected.sha512()).chain(&terms.locked);
    let is_compressed = wanted.any(|digest| is_gzip_of(path, digest));
    if !is_compressed {
        return error;
    }
    let what = error
        .fact()
        .split(" is not the file")
        .next()
        .unwrap_or_default();
    let fact = format!(
        "the server sent {what} compressed with gzip; unpacked it is the file that is wanted"
    );
    Error::new(error.kind(), fact)
        .found(format!("{} ({} bytes)", hashed.sha256, hashed.stamp.size))
        .cure("have the server, or the proxy before it, send the file as it is: winimg asks for `Accept-Encoding: identity`")
}

/// Bytes that are unpacked to find out what was compressed.
const UNPACKED: u64 = 8 << 30;

fn is_gzip_of(path: &Path, digest: &Digest) -> bool {
    let Ok(file) = File::open(path) else {
        return false;
    };
    let unpacked = flate2::read::MultiGzDecoder::new(file).take(UNPACKED);
    let hashed = Digest::of_reader(digest.algorithm, unpacked);
    hashed.is_ok_and(|(found, size)| size > 0 && found == *digest)
}

pub(super) fn changed(path: &Path) -> Error {
    Error::new(
        Kind::Unproved,
        format!("{} changed while it was being read", path.display()),
    )
    .cure("run winimg again while nothing else writes to that file")
}

pub(super) fn unreadable(path: &Path, e: std::io::Error) -> Error {
    if e.kind() == std::io::ErrorKind::NotFound {
        return Error::new(Kind::Fetch, format!("there is no file {}", path.display()));
    }
    Error::io("read", path, e)
}
