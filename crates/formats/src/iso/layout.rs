//! Lays out a disc. Pure: uses names and sizes, not contents.
//!
//! ```text
//! 0-15 system area   16 primary descriptor   17 Joliet descriptor   18 terminator
//! path tables (primary LE, BE; Joliet LE, BE)   primary directories   Joliet directories   files
//! ```

use std::collections::{BTreeMap, HashMap};

use winimg_base::error::{Error, Result};

use super::names::{self, ShortNames};
use super::record::{self, DiscView, SECTOR, VolumeDescriptor};
use super::tree::DiscTree;

/// A folder of the tree. Children are sorted by their Joliet name.
struct DiscDir {
    parent: usize,
    /// Its own name in the parent; empty for the root.
    name: String,
    short: String,
    dirs: Vec<usize>,
    files: Vec<usize>,
}

impl DiscDir {
    fn new(parent: usize, name: &str) -> Self {
        Self {
            parent,
            name: name.to_string(),
            short: String::new(),
            dirs: Vec::new(),
            files: Vec::new(),
        }
    }
}

/// A file with its path in the tree and its position on the disc.
pub(super) struct PlacedFile {
    pub path: String,
    name: String,
    short: String,
    /// Bytes.
    pub size: u64,
    pub sector: u32,
}

/// Positions of the directories in one view.
struct PlacedView {
    view: DiscView,
    /// In the order of the path table: by depth, then by the parent's number, then by name
    /// (ECMA-119 6.9.1).
    order: Vec<usize>,
    /// Length in bytes of the path table, and sector of its little-endian form; the other follows.
    table: (u32, u32),
    /// First sector of each directory and its length in bytes.
    dirs: HashMap<usize, (u32, u32)>,
}

/// The layout of a whole disc.
pub(super) struct DiscLayout {
    label: String,
    stamp: i64,
    dirs: Vec<DiscDir>,
    pub files: Vec<PlacedFile>,
    /// Primary, then Joliet.
    views: Vec<PlacedView>,
    /// Sectors of the whole disc.
    pub sectors: u32,
}

/// Longest file that one directory record can describe.
const MAX_FILE_SIZE: u64 = u32::MAX as u64;
/// Sectors before the path tables.
const DESCRIPTORS: u32 = 19;

impl DiscLayout {
    /// Lays out `tree`; `sizes` are the bytes of its files, in its order.
    pub fn new(tree: &DiscTree, sizes: &[u64]) -> Result<Self> {
        check(tree, sizes)?;
        let mut layout = Self {
            label: tree.label.clone(),
            stamp: tree.stamp,
            dirs: vec![DiscDir::new(0, "")],
            files: Vec::new(),
            views: Vec::new(),
            sectors: 0,
        };
        let mut known = HashMap::from([(String::new(), 0)]);
        for (path, size) in tree.files.keys().zip(sizes) {
            let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
            let parent = layout.ensure_dir(parent, &mut known);
            layout.dirs[parent].files.push(layout.files.len());
            layout.files.push(PlacedFile {
                path: path.clone(),
                name: name.to_string(),
                short: String::new(),
                size: *size,
                sector: 0,
            });
        }
        // Path tables count directories in 16 bits.
        let count = layout.dirs.len();
        if count > usize::from(u16::MAX) {
            return Err(Error::failed(format!("a disc cannot have {count} folders")));
        }
        layout.make_short_names();
        layout.place_all()?;
        Ok(layout)
    }

    fn ensure_dir(&mut self, path: &str, known: &mut HashMap<String, usize>) -> usize {
        if let Some(index) = known.get(&path.to_lowercase()) {
            return *index;
        }
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = self.ensure_dir(parent, known);
        let index = self.dirs.len();
        self.dirs.push(DiscDir::new(parent, name));
        self.dirs[parent].dirs.push(index);
        known.insert(path.to_lowercase(), index);
        index
    }

    /// Gives every name its 8.3 form, files before folders.
    fn make_short_names(&mut self) {
        for at in 0..self.dirs.len() {
            let mut short = ShortNames::default();
            for file in self.dirs[at].files.clone() {
                self.files[file].short = short.make(&self.files[file].name, false);
            }
            for dir in self.dirs[at].dirs.clone() {
                self.dirs[dir].short = short.make(&self.dirs[dir].name, true);
            }
        }
    }

    fn place_all(&mut self) -> Result<()> {
        let mut next = DESCRIPTORS;
        for view in [DiscView::Primary, DiscView::Joliet] {
            let mut placed = PlacedView {
                view,
                order: self.breadth_first(view),
                table: (0, next),
                dirs: HashMap::new(),
            };
            let length = self.build_path_table(&placed, false).len();
            placed.table.0 = length as u32;
            next += 2 * count_sectors(length);
            self.views.push(placed);
        }
        for view in 0..self.views.len() {
            for at in self.views[view].order.clone() {
                let length = self.build_directory(&self.views[view], at).len();
                self.views[view].dirs.insert(at, (next, length as u32));
                next += count_sectors(length);
            }
        }
        let mut next = u64::from(next);
        for file in &mut self.files {
            // An empty file has no sectors; other programs also write 0.
            file.sector = match file.size {
                0 => 0,
                _ => u32::try_from(next).map_err(|_| too_large())?,
            };
            next += file.size.div_ceil(SECTOR as u64);
        }
        self.sectors = u32::try_from(next).map_err(|_| too_large())?;
        Ok(())
    }

    /// Builds all sectors before the files' contents: descriptors, path tables and directories.
    pub fn build_head(&self) -> Vec<u8> {
        let mut out = vec![0; 16 * SECTOR];
        for placed in &self.views {
            out.extend(self.describe_volume(placed).to_bytes());
        }
        out.extend(record::build_terminator());
        for placed in &self.views {
            for big_endian in [false, true] {
                out.extend(pad_to_sector(self.build_path_table(placed, big_endian)));
            }
        }
        for placed in &self.views {
            for at in &placed.order {
                out.extend(self.build_directory(placed, *at));
            }
        }
        out
    }

    fn describe_volume(&self, placed: &PlacedView) -> VolumeDescriptor<'_> {
        let (sector, size) = placed.dirs[&0];
        let (length, table) = placed.table;
        VolumeDescriptor {
            view: placed.view,
            label: &self.label,
            sectors: self.sectors,
            path_table_length: length,
            path_table_le: table,
            path_table_be: table + count_sectors(length as usize),
            root: record::directory_record(&[0], sector, size, true, self.stamp),
            stamp: self.stamp,
        }
    }

    fn breadth_first(&self, view: DiscView) -> Vec<usize> {
        let mut order = vec![0];
        let mut at = 0;
        while at < order.len() {
            let mut children = self.dirs[order[at]].dirs.clone();
            children.sort_by_cached_key(|d| self.dir_name(view, *d));
            order.extend(children);
            at += 1;
        }
        order
    }

    fn dir_name(&self, view: DiscView, dir: usize) -> Vec<u8> {
        match view {
            _ if dir == 0 => vec![0],
            DiscView::Primary => self.dirs[dir].short.clone().into_bytes(),
            DiscView::Joliet => record::encode_ucs2(&self.dirs[dir].name),
        }
    }

    fn file_name(&self, view: DiscView, file: usize) -> Vec<u8> {
        let file = &self.files[file];
        match view {
            DiscView::Primary => format!("{};1", file.short).into_bytes(),
            // Without a version number, as genisoimage and xorriso write it: Windows Setup reads
            // those discs.
            DiscView::Joliet => record::encode_ucs2(&file.name),
        }
    }

    fn build_path_table(&self, placed: &PlacedView, big_endian: bool) -> Vec<u8> {
        let order = &placed.order;
        let numbers: HashMap<usize, u16> = order
            .iter()
            .enumerate()
            .map(|(n, dir)| (*dir, u16::try_from(n + 1).unwrap_or(u16::MAX)))
            .collect();
        let mut table = Vec::new();
        for dir in order {
            let name = self.dir_name(placed.view, *dir);
            let sector = placed.dirs.get(dir).map_or(0, |p| p.0);
            let parent = numbers[&self.dirs[*dir].parent];
            table.extend(record::path_record(&name, sector, parent, big_endian));
        }
        table
    }

    /// Builds the sectors of one directory. Its length does not depend on the places of directories
    /// and files.
    fn build_directory(&self, placed: &PlacedView, at: usize) -> Vec<u8> {
        let view = placed.view;
        let mut children: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for dir in &self.dirs[at].dirs {
            let name = self.dir_name(view, *dir);
            let record = self.build_dir_record(placed, &name, *dir);
            children.push((name, record));
        }
        for file in &self.dirs[at].files {
            let name = self.file_name(view, *file);
            let f = &self.files[*file];
            let record =
                record::directory_record(&name, f.sector, f.size as u32, false, self.stamp);
            children.push((name, record));
        }
        children.sort();
        let own = [
            self.build_dir_record(placed, &[0], at),
            self.build_dir_record(placed, &[1], self.dirs[at].parent),
        ];
        let mut out = Vec::new();
        for record in own.into_iter().chain(children.into_iter().map(|c| c.1)) {
            // A record never crosses a sector.
            let left = SECTOR - out.len() % SECTOR;
            if record.len() > left {
                out.resize(out.len() + left, 0);
            }
            out.extend(record);
        }
        pad_to_sector(out)
    }

    fn build_dir_record(&self, placed: &PlacedView, name: &[u8], dir: usize) -> Vec<u8> {
        let (sector, length) = placed.dirs.get(&dir).copied().unwrap_or_default();
        record::directory_record(name, sector, length, true, self.stamp)
    }
}

fn count_sectors(length: usize) -> u32 {
    length.div_ceil(SECTOR) as u32
}

fn pad_to_sector(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(SECTOR), 0);
    bytes
}

fn too_large() -> Error {
    Error::failed("the disc would have more than 2^32 sectors")
}

/// Checks a tree and reports all problems at once.
fn check(tree: &DiscTree, sizes: &[u64]) -> Result<()> {
    let mut problems = Vec::new();
    // ECMA-119 allows only A-Z, 0-9 and _. Readers accept the labels that platforms use:
    // `config-2`, `cidata` and `OVF ENV`.
    let is_label = tree
        .label
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ' '));
    if tree.label.is_empty() || tree.label.len() > 16 || !is_label {
        problems.push(format!(
            "the label \"{}\" is not 1 to 16 of A-Z, a-z, 0-9, _, - and space",
            tree.label
        ));
    }
    problems.extend(
        tree.duplicates
            .iter()
            .map(|p| format!("{p} is given twice")),
    );
    let mut spelled: BTreeMap<String, &str> = BTreeMap::new();
    for path in tree.files.keys() {
        let mut upto = 0;
        for part in path.split('/') {
            if let Some(why) = names::find_problem(part) {
                problems.push(format!("{path}: \"{part}\" {why}"));
            }
            upto += part.len();
            let here = &path[..upto];
            match spelled.insert(here.to_lowercase(), here) {
                Some(other) if other != here => {
                    problems.push(format!("{other} and {here} differ only in case"));
                }
                _ => {}
            }
            upto += 1;
        }
    }
    let paths = tree.files.keys();
    let folders: Vec<String> = paths
        .flat_map(|p| p.match_indices('/').map(|(at, _)| p[..at].to_lowercase()))
        .collect();
    for (path, size) in tree.files.keys().zip(sizes) {
        if folders.contains(&path.to_lowercase()) {
            problems.push(format!("{path} is both a file and a folder"));
        }
        if *size > MAX_FILE_SIZE {
            problems.push(format!(
                "{path} has {size} bytes; a file on an ISO 9660 disc can have at most \
                 {MAX_FILE_SIZE}"
            ));
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    problems.dedup();
    Err(
        Error::failed(format!("cannot lay out the disc {}", tree.label))
            .lines(problems)
            .cure("rename, split or leave out these files"),
    )
}
