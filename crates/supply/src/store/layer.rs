//! Layers: snapshots of a machine's disk during a build, stored by the key of all their inputs.
//!
//! ```text
//! layers/<key>/disk.qcow2     overlay over ../<parent>/disk.qcow2, if any; Hyper-V: disk.vhdx
//! layers/<key>/uefi-vars.fd   the firmware's variables, if the machine has any
//! layers/<key>/layer.json     the record: inputs and the files' digests
//! layers/<key>/stamps.json    size, time and inode of the files when hashed; machine-specific
//! layers/.new-<id>/           layer of a running build, with the lock of its process
//! ```
//!
//! A layer appears under its key by a single rename. Refuses a layer whose files differ from its
//! record, or whose parent is refused.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use winimg_base::digest::{Algorithm, Digest};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Sink};
use winimg_base::io::{self, FileLock, WorkFolder};
use winimg_formats::disk::MachineDiskFormat;
use winimg_recipe::plan::ChainLink;
use winimg_recipe::plan::chain::FORMAT;

use super::blob::FileStamp;
use super::lease::LeaseGate;
use super::{LayerFile, LayerRecord, Store, list_entries, mark_used, read_record, write_record};

/// File name of the firmware's variables.
pub const VARIABLES: &str = "uefi-vars.fd";
pub(super) const RECORD: &str = "layer.json";
const STAMPS: &str = "stamps.json";

/// Sealed layer whose files, including those of its parents, match the records. Must not be
/// modified.
#[derive(Clone, Debug)]
pub struct StoredLayer {
    pub(super) folder: PathBuf,
    record: LayerRecord,
}

impl StoredLayer {
    pub fn record(&self) -> &LayerRecord {
        &self.record
    }

    pub fn disk_path(&self) -> PathBuf {
        let disk = self.record.files.first();
        self.folder.join(disk.map_or("", |disk| &disk.name))
    }

    /// Returns the path of the firmware's variables, if the layer has any.
    pub fn variables_path(&self) -> Option<PathBuf> {
        let has_variables = self.record.files.iter().any(|f| f.name == VARIABLES);
        has_variables.then(|| self.folder.join(VARIABLES))
    }
}

/// Unsealed layer in its own folder beside the sealed ones. Removed on drop unless it was sealed.
#[derive(Debug)]
pub struct LayerDraft {
    pub(super) folder: PathBuf,
    /// Released by the kernel when the process ends, so that leftovers are recognized.
    lock: Option<FileLock>,
}

impl LayerDraft {
    pub fn disk_path(&self, form: MachineDiskFormat) -> PathBuf {
        self.folder.join(form.file_name())
    }

    /// Returns the path of the variables, which are sealed with the disk if they exist.
    pub fn variables_path(&self) -> PathBuf {
        self.folder.join(VARIABLES)
    }

    /// Returns the relative path from its disk to a layer's disk. Sealed and unsealed folders are
    /// siblings.
    pub fn backing_path(parent: &Digest, form: MachineDiskFormat) -> PathBuf {
        Path::new("..").join(parent.hex()).join(form.file_name())
    }
}

impl Drop for LayerDraft {
    fn drop(&mut self) {
        if !self.folder.as_os_str().is_empty() {
            if cfg!(windows) {
                // Windows does not remove a folder with an open file.
                self.lock = None;
            }
            let _ = io::remove_work_folder(&self.folder);
        }
    }
}

/// Properties of a layer that is being sealed.
pub struct LayerInfo<'a> {
    pub parent: Option<&'a Digest>,
    pub recipe: &'a str,
    /// Not empty.
    pub links: &'a [ChainLink],
    pub notes: Value,
    /// Seconds since 1970.
    pub made: i64,
}

/// Result of looking up a layer.
pub enum LayerLookup {
    Layer(Box<StoredLayer>),
    /// Its files, or a parent's, differ from the record; it was moved to quarantine.
    Damaged(Error),
    Nothing,
}

impl LayerLookup {
    /// Name for traces.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Layer(_) => "layer",
            Self::Damaged(_) => "damaged",
            Self::Nothing => "nothing",
        }
    }
}

impl Store {
    /// Looks up the layer with this key. Hashes its files if they may have changed.
    pub fn find_layer(&self, key: &Digest, cancel: &Cancel) -> Result<LayerLookup> {
        self.lease.add(std::slice::from_ref(key))?;
        let folder = self.layer_folder(key);
        let Some(record) = read_record::<LayerRecord>(&folder.join(RECORD)) else {
            return Ok(LayerLookup::Nothing);
        };
        if record.format != FORMAT || record.key != *key {
            return Ok(LayerLookup::Nothing);
        }
        if let Some(parent) = &record.parent {
            let parent_layer = match self.find_layer(parent, cancel)? {
                LayerLookup::Layer(layer) => layer,
                other => return Ok(other),
            };
            if record.parent_disk.as_ref() != parent_layer.record.disk_digest() {
                let damage = report_other_parent(&folder, &record, &parent_layer.record);
                return self
                    .quarantine_layer(&folder, key, damage)
                    .map(LayerLookup::Damaged);
            }
        }
        match check_files(&folder, &record, cancel)? {
            None => {
                mark_used(&folder.join(RECORD));
                Ok(LayerLookup::Layer(Box::new(StoredLayer { folder, record })))
            }
            Some(damage) => self
                .quarantine_layer(&folder, key, damage)
                .map(LayerLookup::Damaged),
        }
    }

    /// Returns the records of all layers, oldest first. Does not check their files.
    pub fn list_layer_records(&self) -> Vec<LayerRecord> {
        let folders = list_entries(&self.layers_folder());
        let records = folders.iter().map(|folder| folder.join(RECORD));
        let mut records: Vec<LayerRecord> = records.filter_map(|r| read_record(&r)).collect();
        records.sort_by_key(|layer| (layer.made, layer.links.len()));
        records
    }

    /// Returns the number of layers of the recipe with this name in an outdated format.
    pub fn count_outdated_layers(&self, recipe: &str) -> usize {
        /// Members of a layer's record that exist in every format.
        #[derive(Deserialize)]
        struct AnyFormat {
            format: u32,
            recipe: String,
        }
        let folders = list_entries(&self.layers_folder());
        folders
            .iter()
            .filter_map(|folder| read_record::<AnyFormat>(&folder.join(RECORD)))
            .filter(|layer| layer.format < FORMAT && layer.recipe == recipe)
            .count()
    }

    /// Locks the gate on Windows, where a draft is unlocked for a moment after it is created and
    /// before it is sealed: it must not be removed then.
    fn lock_drafts(&self) -> Result<Option<LeaseGate>> {
        if cfg!(windows) {
            LeaseGate::lock_shared(&self.folder).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Creates an empty folder for a layer.
    pub fn create_draft(&self) -> Result<LayerDraft> {
        let _gate = self.lock_drafts()?;
        let (folder, lock) = WorkFolder::Draft.create(&self.layers_folder())?;
        let lock = Some(lock);
        Ok(LayerDraft { folder, lock })
    }

    /// Seals the draft, whose files must be closed. If another build has sealed the same layer in
    /// the meantime, returns that one and removes the draft.
    pub fn seal(
        &self,
        draft: LayerDraft,
        info: LayerInfo<'_>,
        cancel: &Cancel,
    ) -> Result<StoredLayer> {
        let Some(last) = info.links.last() else {
            return Err(Error::new(Kind::Failed, "a layer without links"));
        };
        let key = last.key.clone();
        let parent = info.parent.map(tracing::field::display);
        tracing::debug!(%key, parent, "a layer is sealed");
        self.lease.add(std::slice::from_ref(&key))?;
        let mut files = Vec::new();
        let mut stamps = Vec::new();
        for name in MachineDiskFormat::ALL
            .map(MachineDiskFormat::file_name)
            .into_iter()
            .chain([VARIABLES])
        {
            let path = draft.folder.join(name);
            if path.exists() {
                let closed = io::restrict_to_owner(&path).and_then(|()| io::sync_file(&path));
                closed.map_err(|e| Error::io("write", &path, e))?;
                let (file, stamp) = hash_file(&path, name, cancel)?;
                files.push(file);
                stamps.push(stamp);
            }
        }
        if files.first().is_none_or(|file| file.name == VARIABLES) {
            let fact = "cannot seal a layer without a disk";
            return Err(Error::new(Kind::Failed, fact).at(draft.folder.display()));
        }
        let record = LayerRecord {
            format: FORMAT,
            key: key.clone(),
            parent: info.parent.cloned(),
            parent_disk: info.parent.and_then(|parent| self.find_disk_digest(parent)),
            recipe: info.recipe.into(),
            made: info.made,
            files,
            links: info.links.to_vec(),
            notes: info.notes,
        };
        write_record(&draft.folder.join(STAMPS), &stamps)?;
        write_record(&draft.folder.join(RECORD), &record)?;
        self.place_layer(draft, record, cancel)
    }

    /// Renames the finished draft to its key.
    pub(super) fn place_layer(
        &self,
        mut draft: LayerDraft,
        record: LayerRecord,
        cancel: &Cancel,
    ) -> Result<StoredLayer> {
        io::sync_folder(&draft.folder)?;
        let folder = self.layer_folder(&record.key);
        let gate = self.lock_drafts()?;
        if gate.is_some() {
            unlock(&mut draft)?;
        }
        match io::rename(&draft.folder, &folder) {
            Err(e) if is_taken(&e, &folder) => {
                if let LayerLookup::Layer(existing) = self.find_layer(&record.key, cancel)? {
                    return Ok(*existing);
                }
                if folder.exists() {
                    let error = Error::new(Kind::Unproved, "a cached layer has no readable record");
                    let error = error.at(folder.display());
                    self.quarantine_layer(&folder, &record.key, error)?;
                }
                io::rename(&draft.folder, &folder)
            }
            other => other,
        }
        .map_err(|e| Error::io("create", &folder, e))?;
        draft.folder = PathBuf::new();
        io::sync_folder(&self.layers_folder())?;
        // Remove the lock last: without it another process would remove the layer as a leftover.
        if draft.lock.is_some() {
            let lock = io::lock_path(&folder);
            fs::remove_file(&lock).map_err(|e| Error::io("remove", &lock, e))?;
        }
        Ok(StoredLayer { folder, record })
    }

    /// Removes and reports the drafts of killed builds.
    pub fn remove_leftover_drafts(&self, sink: &dyn Sink) -> Result<()> {
        let _gate = if cfg!(windows) {
            // Another process creates, seals or prunes layers: the next build removes the
            // leftovers.
            match LeaseGate::try_lock_exclusive(&self.folder) {
                Some(gate) => Some(gate),
                None => return Ok(()),
            }
        } else {
            None
        };
        WorkFolder::Draft.remove_leftovers(&self.layers_folder(), sink)
    }

    /// Returns the folder that contains only layers.
    pub fn layers_folder(&self) -> PathBuf {
        self.folder.join("layers")
    }

    fn find_disk_digest(&self, key: &Digest) -> Option<Digest> {
        let record = read_record::<LayerRecord>(&self.layer_folder(key).join(RECORD))?;
        record.disk_digest().cloned()
    }

    pub(super) fn layer_folder(&self, key: &Digest) -> PathBuf {
        self.layers_folder().join(key.hex())
    }

    fn quarantine_layer(&self, folder: &Path, key: &Digest, damage: Error) -> Result<Error> {
        let aside = self
            .folder
            .join("quarantine")
            .join(format!("layer-{}", key.hex()));
        let _ = fs::remove_dir_all(&aside);
        match io::rename(folder, &aside) {
            // Another process has moved it.
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            other => other.map_err(|e| Error::io("move", folder, e))?,
        }
        Ok(damage.lines([format!("moved to: {}", aside.display())]))
    }
}

/// Closes and removes the draft's lock: Windows does not rename a folder with an open file.
fn unlock(draft: &mut LayerDraft) -> Result<()> {
    let lock = io::lock_path(&draft.folder);
    fs::remove_file(&lock).map_err(|e| Error::io("remove", &lock, e))?;
    draft.lock = None;
    Ok(())
}

/// Builds the error for a parent that was rebuilt with different bytes.
fn report_other_parent(folder: &Path, record: &LayerRecord, parent_layer: &LayerRecord) -> Error {
    let [expected, found] = [record.parent_disk.as_ref(), parent_layer.disk_digest()]
        .map(|disk| disk.map_or_else(|| "none".into(), Digest::to_string));
    let fact = "a cached layer was made over a different disk than its parent's current one";
    Error::new(Kind::Unproved, fact)
        .at(folder.display())
        .expected(expected)
        .found(found)
}

/// Returns the error of a damaged layer. Hashes only the files whose stamps changed.
pub(super) fn check_files(
    folder: &Path,
    record: &LayerRecord,
    cancel: &Cancel,
) -> Result<Option<Error>> {
    let stamps: Vec<FileStamp> = read_record(&folder.join(STAMPS)).unwrap_or_default();
    let mut current = Vec::new();
    for (number, file) in record.files.iter().enumerate() {
        let path = folder.join(&file.name);
        let metadata = match fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(e) => return Ok(Some(report_damage(&path, file, e.to_string()))),
        };
        let stamp = FileStamp::from_metadata(&metadata);
        if stamps.get(number) == Some(&stamp) {
            current.push(stamp);
            continue;
        }
        if metadata.len() != file.size {
            let size = format!("{} bytes", metadata.len());
            return Ok(Some(report_damage(&path, file, size)));
        }
        let (found, stamp) = hash_file(&path, &file.name, cancel)?;
        if found.sha256 != file.sha256 {
            return Ok(Some(report_damage(&path, file, found.sha256.to_string())));
        }
        current.push(stamp);
    }
    if current != stamps {
        write_record(&folder.join(STAMPS), &current)?;
    }
    Ok(None)
}

fn report_damage(path: &Path, file: &LayerFile, found: String) -> Error {
    Error::new(Kind::Unproved, "a cached layer is damaged")
        .at(path.display())
        .expected(format!("{} bytes, {}", file.size, file.sha256))
        .found(found)
}

/// Returns true if a non-empty folder has the name. The error of Windows is less specific.
fn is_taken(error: &std::io::Error, folder: &Path) -> bool {
    error.kind() == ErrorKind::DirectoryNotEmpty || (cfg!(windows) && folder.exists())
}

fn hash_file(path: &Path, name: &str, cancel: &Cancel) -> Result<(LayerFile, FileStamp)> {
    cancel.check()?;
    let (metadata, (sha256, size)) = File::open(path)
        .and_then(|file| {
            let metadata = file.metadata()?;
            Ok((metadata, Digest::of_reader(Algorithm::Sha256, file)?))
        })
        .map_err(|e| Error::io("read", path, e))?;
    let file = LayerFile {
        name: name.into(),
        sha256,
        size,
    };
    Ok((file, FileStamp::from_metadata(&metadata)))
}
