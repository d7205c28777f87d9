//! Admission to the store: hash, compare, check the signatures, then rename into place.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use winimg_base::digest::{Algorithm, Digest};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_trust::Signer;

use super::blob::FileStamp;
use super::hash::{
    FileHashes, explain_compression, find_mismatch, hash, report_changed, report_unreadable,
};
use super::{AdmitTerms, ProgressWatch, Store, StoredBlob, mark_used, read_record, write_record};

/// Size in bytes from which local files are used in place; smaller ones are copied into the store.
pub const IN_PLACE_FROM: u64 = 256 << 20;

/// File that is to become a blob.
#[derive(Clone, Debug)]
pub enum AdmitCandidate {
    /// A file in the store's `partial` or `quarantine` folder. Admission moves it.
    Downloaded(PathBuf),
    /// File of the user. Never moved, changed or deleted.
    Local(PathBuf),
}

/// State of a large local file when it was hashed.
#[derive(Serialize, Deserialize)]
pub(super) struct LocalFileRecord {
    #[serde(with = "super::any_path")]
    pub path: PathBuf,
    stamp: FileStamp,
    sha256: Digest,
    sha512: Option<Digest>,
}

impl Store {
    /// Hashes the candidate, checks its signatures and, if it meets all terms, makes it a blob.
    /// Otherwise a download is moved to quarantine, a local file is left alone, and the error has
    /// the expected and the actual values.
    pub fn admit(
        &self,
        candidate: AdmitCandidate,
        terms: impl Into<AdmitTerms>,
        watch: &ProgressWatch,
    ) -> Result<StoredBlob> {
        let terms = &terms.into();
        match candidate {
            AdmitCandidate::Downloaded(path) => self.admit_downloaded(&path, terms, watch),
            AdmitCandidate::Local(path) => {
                let path = io::canonicalize(&path).map_err(|e| report_unreadable(&path, e))?;
                let metadata = fs::metadata(&path).map_err(|e| report_unreadable(&path, e))?;
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

    /// Returns the blob that was admitted before with this digest. If its metadata changed, it is
    /// hashed again. A corrupt blob is moved to quarantine with a warning; then the result is
    /// `None`, and the caller fetches it again.
    pub fn find(
        &self,
        terms: impl Into<AdmitTerms>,
        watch: &ProgressWatch,
    ) -> Result<Option<StoredBlob>> {
        let terms = &terms.into();
        let known = terms.digest().and_then(|d| self.sha256_of(d));
        let Some(sha256) = known.or_else(|| terms.locked.clone()) else {
            return Ok(None);
        };
        self.find_seen(&sha256, terms, watch)
    }

    /// Returns the SHA-256 of the blob for these terms, if it exists. Does not check its bytes.
    pub fn find_known_digest(&self, terms: &AdmitTerms) -> Option<Digest> {
        let named = terms.digest().and_then(|d| self.sha256_of(d));
        let known = named.or_else(|| terms.locked.clone())?;
        self.blob_path(&known).is_file().then_some(known)
    }

    /// Returns the SHA-256 of a quarantined download that these terms name.
    pub fn find_quarantined(&self, terms: &AdmitTerms) -> Option<Digest> {
        let digest = terms.digest()?;
        let is_there =
            digest.algorithm == Algorithm::Sha256 && self.quarantine_path(digest).is_file();
        is_there.then(|| digest.clone())
    }

    /// Admits a download that was quarantined for another recipe and whose digest this one names.
    pub fn release(
        &self,
        terms: impl Into<AdmitTerms>,
        watch: &ProgressWatch,
    ) -> Result<Option<StoredBlob>> {
        let terms = &terms.into();
        if let Some(digest) = terms.digest() {
            self.lease.add(std::slice::from_ref(digest))?;
        }
        let Some(path) = self
            .find_quarantined(terms)
            .map(|d| self.quarantine_path(&d))
        else {
            return Ok(None);
        };
        let hashed = hash(&path, terms.expected.sha512(), watch)?;
        if find_mismatch(&hashed, terms, watch).is_some() {
            return Ok(None);
        }
        // The expected bytes: the result of their signature check applies to any other copy, too.
        self.admit_downloaded(&path, terms, watch).map(Some)
    }

    /// Like [`Store::find`] for a file without a digest: the blob of its URL's last response.
    pub(crate) fn find_seen(
        &self,
        sha256: &Digest,
        terms: &AdmitTerms,
        watch: &ProgressWatch,
    ) -> Result<Option<StoredBlob>> {
        let Some((path, hashed)) = self.find_intact(sha256, terms, watch)? else {
            return Ok(None);
        };
        if let Some(error) = find_mismatch(&hashed, terms, watch) {
            return Err(error);
        }
        // Checked each time: a pin may have expired since, and the recipe's rule may have changed.
        let signers = self.judge(&path, &hashed, terms, watch)?;
        tracing::debug!(%sha256, signers = signers.len(), "a cached file is valid");
        Ok(Some(build_blob(path, hashed, terms, signers)))
    }

    /// Returns the blob's file if its bytes still match its digest.
    fn find_intact(
        &self,
        sha256: &Digest,
        terms: &AdmitTerms,
        watch: &ProgressWatch,
    ) -> Result<Option<(PathBuf, FileHashes)>> {
        self.lease.add(std::slice::from_ref(sha256))?;
        let path = self.blob_path(sha256);
        // A link is not a blob: the file is fetched again and replaces the link.
        let metadata = fs::symlink_metadata(&path).ok();
        let Some(metadata) = metadata.filter(fs::Metadata::is_file) else {
            return Ok(None);
        };
        let stamp = FileStamp::from_metadata(&metadata);
        if read_record::<FileStamp>(&self.stamp_path(sha256)).as_ref() != Some(&stamp) {
            let hashed = hash(&path, None, watch)?;
            if hashed.sha256 != *sha256 {
                let aside = self.quarantine(&path, &hashed.sha256)?;
                watch.warn(format!(
                    "the cached file of {} is corrupt (expected {sha256}, found {}); moved to {}",
                    watch.what,
                    hashed.sha256,
                    aside.display()
                ));
                return Ok(None);
            }
            write_record(&self.stamp_path(sha256), &stamp)?;
        }
        mark_used(&self.stamp_path(sha256));
        let hashed = FileHashes {
            sha256: sha256.clone(),
            sha512: self.sha512_of(&path, sha256, terms, watch)?,
            stamp,
        };
        Ok(Some((path, hashed)))
    }

    /// Checks the signatures that the terms require and returns the signers.
    fn judge(
        &self,
        path: &Path,
        hashed: &FileHashes,
        terms: &AdmitTerms,
        watch: &ProgressWatch,
    ) -> Result<Vec<Signer>> {
        terms.check()?;
        let folder = self.folder.join("partial");
        let required = &terms.signatures;
        let mut signers = required.judge(&watch.what, path, &hashed.sha256, &folder)?;
        signers.extend(terms.vouched.iter().cloned());
        Ok(signers)
    }

    /// Adds the result of the signature check to the error about a file that differs from the lock.
    fn add_verdict(
        &self,
        error: Error,
        path: &Path,
        hashed: &FileHashes,
        terms: &AdmitTerms,
        watch: &ProgressWatch,
    ) -> Error {
        if terms.locked.is_none() {
            return error;
        }
        if terms.signatures.groups.is_empty() {
            return error
                .lines(["the recipe requires no signature that could show who replaced it"]);
        }
        match self.judge(path, hashed, terms, watch) {
            Ok(signers) => {
                let signers: Vec<String> = signers.into_iter().map(|s| s.signer).collect();
                let signers = signers.join(", ");
                error.lines([format!("the new file has a valid signature of {signers}")])
            }
            Err(refused) if refused.kind() == Kind::Unproved => {
                let line = format!(
                    "the new file has no valid signature ({}): treat it as tampered with",
                    refused.fact()
                );
                let refresh = terms.lock.as_ref().and_then(|lock| lock.refresh.as_ref());
                let error = error.lines([line]);
                match refresh {
                    Some(refresh) => error.cure(format!(
                        "report it to the operator of the server; once the file there has a valid \
                         signature, update the lock with `{refresh}`"
                    )),
                    None => error,
                }
            }
            Err(_) => error,
        }
    }

    fn admit_downloaded(
        &self,
        path: &Path,
        terms: &AdmitTerms,
        watch: &ProgressWatch,
    ) -> Result<StoredBlob> {
        let hashed = hash(path, terms.expected.sha512(), watch)?;
        if let Some(error) = find_mismatch(&hashed, terms, watch) {
            let error = explain_compression(error, path, &hashed, terms, watch);
            let error = self.add_verdict(error, path, &hashed, terms, watch);
            let aside = self.quarantine(path, &hashed.sha256)?;
            return Err(error.lines([format!("the download is kept as {}", aside.display())]));
        }
        let signers = match self.judge(path, &hashed, terms, watch) {
            Err(error) if error.kind() == Kind::Unproved => {
                let aside = self.quarantine(path, &hashed.sha256)?;
                return Err(error.lines([format!("the download is kept as {}", aside.display())]));
            }
            other => other?,
        };
        self.move_to_blobs(path, hashed, terms, signers, watch)
    }

    fn admit_copy(
        &self,
        path: &Path,
        terms: &AdmitTerms,
        watch: &ProgressWatch,
    ) -> Result<StoredBlob> {
        // In a folder of the store, so that it can be renamed into place.
        let copy = tempfile::Builder::new()
            .prefix("copy-")
            .tempfile_in(self.folder.join("partial"))
            .map_err(|e| Error::io("write in", self.folder.join("partial"), e))?
            .into_temp_path();
        io::copy(path, &copy)?;
        let hashed = hash(&copy, terms.expected.sha512(), watch)?;
        if let Some(error) = find_mismatch(&hashed, terms, watch) {
            let error = self.add_verdict(error, &copy, &hashed, terms, watch);
            return Err(error.at(path.display()));
        }
        let signers = self.judge(&copy, &hashed, terms, watch);
        let signers = signers.map_err(|e| e.at(path.display()))?;
        self.move_to_blobs(&copy, hashed, terms, signers, watch)
    }

    fn admit_in_place(
        &self,
        path: &Path,
        terms: &AdmitTerms,
        watch: &ProgressWatch,
    ) -> Result<StoredBlob> {
        let record_path = self.record_path("local", &path.to_string_lossy());
        let metadata = fs::metadata(path).map_err(|e| report_unreadable(path, e))?;
        let wants_512 = terms.expected.sha512().is_some();
        let known = read_record::<LocalFileRecord>(&record_path).filter(|r| {
            r.path == path
                && r.stamp == FileStamp::from_metadata(&metadata)
                && (r.sha512.is_some() || !wants_512)
        });
        let hashed = match known {
            Some(record) => {
                mark_used(&record_path);
                FileHashes {
                    sha256: record.sha256,
                    sha512: record.sha512,
                    stamp: record.stamp,
                }
            }
            None => hash(path, terms.expected.sha512(), watch)?,
        };
        if let Some(error) = find_mismatch(&hashed, terms, watch) {
            let error = self.add_verdict(error, path, &hashed, terms, watch);
            return Err(error.at(path.display()));
        }
        let signers = self.judge(path, &hashed, terms, watch);
        let signers = signers.map_err(|e| e.at(path.display()))?;
        // The file must not have changed between hashing and checking.
        let metadata = fs::metadata(path).map_err(|e| report_unreadable(path, e))?;
        if FileStamp::from_metadata(&metadata) != hashed.stamp {
            return Err(report_changed(path));
        }
        if hashed.stamp.is_settled() {
            write_record(
                &record_path,
                &LocalFileRecord {
                    path: path.to_path_buf(),
                    stamp: hashed.stamp.clone(),
                    sha256: hashed.sha256.clone(),
                    sha512: hashed.sha512.clone(),
                },
            )?;
        }
        Ok(build_blob(path.to_path_buf(), hashed, terms, signers))
    }

    /// Renames a hashed file of the store to its final name, unless a valid blob exists.
    fn move_to_blobs(
        &self,
        from: &Path,
        hashed: FileHashes,
        terms: &AdmitTerms,
        signers: Vec<Signer>,
        watch: &ProgressWatch,
    ) -> Result<StoredBlob> {
        let _lock = self.lock(
            &format!("blob-{}", hashed.sha256.hex()),
            &watch.cancel,
            |_| {},
        )?;
        self.lease.add(std::slice::from_ref(&hashed.sha256))?;
        if let Some(sha512) = &hashed.sha512 {
            write_record(&self.sha512_path(sha512), &hashed.sha256)?;
        }
        if let Some((existing, hashed)) = self.find_intact(&hashed.sha256, terms, watch)? {
            fs::remove_file(from).map_err(|e| Error::io("remove", from, e))?;
            return Ok(build_blob(existing, hashed, terms, signers));
        }
        let to = self.blob_path(&hashed.sha256);
        io::create_folders(io::folder_of(&to))?;
        seal(from).map_err(|e| Error::io("write", from, e))?;
        io::move_into_place(from, &to)?;
        let metadata = fs::metadata(&to).map_err(|e| Error::io("read", &to, e))?;
        let stamp = FileStamp::from_metadata(&metadata);
        if !stamp.is_same_content(&hashed.stamp) {
            return Err(report_changed(&to));
        }
        write_record(&self.stamp_path(&hashed.sha256), &stamp)?;
        let hashed = FileHashes { stamp, ..hashed };
        Ok(build_blob(to, hashed, terms, signers))
    }

    /// Returns the SHA-512 of a blob if the recipe names one, hashing it unless it is recorded.
    fn sha512_of(
        &self,
        path: &Path,
        sha256: &Digest,
        terms: &AdmitTerms,
        watch: &ProgressWatch,
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

    /// Moves a wrong file to quarantine, named by its actual digest.
    fn quarantine(&self, path: &Path, sha256: &Digest) -> Result<PathBuf> {
        let aside = self.quarantine_path(sha256);
        if path != aside {
            match io::move_into_place(path, &aside) {
                // Another build has moved it.
                Err(_) if !path.exists() && aside.exists() => {}
                other => other?,
            }
        }
        Ok(aside)
    }
}

fn build_blob(
    path: PathBuf,
    hashed: FileHashes,
    terms: &AdmitTerms,
    signers: Vec<Signer>,
) -> StoredBlob {
    StoredBlob {
        path,
        sha256: hashed.sha256,
        size: hashed.stamp.size,
        proof: terms.expected.clone(),
        signers,
        evidence: terms.evidence.clone(),
        stamp: hashed.stamp,
    }
}

/// Makes a file durable and read-only before it gets its final name. Not read-only on Windows,
/// where it could not be moved or removed then; a change is detected by its stamp.
fn seal(path: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let read_only = fs::Permissions::from_mode(0o444);
        fs::File::open(path)?.set_permissions(read_only)?;
    }
    io::sync_file(path)
}
