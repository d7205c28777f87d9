//! Whether a lock is older than one that was used before: someone who can replace a lock file must not bring
//! back what was replaced for a reason (The Update Framework: rollback attacks).

use serde::{Deserialize, Serialize};

use super::{Lock, LockFile, called, shown};
use crate::recipe::InputId;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind};

/// The highest lock that a recipe was built, fetched or bundled with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuiltWith {
    /// The recipe's name.
    pub recipe: String,
    pub serial: u64,
    pub inputs: Vec<BuiltInput>,
}

/// One of its inputs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuiltInput {
    #[serde(rename = "name")]
    pub id: InputId,
    pub version: Option<String>,
    pub digest: Digest,
}

/// The refusal of an older lock.
pub fn rolled_back(lock: &Lock, file: &str, before: &BuiltWith) -> Option<Error> {
    if lock.serial >= before.serial {
        return None;
    }
    let fact = format!(
        "{file} is older than one that was used for `{}` here",
        lock.recipe
    );
    Some(
        Error::new(Kind::Recipe, fact)
            .expected(format!("serial {} or higher", before.serial))
            .found(format!("serial {}", lock.serial))
            .lines(going_back(lock, before))
            .cure("take the newer lock; if going back is meant, add `--allow-rollback`"),
    )
}

/// The refusal of a serial below the one that `[lock]` asks for.
pub fn too_low(file: &LockFile, lowest: u64) -> Option<Error> {
    let serial = file.lock.serial;
    (serial < lowest).then(|| {
        Error::new(
            Kind::Recipe,
            format!("{} is older than `[lock]` allows", file.name),
        )
        .expected(format!("serial {lowest} or higher"))
        .found(format!("serial {serial}"))
        .cure("take the newer lock; no flag allows an older one")
    })
}

/// The sentence for the manifest when it was allowed.
pub fn warning(lock: &Lock, file: &str, before: &BuiltWith) -> Option<String> {
    (lock.serial < before.serial).then(|| {
        format!(
            "{file} has the serial {}, and serial {} was used here before: --allow-rollback",
            lock.serial, before.serial
        )
    })
}

/// The inputs that would be others than they were.
fn going_back(lock: &Lock, before: &BuiltWith) -> Vec<String> {
    let mut lines = Vec::new();
    for was in &before.inputs {
        let then = shown(was.version.as_deref(), &was.digest);
        let now = match lock.entry(&was.id) {
            Some(entry) if entry.digest == was.digest => continue,
            Some(entry) => entry.shown(),
            None => "not there".into(),
        };
        lines.push(format!("{}: {then} -> {now}", called(&was.id)));
    }
    lines
}
