//! Which lock each recipe was last built, fetched or bundled with, for the refusal of older ones.

use winimg_base::error::Result;
use winimg_recipe::lock::BuiltWith;

use super::{Store, read_record, write_record};

impl Store {
    /// The highest lock that was used for the recipe of this name.
    pub fn built_with(&self, recipe: &str) -> Option<BuiltWith> {
        read_record(&self.record_of("serials", recipe))
    }

    /// Remembers a use, unless a higher lock was used before.
    pub fn record_built_with(&self, built: &BuiltWith) -> Result<()> {
        match self.built_with(&built.recipe) {
            Some(before) if before.serial >= built.serial => Ok(()),
            _ => write_record(&self.record_of("serials", &built.recipe), built),
        }
    }
}
