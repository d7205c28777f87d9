//! Writes a bundle reproducibly: the same recipe, lock and variables give the same bytes.

use std::fs::File as FsFile;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

use tar::{Builder, EntryType, Header};

use super::index::{BundleBlob, BundleFile, BundleIndex, SCHEMA};
use super::{BLOBS, BundleSummary, FILES, INDEX, LOCK, layout, variables};
use crate::store::{self, ProgressWatch};
use winimg_base::digest::{Algorithm, Digest, Hasher};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io::{self, AtomicFile};
use winimg_recipe::lock::LockFile;
use winimg_recipe::{ReadOptions, Recipe};
use winimg_trust::Scheme;

/// Size in bytes from which a ustar header cannot represent it (POSIX.1-2017, pax, ustar
/// Interchange Format).
const USTAR_FROM: u64 = 8 << 30;

/// Contents of a bundle.
pub struct BundleContents<'a> {
    pub recipe: &'a Recipe,
    pub options: &'a ReadOptions,
    pub lock: &'a LockFile,
    /// Files that the lock names, and their evidence.
    pub inputs: Vec<store::StoredBlob>,
}

/// Writes the file atomically.
pub fn write(
    contents: BundleContents<'_>,
    to: &Path,
    watch: &ProgressWatch,
) -> Result<BundleSummary> {
    let mut index = BundleIndex {
        schema: SCHEMA,
        ..BundleIndex::default()
    };
    let mut members = layout::plan_layout(&contents.recipe.files, contents.options, &mut index)?;
    // The builder of the bundle may require a signature of the lock, even if we do not.
    for suffix in Scheme::ALL.into_iter().filter_map(Scheme::signature_suffix) {
        let path = contents.lock.signature_path(suffix);
        if path.is_file() {
            members.insert(format!("{LOCK}{suffix}"), path);
        }
    }
    let remarks = variables::add_variables(contents.recipe, contents.options, &mut index);
    let lock = &contents.lock.text;
    let mut inputs = contents.inputs;
    inputs.sort_by(|a, b| a.digest().cmp(b.digest()));
    inputs.dedup_by(|a, b| a.digest() == b.digest());
    index.files.push(BundleFile {
        path: LOCK.into(),
        size: lock.len() as u64,
        digest: Digest::sha256_of(lock.as_bytes()),
    });
    for (name, path) in &members {
        let (digest, size) = io::compute_sha256(path)?;
        let path = name.clone();
        index.files.push(BundleFile { path, size, digest });
    }
    index.files.sort_by(|a, b| a.path.cmp(&b.path));
    index.blobs = inputs.iter().map(to_index_blob).collect();
    let text = toml::to_string(&index)
        .map_err(|e| Error::new(Kind::Failed, "cannot write the index").because(e))?;
    // The index must be readable: names that differ only in case are not, for example.
    BundleIndex::parse(&text).map_err(|why| {
        Error::new(Kind::Recipe, "the recipe's files cannot be bundled").lines(why)
    })?;

    let mut file = AtomicFile::create(to)?;
    let mut tar = BundleTar {
        builder: Builder::new(BufWriter::new(&mut file)),
        watch,
        to,
        done: 0,
        total: inputs.iter().map(store::StoredBlob::size).sum(),
        pax_from: USTAR_FROM,
    };
    tar.append_bytes(INDEX, text.as_bytes())?;
    for input in &inputs {
        let name = format!("{BLOBS}{}", input.digest().hex());
        tar.append_file(&name, input.path(), input.size(), input.digest())?;
    }
    for file in &index.files {
        let name = format!("{FILES}{}", file.path);
        match members.get(&file.path) {
            Some(path) => tar.append_file(&name, path, file.size, &file.digest)?,
            None => tar.append_bytes(&name, lock.as_bytes())?,
        }
    }
    tar.finish()?;
    let size = file
        .file()
        .metadata()
        .map_err(|e| Error::io("read", to, e))?;
    file.commit()?;
    Ok(BundleSummary {
        size: size.len(),
        files: index.files.len(),
        inputs: inputs.len(),
        remarks,
    })
}

fn to_index_blob(input: &store::StoredBlob) -> BundleBlob {
    BundleBlob {
        size: input.size(),
        digest: input.digest().clone(),
    }
}

struct BundleTar<'a, W: Write> {
    builder: Builder<W>,
    watch: &'a ProgressWatch,
    to: &'a Path,
    done: u64,
    total: u64,
    pax_from: u64,
}

impl<W: Write> BundleTar<'_, W> {
    fn append_bytes(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.append(name, bytes.len() as u64, bytes)
    }

    /// Appends a file, whose bytes must match the digest.
    fn append_file(&mut self, name: &str, path: &Path, size: u64, digest: &Digest) -> Result<()> {
        let file = FsFile::open(path).map_err(|e| Error::io("read", path, e))?;
        let mut hasher = Hasher::new(Algorithm::Sha256);
        let (watch, total, before) = (self.watch, self.total, self.done);
        let mut read = 0;
        let reader = ReportingReader {
            // A growing file must not shift the members after it.
            inner: file.take(size),
            each: |bytes: &[u8]| {
                hasher.update(bytes);
                read += bytes.len() as u64;
                let watched = watch.report_bytes((before + read).min(total), Some(total));
                watched.map_err(|e| std::io::Error::other(e.to_string()))
            },
        };
        self.append(name, size, reader)?;
        self.done += read;
        if read == size && hasher.finish() == *digest {
            return Ok(());
        }
        let fact = format!("{} changed while it was being bundled", path.display());
        Err(Error::new(Kind::Unproved, fact)
            .cure("run winimg again while nothing else writes to that file"))
    }

    fn append(&mut self, name: &str, size: u64, reader: impl Read) -> Result<()> {
        self.watch.cancel.check()?;
        let mut header = build_header(size);
        let big = size >= self.pax_from;
        if big {
            // Only the extension has the size (POSIX.1-2017, pax Extended Header, `size`).
            header.set_size(0);
        }
        let text = size.to_string();
        let extension = if big {
            self.builder
                .append_pax_extensions([("size", text.as_bytes())])
        } else {
            Ok(())
        };
        extension
            .and_then(|()| self.builder.append_data(&mut header, name, reader))
            .map_err(|e| match self.watch.cancel.check() {
                Ok(()) => Error::io("write", self.to, e),
                Err(cancelled) => cancelled,
            })
    }

    fn finish(self) -> Result<()> {
        let to = self.to;
        let mut out = self
            .builder
            .into_inner()
            .map_err(|e| Error::io("write", to, e))?;
        out.flush().map_err(|e| Error::io("write", to, e))
    }
}

/// Builds a header without data of the machine, the user or the time.
fn build_header(size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::Regular);
    header.set_size(size);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

struct ReportingReader<R, F> {
    inner: R,
    each: F,
}

impl<R: Read, F: FnMut(&[u8]) -> std::io::Result<()>> Read for ReportingReader<R, F> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.inner.read(buffer)?;
        (self.each)(&buffer[..n])?;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use winimg_base::event::{Cancel, Event, Sink};

    struct Nobody;

    impl Sink for Nobody {
        fn emit(&self, _: &Event) {}
    }

    #[test]
    fn a_member_too_large_for_its_header_has_an_extension() {
        let watch = ProgressWatch::new("a bundle", Arc::new(Nobody), Cancel::default());
        let mut tar = BundleTar {
            builder: Builder::new(Vec::new()),
            watch: &watch,
            to: Path::new("bundle.tar"),
            done: 0,
            total: 0,
            pax_from: 5,
        };
        tar.append_bytes("small", b"1234").unwrap();
        tar.append_bytes("large", b"12345678").unwrap();
        tar.append_bytes("after", b"12").unwrap();
        let bytes = tar.builder.into_inner().unwrap();
        // The large member's own header does not have its size.
        let header = Header::from_byte_slice(&bytes[512 * 4..512 * 5]);
        assert_eq!(
            (header.path_bytes().as_ref(), header.size().unwrap()),
            (&b"large"[..], 0)
        );
        let mut archive = tar::Archive::new(&bytes[..]);
        let sizes: Vec<u64> = archive
            .entries()
            .unwrap()
            .map(|e| e.unwrap().size())
            .collect();
        assert_eq!(sizes, [4, 8, 2]);
    }
}
