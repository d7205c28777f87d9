//! Inputs of a lock of schema 2, which did not record what the recipe's key files held.

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(transparent)]
pub struct Schema2Entry(super::LockEntry);

impl From<Schema2Entry> for super::LockEntry {
    fn from(Schema2Entry(entry): Schema2Entry) -> Self {
        Self {
            keys: None,
            ..entry
        }
    }
}
