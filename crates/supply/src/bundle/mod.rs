//! Bundles: tar files with a recipe's files, its lock and all inputs, for builds without a network.
//!
//! Written from verified files; untrusted when read: an index comes first, and every other member
//! must be in it with its size and digest. Refuses links, paths that lead outside, duplicate and
//! excess members. A bundle contains no value that winimg knows to be a secret.

mod index;
mod layout;
mod read;
mod tar_check;
mod variables;
mod write;

use std::path::PathBuf;

use winimg_recipe::ReadOptions;

pub use read::{admit, is_bundle};
pub use write::{BundleContents, write};

/// Name of the first member.
const INDEX: &str = "BUNDLE.toml";
/// Prefix of the recipe's files.
const FILES: &str = "files/";
/// Prefix of the inputs' digests.
const BLOBS: &str = "blobs/sha256/";
/// Name of the lock among the files.
const LOCK: &str = "recipe.lock";

/// Summary of a written bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleSummary {
    /// Total size in bytes.
    pub size: u64,
    pub files: usize,
    pub inputs: usize,
    /// Omitted values with the reason.
    pub remarks: Vec<String>,
}

/// Bundle whose inputs and recipe are in the store.
#[derive(Clone, Debug)]
pub struct AdmittedBundle {
    pub recipe: PathBuf,
    pub lock: PathBuf,
    /// Options for reading the recipe.
    pub options: ReadOptions,
}
