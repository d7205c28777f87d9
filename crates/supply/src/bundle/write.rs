//! Writing a bundle: the same recipe, lock and variables give the same bytes.

use std::fs::File as FsFile;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

use tar::{Builder, EntryType, Header};

use super::index::{Blob, File, Index, SCHEMA};
use super::{BLOBS, FILES, INDEX, LOCK, Written, carry, layout};
use crate::store::{self, Watch};
use winimg_base::digest::{Algorithm, Digest, Hasher};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io::{self, AtomicFile};
use winimg_recipe::lock::{LockFile, SIGNATURES};
use winimg_recipe::recipe::{Options, Recipe};

/// From this size on (bytes) a ustar header has no room for it (POSIX.1-2017, pax, ustar Interchange Format).
const USTAR_FROM: u64 = 8 << 30;

/// What goes in.
pub struct Contents<'a> {
    pub recipe: &'a Recipe,
    pub options: &'a Options,
    pub lock: &'a LockFile,
    /// The files that the lock names, and what proves them.
    pub inputs: Vec<store::Blob>,
}

/// Writes the file; it is there whole or not at all.
pub fn write(contents: Contents<'_>, to: &Path, watch: &Watch) -> Result<Written> {
    let mut index = Index {
        schema: SCHEMA,
        ..Index::default()
    };
    let mut members = layout::of(&contents.recipe.files, contents.options, &mut index)?;
    // Where it is built somebody may ask for a signature of the lock, although nobody does here.
    for suffix in SIGNATURES {
        let path = contents.lock.beside(suffix);
        if path.is_file() {
            members.insert(format!("{LOCK}{suffix}"), path);
        }
    }
    let remarks = carry::of(contents.recipe, contents.options, &mut index);
    let lock = &contents.lock.text;
    let mut inputs = contents.inputs;
    inputs.sort_by(|a, b| a.digest().cmp(b.digest()));
    inputs.dedup_by(|a, b| a.digest() == b.digest());
    index.files.push(File {
        path: LOCK.into(),
        size: lock.len() as u64,
        digest: Digest::sha256_of(lock.as_bytes()),
    });
    for (name, path) in &members {
        let (digest, size) = io::sha256(path)?;
        let path = name.clone();
        index.files.push(File { path, size, digest });
    }
    index.files.sort_by(|a, b| a.path.cmp(&b.path));
    index.blobs = inputs.iter().map(described).collect();
    let text = toml::to_string(&index)
        .map_err(|e| Error::new(Kind::Failed, "an index cannot be written").because(e))?;
    // What is written has to be readable: two files whose names differ only in case are not.
    Index::parse(&text).map_err(|why| {
        Error::new(Kind::Recipe, "the recipe's files cannot go into a bundle").lines(why)
    })?;

    let mut file = AtomicFile::create(to)?;
    let mut tar = Tar {
        builder: Builder::new(BufWriter::new(&mut file)),
        watch,
        to,
        done: 0,
        total: inputs.iter().map(store::Blob::size).sum(),
        pax_from: USTAR_FROM,
    };
    tar.bytes(INDEX, text.as_bytes())?;
    for input in &inputs {
        let name = format!("{BLOBS}{}", input.digest().hex());
        tar.file(&name, input.path(), input.size(), input.digest())?;
    }
    for file in &index.files {
        let name = format!("{FILES}{}", file.path);
        match members.get(&file.path) {
            Some(path) => tar.file(&name, path, file.size, &file.digest)?,
            None => tar.bytes(&name, lock.as_bytes())?,
        }
    }
    tar.finish()?;
    let size = file
        .file()
        .metadata()
        .map_err(|e| Error::io("read", to, e))?;
    file.commit()?;
    Ok(Written {
        size: size.len(),
        files: index.files.len(),
        inputs: inputs.len(),
        remarks,
    })
}

fn described(input: &store::Blob) -> Blob {
    Blob {
        size: input.size(),
        digest: input.digest().clone(),
    }
}

struct Tar<'a, W: Write> {
    builder: Builder<W>,
    watch: &'a Watch,
    to: &'a Path,
    done: u64,
    total: u64,
    pax_from: u64,
}

impl<W: Write> Tar<'_, W> {
    fn bytes(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.append(name, bytes.len() as u64, bytes)
    }

    /// The file's bytes, which have to be those that the digest names.
    fn file(&mut self, name: &str, path: &Path, size: u64, digest: &Digest) -> Result<()> {
        let file = FsFile::open(path).map_err(|e| Error::io("read", path, e))?;
        let mut hasher = Hasher::new(Algorithm::Sha256);
        let (watch, total, before) = (self.watch, self.total, self.done);
        let mut read = 0;
        let reader = Reporting {
            // A file that grows must not shift what comes after it.
            inner: file.take(size),
            each: |bytes: &[u8]| {
                hasher.update(bytes);
                read += bytes.len() as u64;
                let watched = watch.bytes((before + read).min(total), Some(total));
                watched.map_err(|e| std::io::Error::other(e.to_string()))
            },
        };
        self.append(name, size, reader)?;
        self.done += read;
        if read == size && hasher.finish() == *digest {
            return Ok(());
        }
        let fact = format!("{} changed while it was being bundled", path.display());
        Err(Error::new(Kind::Unproved, fact).cure("run winimg again while nothing writes to it"))
    }

    fn append(&mut self, name: &str, size: u64, reader: impl Read) -> Result<()> {
        self.watch.cancel.check()?;
        let mut header = header(size);
        let big = size >= self.pax_from;
        if big {
            // Only the extension says it (POSIX.1-2017, pax Extended Header, `size`).
            header.set_size(0);
        }
        let text = size.to_string();
        let extension = match big {
            true => self
                .builder
                .append_pax_extensions([("size", text.as_bytes())]),
            false => Ok(()),
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

/// Nothing of the machine, of the user or of the hour.
fn header(size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::Regular);
    header.set_size(size);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

struct Reporting<R, F> {
    inner: R,
    each: F,
}

impl<R: Read, F: FnMut(&[u8]) -> std::io::Result<()>> Read for Reporting<R, F> {
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
        let watch = Watch::new("a bundle", Arc::new(Nobody), Cancel::default());
        let mut tar = Tar {
            builder: Builder::new(Vec::new()),
            watch: &watch,
            to: Path::new("bundle.tar"),
            done: 0,
            total: 0,
            pax_from: 5,
        };
        tar.bytes("small", b"1234").unwrap();
        tar.bytes("large", b"12345678").unwrap();
        tar.bytes("after", b"12").unwrap();
        let bytes = tar.builder.into_inner().unwrap();
        // The large one's own header says nothing of its size.
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
