//! Hashes files and compares them with the expected digests.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use winimg_base::digest::{Algorithm, Digest, Hasher};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;

use super::blob::FileStamp;
use super::{AdmitTerms, ExpectedBytes, ProgressWatch};

/// Hashes of a file.
pub(super) struct FileHashes {
    pub sha256: Digest,
    /// Only if requested.
    pub sha512: Option<Digest>,
    pub stamp: FileStamp,
}

impl FileHashes {
    fn as_expected(&self, expected: &Digest) -> &Digest {
        match (expected.algorithm, &self.sha512) {
            (Algorithm::Sha512, Some(sha512)) => sha512,
            _ => &self.sha256,
        }
    }
}

/// Computes all digests in one pass; the SHA-512 only if there is one to compare with.
pub(super) fn hash(
    path: &Path,
    sha512: Option<&Digest>,
    watch: &ProgressWatch,
) -> Result<FileHashes> {
    let mut file = File::open(path).map_err(|e| report_unreadable(path, e))?;
    let stamp = read_stamp(&file, path)?;
    let mut sha256 = Hasher::new(Algorithm::Sha256);
    let mut sha512 = sha512.map(|_| Hasher::new(Algorithm::Sha512));
    let progress = watch.with_name(format!("checking {}", watch.what));
    let mut buffer = vec![0; 1 << 20];
    let mut done = 0;
    loop {
        let n = file
            .read(&mut buffer)
            .map_err(|e| report_unreadable(path, e))?;
        if n == 0 {
            break;
        }
        sha256.update(&buffer[..n]);
        if let Some(sha512) = &mut sha512 {
            sha512.update(&buffer[..n]);
        }
        done += n as u64;
        // Small files are finished before progress would be visible.
        if stamp.size >= 64 << 20 {
            progress.report_bytes(done, Some(stamp.size))?;
        }
    }
    if read_stamp(&file, path)? != stamp || done != stamp.size {
        return Err(report_changed(path));
    }
    Ok(FileHashes {
        sha256: sha256.finish(),
        sha512: sha512.map(Hasher::finish),
        stamp,
    })
}

fn read_stamp(file: &File, path: &Path) -> Result<FileStamp> {
    let metadata = file.metadata().map_err(|e| report_unreadable(path, e))?;
    Ok(FileStamp::from_metadata(&metadata))
}

/// Copies all bytes and returns their SHA-256 and number.
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

pub(super) fn find_mismatch(
    hashed: &FileHashes,
    terms: &AdmitTerms,
    watch: &ProgressWatch,
) -> Option<Error> {
    let expected = &terms.expected;
    let mut named = expected.digest().into_iter().chain(expected.sha512());
    let Some(digest) = named.find(|digest| hashed.as_expected(digest) != *digest) else {
        return terms.other_than_locked(&hashed.sha256, watch);
    };
    let found = hashed.as_expected(digest);
    let who = match expected {
        ExpectedBytes::ChecksumFile { .. } => "checksum file",
        _ => "recipe",
    };
    let error = Error::new(
        Kind::Unproved,
        format!("{} is not the file that the {who} names", watch.what),
    )
    .expected(digest)
    .found(format!("{found} ({} bytes)", hashed.stamp.size));
    Some(match expected {
        ExpectedBytes::ChecksumFile { url, line, .. } => error
            .lines([format!("{url} says: {line}")])
            .cure("ask the publisher: one of the two files was replaced or damaged on its server"),
        _ => error.cure(
            "if the publisher replaced the file and you trust the new one, \
             put its digest into the recipe; it is not downloaded again",
        ),
    })
}

/// Replaces the error if the server compressed the file without a request and the unpacked file
/// matches.
pub(super) fn explain_compression(
    error: Error,
    path: &Path,
    hashed: &FileHashes,
    terms: &AdmitTerms,
    watch: &ProgressWatch,
) -> Error {
    let wanted = terms.expected.digest().into_iter();
    let mut wanted = wanted.chain(terms.expected.sha512()).chain(&terms.locked);
    let is_compressed = wanted.any(|digest| is_gzip_of(path, digest));
    if !is_compressed {
        return error;
    }
    let fact = format!(
        "the server sent {} compressed with gzip; the unpacked file is the expected one",
        watch.what
    );
    Error::new(error.kind(), fact)
        .found(format!("{} ({} bytes)", hashed.sha256, hashed.stamp.size))
        .cure(
            "configure the server or its proxy to send the file uncompressed: \
             winimg requests `Accept-Encoding: identity`",
        )
}

/// Maximum bytes that are unpacked for that check.
const UNPACKED: u64 = 8 << 30;

fn is_gzip_of(path: &Path, digest: &Digest) -> bool {
    let Ok(file) = File::open(path) else {
        return false;
    };
    let unpacked = flate2::read::MultiGzDecoder::new(file).take(UNPACKED);
    let hashed = Digest::of_reader(digest.algorithm, unpacked);
    hashed.is_ok_and(|(found, size)| size > 0 && found == *digest)
}

pub(super) fn report_changed(path: &Path) -> Error {
    Error::new(
        Kind::Unproved,
        format!("{} changed while it was being read", path.display()),
    )
    .cure("run winimg again while nothing else writes to that file")
}

pub(super) fn report_unreadable(path: &Path, e: std::io::Error) -> Error {
    if e.kind() == std::io::ErrorKind::NotFound {
        return Error::new(Kind::Fetch, format!("there is no file {}", path.display()));
    }
    Error::io("read", path, e)
}
