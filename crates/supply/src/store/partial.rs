//! Transfers under way: bytes that are not proved yet and never stand under `blobs/`.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use winimg_base::error::{Error, Result};
use winimg_base::io;
use winimg_base::io::Lock;

use super::{Blob, Candidate, Store, Terms, Watch, key_of, read_record, write_record};

/// What a server said of the file that a partial transfer is a part of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumable {
    /// Without query and user.
    pub url: String,
    /// A strong `ETag`, as the server wrote it.
    pub etag: Option<String>,
    /// `Last-Modified`, as the server wrote it.
    pub last_modified: Option<String>,
    /// Bytes of the whole file.
    pub total: Option<u64>,
    /// How the server packed the bytes that it sent, though it was asked not to: `gzip`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
}

impl Resumable {
    /// The value for `If-Range` (RFC 9110, 13.1.5): without one, a rest cannot be trusted to fit.
    pub fn validator(&self) -> Option<&str> {
        self.etag.as_deref().or(self.last_modified.as_deref())
    }
}

/// The place of one transfer, held by one transfer at a time.
#[derive(Debug)]
pub struct Partial {
    data: PathBuf,
    record: PathBuf,
    _lock: Lock,
}

impl Store {
    /// Takes the place for the transfer named by `key` (any text; it is hashed). Waits for another build that is
    /// transferring the same, after a note that says who that is.
    pub fn partial(&self, key: &str, watch: &Watch) -> Result<Partial> {
        let key = key_of(key);
        let lock = self.lock(&format!("partial-{key}"), &watch.cancel, |holder| {
            watch.note(format!("{}: {holder} is fetching it already", watch.what));
        })?;
        let folder = self.folder.join("partial");
        Ok(Partial {
            data: folder.join(format!("{key}.data")),
            record: folder.join(format!("{key}.json")),
            _lock: lock,
        })
    }

    /// Makes a blob of small bytes in memory; `key` names them while they are written.
    pub fn admit_bytes(
        &self,
        key: &str,
        bytes: &[u8],
        terms: impl Into<Terms>,
        watch: &Watch,
    ) -> Result<Blob> {
        let partial = self.partial(key, watch)?;
        let mut file = partial.begin(&Resumable::default())?;
        file.write_all(bytes)
            .and_then(|()| file.sync_all())
            .map_err(|e| Error::io("write", partial.path(), e))?;
        let blob = self.admit(partial.candidate(), terms, watch)?;
        partial.discard()?;
        Ok(blob)
    }
}

impl Partial {
    /// Bytes that an earlier transfer left, and what they are part of.
    pub fn left(&self) -> Option<(u64, Resumable)> {
        let record: Resumable = read_record(&self.record)?;
        let have = fs::metadata(&self.data).ok()?.len();
        (have > 0).then_some((have, record))
    }

    /// Starts anew: an empty file, and the record for a later resume.
    pub fn begin(&self, record: &Resumable) -> Result<File> {
        // The old record must not describe the new bytes, whenever we are killed.
        self.discard()?;
        let file = File::create(&self.data).map_err(|e| Error::io("write", &self.data, e))?;
        write_record(&self.record, record)?;
        Ok(file)
    }

    /// Goes on after the bytes that are there.
    pub fn append(&self) -> Result<File> {
        OpenOptions::new()
            .append(true)
            .open(&self.data)
            .map_err(|e| Error::io("write", &self.data, e))
    }

    /// Forgets everything.
    pub fn discard(&self) -> Result<()> {
        io::remove_if_there(&self.record)?;
        io::remove_if_there(&self.data)
    }

    /// Where the bytes are.
    pub fn path(&self) -> &Path {
        &self.data
    }

    /// The finished transfer for [`Store::admit`]. Its record stays until [`Partial::discard`]: killed before the
    /// proof, the bytes need not come again.
    pub fn candidate(&self) -> Candidate {
        Candidate::Downloaded(self.data.clone())
    }
}
