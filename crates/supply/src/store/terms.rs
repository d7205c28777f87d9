//! All that a file has to be to be admitted: the bytes that are named, the lock, and the signatures.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::recipe::{Covers, LockSource};
use winimg_trust::Signer;

use super::{Expected, Signatures, Watch};

/// What has to hold of a file, all of it.
#[derive(Clone, Debug)]
pub struct Terms {
    pub expected: Expected,
    /// The SHA-256 that the lock names.
    pub locked: Option<Digest>,
    /// That lock, for messages.
    pub lock: Option<LockSource>,
    /// What was published beside the file, by URL without query: the blob remembers it.
    pub evidence: BTreeMap<String, Digest>,
    /// Each of these has to be met.
    pub signatures: Arc<Signatures>,
    /// Who signed the checksum file that names the bytes, already judged.
    pub vouched: Vec<Signer>,
}

impl From<Expected> for Terms {
    fn from(expected: Expected) -> Self {
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

impl From<&Terms> for Terms {
    fn from(terms: &Terms) -> Self {
        terms.clone()
    }
}

impl Terms {
    /// The digest by which the file is known before it is looked at.
    pub fn digest(&self) -> Option<&Digest> {
        self.expected.digest().or(self.locked.as_ref())
    }

    /// Refuses terms that say "signed" and name no signature of the whole file.
    pub(super) fn check(&self) -> Result<()> {
        let whole = |group: &Vec<super::Demand>| group.iter().all(|d| d.covers == Covers::File);
        if self.expected == Expected::Signed && !self.signatures.groups.iter().any(whole) {
            let fact = "a file is to be proved by its signatures, and none is asked for";
            return Err(Error::new(Kind::Failed, fact));
        }
        Ok(())
    }

    /// The complaint about a file that is not the one that was locked.
    pub(super) fn other_than_locked(&self, found: &Digest, watch: &Watch) -> Option<Error> {
        let locked = self.locked.as_ref().filter(|locked| *locked != found)?;
        Some(match &self.lock {
            Some(lock) => other_than_locked(&watch.what, lock, locked, found),
            None => changed(format!("{} is another file", watch.what), locked, found),
        })
    }
}

/// The error about a file that is not the locked one; `locked` and `found` describe them.
pub fn other_than_locked(
    what: &str,
    lock: &LockSource,
    locked: impl Display,
    found: impl Display,
) -> Error {
    let fact = format!("{what} is not the file that {} names", lock.name);
    changed_since_locked(fact, lock, locked, found)
}

/// The same of anything that a lock names.
pub fn changed_since_locked(
    fact: String,
    lock: &LockSource,
    locked: impl Display,
    found: impl Display,
) -> Error {
    let when = format!("{locked}, as it was when {} was written", lock.name);
    changed(fact, when, found).cure(match &lock.refresh {
        Some(refresh) => format!("if you trust the new one, take it into the lock: `{refresh}`"),
        None => "make the bundle again: its lock and its files do not belong together".into(),
    })
}

fn changed(fact: String, expected: impl Display, found: impl Display) -> Error {
    Error::new(Kind::Unproved, fact)
        .expected(expected)
        .found(found)
}
