//! Detects a lock that is older than one used before. An attacker who can replace a lock file must
//! not bring back inputs that were replaced for a reason (The Update Framework: rollback attacks).

use serde::{Deserialize, Serialize};

use super::{LockFile, RecipeLock, describe_input, name_input};
use crate::InputId;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind};

/// The highest lock that a recipe was built, fetched or bundled with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedLock {
    /// The recipe's name.
    pub recipe: String,
    pub serial: u64,
    pub inputs: Vec<UsedInput>,
}

/// An input of such a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedInput {
    #[serde(rename = "name")]
    pub id: InputId,
    pub version: Option<String>,
    pub digest: Digest,
}

/// Returns an error if the lock is older than the one used before.
pub fn check_rollback(lock: &RecipeLock, file: &str, before: &UsedLock) -> Option<Error> {
    if lock.serial >= before.serial {
        return None;
    }
    let fact = format!(
        "{file} is older than a lock already used here for `{}`",
        lock.recipe
    );
    Some(
        Error::new(Kind::Recipe, fact)
            .expected(format!("serial {} or higher", before.serial))
            .found(format!("serial {}", lock.serial))
            .lines(list_reverted_inputs(lock, before))
            .cure("use the newer lock; to go back deliberately, add `--allow-rollback`"),
    )
}

/// Returns an error if the serial is below the minimum of `[lock]`.
pub fn check_minimum_serial(file: &LockFile, lowest: u64) -> Option<Error> {
    let serial = file.lock.serial;
    (serial < lowest).then(|| {
        Error::new(
            Kind::Recipe,
            format!("{} is older than `[lock]` allows", file.name),
        )
        .expected(format!("serial {lowest} or higher"))
        .found(format!("serial {serial}"))
        .cure("use the newer lock; no flag allows an older one")
    })
}

/// Returns the warning for the manifest if the rollback was allowed.
pub fn warn_rollback(lock: &RecipeLock, file: &str, before: &UsedLock) -> Option<String> {
    (lock.serial < before.serial).then(|| {
        format!(
            "{file} has serial {}, but serial {} was used here before (--allow-rollback)",
            lock.serial, before.serial
        )
    })
}

/// Lists the inputs that would change back, one per line.
fn list_reverted_inputs(lock: &RecipeLock, before: &UsedLock) -> Vec<String> {
    let mut lines = Vec::new();
    for was in &before.inputs {
        let then = describe_input(was.version.as_deref(), &was.digest);
        let now = match lock.find_entry(&was.id) {
            Some(entry) if entry.digest == was.digest => continue,
            Some(entry) => entry.describe(),
            None => "not in the lock".into(),
        };
        lines.push(format!("{}: {then} -> {now}", name_input(&was.id)));
    }
    lines
}
