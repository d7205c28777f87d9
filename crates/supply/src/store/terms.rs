//! Conditions for admitting a file: its digest, the lock, and the signatures.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::{LockSource, LockedInput, SignatureScope};
use winimg_trust::Signer;

use super::{ExpectedBytes, ProgressWatch, SignatureTerms};

/// Conditions that a file must meet, all of them.
#[derive(Clone, Debug)]
pub struct AdmitTerms {
    pub expected: ExpectedBytes,
    /// SHA-256 in the lock.
    pub locked: Option<Digest>,
    /// The lock, for messages.
    pub lock: Option<LockSource>,
    /// Evidence published with the file, by URL without query; stored with the blob.
    pub evidence: BTreeMap<String, Digest>,
    /// Required signatures.
    pub signatures: Arc<SignatureTerms>,
    /// Signers of the checksum file, already checked.
    pub vouched: Vec<Signer>,
}

impl From<ExpectedBytes> for AdmitTerms {
    fn from(expected: ExpectedBytes) -> Self {
        Self {
            expected,
            locked: None,
            lock: None,
            evidence: BTreeMap::new(),
            signatures: Arc::default(),
            vouched: Vec::new(),
        }
    }
}

impl From<&AdmitTerms> for AdmitTerms {
    fn from(terms: &AdmitTerms) -> Self {
        terms.clone()
    }
}

impl AdmitTerms {
    /// Returns the expected digest, or else the locked one.
    pub fn digest(&self) -> Option<&Digest> {
        self.expected.digest().or(self.locked.as_ref())
    }

    /// Refuses terms with [`ExpectedBytes::Signed`] that require no signature of the whole file.
    pub(super) fn check(&self) -> Result<()> {
        let mut groups = self.signatures.groups.iter();
        let is_covered = groups.any(|group| {
            group
                .iter()
                .all(|demand| demand.covers == SignatureScope::File)
        });
        if self.expected == ExpectedBytes::Signed && !is_covered {
            let fact = "a file is to be verified by its signatures, but none is required";
            return Err(Error::new(Kind::Failed, fact));
        }
        Ok(())
    }

    /// Returns the error for a file that differs from the lock.
    pub(super) fn other_than_locked(&self, found: &Digest, watch: &ProgressWatch) -> Option<Error> {
        let locked = self.locked.as_ref().filter(|locked| *locked != found)?;
        Some(match &self.lock {
            Some(lock) => other_than_locked(&watch.what, lock, locked, found),
            None => report_changed(format!("{} is a different file", watch.what), locked, found),
        })
    }
}

/// Builds the error for a file that differs from the lock; `locked` and `found` describe the files.
fn other_than_locked(
    what: &str,
    lock: &LockSource,
    locked: impl Display,
    found: impl Display,
) -> Error {
    let fact = format!("{what} is not the file that {} names", lock.name);
    changed_since_locked(fact, lock, locked, found)
}

/// Builds the error for a download that is longer than the lock says. If the recipe has a digest of
/// the file, that has to change first: otherwise the lock cannot be updated.
pub fn longer_than_locked(what: &str, locked: &LockedInput, is_pinned: bool) -> Error {
    let error = other_than_locked(
        what,
        &locked.source,
        format!("{} ({} bytes)", locked.digest, locked.size),
        format!("more than {} bytes", locked.size),
    );
    match &locked.source.refresh {
        Some(refresh) if is_pinned => error.cure(format!(
            "if you trust the new one, put its digest into the recipe first, then update the \
             lock: `{refresh}`"
        )),
        _ => error,
    }
}

/// Builds the error for anything that differs from the lock.
pub fn changed_since_locked(
    fact: String,
    lock: &LockSource,
    locked: impl Display,
    found: impl Display,
) -> Error {
    let when = format!("{locked}, as it was when {} was written", lock.name);
    report_changed(fact, when, found).cure(match &lock.refresh {
        Some(refresh) => format!("if you trust the new one, update the lock: `{refresh}`"),
        None => "recreate the bundle: its lock and its files do not match".into(),
    })
}

fn report_changed(fact: String, expected: impl Display, found: impl Display) -> Error {
    Error::new(Kind::Unproved, fact)
        .expected(expected)
        .found(found)
}
