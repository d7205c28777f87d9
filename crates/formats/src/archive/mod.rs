//! Archives, unpacked on the host for a Windows guest.
//!
//! zip, tar, tar.gz and tar.zst are streamed into a folder beside the wanted one, which gets its name only when all
//! is well. An archive is refused whole, with all its problems listed, when any entry could land elsewhere, could not
//! exist on Windows, or is not a plain file or folder, and when its file has bytes before or behind the archive; what
//! `only` leaves out is judged too. Nothing is repaired, and nothing is ever written outside the destination.

mod bounds;
mod filter;
mod name;
mod survey;
mod tar;
mod zip;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use winimg_base::digest::{Algorithm, Digest, Hasher};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;

pub use filter::Filter;
use filter::Selection;
use survey::Survey;

/// The formats, as recipes name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    Zip,
    Tar,
    TarGz,
    TarZst,
}

/// An archive on disk.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    pub file: &'a Path,
    pub format: Format,
    /// For messages: the component's name. A blob's file is named by its digest only.
    pub name: &'a str,
}

/// How much an archive may unpack to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all files together.
    pub total: u64,
    pub entries: usize,
    /// Unpacked bytes for each byte of the archive; counts from [`RATIO_FROM`] on.
    pub ratio: u64,
}

/// Unpacked bytes below which no ratio is suspicious.
pub const RATIO_FROM: u64 = 64 << 20;

impl Default for Limits {
    fn default() -> Self {
        Self {
            total: 16 << 30,
            entries: 200_000,
            ratio: 200,
        }
    }
}

impl Limits {
    /// The most bytes that an archive of this size may unpack to, and the reason.
    fn allowed(&self, archive: u64) -> (u64, String) {
        let by_ratio = archive.saturating_mul(self.ratio).max(RATIO_FROM);
        if by_ratio < self.total {
            let why = format!(
                "unpacks to more than {} times its {archive} bytes, like an archive bomb",
                self.ratio
            );
            return (by_ratio, why);
        }
        (
            self.total,
            format!("unpacks to more than {} bytes", self.total),
        )
    }
}

/// A file or folder of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Relative, with `/`, no `.` or `..`.
    pub path: String,
    /// Bytes; 0 for a folder.
    pub size: u64,
    pub is_folder: bool,
}

/// A file that was unpacked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unpacked {
    /// Relative to the destination, with `/`.
    pub path: String,
    /// Bytes.
    pub size: u64,
    pub sha256: Digest,
}

/// The archive's content, after the same checks that unpacking makes. In the archive's order.
pub fn list(archive: &Packed, limits: &Limits) -> Result<Vec<Member>> {
    let survey = survey(archive, limits)?;
    let members = survey.members().cloned().collect();
    survey.verdict(archive)?;
    Ok(members)
}

/// Unpacks what `filter` selects into `dest`, which must not exist. The result is sorted by path.
pub fn unpack(
    archive: &Packed,
    dest: &Path,
    limits: &Limits,
    filter: &Filter,
) -> Result<Vec<Unpacked>> {
    if fs::symlink_metadata(dest).is_ok() {
        return Err(Error::failed(format!("{} exists already", dest.display())));
    }
    let survey = survey(archive, limits)?;
    let selection = Selection::new(filter, &survey, archive)?;
    survey.verdict(archive)?;
    let beside = tempfile::Builder::new()
        .prefix(".unpack-")
        .tempdir_in(io::folder_of(dest))
        .map_err(|e| Error::io("write beside", dest, e))?;
    // The temporary folder itself is 0700; what takes its place is an ordinary one.
    let tree = beside.path().join("tree");
    fs::create_dir(&tree).map_err(|e| Error::io("create", &tree, e))?;
    let mut writer = Writer {
        root: tree.clone(),
        left: limits.allowed(size_of_file(archive)?).0,
        done: Vec::new(),
    };
    match archive.format {
        Format::Zip => zip::extract(archive, &selection, &mut writer)?,
        _ => tar::extract(archive, &selection, &mut writer)?,
    }
    let mut done = writer.done;
    done.sort_by(|a, b| a.path.cmp(&b.path));
    io::move_into_place(&tree, dest)?;
    Ok(done)
}

fn survey(archive: &Packed, limits: &Limits) -> Result<Survey> {
    match archive.format {
        Format::Zip => zip::survey(archive, limits),
        _ => tar::survey(archive, limits),
    }
}

fn size_of_file(archive: &Packed) -> Result<u64> {
    fs::metadata(archive.file)
        .map(|m| m.len())
        .map_err(|e| Error::io("read", archive.file, e))
}

/// An archive that is not what its format says.
fn broken(archive: &Packed, why: impl std::fmt::Display) -> Error {
    Error::new(
        Kind::Unproved,
        format!("{} cannot be unpacked: {why}", archive.name),
    )
}

/// Writes selected files below the temporary tree.
struct Writer {
    root: PathBuf,
    /// Bytes that may still be written, whatever the headers said.
    left: u64,
    done: Vec<Unpacked>,
}

impl Writer {
    /// `path` was checked by the survey. `size` is what the archive says.
    fn file(&mut self, archive: &Packed, path: &str, size: u64, from: impl Read) -> Result<()> {
        let to = self.root.join(path);
        io::create_folders(io::folder_of(&to))?;
        let mut file = File::create_new(&to).map_err(|e| Error::io("write", &to, e))?;
        let mut from = from.take(self.left.min(size).saturating_add(1));
        let mut hasher = Hasher::new(Algorithm::Sha256);
        let mut buffer = vec![0; 256 << 10];
        let mut written = 0;
        loop {
            let n = from
                .read(&mut buffer)
                .map_err(|e| broken(archive, format!("{path}: {e}")))?;
            if n == 0 {
                break;
            }
            written += n as u64;
            if written > self.left.min(size) {
                return Err(broken(
                    archive,
                    format!("{path} holds more than the {size} bytes that the archive names"),
                ));
            }
            hasher.update(&buffer[..n]);
            file.write_all(&buffer[..n])
                .map_err(|e| Error::io("write", &to, e))?;
        }
        if written != size {
            return Err(broken(
                archive,
                format!("{path} ends after {written} of {size} bytes"),
            ));
        }
        file.sync_all().map_err(|e| Error::io("write", &to, e))?;
        self.left -= written;
        self.done.push(Unpacked {
            path: path.to_string(),
            size,
            sha256: hasher.finish(),
        });
        Ok(())
    }

    fn folder(&mut self, path: &str) -> Result<()> {
        io::create_folders(&self.root.join(path))
    }
}
