//! Layers: a machine's disk as it stood at a moment of a build, kept by the key of everything that went into it.
//!
//! ```text
//! layers/<key>/disk.qcow2     an overlay over ../<parent>/disk.qcow2; the first layer stands alone. Hyper-V: disk.vhdx
//! layers/<key>/uefi-vars.fd   the firmware's variables, where the machine has such
//! layers/<key>/layer.json     the record: what went in, and the files' digests
//! layers/<key>/stamps.json    size, time and inode of the files when they were hashed; of this machine alone
//! layers/.new-<id>/           a layer that a build works on, with the lock that its process holds
//! ```
//!
//! A layer appears under its key by one rename, whole. Refuses a layer whose files are not the recorded ones, and one
//! whose parent is refused.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use winimg_base::digest::{Algorithm, Digest};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Sink};
use winimg_base::io::{self, Lock, WorkFolder};
use winimg_formats::disk::DiskForm;
use winimg_recipe::plan::Link;
use winimg_recipe::plan::chain::FORMAT;

use super::blob::Stamp;
use super::lease::Gate;
use super::{LayerFile, LayerRecord, Store, entries, note_use, read_record, write_record};

/// The firmware's variables.
pub const VARIABLES: &str = "uefi-vars.fd";
pub(super) const RECORD: &str = "layer.json";
const STAMPS: &str = "stamps.json";

/// A sealed layer whose files, and whose parents' files, are the recorded ones. Read-only by agreement.
#[derive(Clone, Debug)]
pub struct Layer {
    pub(super) folder: PathBuf,
    record: LayerRecord,
}

impl Layer {
    pub fn record(&self) -> &LayerRecord {
        &self.record
    }

    pub fn disk(&self) -> PathBuf {
        let disk = self.record.files.first();
        self.folder.join(disk.map_or("", |disk| &disk.name))
    }

    /// The firmware's variables, where it has any.
    pub fn variables(&self) -> Option<PathBuf> {
        let has = self.record.files.iter().any(|f| f.name == VARIABLES);
        has.then(|| self.folder.join(VARIABLES))
    }
}

/// A layer in the making: a folder of our own beside the sealed ones. Dropped: removed, unless it was sealed.
#[derive(Debug)]
pub struct Draft {
    pub(super) folder: PathBuf,
    /// Freed by the kernel when the process ends, so that a leftover is known.
    lock: Option<Lock>,
}

impl Draft {
    pub fn disk(&self, form: DiskForm) -> PathBuf {
        self.folder.join(form.file_name())
    }

    /// Sealed with the disk when it is there.
    pub fn variables(&self) -> PathBuf {
        self.folder.join(VARIABLES)
    }

    /// How its disk names the disk of a layer: sealed and unsealed folders are neighbours.
    pub fn backing(parent: &Digest, form: DiskForm) -> PathBuf {
        Path::new("..").join(parent.hex()).join(form.file_name())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.folder.as_os_str().is_empty() {
            if cfg!(windows) {
                // There a folder with an open file in it is not removed.
                self.lock = None;
            }
            let _ = io::remove_work_folder(&self.folder);
        }
    }
}

/// What is said of a layer when it is sealed.
pub struct About<'a> {
    pub parent: Option<&'a Digest>,
    pub recipe: &'a str,
    /// At least one.
    pub links: &'a [Link],
    pub notes: Value,
    /// Seconds since 1970.
    pub made: i64,
}

/// What is found under a key.
pub enum Kept {
    Layer(Box<Layer>),
    /// Its files, or a parent's, are not the recorded ones: set aside; the words say where, and what was found.
    Damaged(Error),
    Nothing,
}

impl Kept {
    /// For the trace.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Layer(_) => "layer",
            Self::Damaged(_) => "damaged",
            Self::Nothing => "nothing",
        }
    }
}

impl Store {
    /// The layer with this key, its files looked at as far as they may have changed.
    pub fn layer(&self, key: &Digest, cancel: &Cancel) -> Result<Kept> {
        self.lease.hold(std::slice::from_ref(key))?;
        let folder = self.layer_folder(key);
        let Some(record) = read_record::<LayerRecord>(&folder.join(RECORD)) else {
            return Ok(Kept::Nothing);
        };
        if record.format != FORMAT || record.key != *key {
            return Ok(Kept::Nothing);
        }
        if let Some(parent) = &record.parent {
            let beneath = match self.layer(parent, cancel)? {
                Kept::Layer(layer) => layer,
                other => return Ok(other),
            };
            if record.parent_disk.as_ref() != beneath.record.disk() {
                let damage = over_another(&folder, &record, &beneath.record);
                return self
                    .set_layer_aside(&folder, key, damage)
                    .map(Kept::Damaged);
            }
        }
        match check_files(&folder, &record, cancel)? {
            None => {
                note_use(&folder.join(RECORD));
                Ok(Kept::Layer(Box::new(Layer { folder, record })))
            }
            Some(damage) => self
                .set_layer_aside(&folder, key, damage)
                .map(Kept::Damaged),
        }
    }

    /// The records of all layers, whatever their files are; oldest first.
    pub fn layers(&self) -> Vec<LayerRecord> {
        let folders = entries(&self.layers_folder());
        let records = folders.iter().map(|folder| folder.join(RECORD));
        let mut records: Vec<LayerRecord> = records.filter_map(|r| read_record(&r)).collect();
        records.sort_by_key(|layer| (layer.made, layer.links.len()));
        records
    }

    /// How many layers of the recipe with this name an earlier version sealed, in a format that is not used any more.
    pub fn outdated_layers(&self, recipe: &str) -> usize {
        /// What the record of a layer says in any format.
        #[derive(Deserialize)]
        struct AnyFormat {
            format: u32,
            recipe: String,
        }
        let folders = entries(&self.layers_folder());
        folders
            .iter()
            .filter_map(|folder| read_record::<AnyFormat>(&folder.join(RECORD)))
            .filter(|layer| layer.format < FORMAT && layer.recipe == recipe)
            .count()
    }

    /// On Windows a draft gets its lock after its name and loses it before: both while nobody sweeps.
    fn gate_of_drafts(&self) -> Result<Option<Gate>> {
        match cfg!(windows) {
            true => Gate::shared(&self.folder).map(Some),
            false => Ok(None),
        }
    }

    /// An empty folder for a layer.
    pub fn draft(&self) -> Result<Draft> {
        let _gate = self.gate_of_drafts()?;
        let (folder, lock) = WorkFolder::Draft.create(&self.layers_folder())?;
        let lock = Some(lock);
        Ok(Draft { folder, lock })
    }

    /// Makes a layer of the draft, whose files nobody has open any more. When another build sealed the same layer in the
    /// meantime, that one counts and the draft goes.
    pub fn seal(&self, draft: Draft, about: About<'_>, cancel: &Cancel) -> Result<Layer> {
        let Some(last) = about.links.last() else {
            return Err(Error::new(Kind::Failed, "a layer of nothing"));
        };
        let key = last.key.clone();
        tracing::debug!(%key, parent = about.parent.map(tracing::field::display), "a layer is sealed");
        self.lease.hold(std::slice::from_ref(&key))?;
        let mut files = Vec::new();
        let mut stamps = Vec::new();
        for name in DiskForm::ALL
            .map(DiskForm::file_name)
            .into_iter()
            .chain([VARIABLES])
        {
            let path = draft.folder.join(name);
            if path.exists() {
                let closed = io::close_to_others(&path).and_then(|()| io::sync_file(&path));
                closed.map_err(|e| Error::io("write", &path, e))?;
                let (file, stamp) = hashed(&path, name, cancel)?;
                files.push(file);
                stamps.push(stamp);
            }
        }
        if files.first().is_none_or(|file| file.name == VARIABLES) {
            let fact = "a layer was to be sealed that has no disk";
            return Err(Error::new(Kind::Failed, fact).at(draft.folder.display()));
        }
        let record = LayerRecord {
            format: FORMAT,
            key: key.clone(),
            parent: about.parent.cloned(),
            parent_disk: about.parent.and_then(|parent| self.disk_of(parent)),
            recipe: about.recipe.into(),
            made: about.made,
            files,
            links: about.links.to_vec(),
            notes: about.notes,
        };
        write_record(&draft.folder.join(STAMPS), &stamps)?;
        write_record(&draft.folder.join(RECORD), &record)?;
        self.place_layer(draft, record, cancel)
    }

    /// Gives the finished draft the name of its key.
    pub(super) fn place_layer(
        &self,
        mut draft: Draft,
        record: LayerRecord,
        cancel: &Cancel,
    ) -> Result<Layer> {
        io::sync_folder(&draft.folder)?;
        let folder = self.layer_folder(&record.key);
        let gate = self.gate_of_drafts()?;
        if gate.is_some() {
            unlock(&mut draft)?;
        }
        let cannot = |e| Error::io("create", &folder, e);
        match io::rename(&draft.folder, &folder) {
            Err(e) if is_taken(&e, &folder) => {
                if let Kept::Layer(theirs) = self.layer(&record.key, cancel)? {
                    return Ok(*theirs);
                }
                if folder.exists() {
                    let unread = Error::new(
                        Kind::Unproved,
                        "a layer of the cache has no record that can be read",
                    );
                    let unread = unread.at(folder.display());
                    self.set_layer_aside(&folder, &record.key, unread)?;
                }
                io::rename(&draft.folder, &folder).map_err(cannot)?;
            }
            other => other.map_err(cannot)?,
        }
        draft.folder = PathBuf::new();
        io::sync_folder(&self.layers_folder())?;
        // The lock goes last: without one it would be a leftover that another process removes.
        if draft.lock.is_some() {
            let lock = io::lock_of(&folder);
            fs::remove_file(&lock).map_err(|e| Error::io("remove", &lock, e))?;
        }
        Ok(Layer { folder, record })
    }

    /// Removes what killed builds left of layers, and says so.
    pub fn sweep_drafts(&self, sink: &dyn Sink) -> Result<()> {
        let _gate = match cfg!(windows) {
            // Another process makes or seals a layer just now, or looks what may go: the next build sweeps.
            true => match Gate::at_once(&self.folder) {
                Some(gate) => Some(gate),
                None => return Ok(()),
            },
            false => None,
        };
        WorkFolder::Draft.remove_left(&self.layers_folder(), sink)
    }

    /// Where all layers are, and nothing else.
    pub fn layers_folder(&self) -> PathBuf {
        self.folder.join("layers")
    }

    fn disk_of(&self, key: &Digest) -> Option<Digest> {
        let record = read_record::<LayerRecord>(&self.layer_folder(key).join(RECORD))?;
        record.disk().cloned()
    }

    pub(super) fn layer_folder(&self, key: &Digest) -> PathBuf {
        self.layers_folder().join(key.hex())
    }

    fn set_layer_aside(&self, folder: &Path, key: &Digest, damage: Error) -> Result<Error> {
        let aside = self
            .folder
            .join("quarantine")
            .join(format!("layer-{}", key.hex()));
        let _ = fs::remove_dir_all(&aside);
        match io::rename(folder, &aside) {
            // Another process did it.
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            other => other.map_err(|e| Error::io("set aside", folder, e))?,
        }
        Ok(damage.lines([format!("set aside: {}", aside.display())]))
    }
}

/// A folder with an open file in it keeps its name on Windows.
fn unlock(draft: &mut Draft) -> Result<()> {
    let lock = io::lock_of(&draft.folder);
    fs::remove_file(&lock).map_err(|e| Error::io("remove", &lock, e))?;
    draft.lock = None;
    Ok(())
}

/// The parent went bad, was set aside and was made again, with other bytes.
fn over_another(folder: &Path, record: &LayerRecord, beneath: &LayerRecord) -> Error {
    let named = |disk: Option<&Digest>| disk.map_or_else(|| "none".into(), Digest::to_string);
    let fact = "a layer of the cache was made over another disk than the one that lies below it";
    Error::new(Kind::Unproved, fact)
        .at(folder.display())
        .expected(named(record.parent_disk.as_ref()))
        .found(named(beneath.disk()))
}

/// What is wrong with a layer's files; hashes only those whose stamps changed.
pub(super) fn check_files(
    folder: &Path,
    record: &LayerRecord,
    cancel: &Cancel,
) -> Result<Option<Error>> {
    let stamps: Vec<Stamp> = read_record(&folder.join(STAMPS)).unwrap_or_default();
    let mut now = Vec::new();
    for (number, file) in record.files.iter().enumerate() {
        let path = folder.join(&file.name);
        let damaged = |found: String| {
            Error::new(Kind::Unproved, "a layer of the cache is damaged")
                .at(path.display())
                .expected(format!("{} bytes, {}", file.size, file.sha256))
                .found(found)
        };
        let metadata = match fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(e) => return Ok(Some(damaged(e.to_string()))),
        };
        let stamp = Stamp::of(&metadata);
        if stamps.get(number) == Some(&stamp) {
            now.push(stamp);
            continue;
        }
        if metadata.len() != file.size {
            return Ok(Some(damaged(format!("{} bytes", metadata.len()))));
        }
        let (found, stamp) = hashed(&path, &file.name, cancel)?;
        if found.sha256 != file.sha256 {
            return Ok(Some(damaged(found.sha256.to_string())));
        }
        now.push(stamp);
    }
    if now != stamps {
        write_record(&folder.join(STAMPS), &now)?;
    }
    Ok(None)
}

/// A folder with something in it has the name. Windows says only that it may not be replaced.
fn is_taken(error: &std::io::Error, folder: &Path) -> bool {
    error.kind() == ErrorKind::DirectoryNotEmpty || (cfg!(windows) && folder.exists())
}

fn hashed(path: &Path, name: &str, cancel: &Cancel) -> Result<(LayerFile, Stamp)> {
    cancel.check()?;
    let unreadable = |e| Error::io("read", path, e);
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    let (sha256, size) = Digest::of_reader(Algorithm::Sha256, file).map_err(unreadable)?;
    let file = LayerFile {
        name: name.into(),
        sha256,
        size,
    };
    Ok((file, Stamp::of(&metadata)))
}
