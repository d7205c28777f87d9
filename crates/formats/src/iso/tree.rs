//! What is to stand on a disc, decided before a byte is written.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::path::PathBuf;

use winimg_base::digest::Digest;

use crate::udf;

/// Where the bytes of a file come from.
#[derive(Clone)]
pub enum Source {
    /// A file of the host, read while the disc is written.
    Path(PathBuf),
    /// A file of the host whose bytes have to have this SHA-256 while they are copied.
    Proved { path: PathBuf, sha256: Digest },
    /// Bytes made here. Never shown, since the answer file is one of these.
    Bytes(Vec<u8>),
    /// A file of another medium.
    Medium(udf::File),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) | Self::Proved { path, .. } => write!(f, "{}", path.display()),
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Medium(file) => write!(f, "{} bytes of a medium", file.size()),
        }
    }
}

/// The content of a disc: files by their path, parts separated by `/`. Folders come into being with their files.
#[derive(Clone, Debug)]
pub struct Tree {
    pub(super) label: String,
    /// The time of every record, so that equal inputs make equal discs: seconds since 1970, UTC.
    pub(super) stamp: i64,
    pub(super) files: BTreeMap<String, Source>,
    /// Paths that were given twice; `write` refuses them.
    pub(super) twice: Vec<String>,
}

impl Tree {
    /// An empty disc. `label`: up to 16 of `A`-`Z`, `a`-`z`, `0`-`9`, `_`, `-` and space (the limit is Joliet's); `write` checks
    /// it.
    pub fn new(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            // 2020-01-01T00:00:00Z
            stamp: 1_577_836_800,
            files: BTreeMap::new(),
            twice: Vec::new(),
        }
    }

    #[must_use]
    pub fn stamp(mut self, stamp: i64) -> Self {
        self.stamp = stamp;
        self
    }

    /// Adds a file; a path given before is an error of `write`.
    #[must_use]
    pub fn file(mut self, path: impl Into<String>, source: Source) -> Self {
        self.add(path, source);
        self
    }

    /// The same in place, for loops.
    pub fn add(&mut self, path: impl Into<String>, source: Source) {
        match self.files.entry(path.into()) {
            Entry::Occupied(there) => self.twice.push(there.key().clone()),
            Entry::Vacant(free) => {
                free.insert(source);
            }
        }
    }

    /// Takes the bytes of a file that is there from somewhere else.
    pub fn replace(&mut self, path: &str, source: Source) {
        if let Some(there) = self.files.get_mut(path) {
            *there = source;
        }
    }

    /// The paths of all files, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// What stands at a path.
    pub fn get(&self, path: &str) -> Option<&Source> {
        self.files.get(path)
    }
}
