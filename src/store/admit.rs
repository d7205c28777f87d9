//! The one door into the store: hash, compare, then rename into place.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::digest::{Algorithm, Digest, Hasher};
use crate::error::{Error, Kind, Result};
use crate::io;

use super::blob::Stamp;
use super::{Blob, Expected, Store, Terms, Watch, key_of, read_record, write_record};

/// Local files from this size on (bytes) are used where they stand; smaller ones are copied into the store.
pub const IN_PLACE_FROM: u64 = 256 << 20;

/// Bytes that want to become a blob.
#[derive(Clone, Debug)]
pub enum Candidate {
    /// A file in the store's `partial` or `quarantine` folder. Admission moves it.
    Downloaded(PathBuf),
    /// A file of the user's. Never moved, changed or deleted.
    Local(PathBuf),
}

/// What hashing a file gave.
struct Hashed {
    sha256: Digest,
    /// Only where it was asked for.
    sha512: Option<Digest>,
    stamp: Stamp,
}

impl Hashed {
    fn as_expected(&self, expected: &Digest) -> &Digest {
        match (expected.algorithm, &self.sha512) {
            (Algorithm::Sha512, Some(sha512)) => sha512,
            _ => &self.sha256,
        }
    }
}

/// A large local file as it was when it was hashed.
#[derive(Serialize, Deserialize)]
struct LocalRecord {
    path: PathBuf,
    stamp: Stamp,
    sha256: Digest,
    sha512: Option<Digest>,
}

impl Store {
    /// Hashes the candidate and, if it is what is expected, makes it a blob. Otherwise a download goes to quarantine,
    /// a local file stays as it is, and the error says both digests.
    pub fn admit(
        &self,
        candidate: Candidate,
        terms: impl Into<Terms>,
        watch: &Watch,
    ) -> Result<Blob> {
        let terms = &terms.into();
        match candidate {
            Candidate::Downloaded(path) => self.admit_downloaded(&path, terms, watch),
            Candidate::Local(path) => {
                let path = fs::canonicalize(&path).map_err(|e| unreadable(&path, e))?;
                let metadata = fs::metadata(&path).map_err(|e| unreadable(&path, e))?;
                if !metadata.is_file() {
                    return Err(Error::new(
                        Kind::Fetch,
                        format!("{} is not a file", path.display()),
                    ));
                }
                if metadata.len() >= IN_PLACE_FROM {
                    self.admit_in_place(&path, terms, watch)
                } else {
                    self.admit_copy(&path, terms, watch)
                }
            }
        }
    }

    /// The blob that was admitted before with this digest. One whose metadata changed is hashed again; one that went
    /// bad is moved to quarantine with a warning, and `None` sends the caller to fetch it anew.
    pub fn find(&self, terms: impl Into<Terms>, watch: &Watch) -> Result<Option<Blob>> {
        let terms = &terms.into();
        let known = terms.digest().and_then(|d| self.sha256_of(d));
        let Some(sha256) = known.or_else(|| terms.locked.clone()) else {
            return Ok(None);
        };
        self.find_sha256(&sha256, terms, watch)
    }

    /// As [`Store::find`] for a file that no digest names: the blob that its URL gave last time.
    pub fn find_seen(
        &self,
        sha256: &Digest,
        terms: impl Into<Terms>,
        watch: &Watch,
    ) -> Result<Option<Blob>> {
        let terms = &terms.into();
        match terms.digest() {
            None => self.find_sha256(sha256, terms, watch),
            Some(_) => self.find(terms, watch),
        }
    }

    /// The locked bytes of a local file that is not there any more, as a bundle brings them.
    pub fn find_locked(&self, path: &Path, terms: &Terms, watch: &Watch) -> Result<Option<Blob>> {
        match terms.locked {
            Some(_) if !path.exists() => self.find(terms, watch),
            _ => Ok(None),
        }
    }

    /// A download that another recipe sent to quarantine and whose digest this one names.
    pub fn release(&self, terms: impl Into<Terms>, watch: &Watch) -> Result<Option<Blob>> {
        let terms = &terms.into();
        let path = match terms.digest() {
            Some(digest) if digest.algorithm == Algorithm::Sha256 => self.quarantine_path(digest),
            _ => return Ok(None),
        };
        if !path.is_file() {
            return Ok(None);
        }
        match self.admit_downloaded(&path, terms, watch) {
            Err(e) if e.kind() == Kind::Unproved => Ok(None),
            other => other.map(Some),
        }
    }

    fn find_sha256(&self, sha256: &Digest, terms: &Terms, watch: &Watch) -> Result<Option<Blob>> {
        let path = self.blob_path(sha256);
        let Ok(metadata) = fs::metadata(&path) else {
            return Ok(None);
        };
        let stamp = Stamp::of(&metadata);
        if read_record::<Stamp>(&self.stamp_path(sha256)).as_ref() != Some(&stamp) {
            let hashed = hash(&path, None, watch)?;
            if hashed.sha256 != *sha256 {
                let aside = self.put_aside(&path, &hashed.sha256)?;
                watch.warn(format!(
                    "the cached file of {} went bad (it was {sha256}, it is {}); it is kept as {}",
                    watch.what,
                    hashed.sha256,
                    aside.display()
                ));
                return Ok(None);
            }
            write_record(&self.stamp_path(sha256), &stamp)?;
        }
        let hashed = Hashed {
            sha256: sha256.clone(),
            sha512: self.sha512_of(&path, sha256, terms, watch)?,
            stamp,
        };
        match mismatch(&hashed, terms, watch) {
            Some(error) => Err(error.at(path.display())),
            None => Ok(Some(blob(path, hashed, terms))),
        }
    }

    fn admit_downloaded(&self, path: &Path, terms: &Terms, watch: &Watch) -> Result<Blob> {
        let hashed = hash(path, terms.expected.digest(), watch)?;
        if let Some(error) = mismatch(&hashed, terms, watch) {
            let aside = self.put_aside(path, &hashed.sha256)?;
            return Err(error.lines([format!("the download is kept as {}", aside.display())]));
        }
        self.place(path, hashed, terms, watch)
    }

    fn admit_copy(&self, path: &Path, terms: &Terms, watch: &Watch) -> Result<Blob> {
        // In a folder of the store, so that the rename into place stays on one filesystem.
        let copy = tempfile::Builder::new()
            .prefix("copy-")
            .tempfile_in(self.folder.join("partial"))
            .map_err(|e| Error::io("write in", self.folder.join("partial"), e))?
            .into_temp_path();
        io::copy(path, &copy)?;
        let hashed = hash(&copy, terms.expected.digest(), watch)?;
        if let Some(error) = mismatch(&hashed, terms, watch) {
            return Err(error.at(path.display()));
        }
        self.place(&copy, hashed, terms, watch)
    }

    fn admit_in_place(&self, path: &Path, terms: &Terms, watch: &Watch) -> Result<Blob> {
        let record_path = self
            .folder
            .join("local")
            .join(key_of(&path.to_string_lossy()) + ".json");
        let metadata = fs::metadata(path).map_err(|e| unreadable(path, e))?;
        let wants_512 = terms
            .expected
            .digest()
            .is_some_and(|d| d.algorithm == Algorithm::Sha512);
        let known = read_record::<LocalRecord>(&record_path).filter(|r| {
            r.path == path && r.stamp == Stamp::of(&metadata) && (r.sha512.is_some() || !wants_512)
        });
        let hashed = match known {
            Some(record) => Hashed {
                sha256: record.sha256,
                sha512: record.sha512,
                stamp: record.stamp,
            },
            None => hash(path, terms.expected.digest(), watch)?,
        };
        if let Some(error) = mismatch(&hashed, terms, watch) {
            return Err(error.at(path.display()));
        }
        if hashed.stamp.is_settled() {
            write_record(
                &record_path,
                &LocalRecord {
                    path: path.to_path_buf(),
                    stamp: hashed.stamp.clone(),
                    sha256: hashed.sha256.clone(),
                    sha512: hashed.sha512.clone(),
                },
            )?;
        }
        Ok(blob(path.to_path_buf(), hashed, terms))
    }

    /// Renames a hashed file of the store to its name, unless a good one is there.
    fn place(&self, from: &Path, hashed: Hashed, terms: &Terms, watch: &Watch) -> Result<Blob> {
        let _lock = self.lock(
            &format!("blob-{}", hashed.sha256.hex()),
            &watch.cancel,
            |_| {},
        )?;
        if let Some(sha512) = &hashed.sha512 {
            write_record(&self.sha512_path(sha512), &hashed.sha256)?;
        }
        if let Some(there) = self.find_sha256(&hashed.sha256, terms, watch)? {
            fs::remove_file(from).map_err(|e| Error::io("remove", from, e))?;
            return Ok(there);
        }
        let to = self.blob_path(&hashed.sha256);
        io::create_folders(io::folder_of(&to))?;
        seal(from).map_err(|e| Error::io("write", from, e))?;
        io::move_into_place(from, &to)?;
        let metadata = fs::metadata(&to).map_err(|e| Error::io("read", &to, e))?;
        let stamp = Stamp::of(&metadata);
        if stamp != hashed.stamp {
            return Err(changed(&to));
        }
        write_record(&self.stamp_path(&hashed.sha256), &stamp)?;
        Ok(blob(to, hashed, terms))
    }

    /// The SHA-512 of a blob, where the recipe names one and no record says whose it is.
    fn sha512_of(
        &self,
        path: &Path,
        sha256: &Digest,
        terms: &Terms,
        watch: &Watch,
    ) -> Result<Option<Digest>> {
        let wanted = terms.expected.digest();
        let Some(wanted) = wanted.filter(|d| d.algorithm == Algorithm::Sha512) else {
            return Ok(None);
        };
        if self.sha256_of(wanted).as_ref() == Some(sha256) {
            return Ok(Some(wanted.clone()));
        }
        let hashed = hash(path, Some(wanted), watch)?;
        if let Some(sha512) = &hashed.sha512 {
            write_record(&self.sha512_path(sha512), &hashed.sha256)?;
        }
        Ok(hashed.sha512)
    }

    /// Moves a file that is not what it should be out of the way, named by what it is.
    fn put_aside(&self, path: &Path, sha256: &Digest) -> Result<PathBuf> {
        let aside = self.quarantine_path(sha256);
        if path != aside {
            match io::move_into_place(path, &aside) {
                // Another build was faster.
                Err(_) if !path.exists() && aside.exists() => {}
                other => other?,
            }
        }
        Ok(aside)
    }
}

fn blob(path: PathBuf, hashed: Hashed, terms: &Terms) -> Blob {
    Blob {
        path,
        sha256: hashed.sha256,
        size: hashed.stamp.size,
        proof: terms.expected.proof(),
        signers: Vec::new(),
        evidence: terms.evidence.clone(),
        stamp: hashed.stamp,
    }
}

/// Durable and read-only, before it gets its name.
fn seal(path: &Path) -> std::io::Result<()> {
    let file = File::open(path)?;
    let mut permissions = file.metadata()?.permissions();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        permissions.set_mode(0o444);
    }
    #[cfg(not(unix))]
    permissions.set_readonly(true);
    file.set_permissions(permissions)?;
    file.sync_all()
}

/// Reads the file once, from one descriptor, for all digests that are wanted.
fn hash(path: &Path, wanted: Option<&Digest>, watch: &Watch) -> Result<Hashed> {
    let io = |e| unreadable(path, e);
    let mut file = File::open(path).map_err(io)?;
    let stamp = Stamp::of(&file.metadata().map_err(io)?);
    let mut sha256 = Hasher::new(Algorithm::Sha256);
    let mut sha512 = wanted
        .filter(|d| d.algorithm == Algorithm::Sha512)
        .map(|d| Hasher::new(d.algorithm));
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

fn mismatch(hashed: &Hashed, terms: &Terms, watch: &Watch) -> Option<Error> {
    let expected = &terms.expected;
    let Some(digest) = expected.digest().filter(|d| hashed.as_expected(d) != *d) else {
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

fn changed(path: &Path) -> Error {
    Error::new(
        Kind::Unproved,
        format!("{} changed while it was being read", path.display()),
    )
    .cure("run winimg again while nothing else writes to that file")
}

fn unreadable(path: &Path, e: std::io::Error) -> Error {
    if e.kind() == std::io::ErrorKind::NotFound {
        return Error::new(Kind::Fetch, format!("there is no file {}", path.display()));
    }
    Error::io("read", path, e)
}
