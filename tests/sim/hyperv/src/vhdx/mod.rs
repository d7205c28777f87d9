//! VHDX files as Hyper-V writes them: dynamic and differencing disks, made, read through their chain, changed, compacted.
//!
//! Written from [MS-VHDX] alone and on purpose apart from winimg's own reader, so that the two judge each other. It writes no log: what a
//! killed process leaves half-written is made whole by writing the same disk again. It has no fixed disks, no sectors of 4 KiB and no sharing.

mod chain;
mod file;
mod format;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};

use uuid::Uuid;

pub use chain::Chain;
use file::Vhdx;
pub use format::Locator;
use format::{FULLY, Metadata, PARTIALLY, ZERO, state};

/// What Hyper-V's cmdlets tell apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The file can't be read or written.
    Io(String),
    /// It is no VHDX file, or a damaged one.
    Broken(String),
    /// A differencing disk's parent is not where it says.
    NoParent(PathBuf),
    /// The parent was changed after the child was made.
    Mismatch(PathBuf),
}

impl Fault {
    fn io(path: &Path, error: &io::Error) -> Fault {
        Fault::Io(format!("{}: {error}", path.display()))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Io(text) | Fault::Broken(text) => f.write_str(text),
            Fault::NoParent(path) => write!(f, "there is no parent at {}", path.display()),
            Fault::Mismatch(path) => write!(
                f,
                "{} is not the parent that the differencing disk was made of",
                path.display()
            ),
        }
    }
}

/// What `Get-VHD` says of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub size: u64,
    pub block_size: u32,
    pub disk_id: Uuid,
    /// Where the parent is, and what the child says of it.
    pub parent: Option<(PathBuf, Locator)>,
}

/// `New-VHD -Dynamic`.
pub fn create(path: &Path, size: u64, block_size: u32) -> Result<(), Fault> {
    let metadata = Metadata {
        block_size,
        size,
        disk_id: Uuid::new_v4(),
        parent: None,
    };
    // Judged as every reader will.
    Metadata::read(&metadata.bytes())?;
    file::create(path, metadata, Uuid::new_v4())?.close()
}

/// `New-VHD -Differencing -ParentPath`: the parent's size, and its block size unless another is wanted.
pub fn create_over(path: &Path, parent: &Path, block_size: Option<u32>) -> Result<(), Fault> {
    let below = Chain::open(parent)?;
    let metadata = Metadata {
        block_size: block_size.unwrap_or(below.leaf().metadata.block_size),
        size: below.size(),
        disk_id: Uuid::new_v4(),
        parent: Some(locator(path, parent, below.leaf().header.data_write)?),
    };
    Metadata::read(&metadata.bytes())?;
    file::create(path, metadata, Uuid::new_v4())?.close()
}

/// `Set-VHD -ParentPath`; with `ignore_mismatch` (`-IgnoreIdMismatch`) also another file than the child was made of.
pub fn set_parent(child: &Path, parent: &Path, ignore_mismatch: bool) -> Result<(), Fault> {
    let mut file = Vhdx::open(child, true)?;
    let below = Chain::open(parent)?;
    let linkage = below.leaf().header.data_write;
    let Some(old) = &file.metadata.parent else {
        return Err(Fault::Broken(format!(
            "{}: it has no parent",
            child.display()
        )));
    };
    if below.size() != file.metadata.size || (old.linkage != linkage && !ignore_mismatch) {
        return Err(Fault::Mismatch(parent.to_owned()));
    }
    let metadata = Metadata {
        parent: Some(locator(child, parent, linkage)?),
        ..file.metadata.clone()
    };
    file.set_metadata(metadata)
}

/// The parent's file need not be there.
pub fn facts(path: &Path) -> Result<Facts, Fault> {
    let file = Vhdx::open(path, false)?;
    let found = |locator: &Locator| (found_parent(path, locator), locator.clone());
    Ok(Facts {
        size: file.metadata.size,
        block_size: file.metadata.block_size,
        disk_id: file.metadata.disk_id,
        parent: file.metadata.parent.as_ref().map(found),
    })
}

/// `Optimize-VHD`: a file of the same disk without the blocks that hold only zeros and without gaps, in the place of the old one. (What
/// Windows drops because NTFS has it free stays here.)
pub fn compact(path: &Path) -> Result<(), Fault> {
    let old = Vhdx::open(path, false)?;
    let beside = path.with_extension("compacting");
    let _ = std::fs::remove_file(&beside);
    let copy = || -> Result<(), Fault> {
        let mut new = file::create(&beside, old.metadata.clone(), old.header.data_write)?;
        let block = old.block_size() as usize;
        for number in 0..old.table.blocks {
            let entry = old.entry(number);
            match state(entry) {
                FULLY => {
                    let bytes = old.payload(number, 0, block)?;
                    if bytes.iter().any(|byte| *byte != 0) {
                        new.allocate(number, FULLY)?;
                        new.write(number, 0, &bytes)?;
                    } else if old.is_differencing() {
                        new.set_state(number, ZERO)?;
                    }
                }
                PARTIALLY => {
                    new.allocate(number, PARTIALLY)?;
                    new.set_bits(number, &old.bits(number)?)?;
                    new.write(number, 0, &old.payload(number, 0, block)?)?;
                }
                other => new.set_state(number, other)?,
            }
        }
        // Compacting changes no data: children still fit.
        new.keep_data_id(old.header.data_write)?;
        new.close()
    };
    let copied = copy();
    // Windows replaces no file that is open.
    drop(old);
    copied
        .and_then(|()| std::fs::rename(&beside, path).map_err(|e| Fault::io(path, &e)))
        .inspect_err(|_| {
            let _ = std::fs::remove_file(&beside);
        })
}

fn locator(child: &Path, parent: &Path, linkage: Uuid) -> Result<Locator, Fault> {
    let absolute = |path: &Path| std::path::absolute(path).map_err(|e| Fault::io(path, &e));
    let (child, parent) = (absolute(child)?, absolute(parent)?);
    Ok(Locator {
        linkage,
        relative: relative(child.parent().unwrap_or(Path::new("/")), &parent),
        absolute: parent.display().to_string(),
    })
}

/// With backslashes, and `.\` before what lies in the child's folder or below it ([MS-VHDX] 2.6.2.6.3).
fn relative(from: &Path, to: &Path) -> String {
    let parts = |path: &Path| -> Vec<String> {
        path.components()
            .filter(|part| !matches!(part, Component::CurDir))
            .map(|part| part.as_os_str().to_string_lossy().into_owned())
            .collect()
    };
    let (from, to) = (parts(from), parts(to));
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let mut steps = vec!["..".to_owned(); from.len() - shared];
    if steps.is_empty() {
        steps.push(".".into());
    }
    steps.extend_from_slice(&to[shared..]);
    steps.join("\\")
}

/// The relative path is tried first, then the absolute one.
fn found_parent(child: &Path, locator: &Locator) -> PathBuf {
    let folder = child.parent().unwrap_or(Path::new("."));
    let near = folder.join(locator.relative.replace('\\', "/"));
    if locator.relative.is_empty() || !near.exists() {
        PathBuf::from(&locator.absolute)
    } else {
        near
    }
}
