//! Archives, unpacked on the host for a Windows guest.
//!
//! zip, tar, tar.gz and tar.zst are streamed into a temporary folder beside the destination, which
//! is renamed only on success. The whole archive is refused, with all its problems listed, if any
//! entry could be written elsewhere, cannot exist on Windows, or is not a plain file or folder, and
//! if its file has bytes before or after the archive; entries that `only` excludes are checked too.
//! Nothing is repaired, and nothing is ever written outside the destination.

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

pub use filter::ArchiveFilter;
use filter::ArchiveSelection;
use survey::ArchiveSurvey;

/// The formats, as recipes name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArchiveFormat {
    Zip,
    Tar,
    TarGz,
    TarZst,
}

/// An archive on disk.
#[derive(Clone, Copy, Debug)]
pub struct ArchiveFile<'a> {
    pub file: &'a Path,
    pub format: ArchiveFormat,
    /// The component's name, for messages: a blob's file is named only by its digest.
    pub name: &'a str,
}

/// Limits on the unpacked size of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnpackLimits {
    /// Total bytes of all files.
    pub total: u64,
    pub entries: usize,
    /// Unpacked bytes per byte of the archive; applies above [`RATIO_FROM`].
    pub ratio: u64,
}

/// Unpacked bytes up to which the ratio is not checked.
pub const RATIO_FROM: u64 = 64 << 20;

impl Default for UnpackLimits {
    fn default() -> Self {
        Self {
            total: 16 << 30,
            entries: 200_000,
            ratio: 200,
        }
    }
}

impl UnpackLimits {
    /// Returns the maximum unpacked bytes for an archive of this size, and the reason.
    fn compute_max_size(&self, archive: u64) -> (u64, String) {
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
pub struct ArchiveMember {
    /// Relative, with `/`, no `.` or `..`.
    pub path: String,
    /// Bytes; 0 for a folder.
    pub size: u64,
    pub is_folder: bool,
}

/// An unpacked file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnpackedFile {
    /// Relative to the destination, with `/`.
    pub path: String,
    /// Bytes.
    pub size: u64,
    pub sha256: Digest,
}

/// Lists the archive's content in its order, after the same checks as for unpacking.
pub fn list(archive: &ArchiveFile, limits: &UnpackLimits) -> Result<Vec<ArchiveMember>> {
    let survey = inspect_archive(archive, limits)?;
    let members = survey.members().cloned().collect();
    survey.check_clean(archive)?;
    Ok(members)
}

/// Unpacks what `filter` selects into `dest`, which must not exist. The result is sorted by path.
pub fn unpack(
    archive: &ArchiveFile,
    dest: &Path,
    limits: &UnpackLimits,
    filter: &ArchiveFilter,
) -> Result<Vec<UnpackedFile>> {
    if fs::symlink_metadata(dest).is_ok() {
        return Err(Error::failed(format!("{} exists already", dest.display())));
    }
    let survey = inspect_archive(archive, limits)?;
    let selection = ArchiveSelection::new(filter, &survey, archive)?;
    survey.check_clean(archive)?;
    let temporary = tempfile::Builder::new()
        .prefix(".unpack-")
        .tempdir_in(io::folder_of(dest))
        .map_err(|e| Error::io("create a temporary folder next to", dest, e))?;
    // The temporary folder itself has mode 0700; the tree inside it gets the usual mode.
    let tree = temporary.path().join("tree");
    fs::create_dir(&tree).map_err(|e| Error::io("create", &tree, e))?;
    let mut writer = UnpackWriter {
        root: tree.clone(),
        remaining: limits.compute_max_size(archive_size(archive)?).0,
        done: Vec::new(),
    };
    match archive.format {
        ArchiveFormat::Zip => zip::extract(archive, &selection, &mut writer)?,
        _ => tar::extract(archive, &selection, &mut writer)?,
    }
    let mut done = writer.done;
    done.sort_by(|a, b| a.path.cmp(&b.path));
    io::move_into_place(&tree, dest)?;
    Ok(done)
}

fn inspect_archive(archive: &ArchiveFile, limits: &UnpackLimits) -> Result<ArchiveSurvey> {
    match archive.format {
        ArchiveFormat::Zip => zip::inspect(archive, limits),
        _ => tar::inspect(archive, limits),
    }
}

fn archive_size(archive: &ArchiveFile) -> Result<u64> {
    fs::metadata(archive.file)
        .map(|m| m.len())
        .map_err(|e| Error::io("read", archive.file, e))
}

/// Builds the error for an archive that violates its format.
fn report_broken(archive: &ArchiveFile, why: impl std::fmt::Display) -> Error {
    Error::new(
        Kind::Unproved,
        format!("{} cannot be unpacked: {why}", archive.name),
    )
}

/// Writes selected files below the temporary tree.
struct UnpackWriter {
    root: PathBuf,
    /// Bytes that may still be written, regardless of the headers.
    remaining: u64,
    done: Vec<UnpackedFile>,
}

impl UnpackWriter {
    /// Writes a file. The survey has checked `path`; `size` is from the archive's header.
    fn write_file(
        &mut self,
        archive: &ArchiveFile,
        path: &str,
        size: u64,
        from: impl Read,
    ) -> Result<()> {
        let to = self.root.join(path);
        io::create_folders(io::folder_of(&to))?;
        let mut file = File::create_new(&to).map_err(|e| Error::io("write", &to, e))?;
        let mut from = from.take(self.remaining.min(size).saturating_add(1));
        let mut hasher = Hasher::new(Algorithm::Sha256);
        let mut buffer = vec![0; 256 << 10];
        let mut written = 0;
        loop {
            let n = from
                .read(&mut buffer)
                .map_err(|e| report_broken(archive, format!("{path}: {e}")))?;
            if n == 0 {
                break;
            }
            written += n as u64;
            if written > self.remaining.min(size) {
                return Err(report_broken(
                    archive,
                    format!("{path} has more than the {size} bytes stated in the archive"),
                ));
            }
            hasher.update(&buffer[..n]);
            file.write_all(&buffer[..n])
                .map_err(|e| Error::io("write", &to, e))?;
        }
        if written != size {
            return Err(report_broken(
                archive,
                format!("{path} ends after {written} of {size} bytes"),
            ));
        }
        file.sync_all().map_err(|e| Error::io("write", &to, e))?;
        self.remaining -= written;
        self.done.push(UnpackedFile {
            path: path.to_string(),
            size,
            sha256: hasher.finish(),
        });
        Ok(())
    }

    fn create_folder(&mut self, path: &str) -> Result<()> {
        io::create_folders(&self.root.join(path))
    }
}
