//! Writes a disc: beside its place, synced, then renamed. Contents are streamed.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

use winimg_base::digest::{Digest, Hasher};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io::AtomicFile;

use super::layout::Layout;
use super::record::SECTOR;
use super::tree::{Source, Tree};

/// Writes `tree` as an ISO 9660 + Joliet image to `path`, replacing what was there. The file is readable by its owner
/// only, since the answer file is written this way. Equal trees give equal bytes.
pub fn write(tree: &Tree, path: &Path) -> Result<()> {
    let mut sizes = Vec::with_capacity(tree.files.len());
    for source in tree.files.values() {
        sizes.push(size(source)?);
    }
    let layout = Layout::new(tree, &sizes)?;
    let cannot = |e| Error::io("write", path, e);
    let mut beside = AtomicFile::create_private(path)?;
    let mut out = BufWriter::with_capacity(1 << 20, beside.file());
    out.write_all(&layout.head()).map_err(cannot)?;
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
            out.write_all(&vec![0; SECTOR - used]).map_err(cannot)?;
        }
    }
    out.flush().map_err(cannot)?;
    drop(out);
    beside.commit()
}

/// Bytes.
fn size(source: &Source) -> Result<u64> {
    match source {
        Source::Bytes(bytes) => Ok(bytes.len() as u64),
        Source::Medium(file) => Ok(file.size()),
        Source::Path(path) | Source::Proved { path, .. } => {
            let about = std::fs::metadata(path).map_err(|e| Error::io("read", path, e))?;
            if !about.is_file() {
                return Err(Error::failed(format!("{} is not a file", path.display())));
            }
            Ok(about.len())
        }
    }
}

/// Copies at most one byte more than `size`, so that a file that grew is noticed. Returns what was read. Bytes that have to have a
/// digest are hashed on their way, so that nothing can change between the check and the copy.
fn copy(source: &Source, size: u64, out: &mut impl Write, disc: &Path) -> Result<u64> {
    let mut reader: Box<dyn Read> = match source {
        Source::Bytes(bytes) => Box::new(bytes.as_slice()),
        Source::Medium(file) => Box::new(file.clone()),
        Source::Path(path) | Source::Proved { path, .. } => {
            Box::new(File::open(path).map_err(|e| Error::io("open", path, e))?)
        }
    };
    let mut proof = match source {
        Source::Proved { path, sha256 } => Some((Hasher::new(sha256.algorithm), path, sha256)),
        Source::Bytes(_) | Source::Medium(_) | Source::Path(_) => None,
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
        Some((hasher, path, sha256)) => unchanged(path, sha256, &hasher.finish()).map(|()| done),
        None => Ok(done),
    }
}

/// The file was proved before the disc was written; anybody who can write to its folder can have changed it since.
fn unchanged(path: &Path, expected: &Digest, found: &Digest) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(
        Error::new(Kind::Unproved, "a file changed after it was proved")
            .at(path.display())
            .expected(expected)
            .found(found)
            .cure(
                "run winimg again while nothing else writes to that file; if that does not help and the \
                 file is in the cache, remove it there, and see who else can write to the cache",
            ),
    )
}
