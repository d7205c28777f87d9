//! Unpacked archives, stored by the archive's digest and the options of unpacking.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use winimg_base::digest::Digest;
use winimg_base::error::Result;
use winimg_base::io;
use winimg_formats::archive::{
    self, ArchiveFile, ArchiveFilter, ArchiveFormat, UnpackLimits, UnpackedFile,
};

use super::blob::FileStamp;
use super::{ProgressWatch, Store, StoredBlob, mark_used, read_record, write_record};

/// Unpacked archive in the store. Must not be modified.
#[derive(Clone, Debug)]
pub struct UnpackedTree {
    path: PathBuf,
    files: Vec<UnpackedFile>,
}

impl UnpackedTree {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sorted by path.
    pub fn files(&self) -> &[UnpackedFile] {
        &self.files
    }
}

/// Options of unpacking, which identify the tree together with the archive's digest.
#[derive(Serialize)]
struct TreeKey<'a> {
    format: u32,
    archive: ArchiveFormat,
    strip: usize,
    only: &'a [String],
}

/// Unpacked files with their stamps.
#[derive(Serialize, Deserialize)]
struct TreeRecord {
    files: Vec<(UnpackedFile, FileStamp)>,
}

impl Store {
    /// Unpacks a blob once. If the files of the tree have changed, it is unpacked again.
    pub fn unpack_tree(
        &self,
        blob: &StoredBlob,
        format: ArchiveFormat,
        filter: &ArchiveFilter,
        limits: &UnpackLimits,
        watch: &ProgressWatch,
    ) -> Result<UnpackedTree> {
        let wanted = Digest::of_json(&TreeKey {
            format: 2,
            archive: format,
            strip: filter.strip,
            only: &filter.only,
        });
        let wanted = wanted.hex();
        let key = format!("{}-{}", blob.digest().hex(), &wanted[..16]);
        let path = self.folder.join("trees").join(&key);
        let record_path = self.folder.join("trees").join(format!("{key}.json"));
        let _lock = self.lock(&format!("tree-{key}"), &watch.cancel, |holder| {
            watch.note(format!("{}: {holder} is unpacking it", watch.what));
        })?;
        self.lease.add(std::slice::from_ref(blob.digest()))?;
        if let Some(record) = read_record::<TreeRecord>(&record_path) {
            if record
                .files
                .iter()
                .all(|(f, s)| read_stamp(&path, f) == Some(s.clone()))
            {
                mark_used(&record_path);
                let files = record.files.into_iter().map(|(f, _)| f).collect();
                return Ok(UnpackedTree { path, files });
            }
            watch.warn(format!(
                "the unpacked files of {} were changed in the store: unpacking them again",
                watch.what
            ));
        }
        blob.check()?;
        io::remove_folder_if_exists(&path)?;
        let packed = ArchiveFile {
            file: blob.path(),
            format,
            name: &watch.what,
        };
        let files = archive::unpack(&packed, &path, limits, filter)?;
        let record = TreeRecord {
            files: files
                .iter()
                .filter_map(|f| Some((f.clone(), read_stamp(&path, f)?)))
                .collect(),
        };
        write_record(&record_path, &record)?;
        Ok(UnpackedTree { path, files })
    }
}

fn read_stamp(tree: &Path, file: &UnpackedFile) -> Option<FileStamp> {
    let metadata = fs::symlink_metadata(tree.join(&file.path)).ok()?;
    metadata
        .is_file()
        .then(|| FileStamp::from_metadata(&metadata))
}
