//! Unpacked archives, kept by the digest of the archive and what was wanted of it.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use winimg_base::digest::Digest;
use winimg_base::error::Result;
use winimg_base::io;
use winimg_formats::archive::{self, Filter, Format, Limits, Packed, Unpacked};

use super::blob::Stamp;
use super::{Blob, Store, Watch, note_use, read_record, write_record};

/// An unpacked archive in the store. Read-only by agreement.
#[derive(Clone, Debug)]
pub struct Tree {
    path: PathBuf,
    files: Vec<Unpacked>,
}

impl Tree {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sorted by path.
    pub fn files(&self) -> &[Unpacked] {
        &self.files
    }
}

/// What is wanted of an archive: names the tree beside the archive's digest.
#[derive(Serialize)]
struct Wanted<'a> {
    format: u32,
    archive: Format,
    strip: usize,
    only: &'a [String],
}

/// What was unpacked, and how each file looked then.
#[derive(Serialize, Deserialize)]
struct Record {
    files: Vec<(Unpacked, Stamp)>,
}

impl Store {
    /// Unpacks a blob, once: the tree is written beside its place and renamed into it, and a tree whose files no
    /// longer look as they did is unpacked again.
    pub fn tree(
        &self,
        blob: &Blob,
        format: Format,
        filter: &Filter,
        limits: &Limits,
        watch: &Watch,
    ) -> Result<Tree> {
        let wanted = Digest::of_json(&Wanted {
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
        self.lease.hold(std::slice::from_ref(blob.digest()))?;
        if let Some(record) = read_record::<Record>(&record_path) {
            if record
                .files
                .iter()
                .all(|(f, s)| stamp(&path, f) == Some(s.clone()))
            {
                note_use(&record_path);
                let files = record.files.into_iter().map(|(f, _)| f).collect();
                return Ok(Tree { path, files });
            }
            watch.warn(format!(
                "the unpacked files of {} were changed in the store; they are unpacked again",
                watch.what
            ));
        }
        blob.check()?;
        io::remove_folder_if_there(&path)?;
        let packed = Packed {
            file: blob.path(),
            format,
            name: &watch.what,
        };
        let files = archive::unpack(&packed, &path, limits, filter)?;
        let record = Record {
            files: files
                .iter()
                .filter_map(|f| Some((f.clone(), stamp(&path, f)?)))
                .collect(),
        };
        write_record(&record_path, &record)?;
        Ok(Tree { path, files })
    }
}

fn stamp(tree: &Path, file: &Unpacked) -> Option<Stamp> {
    let metadata = fs::symlink_metadata(tree.join(&file.path)).ok()?;
    metadata.is_file().then(|| Stamp::of(&metadata))
}
