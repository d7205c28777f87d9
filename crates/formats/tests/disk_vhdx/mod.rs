//! VHDX chains as Hyper-V makes them: read through all their files, refused where they are not
//! whole, and zeroed in place.

mod chains;
mod erase;
mod judge;
mod refusals;

use std::path::{Path, PathBuf};

use support::vhdx::Writer;
use winimg_base::event::Cancel;
use winimg_formats::disk::{Disk, DiskImage};

const MIB: u64 = 1 << 20;

/// Bytes that are never zero and never repeat soon.
fn dense(seed: u64, len: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % 255) as u8 + 1
    };
    std::iter::repeat_with(step).take(len as usize).collect()
}

/// A disk being made: its topmost file, and what the whole has to read as.
struct Made {
    file: Writer,
    content: Vec<u8>,
}

impl Made {
    fn new(len: u64, block: u64) -> Self {
        Self {
            file: Writer::new(len, block),
            content: vec![0; len as usize],
        }
    }

    /// A child of this one, which was saved at `relative` as the child sees it.
    fn child(&self, len: u64, block: u64, relative: &str) -> Self {
        let mut content = self.content.clone();
        content.resize(len as usize, 0);
        Self {
            file: Writer::over(len, block, self.file.data_write, relative),
            content,
        }
    }

    fn write(&mut self, seed: u64, at: u64, len: u64) {
        let bytes = dense(seed, len);
        self.file.write(at, &bytes);
        self.content[at as usize..(at + len) as usize].copy_from_slice(&bytes);
    }

    /// A block of zeros, by a state.
    fn blank(&mut self, block: u64, state: u64) {
        self.file.state(block, state, 0);
        let start = (block * self.file.block) as usize;
        let end = (start + self.file.block as usize).min(self.content.len());
        self.content[start..end].fill(0);
    }
}

/// A folder as the store lays layers out: `NAME/disk.vhdx`.
struct Layers(tempfile::TempDir);

impl Layers {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn folder(&self) -> &Path {
        self.0.path()
    }

    fn save(&self, name: &str, file: &Writer) -> PathBuf {
        let folder = self.folder().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("disk.vhdx");
        file.save(&path);
        path
    }

    fn open(&self, top: &Path) -> Box<dyn Disk> {
        self.image(top).open(&Cancel::default()).expect("a disk")
    }

    fn image<'a>(&'a self, top: &'a Path) -> DiskImage<'a> {
        DiskImage::with_layers(top, self.folder())
    }

    /// What is said when `top` is refused, without the folders' names.
    fn refusal(&self, top: &Path) -> String {
        let error = self.image(top).open(&Cancel::default()).err();
        let folder = std::fs::canonicalize(self.folder()).expect("a folder");
        let rendered = error.expect("refused").to_string();
        rendered.replace(text(&folder), "LAYERS")
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in Unicode")
}

fn whole(disk: &dyn Disk) -> Vec<u8> {
    let mut bytes = vec![1; disk.len() as usize];
    // Pieces that keep to no block.
    let mut at = 0;
    for part in bytes.chunks_mut(777_777) {
        disk.read_at(at, part).expect("readable");
        at += part.len() as u64;
    }
    bytes
}

/// Three files with blocks of two sizes: blocks in part and in whole, zeros over data, data over
/// zeros, a disk that grew.
fn three(layers: &Layers) -> (PathBuf, Made) {
    let mut base = Made::new(12 * MIB, MIB);
    base.write(1, 0, 3 * MIB);
    base.write(2, 5 * MIB + 512, 3 * 512);
    base.write(3, 9 * MIB, 3 * MIB);
    layers.save("aa", &base.file);
    let mut middle = base.child(12 * MIB, 2 * MIB, r"..\aa\disk.vhdx");
    middle.write(4, 2 * MIB - 3 * 512, 7 * 512);
    middle.write(5, 4 * MIB, 2 * MIB);
    middle.write(6, 8 * MIB + 4096, 8192);
    middle.blank(5, 2);
    layers.save("bb", &middle.file);
    let mut top = middle.child(14 * MIB, MIB, r"..\bb\disk.vhdx");
    for sector in (1..2048).step_by(2) {
        top.write(100 + sector, sector * 512, 512);
    }
    top.write(7, 2 * MIB - 512, 512);
    top.write(8, 2 * MIB + 512 * 3, 512 * 13);
    top.blank(4, 3);
    top.blank(9, 1);
    top.write(9, 11 * MIB, MIB);
    top.write(10, 13 * MIB + 512, 1024);
    let path = layers.save(".new-1", &top.file);
    (path, top)
}
