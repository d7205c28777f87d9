//! Reading a bundle: every member is checked against the index, and every input goes through the store's own door.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use tar::{Archive, Entry, EntryType};

use super::index::{Index, Member};
use super::{Admitted, FILES, INDEX, LOCK};
use crate::store::{Expected, Resumable, Store, Watch, copy_hashed};
use winimg_base::digest::{Algorithm, Digest};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_recipe::lock::LockFile;
use winimg_recipe::recipe::Options;

/// Bytes of the index at most.
const INDEX_LIMIT: u64 = 8 << 20;

/// Whether a file is a bundle: a tar file that begins with an index. Anything else is read as a recipe.
pub fn is_bundle(path: &Path) -> Result<bool> {
    let mut head = Vec::new();
    let file = match io::open_regular(path) {
        Ok(file) => file,
        // Reading it as a recipe reports this.
        Err(_) => return Ok(false),
    };
    let read = file.take(512).read_to_end(&mut head);
    if read.is_err() || head.get(257..262) != Some(b"ustar") {
        return Ok(false);
    }
    let name = head.split(|b| *b == 0).next().unwrap_or_default();
    match name == INDEX.as_bytes() {
        true => Ok(true),
        false => Err(Error::new(
            Kind::Recipe,
            "this is a tar file, but no bundle of winimg's",
        )
        .at(path.display())
        .expected(format!("{INDEX} as its first member"))
        .found(String::from_utf8_lossy(name))),
    }
}

/// Puts a bundle's inputs into the store, each under the digest that it has, and its recipe beside them.
pub fn admit(path: &Path, store: &Store, watch: &Watch) -> Result<Admitted> {
    let reading = Reading {
        path,
        store,
        watch,
        file: File::open(path).map_err(|e| Error::io("read", path, e))?,
    };
    reading.admit().map_err(|e| e.at(path.display()))
}

struct Reading<'a> {
    path: &'a Path,
    store: &'a Store,
    watch: &'a Watch,
    file: File,
}

/// A refusal of the whole.
fn refused(fact: impl Into<String>) -> Error {
    Error::new(Kind::Unproved, fact).cure("make it again with `winimg bundle`, or ask its author")
}

impl Reading<'_> {
    fn admit(&self) -> Result<Admitted> {
        let broken = |e| refused(format!("the bundle cannot be read: {e}"));
        super::survey::check(&self.file).map_err(refused)?;
        let mut archive = Archive::new(&self.file);
        let mut entries = archive.entries_with_seek().map_err(broken)?;
        let first = entries.next().transpose().map_err(broken)?;
        let (index, digest) = self.index(first)?;
        let (place, _held) = self.store.bundle_place(&digest, &self.watch.cancel)?;
        let beside = tempfile::Builder::new()
            .prefix(".")
            .tempdir_in(io::folder_of(&place))
            .map_err(|e| Error::io("write in", io::folder_of(&place), e))?;
        let mut seen = BTreeSet::new();
        let mut done = 0;
        let total = index.blobs.iter().map(|b| b.size).sum();
        for entry in entries {
            self.watch.cancel.check()?;
            let mut entry = entry.map_err(broken)?;
            let (name, member) = expected(&index, &entry)?;
            if !seen.insert(name.clone()) {
                return Err(refused(format!("the bundle has {name} twice")));
            }
            match member.path {
                Some(path) => self.file(&mut entry, path, member.digest, beside.path())?,
                None => {
                    self.blob(&mut entry, &name, member.digest)?;
                    done += member.size;
                    self.watch.bytes(done, Some(total))?;
                }
            }
        }
        let lacking = index.members().find(|(name, _)| !seen.contains(name));
        if let Some((name, _)) = lacking {
            return Err(refused(format!("the bundle lacks {name}: it was cut off")));
        }
        for folder in &index.folders {
            io::create_folders(&beside.path().join(folder))?;
        }
        locked_inputs(&beside.path().join(LOCK), &index)?;
        lay_down(beside, &place, &index)?;
        Ok(admitted(&place, index))
    }

    fn index(&self, first: Option<Entry<'_, &File>>) -> Result<(Index, Digest)> {
        let Some(mut entry) = first.filter(|e| plain_name(e).as_deref() == Ok(INDEX)) else {
            return Err(refused(format!("the bundle does not begin with {INDEX}")));
        };
        if entry.size() > INDEX_LIMIT {
            let fact = format!("{INDEX} is longer than {INDEX_LIMIT} bytes");
            return Err(refused(fact));
        }
        let mut text = String::new();
        entry
            .read_to_string(&mut text)
            .map_err(|e| refused(format!("{INDEX} cannot be read: {e}")))?;
        let digest = Digest::sha256_of(text.as_bytes());
        let index = Index::parse(&text)
            .map_err(|why| refused("the bundle's index cannot be trusted").lines(why))?;
        Ok((index, digest))
    }

    /// One of the recipe's files. The path was checked with the index.
    fn file(
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
        match found == *digest {
            true => Ok(()),
            false => Err(refused(format!(
                "{FILES}{path} of the bundle is not the file that its index names"
            ))
            .expected(digest)
            .found(found)),
        }
    }

    /// An input; one that the store has already need not be read.
    fn blob(&self, entry: &mut Entry<'_, &File>, name: &str, digest: &Digest) -> Result<()> {
        let expected = || Expected::Digest(digest.clone());
        let watch = self.watch.named(name);
        if self.store.find(expected(), &watch)?.is_some() {
            return Ok(());
        }
        let partial = self.store.partial(&digest.to_string(), &watch)?;
        let mut file = partial.begin(&Resumable::default())?;
        let found = self.copy(entry, &mut file)?;
        file.sync_all().map_err(|e| {
            Error::new(Kind::Failed, format!("{name} cannot be written")).because(e)
        })?;
        drop(file);
        // Compared before admission, which would keep the wrong bytes in quarantine.
        if found != *digest {
            partial.discard()?;
            return Err(refused(format!("{name} of the bundle is another file"))
                .expected(digest)
                .found(found));
        }
        let admitted = self.store.admit(partial.candidate(), expected(), &watch);
        partial.discard()?;
        admitted.map(|_| ())
    }

    fn copy(&self, from: &mut impl Read, to: &mut File) -> Result<Digest> {
        let unread = |e| refused(format!("the bundle cannot be read: {e}"));
        let unwritten = |e| Error::io("write what is in", self.path, e);
        copy_hashed(from, to, &self.watch.cancel, unread, unwritten).map(|(digest, _)| digest)
    }
}

/// The member's name and what the index says of it; whatever else it is, is refused.
fn expected<'i>(index: &'i Index, entry: &Entry<'_, &File>) -> Result<(String, Member<'i>)> {
    let name = plain_name(entry).map_err(refused)?;
    let found = index.members().find(|(known, _)| *known == name);
    let Some((_, member)) = found else {
        let fact = format!("the bundle has {name:?}, which its index does not name");
        return Err(refused(fact));
    };
    if entry.size() != member.size {
        let fact = format!("{name} of the bundle has another size than its index says");
        return Err(refused(fact)
            .expected(format!("{} bytes", member.size))
            .found(format!("{} bytes", entry.size())));
    }
    Ok((name, member))
}

/// The name of a plain file.
fn plain_name(entry: &Entry<'_, &File>) -> Result<String, String> {
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
        _ => "of a kind that a bundle does not have",
    };
    Err(format!("{name:?} of the bundle is {kind}"))
}

/// Every file that the lock names has to be there.
fn locked_inputs(lock: &Path, index: &Index) -> Result<()> {
    let file = LockFile::read(lock).map_err(|found| {
        refused("the bundle's lock cannot be trusted").lines(found.render(false).lines())
    })?;
    for entry in &file.lock.inputs {
        let evidence = entry.evidence.iter().map(|e| &e.digest);
        let mut needed = std::iter::once(&entry.digest).chain(evidence);
        let lacking = needed.find(|d| !index.blobs.iter().any(|b| b.digest == **d));
        if let Some(digest) = lacking {
            let fact = format!("the bundle has no file for {}", entry.id);
            return Err(refused(fact).expected(digest));
        }
    }
    Ok(())
}

/// Moves the recipe's files into their place, unless they stand there as they should.
fn lay_down(beside: tempfile::TempDir, place: &Path, index: &Index) -> Result<()> {
    let same = |file: &super::index::File| {
        let opened = File::open(place.join(&file.path)).ok()?;
        let (digest, _) = Digest::of_reader(Algorithm::Sha256, opened).ok()?;
        Some(digest == file.digest)
    };
    let there = io::files_below(place).unwrap_or_default();
    let known = there.len() == index.files.len();
    if known && index.files.iter().all(|file| same(file) == Some(true)) {
        return Ok(());
    }
    io::remove_folder_if_there(place)?;
    let made = beside.keep();
    io::move_into_place(&made, place)
}

fn admitted(place: &Path, index: Index) -> Admitted {
    let paths =
        |names: &[String]| -> Vec<PathBuf> { names.iter().map(|name| place.join(name)).collect() };
    let pairs = |variables: &[super::index::Variable], prefix: &str| {
        let pair = |v: &super::index::Variable| (format!("{prefix}{}", v.name), v.value.clone());
        variables.iter().map(pair).collect()
    };
    let moved = index.moved.iter();
    let moved = moved.map(|m| (PathBuf::from(&m.from), place.join(&m.to)));
    Admitted {
        recipe: place.join(&index.recipe),
        lock: place.join(LOCK),
        options: Options {
            search: paths(&index.search),
            vars: pairs(&index.vars, ""),
            image_builder_vars: paths(&index.image_builder_vars),
            var_files: paths(&index.var_files),
            env: pairs(&index.environment, "WINIMG_VAR_"),
            set: index.set.clone(),
            moved: moved.collect(),
            within: Some(place.to_path_buf()),
            ..Options::default()
        },
    }
}
