//! Writes an ISO image atomically, streaming its files.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

use winimg_base::digest::{Digest, Hasher};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io::AtomicFile;

use super::layout::DiscLayout;
use super::record::SECTOR;
use super::tree::{DiscSource, DiscTree};

/// Writes `tree` as an ISO 9660 + Joliet image to `path`, replacing an existing file. The file is
/// readable only by its owner: answer files with passwords are written to such discs. Equal trees
/// give equal bytes.
pub fn write(tree: &DiscTree, path: &Path) -> Result<()> {
    let mut sizes = Vec::with_capacity(tree.files.len());
    for source in tree.files.values() {
        sizes.push(size(source)?);
    }
    let layout = DiscLayout::new(tree, &sizes)?;
    let mut file = AtomicFile::create_private(path)?;
    let mut out = BufWriter::with_capacity(1 << 20, file.file());
    out.write_all(&layout.build_head())
        .map_err(|e| Error::io("write", path, e))?;
    for place in &layout.files {
        let Some(source) = tree.files.get(&place.path) else {
            continue;
        };
        let copied = copy(source, place.size, &mut out, path)?;
        if copied != place.size {
            return Err(Error::failed(format!(
                "{} changed while the disc was written",
                place.path
            ))
            .expected(format!("{} bytes", place.size))
            .found(format!("{copied} bytes or more")));
        }
        let used = (place.size % SECTOR as u64) as usize;
        if used != 0 {
            out.write_all(&vec![0; SECTOR - used])
                .map_err(|e| Error::io("write", path, e))?;
        }
    }
    out.flush().map_err(|e| Error::io("write", path, e))?;
    drop(out);
    file.commit()
}

/// Returns the size in bytes.
fn size(source: &DiscSource) -> Result<u64> {
    match source {
        DiscSource::Bytes(bytes) => Ok(bytes.len() as u64),
        DiscSource::Medium(file) => Ok(file.size()),
        DiscSource::Path(path) | DiscSource::Verified { path, .. } => {
            let metadata = std::fs::metadata(path).map_err(|e| Error::io("read", path, e))?;
            if !metadata.is_file() {
                return Err(Error::failed(format!("{} is not a file", path.display())));
            }
            Ok(metadata.len())
        }
    }
}

/// Copies at most one byte more than `size`, so that a file that grew is noticed, and returns the
/// number of bytes read. Bytes with a known digest are hashed while they are copied, so that
/// nothing can change between the check and the copy.
fn copy(source: &DiscSource, size: u64, out: &mut impl Write, disc: &Path) -> Result<u64> {
    let mut reader: Box<dyn Read> = match source {
        DiscSource::Bytes(bytes) => Box::new(bytes.as_slice()),
        DiscSource::Medium(file) => Box::new(file.clone()),
        DiscSource::Path(path) | DiscSource::Verified { path, .. } => {
            Box::new(File::open(path).map_err(|e| Error::io("open", path, e))?)
        }
    };
    let mut proof = match source {
        DiscSource::Verified { path, sha256 } => {
            Some((Hasher::new(sha256.algorithm), path, sha256))
        }
        DiscSource::Bytes(_) | DiscSource::Medium(_) | DiscSource::Path(_) => None,
    };
    let mut buffer = vec![0; 1 << 18];
    let mut done = 0;
    while done <= size {
        let n = reader.read(&mut buffer).map_err(|e| {
            Error::failed(format!("cannot read {source:?} for the disc")).because(e)
        })?;
        if n == 0 {
            break;
        }
        if let Some((hasher, ..)) = &mut proof {
            hasher.update(&buffer[..n]);
        }
        let keep = (n as u64).min(size - done) as usize;
        out.write_all(&buffer[..keep])
            .map_err(|e| Error::io("write", disc, e))?;
        done += n as u64;
    }
    match proof {
        Some((hasher, path, sha256)) => {
            check_unchanged(path, sha256, &hasher.finish()).map(|()| done)
        }
        None => Ok(done),
    }
}

/// Checks the digest again: anyone who can write to the file's folder may have changed it since it
/// was verified.
fn check_unchanged(path: &Path, expected: &Digest, found: &Digest) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(
        Error::new(Kind::Unproved, "a file changed after it was verified")
            .at(path.display())
            .expected(expected)
            .found(found)
            .cure(
                "rerun winimg while nothing else writes to that file; if it happens again and \
                 the file \
                 is in the cache, delete it there and check who else can write to the cache",
            ),
    )
}
