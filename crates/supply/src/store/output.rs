//! What a build left in its output directory, so that the next one knows when nothing is to be done.
//!
//! Saves work and proves nothing: a file that looks as it did when it was written is taken for the same.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use winimg_base::digest::Digest;
use winimg_base::error::{Error, Result};

use super::blob::Stamp;
use super::{Store, read_record, write_record};

#[derive(Serialize, Deserialize)]
struct Output {
    /// Of everything that decides what the files hold.
    key: Digest,
    files: Vec<(PathBuf, Stamp)>,
}

impl Store {
    /// Whether `folder` holds, untouched, what a build with this key left there.
    pub fn output_is(&self, folder: &Path, key: &Digest) -> bool {
        let Some(output) = read_record::<Output>(&self.output_path(folder)) else {
            return false;
        };
        let untouched = |(file, stamp): &(PathBuf, Stamp)| {
            fs::metadata(folder.join(file)).is_ok_and(|found| Stamp::of(&found) == *stamp)
        };
        output.key == *key && output.files.iter().all(untouched)
    }

    /// Returns the files that a build with this key left in `folder`, if each was renamed into `to`
    /// and nothing else was done to it.
    pub fn moved_output(&self, folder: &Path, to: &Path, key: &Digest) -> Option<Vec<PathBuf>> {
        let output: Output = read_record(&self.output_path(folder))?;
        let is_same = |(file, stamp): &(PathBuf, Stamp)| {
            fs::metadata(to.join(file)).is_ok_and(|found| Stamp::of(&found).is_same_content(stamp))
        };
        let is_whole = output.key == *key && output.files.iter().all(is_same);
        is_whole.then(|| output.files.into_iter().map(|(file, _)| file).collect())
    }

    /// Remembers what a build left. `files` lie in `folder`.
    pub fn record_output(&self, folder: &Path, key: &Digest, files: &[PathBuf]) -> Result<()> {
        let mut stamped = Vec::new();
        for file in files {
            let path = folder.join(file);
            let found = fs::metadata(&path).map_err(|e| Error::io("read", &path, e))?;
            stamped.push((file.clone(), Stamp::of(&found)));
        }
        let output = Output {
            key: key.clone(),
            files: stamped,
        };
        write_record(&self.output_path(folder), &output)
    }

    fn output_path(&self, folder: &Path) -> PathBuf {
        self.record_of("outputs", &folder.to_string_lossy())
    }
}
