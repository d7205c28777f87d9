//! Decides where everything of a disc goes. Pure: looks at names and sizes, not at contents.
//!
//! ```text
//! 0-15 system area   16 primary descriptor   17 Joliet descriptor   18 terminator
//! path tables (primary LE, BE; Joliet LE, BE)   primary directories   Joliet directories   files
//! ```

use std::collections::{BTreeMap, HashMap};

use winimg_base::error::{Error, Result};

use super::names::{self, ShortNames};
use super::record::{self, SECTOR, View, Volume};
use super::tree::Tree;

/// A folder of the tree. Children are sorted by their Joliet name.
struct Dir {
    parent: usize,
    /// Its own name in the parent; empty for the root.
    name: String,
    short: String,
    dirs: Vec<usize>,
    files: Vec<usize>,
}

impl Dir {
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

/// A file: its path in the tree, and where its bytes go.
pub(super) struct FilePlace {
    pub path: String,
    name: String,
    short: String,
    /// Bytes.
    pub size: u64,
    pub sector: u32,
}

/// Where the directories of one view go.
struct Placed {
    view: View,
    /// In the order of the path table: by depth, then by the parent's number, then by name (ECMA-119 6.9.1).
    order: Vec<usize>,
    /// The path table's length in bytes, and the sector of its first form; the second follows.
    table: (u32, u32),
    /// The sector and length in bytes of each directory.
    dirs: HashMap<usize, (u32, u32)>,
}

/// A disc, decided.
pub(super) struct Layout {
    label: String,
    stamp: i64,
    dirs: Vec<Dir>,
    pub files: Vec<FilePlace>,
    /// Primary, then Joliet.
    views: Vec<Placed>,
    /// Sectors of the whole disc.
    pub sectors: u32,
}

/// Longest file that one directory record can describe.
const MAX_FILE: u64 = u32::MAX as u64;
/// Sectors before the path tables.
const DESCRIPTORS: u32 = 19;

impl Layout {
    /// `sizes` are the bytes of `tree`'s files, in its order.
    pub fn new(tree: &Tree, sizes: &[u64]) -> Result<Self> {
        check(tree, sizes)?;
        let mut layout = Self {
            label: tree.label.clone(),
            stamp: tree.stamp,
            dirs: vec![Dir::new(0, "")],
            files: Vec::new(),
            views: Vec::new(),
            sectors: 0,
        };
        let mut known = HashMap::from([(String::new(), 0)]);
        for (path, size) in tree.files.keys().zip(sizes) {
            let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
            let parent = layout.dir(parent, &mut known);
            layout.dirs[parent].files.push(layout.files.len());
            layout.files.push(FilePlace {
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
        layout.shorten();
        layout.place()?;
        Ok(layout)
    }

    fn dir(&mut self, path: &str, known: &mut HashMap<String, usize>) -> usize {
        if let Some(index) = known.get(&path.to_lowercase()) {
            return *index;
        }
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = self.dir(parent, known);
        let index = self.dirs.len();
        self.dirs.push(Dir::new(parent, name));
        self.dirs[parent].dirs.push(index);
        known.insert(path.to_lowercase(), index);
        index
    }

    /// Gives every name its 8.3 form, files before folders.
    fn shorten(&mut self) {
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

    fn place(&mut self) -> Result<()> {
        let mut next = DESCRIPTORS;
        for view in [View::Primary, View::Joliet] {
            let mut placed = Placed {
                view,
                order: self.breadth_first(view),
                table: (0, next),
                dirs: HashMap::new(),
            };
            let length = self.path_table(&placed, false).len();
            placed.table.0 = length as u32;
            next += 2 * sectors(length);
            self.views.push(placed);
        }
        for view in 0..self.views.len() {
            for at in self.views[view].order.clone() {
                let length = self.directory(&self.views[view], at).len();
                self.views[view].dirs.insert(at, (next, length as u32));
                next += sectors(length);
            }
        }
        let mut next = u64::from(next);
        for file in &mut self.files {
            // An empty file has no place; sector 0 is what other writers give.
            file.sector = match file.size {
                0 => 0,
                _ => u32::try_from(next).map_err(|_| too_large())?,
            };
            next += file.size.div_ceil(SECTOR as u64);
        }
        self.sectors = u32::try_from(next).map_err(|_| too_large())?;
        Ok(())
    }

    /// All sectors before the files' contents: descriptors, path tables and directories.
    pub fn head(&self) -> Vec<u8> {
        let mut out = vec![0; 16 * SECTOR];
        for placed in &self.views {
            out.extend(self.volume(placed).bytes());
        }
        out.extend(record::terminator());
        for placed in &self.views {
            for big in [false, true] {
                out.extend(padded(self.path_table(placed, big)));
            }
        }
        for placed in &self.views {
            for at in &placed.order {
                out.extend(self.directory(placed, *at));
            }
        }
        out
    }

    fn volume(&self, placed: &Placed) -> Volume<'_> {
        let (sector, size) = placed.dirs[&0];
        let (length, table) = placed.table;
        Volume {
            view: placed.view,
            label: &self.label,
            sectors: self.sectors,
            path_table_length: length,
            path_table_le: table,
            path_table_be: table + sectors(length as usize),
            root: record::directory_record(&[0], sector, size, true, self.stamp),
            stamp: self.stamp,
        }
    }

    fn breadth_first(&self, view: View) -> Vec<usize> {
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

    fn dir_name(&self, view: View, dir: usize) -> Vec<u8> {
        match view {
            _ if dir == 0 => vec![0],
            View::Primary => self.dirs[dir].short.clone().into_bytes(),
            View::Joliet => record::ucs2(&self.dirs[dir].name),
        }
    }

    fn file_name(&self, view: View, file: usize) -> Vec<u8> {
        let file = &self.files[file];
        match view {
            View::Primary => format!("{};1", file.short).into_bytes(),
            // Without a version number, as genisoimage and xorriso write it: Windows Setup reads those discs.
            View::Joliet => record::ucs2(&file.name),
        }
    }

    fn path_table(&self, placed: &Placed, big: bool) -> Vec<u8> {
        let order = &placed.order;
        let number = |n: usize| u16::try_from(n + 1).unwrap_or(u16::MAX);
        let numbers: HashMap<usize, u16> = order
            .iter()
            .enumerate()
            .map(|(n, dir)| (*dir, number(n)))
            .collect();
        let record = |dir: &usize| {
            let sector = placed.dirs.get(dir).map_or(0, |p| p.0);
            let parent = numbers[&self.dirs[*dir].parent];
            record::path_record(&self.dir_name(placed.view, *dir), sector, parent, big)
        };
        order.iter().flat_map(record).collect()
    }

    /// The sectors of one directory. Its length does not depend on where directories and files are.
    fn directory(&self, placed: &Placed, at: usize) -> Vec<u8> {
        let view = placed.view;
        let dir_record = |name: &[u8], dir: usize| {
            let (sector, length) = placed.dirs.get(&dir).copied().unwrap_or_default();
            record::directory_record(name, sector, length, true, self.stamp)
        };
        let mut children: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for dir in &self.dirs[at].dirs {
            let name = self.dir_name(view, *dir);
            children.push((name.clone(), dir_record(&name, *dir)));
        }
        for file in &self.dirs[at].files {
            let name = self.file_name(view, *file);
            let f = &self.files[*file];
            let record =
                record::directory_record(&name, f.sector, f.size as u32, false, self.stamp);
            children.push((name, record));
        }
        children.sort();
        let own = [dir_record(&[0], at), dir_record(&[1], self.dirs[at].parent)];
        let mut out = Vec::new();
        for record in own.into_iter().chain(children.into_iter().map(|c| c.1)) {
            // A record never crosses a sector.
            let left = SECTOR - out.len() % SECTOR;
            if record.len() > left {
                out.resize(out.len() + left, 0);
            }
            out.extend(record);
        }
        padded(out)
    }
}

fn sectors(length: usize) -> u32 {
    length.div_ceil(SECTOR) as u32
}

fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(SECTOR), 0);
    bytes
}

fn too_large() -> Error {
    Error::failed("the disc would have more than 2^32 sectors")
}

/// Everything that is wrong with a tree, at once.
fn check(tree: &Tree, sizes: &[u64]) -> Result<()> {
    let mut wrong = Vec::new();
    // ECMA-119 has A-Z, 0-9 and _ alone; platforms' own discs are called `config-2`, `cidata` and `OVF ENV`, and no reader minds.
    let label_fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ' ');
    if tree.label.is_empty() || tree.label.len() > 16 || !tree.label.chars().all(label_fits) {
        wrong.push(format!(
            "the label \"{}\" is not 1 to 16 of A-Z, a-z, 0-9, _, - and space",
            tree.label
        ));
    }
    wrong.extend(tree.twice.iter().map(|p| format!("{p} is given twice")));
    let mut spelled: BTreeMap<String, &str> = BTreeMap::new();
    for path in tree.files.keys() {
        let mut upto = 0;
        for part in path.split('/') {
            if let Some(why) = names::complaint(part) {
                wrong.push(format!("{path}: \"{part}\" {why}"));
            }
            upto += part.len();
            let here = &path[..upto];
            match spelled.insert(here.to_lowercase(), here) {
                Some(other) if other != here => {
                    wrong.push(format!("{other} and {here} differ only in case"));
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
            wrong.push(format!("{path} is both a file and a folder"));
        }
        if *size > MAX_FILE {
            wrong.push(format!(
                "{path} has {size} bytes; a file on an ISO 9660 disc can have {MAX_FILE}"
            ));
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    wrong.dedup();
    Err(
        Error::failed(format!("cannot lay out the disc {}", tree.label))
            .lines(wrong)
            .cure("rename, split or leave out these files"),
    )
}
