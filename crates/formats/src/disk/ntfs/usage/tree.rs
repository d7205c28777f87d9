//! Combines the records of the `$MFT`: files from their records, folders from their names.

use std::collections::{HashMap, VecDeque};

use super::record::{EXTEND, FIRST_OF_USERS, MftRecord, MftReference, ROOT};
use super::{FolderUsage, MetadataFiles, report_damage};
use winimg_base::error::{Error, Result};

/// Maximum number of folders; a Windows Server has 30,000 to 60,000.
const MAX_FOLDERS: usize = 1 << 20;

#[derive(Default)]
pub(super) struct UsageCollector {
    folders: HashMap<u64, MftRecord>,
    /// NTFS's own files.
    own: Vec<MftRecord>,
    /// Files with one name, by their folder's number.
    files: HashMap<u64, FolderFiles>,
    /// Files with several names.
    linked: Vec<MftRecord>,
    /// Files of several records, with the records read so far.
    pieces: HashMap<u64, MftRecord>,
}

struct FolderFiles {
    parent: MftReference,
    bytes: u64,
    count: u64,
    /// Place of the first file's record.
    place: u64,
}

/// Rank of a folder in the order of depth and names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FolderRank {
    /// Below `\Windows\WinSxS`.
    is_component: bool,
    index: usize,
}

/// The folders reachable from the root, by their numbers.
struct FolderTree {
    rows: Vec<FolderUsage>,
    standing: HashMap<u64, (FolderRank, u16)>,
}

impl UsageCollector {
    /// Adds a record with claimed clusters.
    pub fn add(&mut self, mut record: MftRecord) -> Result<()> {
        record.attributes = Vec::new();
        let Some(number) = record.base.map(|base| base.number) else {
            return if record.is_continued {
                self.join(record.number, record)
            } else {
                self.add_file(record)
            };
        };
        self.join(number, record)
    }

    /// Adds one record of several to its file.
    fn join(&mut self, number: u64, record: MftRecord) -> Result<()> {
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
            return Err(report_stray_record(&record));
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

    /// Adds a complete file to its group.
    fn add_file(&mut self, record: MftRecord) -> Result<()> {
        if record.number < FIRST_OF_USERS && record.number != ROOT && record.number != EXTEND {
            self.own.push(record);
            return Ok(());
        }
        if record.is_folder {
            if self.folders.len() == MAX_FOLDERS {
                let fact = "the NTFS volume has too many folders to count";
                return Err(Error::failed(fact).expected(format!("at most {MAX_FOLDERS}")));
            }
            self.folders.insert(record.number, record);
            return Ok(());
        }
        match *record.parents.as_slice() {
            [] => Err(report_no_folder(&record)),
            [parent] => {
                let files = self.files.entry(parent.number).or_insert(FolderFiles {
                    parent,
                    bytes: 0,
                    count: 0,
                    place: record.place,
                });
                if files.parent != parent {
                    return Err(report_no_folder(&record));
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

impl UsageCollector {
    /// Returns all folders, the root first, and NTFS's own files.
    pub fn into_folders(mut self) -> Result<(Vec<FolderUsage>, MetadataFiles)> {
        for (_, record) in std::mem::take(&mut self.pieces) {
            match record.base {
                None => self.add_file(record)?,
                Some(_) => return Err(report_stray_record(&record)),
            }
        }
        let mut tree = FolderTree::build(&mut self.folders)?;
        for (number, files) in self.files {
            let (folder, sequence) = tree
                .standing
                .get(&number)
                .ok_or_else(|| report_lost_files(&files))?;
            if !files.parent.fits(*sequence) {
                return Err(report_lost_files(&files));
            }
            let row = &mut tree.rows[folder.index];
            row.bytes += files.bytes;
            row.files += files.count;
        }
        for file in self.linked {
            let mut first = None;
            for parent in &file.parents {
                let (standing, _) = tree
                    .standing
                    .get(&parent.number)
                    .filter(|(_, sequence)| parent.fits(*sequence))
                    .ok_or_else(|| report_no_folder(&file))?;
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
        let extend = tree
            .standing
            .get(&EXTEND)
            .map(|(extend, _)| take_extend(&mut rows, extend.index));
        let mut own: Vec<_> = self
            .own
            .into_iter()
            .map(|own| (own.name, own.bytes))
            .chain(extend)
            .filter(|(_, bytes)| *bytes > 0)
            .collect();
        own.sort_by_key(|(name, bytes)| (std::cmp::Reverse(*bytes), name.clone()));
        Ok((rows, own))
    }
}

impl FolderTree {
    fn build(folders: &mut HashMap<u64, MftRecord>) -> Result<Self> {
        let mut below: HashMap<u64, Vec<(String, u64)>> = HashMap::new();
        for folder in folders.values_mut().filter(|folder| folder.number != ROOT) {
            let [parent] = *folder.parents.as_slice() else {
                return Err(report_no_folder(folder));
            };
            let name = std::mem::take(&mut folder.name);
            below
                .entry(parent.number)
                .or_default()
                .push((name, folder.number));
        }
        let root = folders
            .get(&ROOT)
            .ok_or_else(|| report_damage(0, "it has no root folder"))?;
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
                    return Err(report_no_folder(folder));
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
            Some(folder) => Err(report_no_folder(folder)),
        }
    }

    fn add(&mut self, record: &MftRecord, name: String, parent: usize, is_component: bool) {
        let index = self.rows.len();
        let standing = FolderRank {
            is_component,
            index,
        };
        self.standing
            .insert(record.number, (standing, record.sequence));
        self.rows.push(FolderUsage {
            name,
            parent,
            bytes: record.bytes,
            files: 0,
        });
    }

    fn is_winsxs(&self, name: &str, parent: usize) -> bool {
        let above = &self.rows[parent];
        name.eq_ignore_ascii_case("WinSxS")
            && above.name.eq_ignore_ascii_case("Windows")
            && above.parent == 0
            && parent != 0
    }
}

/// Removes `$Extend` and all below it from the folders.
fn take_extend(rows: &mut Vec<FolderUsage>, extend: usize) -> (String, u64) {
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

/// Reports files whose parent is not a folder.
fn report_lost_files(files: &FolderFiles) -> Error {
    let what = format!(
        "a file is in record {} of the $MFT, which is not a folder",
        files.parent.number
    );
    report_damage(files.place, what)
}

fn report_no_folder(record: &MftRecord) -> Error {
    let what = format!("record {} of the $MFT is in no folder", record.number);
    report_damage(record.place, what)
}

fn report_stray_record(record: &MftRecord) -> Error {
    let what = format!("record {} of the $MFT belongs to no file", record.number);
    report_damage(record.place, what)
}
