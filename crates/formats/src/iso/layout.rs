//! Decides where everything of a disc goes. Pure: looks at names and sizes, not at contents.
//!
//! ```text
//! 0-15 system area   16 primary descriptor   17 Joliet descriptor   18 terminator
//! path tables (primary LE, BE; Joliet LE, BE)   primary directories   Joliet directories   files
//! ```

use std::collections::{BTreeMap, HashMap};

use winimg_base::error::{Error, Kind, Result};

use super::names::{self, ShortNames};
use super::record::{self, SECTOR, View, Volume};
use super::tree::{Stamp, Tree};

/// A folder of the tree. Children are sorted by their Joliet name.
pub(super) struct Dir {
    parent: usize,
    /// Its own name in the parent; empty for the root.
    name: String,
    short: String,
    dirs: Vec<usize>,
    files: Vec<usize>,
    depth: usize,
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

/// A disc, decided.
pub(super) struct Layout {
    label: String,
    stamp: Stamp,
    dirs: Vec<Dir>,
    pub files: Vec<FilePlace>,
    /// Sectors of the whole disc.
    pub sectors: u32,
}

/// Longest file that one directory record can describe.
const MAX_FILE: u64 = u32::MAX as u64;

impl Layout {
    /// `sizes` are the bytes of `tree`'s files, in its order.
    pub fn new(tree: &Tree, sizes: &[u64]) -> Result<Self> {
        check(tree, sizes)?;
        let mut layout = Self {
            label: tree.label.clone(),
            stamp: tree.stamp,
            dirs: vec![Dir {
                parent: 0,
                name: String::new(),
                short: String::new(),
                dirs: Vec::new(),
                files: Vec::new(),
                depth: 0,
            }],
            files: Vec::new(),
            sectors: 0,
        };
        let mut known = HashMap::from([(String::new(), 0)]);
        for dir in &tree.dirs {
            layout.dir(dir, &mut known);
        }
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
        if layout.dirs.len() > usize::from(u16::MAX) {
            return Err(Error::new(
                Kind::Failed,
                format!("a disc cannot have {} folders", layout.dirs.len()),
            ));
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
        self.dirs.push(Dir {
            parent,
            name: name.to_string(),
            short: String::new(),
            dirs: Vec::new(),
            files: Vec::new(),
            depth: self.dirs[parent].depth + 1,
        });
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
        let mut next = u64::from(self.trees_end());
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
        for view in [View::Primary, View::Joliet] {
            out.extend(self.volume(view).bytes());
        }
        out.extend(record::terminator());
        for view in [View::Primary, View::Joliet] {
            let places = self.dir_places(view);
            for big in [false, true] {
                out.extend(padded(self.path_table(view, &places, big)));
            }
        }
        for view in [View::Primary, View::Joliet] {
            let places = self.dir_places(view);
            for at in self.breadth_first(view) {
                out.extend(self.directory(view, at, &places));
            }
        }
        out
    }

    fn volume(&self, view: View) -> Volume<'_> {
        let places = self.dir_places(view);
        let (length, le, be) = self.table_places(view);
        let (sector, size) = places[&0];
        Volume {
            view,
            label: &self.label,
            sectors: self.sectors,
            path_table_length: length,
            path_table_le: le,
            path_table_be: be,
            root: record::directory_record(&[0], sector, size, true, self.stamp),
            stamp: self.stamp,
        }
    }

    /// A path table's length in bytes, and the sectors of its two forms.
    fn table_places(&self, view: View) -> (u32, u32, u32) {
        let length = |view| self.path_table(view, &BTreeMap::new(), false).len();
        let (primary, own) = (sectors(length(View::Primary)), length(view));
        let start = match view {
            View::Primary => 19,
            View::Joliet => 19 + 2 * primary,
        };
        (own as u32, start, start + sectors(own))
    }

    /// The sector and length in bytes of each directory.
    fn dir_places(&self, view: View) -> BTreeMap<usize, (u32, u32)> {
        let mut next = match view {
            View::Primary => {
                let (length, _, be) = self.table_places(View::Joliet);
                be + sectors(length as usize)
            }
            View::Joliet => self.end_of(View::Primary),
        };
        let mut places = BTreeMap::new();
        for at in self.breadth_first(view) {
            let length = self.directory(view, at, &BTreeMap::new()).len();
            places.insert(at, (next, length as u32));
            next += sectors(length);
        }
        places
    }

    fn end_of(&self, view: View) -> u32 {
        let places = self.dir_places(view);
        let ends = places.values().map(|(s, l)| s + sectors(*l as usize));
        ends.max().unwrap_or(0)
    }

    fn trees_end(&self) -> u32 {
        self.end_of(View::Joliet)
    }

    /// Path table order: by depth, then by the parent's number, then by name (ECMA-119 6.9.1).
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

    fn path_table(&self, view: View, places: &BTreeMap<usize, (u32, u32)>, big: bool) -> Vec<u8> {
        let order = self.breadth_first(view);
        let numbers: HashMap<usize, u16> = order
            .iter()
            .enumerate()
            .map(|(n, dir)| (*dir, u16::try_from(n + 1).unwrap_or(u16::MAX)))
            .collect();
        order
            .iter()
            .flat_map(|dir| {
                let sector = places.get(dir).map_or(0, |p| p.0);
                let parent = numbers[&self.dirs[*dir].parent];
                record::path_record(&self.dir_name(view, *dir), sector, parent, big)
            })
            .collect()
    }

    /// The sectors of one directory. Its length does not depend on `places`.
    fn directory(&self, view: View, at: usize, places: &BTreeMap<usize, (u32, u32)>) -> Vec<u8> {
        let place = |dir: usize| places.get(&dir).copied().unwrap_or((0, 0));
        let dir_record = |name: &[u8], dir: usize| {
            let (sector, length) = place(dir);
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
    Error::new(Kind::Failed, "the disc would have more than 2^32 sectors")
}

/// Everything that is wrong with a tree, at once.
fn check(tree: &Tree, sizes: &[u64]) -> Result<()> {
    let mut wrong = Vec::new();
    let label_fits = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    if tree.label.is_empty() || tree.label.len() > 16 || !tree.label.chars().all(label_fits) {
        wrong.push(format!(
            "the label \"{}\" is not 1 to 16 of A-Z, 0-9 and _",
            tree.label
        ));
    }
    wrong.extend(tree.twice.iter().map(|p| format!("{p} is given twice")));
    let mut spelled: BTreeMap<String, &str> = BTreeMap::new();
    for path in tree.files.keys().chain(&tree.dirs) {
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
    let folders: Vec<String> = tree
        .files
        .keys()
        .flat_map(|p| p.match_indices('/').map(|(at, _)| p[..at].to_lowercase()))
        .chain(tree.dirs.iter().map(|d| d.to_lowercase()))
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
    Err(Error::new(
        Kind::Failed,
        format!("cannot lay out the disc {}", tree.label),
    )
    .lines(wrong)
    .cure("rename, split or leave out these files"))
}
