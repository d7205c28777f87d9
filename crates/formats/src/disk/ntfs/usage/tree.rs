//! The records of the `$MFT` put together: files from their records, folders from their names.

use std::collections::{HashMap, VecDeque};

use super::record::{EXTEND, FIRST_OF_USERS, ROOT, Record, Reference};
use super::{Folder, OwnFiles, damaged};
use winimg_base::error::{Error, Result};

/// A Windows Server has 30,000 to 60,000.
const MOST_FOLDERS: usize = 1 << 20;

#[derive(Default)]
pub(super) struct Gathered {
    folders: HashMap<u64, Record>,
    /// NTFS's own files.
    own: Vec<Record>,
    /// Files with one name, by their folder's number.
    files: HashMap<u64, Files>,
    /// Files with several names.
    linked: Vec<Record>,
    /// Files of several records, as far as they were read.
    pieces: HashMap<u64, Record>,
}

struct Files {
    parent: Reference,
    bytes: u64,
    count: u64,
    /// The record of the first.
    place: u64,
}

/// Where a folder stands in the order of depth and names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Standing {
    /// Below `\Windows\WinSxS`.
    is_component: bool,
    index: usize,
}

/// The folders that the root leads to, by their numbers.
struct Tree {
    rows: Vec<Folder>,
    standing: HashMap<u64, (Standing, u16)>,
}

impl Gathered {
    /// Takes a record whose clusters are claimed.
    pub fn add(&mut self, mut record: Record) -> Result<()> {
        record.attributes = Vec::new();
        let Some(number) = record.base.map(|base| base.number) else {
            return match record.is_continued {
                true => self.join(record.number, record),
                false => self.settle(record),
            };
        };
        self.join(number, record)
    }

    /// Adds one record of several to its file.
    fn join(&mut self, number: u64, record: Record) -> Result<()> {
        let Some(known) = self.pieces.remove(&number) else {
            self.pieces.insert(number, record);
            return Ok(());
        };
        let fits = match (known.base, record.base) {
            (None, Some(base)) => base.fits(known.sequence),
            (Some(base), None) => base.fits(record.sequence),
            (one, other) => one == other,
        };
        if !fits {
            return Err(astray(&record));
        }
        let (mut first, other) = match record.base {
            None => (record, known),
            Some(_) => (known, record),
        };
        first.bytes += other.bytes;
        first.parents.extend(other.parents);
        if first.name.is_empty() {
            first.name = other.name;
        }
        self.pieces.insert(number, first);
        Ok(())
    }

    /// Files a whole file where it belongs.
    fn settle(&mut self, record: Record) -> Result<()> {
        if record.number < FIRST_OF_USERS && record.number != ROOT && record.number != EXTEND {
            self.own.push(record);
            return Ok(());
        }
        if record.is_folder {
            if self.folders.len() == MOST_FOLDERS {
                let fact = "the NTFS volume has too many folders to be counted";
                return Err(Error::failed(fact).expected(format!("at most {MOST_FOLDERS}")));
            }
            self.folders.insert(record.number, record);
            return Ok(());
        }
        match *record.parents.as_slice() {
            [] => Err(nowhere(&record)),
            [parent] => {
                let files = self.files.entry(parent.number).or_insert(Files {
                    parent,
                    bytes: 0,
                    count: 0,
                    place: record.place,
                });
                if files.parent != parent {
                    return Err(nowhere(&record));
                }
                files.bytes += record.bytes;
                files.count += 1;
                Ok(())
            }
            _ => {
                self.linked.push(record);
                Ok(())
            }
        }
    }
}

impl Gathered {
    /// All folders, the root first, and NTFS's own files.
    pub fn folders(mut self) -> Result<(Vec<Folder>, OwnFiles)> {
        for (_, record) in std::mem::take(&mut self.pieces) {
            match record.base {
                None => self.settle(record)?,
                Some(_) => return Err(astray(&record)),
            }
        }
        let mut tree = Tree::of(&mut self.folders)?;
        for (number, files) in self.files {
            let (folder, sequence) = tree.standing.get(&number).ok_or_else(|| lost(&files))?;
            if !files.parent.fits(*sequence) {
                return Err(lost(&files));
            }
            let row = &mut tree.rows[folder.index];
            row.bytes += files.bytes;
            row.files += files.count;
        }
        for file in self.linked {
            let mut first = None;
            for parent in &file.parents {
                let known = tree.standing.get(&parent.number);
                let known = known.filter(|(_, sequence)| parent.fits(*sequence));
                let (standing, _) = known.ok_or_else(|| nowhere(&file))?;
                first = first.into_iter().chain([*standing]).min();
            }
            let row = &mut tree.rows[first.map_or(0, |first| first.index)];
            row.bytes += file.bytes;
            row.files += 1;
        }
        let mut rows = tree.rows;
        for index in (1..rows.len()).rev() {
            let (bytes, files, parent) = (rows[index].bytes, rows[index].files, rows[index].parent);
            rows[parent].bytes += bytes;
            rows[parent].files += files;
        }
        let extend = tree.standing.get(&EXTEND);
        let extend = extend.map(|(extend, _)| take_extend(&mut rows, extend.index));
        let own = self.own.into_iter().map(|own| (own.name, own.bytes));
        let mut own: Vec<_> = own.chain(extend).filter(|(_, bytes)| *bytes > 0).collect();
        own.sort_by_key(|(name, bytes)| (std::cmp::Reverse(*bytes), name.clone()));
        Ok((rows, own))
    }
}

impl Tree {
    fn of(folders: &mut HashMap<u64, Record>) -> Result<Self> {
        let mut below: HashMap<u64, Vec<(String, u64)>> = HashMap::new();
        for folder in folders.values_mut().filter(|folder| folder.number != ROOT) {
            let [parent] = *folder.parents.as_slice() else {
                return Err(nowhere(folder));
            };
            let name = std::mem::take(&mut folder.name);
            below
                .entry(parent.number)
                .or_default()
                .push((name, folder.number));
        }
        let root = folders
            .get(&ROOT)
            .ok_or_else(|| damaged(0, "it has no root folder"))?;
        let mut tree = Self {
            rows: Vec::with_capacity(folders.len()),
            standing: HashMap::with_capacity(folders.len()),
        };
        tree.add(root, String::new(), 0, false);
        let mut todo = VecDeque::from([root]);
        while let Some(parent) = todo.pop_front() {
            let mut names = below.remove(&parent.number).unwrap_or_default();
            names.sort();
            let (above, _) = tree.standing[&parent.number];
            for (name, number) in names {
                let folder = &folders[&number];
                if !folder.parents.iter().all(|p| p.fits(parent.sequence)) {
                    return Err(nowhere(folder));
                }
                let is_component = above.is_component || tree.is_winsxs(&name, above.index);
                tree.add(folder, name, above.index, is_component);
                todo.push_back(folder);
            }
        }
        let missed = folders
            .values()
            .filter(|f| !tree.standing.contains_key(&f.number));
        match missed.min_by_key(|folder| folder.number) {
            None => Ok(tree),
            Some(folder) => Err(nowhere(folder)),
        }
    }

    fn add(&mut self, record: &Record, name: String, parent: usize, is_component: bool) {
        let index = self.rows.len();
        let standing = Standing {
            is_component,
            index,
        };
        self.standing
            .insert(record.number, (standing, record.sequence));
        self.rows.push(Folder {
            name,
            parent,
            bytes: record.bytes,
            files: 0,
        });
    }

    fn is_winsxs(&self, name: &str, parent: usize) -> bool {
        let above = &self.rows[parent];
        let is = |name: &str, expected| name.eq_ignore_ascii_case(expected);
        is(name, "WinSxS") && is(&above.name, "Windows") && above.parent == 0 && parent != 0
    }
}

/// Takes `$Extend` and all below it from the folders.
fn take_extend(rows: &mut Vec<Folder>, extend: usize) -> (String, u64) {
    let taken = rows[extend].clone();
    let mut above = taken.parent;
    loop {
        rows[above].bytes -= taken.bytes;
        rows[above].files -= taken.files;
        if above == 0 {
            break;
        }
        above = rows[above].parent;
    }
    let mut places: Vec<Option<usize>> = Vec::with_capacity(rows.len());
    let mut next = 0;
    for (index, row) in rows.iter().enumerate() {
        let is_kept = index != extend && (index == 0 || places[row.parent].is_some());
        places.push(is_kept.then_some(next));
        next += usize::from(is_kept);
    }
    let mut kept = places.iter();
    rows.retain(|_| kept.next().is_some_and(Option::is_some));
    for row in rows {
        row.parent = places[row.parent].unwrap_or_default();
    }
    (taken.name, taken.bytes)
}

/// Files that name a folder which is none.
fn lost(files: &Files) -> Error {
    let what = format!(
        "a file lies in record {} of the $MFT, which is no folder",
        files.parent.number
    );
    damaged(files.place, what)
}

fn nowhere(record: &Record) -> Error {
    let what = format!("record {} of the $MFT lies in no folder", record.number);
    damaged(record.place, what)
}

fn astray(record: &Record) -> Error {
    let what = format!("record {} of the $MFT belongs to no file", record.number);
    damaged(record.place, what)
}
