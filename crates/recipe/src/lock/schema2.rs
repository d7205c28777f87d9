//! Inputs of a lock of schema 2, which did not record what the recipe's key files held.

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(transparent)]
pub struct Entry(super::Entry);

impl From<Entry> for super::Entry {
    fn from(Entry(entry): Entry) -> Self {
        Self {
            keys: None,
            ..entry
        }
    }
}
