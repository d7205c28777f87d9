//! Reads a bundle: checks each member against the index and admits each input to the store.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use tar::{Archive, Entry, EntryType};

use super::index::{BundleIndex, BundleMember};
use super::{AdmittedBundle, FILES, INDEX, LOCK};
use crate::store::{ExpectedBytes, ProgressWatch, ResumeRecord, Store, copy_hashed};
use winimg_base::digest::{Algorithm, Digest};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_recipe::ReadOptions;
use winimg_recipe::lock::LockFile;

/// Maximum bytes of the index.
const INDEX_LIMIT: u64 = 8 << 20;

/// Returns true if a file is a bundle, a tar file that begins with an index. Fails for other tar
/// files; anything else is read as a recipe.
pub fn is_bundle(path: &Path) -> Result<bool> {
    let mut head = Vec::new();
    let file = match io::open_regular(path) {
        Ok(file) => file,
        // Reported when it is read as a recipe.
        Err(_) => return Ok(false),
    };
    let read = file.take(512).read_to_end(&mut head);
    if read.is_err() || head.get(257..262) != Some(b"ustar") {
        return Ok(false);
    }
    let name = head.split(|b| *b == 0).next().unwrap_or_default();
    if name == INDEX.as_bytes() {
        Ok(true)
    } else {
        Err(
            Error::new(Kind::Recipe, "this tar file is not a winimg bundle")
                .at(path.display())
                .expected(format!("{INDEX} as its first member"))
                .found(String::from_utf8_lossy(name)),
        )
    }
}

/// Admits a bundle's inputs and its recipe to the store.
pub fn admit(path: &Path, store: &Store, watch: &ProgressWatch) -> Result<AdmittedBundle> {
    let reader = BundleReader {
        path,
        store,
        watch,
        file: File::open(path).map_err(|e| Error::io("read", path, e))?,
    };
    reader.admit().map_err(|e| e.at(path.display()))
}

struct BundleReader<'a> {
    path: &'a Path,
    store: &'a Store,
    watch: &'a ProgressWatch,
    file: File,
}

/// Builds the error for a bundle that is rejected.
fn report_rejected(fact: impl Into<String>) -> Error {
    Error::new(Kind::Unproved, fact).cure("recreate it with `winimg bundle`, or ask its author")
}

fn report_unreadable(error: std::io::Error) -> Error {
    report_rejected(format!("the bundle cannot be read: {error}"))
}

impl BundleReader<'_> {
    fn admit(&self) -> Result<AdmittedBundle> {
        super::tar_check::check(&self.file).map_err(report_rejected)?;
        let mut archive = Archive::new(&self.file);
        let mut entries = archive.entries_with_seek().map_err(report_unreadable)?;
        let first = entries.next().transpose().map_err(report_unreadable)?;
        let (index, digest) = self.read_index(first)?;
        let (place, _lock) = self.store.bundle_folder(&digest, &self.watch.cancel)?;
        let temporary = tempfile::Builder::new()
            .prefix(".")
            .tempdir_in(io::folder_of(&place))
            .map_err(|e| Error::io("write in", io::folder_of(&place), e))?;
        let mut seen = BTreeSet::new();
        let mut done = 0;
        let total = index.blobs.iter().map(|b| b.size).sum();
        for entry in entries {
            self.watch.cancel.check()?;
            let mut entry = entry.map_err(report_unreadable)?;
            let (name, member) = match_member(&index, &entry)?;
            if !seen.insert(name.clone()) {
                return Err(report_rejected(format!("the bundle has {name} twice")));
            }
            match member.path {
                Some(path) => self.read_file(&mut entry, path, member.digest, temporary.path())?,
                None => {
                    self.read_blob(&mut entry, &name, member.digest)?;
                    done += member.size;
                    self.watch.report_bytes(done, Some(total))?;
                }
            }
        }
        let missing = index.iter_members().find(|(name, _)| !seen.contains(name));
        if let Some((name, _)) = missing {
            return Err(report_rejected(format!(
                "the bundle has no {name}: it is truncated"
            )));
        }
        for folder in &index.folders {
            io::create_folders(&temporary.path().join(folder))?;
        }
        check_locked_inputs(&temporary.path().join(LOCK), &index)?;
        install_files(temporary, &place, &index)?;
        Ok(build_admitted(&place, index))
    }

    fn read_index(&self, first: Option<Entry<'_, &File>>) -> Result<(BundleIndex, Digest)> {
        let Some(mut entry) = first.filter(|e| read_plain_name(e).as_deref() == Ok(INDEX)) else {
            return Err(report_rejected(format!(
                "the bundle does not begin with {INDEX}"
            )));
        };
        if entry.size() > INDEX_LIMIT {
            let fact = format!("{INDEX} is longer than {INDEX_LIMIT} bytes");
            return Err(report_rejected(fact));
        }
        let mut text = String::new();
        entry
            .read_to_string(&mut text)
            .map_err(|e| report_rejected(format!("{INDEX} cannot be read: {e}")))?;
        let digest = Digest::sha256_of(text.as_bytes());
        let index = BundleIndex::parse(&text)
            .map_err(|why| report_rejected("the bundle's index cannot be trusted").lines(why))?;
        Ok((index, digest))
    }

    /// Reads a file of the recipe. Its path was checked with the index.
    fn read_file(
        &self,
        entry: &mut Entry<'_, &File>,
        path: &str,
        digest: &Digest,
        folder: &Path,
    ) -> Result<()> {
        let to = folder.join(path);
        io::create_folders(io::folder_of(&to))?;
        let mut file = File::create_new(&to).map_err(|e| Error::io("write", &to, e))?;
        let found = self.copy(entry, &mut file)?;
        file.sync_all().map_err(|e| Error::io("write", &to, e))?;
        if found == *digest {
            Ok(())
        } else {
            Err(report_rejected(format!(
                "{FILES}{path} of the bundle does not match its index"
            ))
            .expected(digest)
            .found(found))
        }
    }

    /// Reads an input unless the store already has it.
    fn read_blob(&self, entry: &mut Entry<'_, &File>, name: &str, digest: &Digest) -> Result<()> {
        let expected = ExpectedBytes::Digest(digest.clone());
        let watch = self.watch.with_name(name);
        if self.store.find(expected.clone(), &watch)?.is_some() {
            return Ok(());
        }
        let partial = self.store.lock_partial(&digest.to_string(), &watch)?;
        let mut file = partial.begin(&ResumeRecord::default())?;
        let found = self.copy(entry, &mut file)?;
        file.sync_all().map_err(|e| {
            Error::new(Kind::Failed, format!("{name} cannot be written")).because(e)
        })?;
        drop(file);
        // Compared before admission, which would move the wrong bytes to quarantine.
        if found != *digest {
            partial.discard()?;
            return Err(
                report_rejected(format!("{name} of the bundle does not match its digest"))
                    .expected(digest)
                    .found(found),
            );
        }
        let admitted = self.store.admit(partial.to_candidate(), expected, &watch);
        partial.discard()?;
        admitted.map(|_| ())
    }

    fn copy(&self, from: &mut impl Read, to: &mut File) -> Result<Digest> {
        let (digest, _) = copy_hashed(from, to, &self.watch.cancel, report_unreadable, |e| {
            Error::io("unpack", self.path, e)
        })?;
        Ok(digest)
    }
}

/// Returns a member's name and its entry in the index. Refuses members that do not match the index.
fn match_member<'i>(
    index: &'i BundleIndex,
    entry: &Entry<'_, &File>,
) -> Result<(String, BundleMember<'i>)> {
    let name = read_plain_name(entry).map_err(report_rejected)?;
    let found = index.iter_members().find(|(known, _)| *known == name);
    let Some((_, member)) = found else {
        let fact = format!("the bundle has {name:?}, which is not in its index");
        return Err(report_rejected(fact));
    };
    if entry.size() != member.size {
        let fact = format!("{name} of the bundle has a different size in its index");
        return Err(report_rejected(fact)
            .expected(format!("{} bytes", member.size))
            .found(format!("{} bytes", entry.size())));
    }
    Ok((name, member))
}

/// Returns the name of a plain file. Refuses other types.
fn read_plain_name(entry: &Entry<'_, &File>) -> Result<String, String> {
    let name = String::from_utf8(entry.path_bytes().into_owned());
    let name = name.map_err(|_| "the bundle has a name that is not UTF-8".to_string())?;
    let kind = match entry.header().entry_type() {
        EntryType::Regular => return Ok(name),
        EntryType::Symlink => "a symbolic link",
        EntryType::Link => "a hard link",
        EntryType::Directory => "a folder",
        EntryType::Fifo => "a pipe",
        EntryType::Char | EntryType::Block => "a device",
        EntryType::GNUSparse => "a sparse file",
        _ => "of an unsupported type",
    };
    Err(format!("{name:?} of the bundle is {kind}"))
}

/// Checks that the bundle contains every file that the lock names.
fn check_locked_inputs(lock: &Path, index: &BundleIndex) -> Result<()> {
    let file = LockFile::read(lock).map_err(|found| {
        report_rejected("the bundle's lock cannot be trusted").lines(found.render(false).lines())
    })?;
    for entry in &file.lock.inputs {
        let evidence = entry.evidence.iter().map(|e| &e.digest);
        let mut needed = std::iter::once(&entry.digest).chain(evidence);
        let missing = needed.find(|d| !index.blobs.iter().any(|b| b.digest == **d));
        if let Some(digest) = missing {
            let fact = format!("the bundle has no file for {}", entry.id);
            return Err(report_rejected(fact).expected(digest));
        }
    }
    Ok(())
}

/// Moves the recipe's files into place, unless they are already there unchanged.
fn install_files(temporary: tempfile::TempDir, place: &Path, index: &BundleIndex) -> Result<()> {
    let existing = io::files_below(place).unwrap_or_default();
    let is_same_count = existing.len() == index.files.len();
    if is_same_count && index.files.iter().all(|file| is_in_place(file, place)) {
        return Ok(());
    }
    io::remove_folder_if_exists(place)?;
    io::move_into_place(&temporary.keep(), place)
}

fn is_in_place(file: &super::index::BundleFile, place: &Path) -> bool {
    File::open(place.join(&file.path))
        .and_then(|opened| Digest::of_reader(Algorithm::Sha256, opened))
        .is_ok_and(|(digest, _)| digest == file.digest)
}

fn build_admitted(place: &Path, index: BundleIndex) -> AdmittedBundle {
    AdmittedBundle {
        recipe: place.join(&index.recipe),
        lock: place.join(LOCK),
        options: ReadOptions {
            search: to_paths(&index.search, place),
            vars: to_pairs(&index.vars, ""),
            image_builder_vars: to_paths(&index.image_builder_vars, place),
            var_files: to_paths(&index.var_files, place),
            env: to_pairs(&index.environment, "WINIMG_VAR_"),
            set: index.set.clone(),
            moved: index
                .moved
                .iter()
                .map(|moved| (PathBuf::from(&moved.from), place.join(&moved.to)))
                .collect(),
            within: Some(place.to_path_buf()),
            ..ReadOptions::default()
        },
    }
}

fn to_paths(names: &[String], place: &Path) -> Vec<PathBuf> {
    names.iter().map(|name| place.join(name)).collect()
}

fn to_pairs(variables: &[super::index::BundleVariable], prefix: &str) -> Vec<(String, String)> {
    variables
        .iter()
        .map(|variable| {
            let name = format!("{prefix}{}", variable.name);
            (name, variable.value.clone())
        })
        .collect()
}
