//! Records of the files in output directories, so that the next build knows if they are up to date.
//!
//! Saves work and proves nothing: a file with unchanged metadata counts as unchanged.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use winimg_base::digest::Digest;
use winimg_base::error::{Error, Result};

use super::blob::FileStamp;
use super::{Store, read_record, write_record};

#[derive(Serialize, Deserialize)]
struct OutputRecord {
    /// Hash of everything that affects the files.
    key: Digest,
    files: Vec<(PathBuf, FileStamp)>,
}

impl Store {
    /// Returns true if `folder` still has the unchanged files of a build with this key.
    pub fn output_is(&self, folder: &Path, key: &Digest) -> bool {
        let Some(output) = read_record::<OutputRecord>(&self.output_path(folder)) else {
            return false;
        };
        output.key == *key
            && output.files.iter().all(|(file, stamp)| {
                fs::metadata(folder.join(file))
                    .is_ok_and(|found| FileStamp::from_metadata(&found) == *stamp)
            })
    }

    /// Returns the files that a build with this key left in `folder`, if each was renamed into `to`
    /// and nothing else was done to it.
    pub fn moved_output(&self, folder: &Path, to: &Path, key: &Digest) -> Option<Vec<PathBuf>> {
        let output: OutputRecord = read_record(&self.output_path(folder))?;
        let is_same = output.key == *key
            && output.files.iter().all(|(file, stamp)| {
                fs::metadata(to.join(file))
                    .is_ok_and(|found| FileStamp::from_metadata(&found).is_same_content(stamp))
            });
        is_same.then(|| output.files.into_iter().map(|(file, _)| file).collect())
    }

    /// Records the output files of a build. `files` are relative to `folder`.
    pub fn record_output(&self, folder: &Path, key: &Digest, files: &[PathBuf]) -> Result<()> {
        let mut stamped = Vec::new();
        for file in files {
            let path = folder.join(file);
            let found = fs::metadata(&path).map_err(|e| Error::io("read", &path, e))?;
            stamped.push((file.clone(), FileStamp::from_metadata(&found)));
        }
        let output = OutputRecord {
            key: key.clone(),
            files: stamped,
        };
        write_record(&self.output_path(folder), &output)
    }

    fn output_path(&self, folder: &Path) -> PathBuf {
        self.record_path("outputs", &folder.to_string_lossy())
    }
}
