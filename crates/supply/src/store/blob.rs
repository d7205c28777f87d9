//! Verified files, their proofs, and the detection of changes.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use winimg_base::digest::{Algorithm, Digest};
use winimg_base::error::{Error, Kind, Result};
use winimg_trust::Signer;

/// Source of the expected digest of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedBytes {
    /// Pinned by the recipe.
    Digest(Digest),
    /// Named by a checksum file, which only protects the transport if it is on the publisher's own
    /// host. `url` has no query; `line` is the unchanged line of the file.
    ChecksumFile {
        url: String,
        line: String,
        digest: Digest,
        /// SHA-512 from another line about the file, which must match as well.
        also: Option<Digest>,
    },
    /// No digest: the signatures in its terms verify it.
    Signed,
    /// Not verified; the recipe gives the reason.
    Unverified { reason: String },
}

impl ExpectedBytes {
    /// Returns the expected SHA-512.
    pub(super) fn sha512(&self) -> Option<&Digest> {
        let also = match self {
            Self::ChecksumFile { also, .. } => also.as_ref(),
            Self::Digest(_) | Self::Signed | Self::Unverified { .. } => None,
        };
        also.or(self.digest())
            .filter(|d| d.algorithm == Algorithm::Sha512)
    }

    pub fn digest(&self) -> Option<&Digest> {
        match self {
            Self::Digest(digest) | Self::ChecksumFile { digest, .. } => Some(digest),
            Self::Signed | Self::Unverified { .. } => None,
        }
    }
}

/// Verified file in the store, or a verified large local file.
#[derive(Clone, Debug)]
pub struct StoredBlob {
    pub(super) path: PathBuf,
    pub(super) sha256: Digest,
    pub(super) size: u64,
    pub(super) proof: ExpectedBytes,
    pub(super) signers: Vec<Signer>,
    pub(super) evidence: BTreeMap<String, Digest>,
    pub(super) stamp: FileStamp,
}

impl StoredBlob {
    /// Absolute path. The file must not be modified.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the SHA-256, whichever digest the recipe pinned.
    pub fn digest(&self) -> &Digest {
        &self.sha256
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Source of the expected digest at admission.
    pub fn proof(&self) -> &ExpectedBytes {
        &self.proof
    }

    /// Signers of the required signatures, one for each, in the recipe's order.
    pub fn signers(&self) -> &[Signer] {
        &self.signers
    }

    /// Published files that verify it (signatures, bundles, certificates, log entries, catalogs,
    /// checksum files): URL without query, and the SHA-256 in the store.
    pub fn evidence(&self) -> &BTreeMap<String, Digest> {
        &self.evidence
    }

    /// Checks that the file has not changed since it was verified; to be called right before use.
    /// Hashes the file only if its size, time or inode changed.
    pub fn check(&self) -> Result<()> {
        let changed = self
            .hash_if_changed()
            .map_err(|e| Error::io("read", &self.path, e))?;
        changed.map_or(Ok(()), |found| self.same_bytes(&found))
    }

    /// Returns the current digest; `None` if the metadata has not changed.
    fn hash_if_changed(&self) -> std::io::Result<Option<Digest>> {
        let file = File::open(&self.path)?;
        if FileStamp::from_metadata(&file.metadata()?) == self.stamp {
            return Ok(None);
        }
        let (found, _) = Digest::of_reader(Algorithm::Sha256, file)?;
        Ok(Some(found))
    }

    /// Refuses a digest that differs from the verified one.
    pub fn same_bytes(&self, found: &Digest) -> Result<()> {
        if *found == self.sha256 {
            return Ok(());
        }
        Err(
            Error::new(Kind::Unproved, "a file changed after it was verified")
                .at(self.path.display())
                .expected(&self.sha256)
                .found(found)
                .cure("run winimg again while nothing else writes to that file"),
        )
    }
}

/// Metadata of a file when it was hashed. With an equal stamp the bytes have not changed, as far as
/// the file system shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileStamp {
    pub size: u64,
    /// Modification time: seconds and nanoseconds since 1970.
    modified: (u64, u32),
    /// Last change of content or metadata (`st_ctime`), in the same form. Programs cannot set it,
    /// unlike the modification time. Missing in stamps of earlier versions, whose files are hashed
    /// again.
    #[serde(default)]
    changed: (i64, i64),
    inode: u64,
    device: u64,
}

impl FileStamp {
    pub fn from_metadata(metadata: &Metadata) -> Self {
        let modified = metadata
            .modified()
            .ok()
            .and_then(|t| t.duration_since(UNIX_EPOCH).ok())
            .unwrap_or_default();
        #[cfg(unix)]
        let (inode, device, changed) = {
            use std::os::unix::fs::MetadataExt;
            let changed = (metadata.ctime(), metadata.ctime_nsec());
            (metadata.ino(), metadata.dev(), changed)
        };
        #[cfg(not(unix))]
        let (inode, device, changed) = (0, 0, (0, 0));
        Self {
            size: metadata.len(),
            modified: (modified.as_secs(), modified.subsec_nanos()),
            changed,
            inode,
            device,
        }
    }

    /// Returns true if the metadata shows the same file and content, ignoring a rename or a change
    /// of permissions: both change only `st_ctime`.
    pub fn is_same_content(&self, other: &Self) -> bool {
        let changed = self.changed;
        *self
            == Self {
                changed,
                ..other.clone()
            }
    }

    /// Returns true if a later change would certainly be detected: a file that was just written
    /// could be written again within the same tick of the file system's clock.
    pub fn is_settled(&self) -> bool {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        now.as_secs() > self.modified.0 + 2
    }
}
