//! Unfinished transfers: unverified bytes, which are never under `blobs/`.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use winimg_base::error::{Error, Result};
use winimg_base::io;
use winimg_base::io::FileLock;

use super::{
    AdmitCandidate, AdmitTerms, ProgressWatch, Store, StoredBlob, hash_key, read_record,
    write_record,
};

/// Server's information about the file of a partial transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumeRecord {
    /// Without query and user.
    pub url: String,
    /// A strong `ETag`, as the server wrote it.
    pub etag: Option<String>,
    /// `Last-Modified`, as the server wrote it.
    pub last_modified: Option<String>,
    /// Bytes of the whole file.
    pub total: Option<u64>,
    /// Content encoding that the server used although none was requested, such as `gzip`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// Address that the server redirected to, if any, without query and user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirected_to: Option<String>,
}

impl ResumeRecord {
    /// Returns the value for `If-Range` (RFC 9110, 13.1.5): without one the rest may not match.
    pub fn validator(&self) -> Option<&str> {
        self.etag.as_deref().or(self.last_modified.as_deref())
    }
}

/// Files of a transfer, locked by one transfer at a time.
#[derive(Debug)]
pub struct PartialTransfer {
    data: PathBuf,
    record: PathBuf,
    _lock: FileLock,
}

impl Store {
    /// Locks the transfer of `key` (any text; it is hashed). If another build is transferring the
    /// same file, notes that and waits.
    pub fn lock_partial(&self, key: &str, watch: &ProgressWatch) -> Result<PartialTransfer> {
        let key = hash_key(key);
        let lock = self.lock(&format!("partial-{key}"), &watch.cancel, |holder| {
            watch.note(format!("{}: {holder} is fetching it already", watch.what));
        })?;
        let folder = self.folder.join("partial");
        Ok(PartialTransfer {
            data: folder.join(format!("{key}.data")),
            record: folder.join(format!("{key}.json")),
            _lock: lock,
        })
    }

    /// Admits a small file from memory; `key` identifies it while it is written.
    pub fn admit_bytes(
        &self,
        key: &str,
        bytes: &[u8],
        terms: impl Into<AdmitTerms>,
        watch: &ProgressWatch,
    ) -> Result<StoredBlob> {
        let partial = self.lock_partial(key, watch)?;
        let mut file = partial.begin(&ResumeRecord::default())?;
        file.write_all(bytes)
            .and_then(|()| file.sync_all())
            .map_err(|e| Error::io("write", partial.path(), e))?;
        let blob = self.admit(partial.to_candidate(), terms, watch)?;
        partial.discard()?;
        Ok(blob)
    }
}

impl PartialTransfer {
    /// Returns the number of bytes of an earlier transfer, and its record.
    pub fn find_resumable(&self) -> Option<(u64, ResumeRecord)> {
        let record: ResumeRecord = read_record(&self.record)?;
        let have = fs::metadata(&self.data).ok()?.len();
        (have > 0).then_some((have, record))
    }

    /// Starts over with an empty file and a record for resuming.
    pub fn begin(&self, record: &ResumeRecord) -> Result<File> {
        // If we are killed, the old record must not describe the new bytes.
        self.discard()?;
        let file = File::create(&self.data).map_err(|e| Error::io("write", &self.data, e))?;
        write_record(&self.record, record)?;
        Ok(file)
    }

    /// Opens the file for appending.
    pub fn append(&self) -> Result<File> {
        OpenOptions::new()
            .append(true)
            .open(&self.data)
            .map_err(|e| Error::io("write", &self.data, e))
    }

    /// Removes the data and the record.
    pub fn discard(&self) -> Result<()> {
        io::remove_if_exists(&self.record)?;
        io::remove_if_exists(&self.data)
    }

    /// Path of the data.
    pub fn path(&self) -> &Path {
        &self.data
    }

    /// Returns the finished transfer for [`Store::admit`]. Its record is kept until
    /// [`PartialTransfer::discard`], so that a killed process need not transfer the bytes again.
    pub fn to_candidate(&self) -> AdmitCandidate {
        AdmitCandidate::Downloaded(self.data.clone())
    }
}
