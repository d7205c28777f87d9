//! The one door into the store: hash, compare, judge the signatures, then rename into place.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use winimg_base::digest::{Algorithm, Digest};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_trust::Signer;

use super::blob::Stamp;
use super::hash::{Hashed, changed, explained, hash, mismatch, unreadable};
use super::{Blob, Store, Terms, Watch, note_use, read_record, write_record};

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

/// A large local file as it was when it was hashed.
#[derive(Serialize, Deserialize)]
pub(super) struct LocalRecord {
    #[serde(with = "super::any_path")]
    pub path: PathBuf,
    stamp: Stamp,
    sha256: Digest,
    sha512: Option<Digest>,
}

impl Store {
    /// Hashes the candidate, judges its signatures and, if all terms hold, makes it a blob. Otherwise a download goes
    /// to quarantine, a local file stays as it is, and the error says what was expected and what is there.
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
                let path = io::canonicalize(&path).map_err(|e| unreadable(&path, e))?;
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
        self.find_seen(&sha256, terms, watch)
    }

    /// The SHA-256 of the blob that these terms name, if one is there; its bytes are not looked at.
    pub fn known(&self, terms: &Terms) -> Option<Digest> {
        let named = terms.digest().and_then(|d| self.sha256_of(d));
        let known = named.or_else(|| terms.locked.clone())?;
        self.blob_path(&known).is_file().then_some(known)
    }

    /// The SHA-256 of a download in quarantine that these terms name.
    pub fn set_aside(&self, terms: &Terms) -> Option<Digest> {
        let digest = terms.digest()?;
        let is_there =
            digest.algorithm == Algorithm::Sha256 && self.quarantine_path(digest).is_file();
        is_there.then(|| digest.clone())
    }

    /// A download that another recipe sent to quarantine and whose digest this one names.
    pub fn release(&self, terms: impl Into<Terms>, watch: &Watch) -> Result<Option<Blob>> {
        let terms = &terms.into();
        if let Some(digest) = terms.digest() {
            self.lease.hold(std::slice::from_ref(digest))?;
        }
        let Some(path) = self.set_aside(terms).map(|d| self.quarantine_path(&d)) else {
            return Ok(None);
        };
        let hashed = hash(&path, terms.expected.sha512(), watch)?;
        if mismatch(&hashed, terms, watch).is_some() {
            return Ok(None);
        }
        // The bytes that are wanted: what is said about their signatures is said of any other copy, too.
        self.admit_downloaded(&path, terms, watch).map(Some)
    }

    /// As [`Store::find`] for a file that no digest names: the blob that its URL gave last time.
    pub(crate) fn find_seen(
        &self,
        sha256: &Digest,
        terms: &Terms,
        watch: &Watch,
    ) -> Result<Option<Blob>> {
        let Some((path, hashed)) = self.intact(sha256, terms, watch)? else {
            return Ok(None);
        };
        if let Some(error) = mismatch(&hashed, terms, watch) {
            return Err(error);
        }
        // Again each time: a pin may have expired since, and the recipe's rule may be another one.
        let signers = self.judge(&path, &hashed, terms, watch)?;
        tracing::debug!(%sha256, signers = signers.len(), "a cached file holds");
        Ok(Some(blob(path, hashed, terms, signers)))
    }

    /// The blob's file, if its bytes are still what its name says.
    fn intact(
        &self,
        sha256: &Digest,
        terms: &Terms,
        watch: &Watch,
    ) -> Result<Option<(PathBuf, Hashed)>> {
        self.lease.hold(std::slice::from_ref(sha256))?;
        let path = self.blob_path(sha256);
        // A link is no blob: it is fetched again, and the link replaced.
        let metadata = fs::symlink_metadata(&path).ok();
        let Some(metadata) = metadata.filter(fs::Metadata::is_file) else {
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
        note_use(&self.stamp_path(sha256));
        let hashed = Hashed {
            sha256: sha256.clone(),
            sha512: self.sha512_of(&path, sha256, terms, watch)?,
            stamp,
        };
        Ok(Some((path, hashed)))
    }

    /// Who signed a hashed file, as far as its terms ask.
    fn judge(
        &self,
        path: &Path,
        hashed: &Hashed,
        terms: &Terms,
        watch: &Watch,
    ) -> Result<Vec<Signer>> {
        terms.check()?;
        let folder = self.folder.join("partial");
        let asked = &terms.signatures;
        let mut signers = asked.judge(&watch.what, path, &hashed.sha256, &folder)?;
        signers.extend(terms.vouched.iter().cloned());
        Ok(signers)
    }

    /// Adds to the complaint about a file that is not the locked one what its signatures say about it.
    fn with_verdict(
        &self,
        error: Error,
        path: &Path,
        hashed: &Hashed,
        terms: &Terms,
        watch: &Watch,
    ) -> Error {
        if terms.locked.is_none() {
            return error;
        }
        if terms.signatures.groups.is_empty() {
            return error.lines(["no signature is asked for that says who replaced it"]);
        }
        match self.judge(path, hashed, terms, watch) {
            Ok(signers) => {
                let signers: Vec<String> = signers.into_iter().map(|s| s.signer).collect();
                let signers = signers.join(", ");
                error.lines([format!(
                    "its signature holds: {signers} signed the new file"
                )])
            }
            Err(refused) if refused.kind() == Kind::Unproved => {
                let said = format!(
                    "its signature does not hold ({}): treat the file as tampered with",
                    refused.fact()
                );
                let refresh = terms.lock.as_ref().and_then(|lock| lock.refresh.as_ref());
                let error = error.lines([said]);
                match refresh {
                    Some(refresh) => error.cure(format!(
                        "report it to whoever keeps the file there; once a file is there whose signature holds, \
                         `{refresh}` takes it into the lock"
                    )),
                    None => error,
                }
            }
            Err(_) => error,
        }
    }

    fn admit_downloaded(&self, path: &Path, terms: &Terms, watch: &Watch) -> Result<Blob> {
        let hashed = hash(path, terms.expected.sha512(), watch)?;
        if let Some(error) = mismatch(&hashed, terms, watch) {
            let error = explained(error, path, &hashed, terms);
            let error = self.with_verdict(error, path, &hashed, terms, watch);
            let aside = self.put_aside(path, &hashed.sha256)?;
            return Err(error.lines([format!("the download is kept as {}", aside.display())]));
        }
        let signers = match self.judge(path, &hashed, terms, watch) {
            Err(error) if error.kind() == Kind::Unproved => {
                let aside = self.put_aside(path, &hashed.sha256)?;
                return Err(error.lines([format!("the download is kept as {}", aside.display())]));
            }
            other => other?,
        };
        self.place(path, hashed, terms, signers, watch)
    }

    fn admit_copy(&self, path: &Path, terms: &Terms, watch: &Watch) -> Result<Blob> {
        // In a folder of the store, so that the rename into place stays on one filesystem.
        let copy = tempfile::Builder::new()
            .prefix("copy-")
            .tempfile_in(self.folder.join("partial"))
            .map_err(|e| Error::io("write in", self.folder.join("partial"), e))?
            .into_temp_path();
        io::copy(path, &copy)?;
        let hashed = hash(&copy, terms.expected.sha512(), watch)?;
        if let Some(error) = mismatch(&hashed, terms, watch) {
            let error = self.with_verdict(error, &copy, &hashed, terms, watch);
            return Err(error.at(path.display()));
        }
        let signers = self.judge(&copy, &hashed, terms, watch);
        let signers = signers.map_err(|e| e.at(path.display()))?;
        self.place(&copy, hashed, terms, signers, watch)
    }

    fn admit_in_place(&self, path: &Path, terms: &Terms, watch: &Watch) -> Result<Blob> {
        let record_path = self.record_of("local", &path.to_string_lossy());
        let metadata = fs::metadata(path).map_err(|e| unreadable(path, e))?;
        let wants_512 = terms.expected.sha512().is_some();
        let known = read_record::<LocalRecord>(&record_path).filter(|r| {
            r.path == path && r.stamp == Stamp::of(&metadata) && (r.sha512.is_some() || !wants_512)
        });
        let hashed = match known {
            Some(record) => {
                note_use(&record_path);
                Hashed {
                    sha256: record.sha256,
                    sha512: record.sha512,
                    stamp: record.stamp,
                }
            }
            None => hash(path, terms.expected.sha512(), watch)?,
        };
        if let Some(error) = mismatch(&hashed, terms, watch) {
            let error = self.with_verdict(error, path, &hashed, terms, watch);
            return Err(error.at(path.display()));
        }
        let signers = self.judge(path, &hashed, terms, watch);
        let signers = signers.map_err(|e| e.at(path.display()))?;
        // What was hashed and what was judged are the same bytes.
        let metadata = fs::metadata(path).map_err(|e| unreadable(path, e))?;
        if Stamp::of(&metadata) != hashed.stamp {
            return Err(changed(path));
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
        Ok(blob(path.to_path_buf(), hashed, terms, signers))
    }

    /// Renames a hashed file of the store to its name, unless a good one is there.
    fn place(
        &self,
        from: &Path,
        hashed: Hashed,
        terms: &Terms,
        signers: Vec<Signer>,
        watch: &Watch,
    ) -> Result<Blob> {
        let _lock = self.lock(
            &format!("blob-{}", hashed.sha256.hex()),
            &watch.cancel,
            |_| {},
        )?;
        self.lease.hold(std::slice::from_ref(&hashed.sha256))?;
        if let Some(sha512) = &hashed.sha512 {
            write_record(&self.sha512_path(sha512), &hashed.sha256)?;
        }
        if let Some((there, hashed)) = self.intact(&hashed.sha256, terms, watch)? {
            fs::remove_file(from).map_err(|e| Error::io("remove", from, e))?;
            return Ok(blob(there, hashed, terms, signers));
        }
        let to = self.blob_path(&hashed.sha256);
        io::create_folders(io::folder_of(&to))?;
        seal(from).map_err(|e| Error::io("write", from, e))?;
        io::move_into_place(from, &to)?;
        let metadata = fs::metadata(&to).map_err(|e| Error::io("read", &to, e))?;
        let stamp = Stamp::of(&metadata);
        if !stamp.is_same_content(&hashed.stamp) {
            return Err(changed(&to));
        }
        write_record(&self.stamp_path(&hashed.sha256), &stamp)?;
        let hashed = Hashed { stamp, ..hashed };
        Ok(blob(to, hashed, terms, signers))
    }

    /// The SHA-512 of a blob, where the recipe names one and no record says whose it is.
    fn sha512_of(
        &self,
        path: &Path,
        sha256: &Digest,
        terms: &Terms,
        watch: &Watch,
    ) -> Result<Option<Digest>> {
        let Some(wanted) = terms.expected.sha512() else {
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

fn blob(path: PathBuf, hashed: Hashed, terms: &Terms, signers: Vec<Signer>) -> Blob {
    Blob {
        path,
        sha256: hashed.sha256,
        size: hashed.stamp.size,
        proof: terms.expected.clone(),
        signers,
        evidence: terms.evidence.clone(),
        stamp: hashed.stamp,
    }
}

/// Durable and read-only, before it gets its name. Not read-only on Windows: there such a file could not be moved or
/// removed either, and a change shows by its stamp.
fn seal(path: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let read_only = fs::Permissions::from_mode(0o444);
        fs::File::open(path)?.set_permissions(read_only)?;
    }
    io::sync_file(path)
}
