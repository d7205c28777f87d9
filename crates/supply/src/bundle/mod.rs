//! A bundle: one tar file with a recipe as it was read, its lock, and every input by its digest. It builds where there
//! is no network.
//!
//! Written from what is proved already; read as something from a stranger: an index comes first, every other member has
//! to be one that it names, with the size and the digest that it names. Refuses links, paths that lead elsewhere, members
//! twice and members too many. A bundle holds no secret that winimg knows for one.

mod carry;
mod index;
mod layout;
mod read;
mod survey;
mod write;

use std::path::PathBuf;

use winimg_recipe::recipe::Options;

pub use read::{admit, is_bundle};
pub use write::{Contents, write};

/// The first member.
const INDEX: &str = "BUNDLE.toml";
/// Before the names of the recipe's files.
const FILES: &str = "files/";
/// Before the digests of the inputs.
const BLOBS: &str = "blobs/sha256/";
/// The lock, among the files.
const LOCK: &str = "recipe.lock";

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes of the whole.
    pub size: u64,
    pub files: usize,
    pub inputs: usize,
    /// What was left out of it, and why.
    pub remarks: Vec<String>,
}

/// A bundle whose inputs are in the store and whose recipe stands beside them.
#[derive(Clone, Debug)]
pub struct Admitted {
    pub recipe: PathBuf,
    pub lock: PathBuf,
    /// How the recipe is read there.
    pub options: Options,
}
