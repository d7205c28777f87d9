//! A proved file, what proved it, and how a change to it is noticed.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use winimg_base::digest::{Algorithm, Digest};
use winimg_base::error::{Error, Kind, Result};
use winimg_trust::Signer;

/// What names the bytes of a file that is to be admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The recipe pins it.
    Digest(Digest),
    /// A checksum file names it, which is no more than a transport check when it stands on the publisher's own host. `url`
    /// without query, `line` as it stood in the file.
    ChecksumFile {
        url: String,
        line: String,
        digest: Digest,
        /// The SHA-512 of another line about the file, which has to be its own as well.
        also: Option<Digest>,
    },
    /// Nothing does; the signatures among its terms have to prove it.
    Signed,
    /// The recipe says why nothing proves it.
    Unverified { reason: String },
}

impl Expected {
    /// The SHA-512 that the file has to have.
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

/// A file in the store, or a large local file, whose bytes were proved.
#[derive(Clone, Debug)]
pub struct Blob {
    pub(super) path: PathBuf,
    pub(super) sha256: Digest,
    pub(super) size: u64,
    pub(super) proof: Expected,
    pub(super) signers: Vec<Signer>,
    pub(super) evidence: BTreeMap<String, Digest>,
    pub(super) stamp: Stamp,
}

impl Blob {
    /// Absolute. Read-only by agreement.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Always a SHA-256, whatever the recipe pinned.
    pub fn digest(&self) -> &Digest {
        &self.sha256
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What named its bytes when it was admitted.
    pub fn proof(&self) -> &Expected {
        &self.proof
    }

    /// Who signed it, of the signatures that were asked for: one for each, in the recipe's order.
    pub fn signers(&self) -> &[Signer] {
        &self.signers
    }

    /// What was published beside it and used to prove it (signatures, bundles, certificates, log entries, catalogs,
    /// checksum files): the URL without query, and the SHA-256 by which the store keeps it.
    pub fn evidence(&self) -> &BTreeMap<String, Digest> {
        &self.evidence
    }

    /// Looks whether the file is still the one that was proved; to be called right before use. Costs one `stat`
    /// unless size, time or inode changed; then the file is hashed again.
    pub fn check(&self) -> Result<()> {
        let io = |e| Error::io("read", &self.path, e);
        let file = File::open(&self.path).map_err(io)?;
        if Stamp::of(&file.metadata().map_err(io)?) == self.stamp {
            return Ok(());
        }
        let (found, _) = Digest::of_reader(Algorithm::Sha256, file).map_err(io)?;
        self.same_bytes(&found)
    }

    /// Refuses bytes that were read of the file and have another digest.
    pub fn same_bytes(&self, found: &Digest) -> Result<()> {
        if *found == self.sha256 {
            return Ok(());
        }
        Err(
            Error::new(Kind::Unproved, "a file changed after it was proved")
                .at(self.path.display())
                .expected(&self.sha256)
                .found(found)
                .cure("run winimg again while nothing else writes to that file"),
        )
    }
}

/// What a file's metadata said when its bytes were hashed. Equal stamps: the bytes were not touched since, as far as
/// the filesystem shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    pub size: u64,
    /// Modification time: seconds and nanoseconds since 1970.
    modified: (u64, u32),
    /// When content or metadata changed last (`st_ctime`), in the same form. Unlike the modification time no program can set it. A
    /// stamp of an earlier version has none, so that its file is hashed again.
    #[serde(default)]
    changed: (i64, i64),
    inode: u64,
    device: u64,
}

impl Stamp {
    pub fn of(metadata: &Metadata) -> Self {
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

    /// Whether it is the same file with the same content as far as its metadata shows, when the file was renamed or its rights were
    /// changed in between: both change `st_ctime` alone.
    pub fn is_same_content(&self, other: &Self) -> bool {
        let changed = self.changed;
        *self
            == Self {
                changed,
                ..other.clone()
            }
    }

    /// Whether a later change would surely show: a file written in the last moments may be written again within the
    /// same tick of the filesystem's clock.
    pub fn is_settled(&self) -> bool {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        now.as_secs() > self.modified.0 + 2
    }
}
