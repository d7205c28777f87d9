//! Records the lock that each recipe was last built, fetched or bundled with, to refuse older ones.

use winimg_base::error::Result;
use winimg_recipe::lock::UsedLock;

use super::{Store, read_record, write_record};

impl Store {
    /// Returns the highest lock that was used for the recipe of this name.
    pub fn built_with(&self, recipe: &str) -> Option<UsedLock> {
        read_record(&self.record_path("serials", recipe))
    }

    /// Records a use, unless a higher lock was used before.
    pub fn record_built_with(&self, built: &UsedLock) -> Result<()> {
        match self.built_with(&built.recipe) {
            Some(before) if before.serial >= built.serial => Ok(()),
            _ => write_record(&self.record_path("serials", &built.recipe), built),
        }
    }
}
