//! Driver packages: the files of a folder that belong to one, and the driver folders on a
//! virtio-win medium.
//!
//! A package is everything its INF references: the INF itself, its catalog, and the files of its
//! SourceDisksFiles. Everything else in the folder, such as symbols and tools, is left out. Refuses
//! names that lead out of the folder, and packages with missing or empty files. Does not check
//! signatures.
//! (Microsoft: INF SourceDisksFiles Section, INF Version Section)

mod choice;
mod inf;

use std::path::Path;

use crate::udf::{Medium, MediumEntry};
use crate::wim::WindowsRelease;
use winimg_base::error::{Error, Result};
use winimg_base::io;
use winimg_base::problem::Problem;

pub use choice::{DriverPackage, DriverPackageFault, DriverSelection, is_inf};

/// Size in bytes of the largest INF that is read; those of graphics drivers have up to 3 MiB.
const MAX_INF_SIZE: u64 = 16 << 20;
/// Maximum depth of nested folders.
const MAX_DEPTH: usize = 8;

/// A folder on a medium: its files by their paths below it, and the packages among them.
pub struct MediumDrivers {
    pub files: Vec<(String, MediumEntry)>,
    pub packages: Result<DriverSelection, Vec<DriverPackageFault>>,
}

impl MediumDrivers {
    pub fn find_entry(&self, path: &str) -> Option<&MediumEntry> {
        let found = self.files.iter().find(|(known, _)| known == path);
        found.map(|(_, entry)| entry)
    }
}

/// Returns a driver's folder on a virtio-win medium: `viostor/2k22/amd64`.
pub fn format_medium_folder(driver: &str, release: WindowsRelease) -> String {
    format!("{driver}/{}/amd64", release.virtio_folder())
}

/// Reads the driver packages of a folder on a medium; `None` if the medium has no such folder.
pub fn on_medium(medium: &Medium, folder: &str) -> Result<Option<MediumDrivers>> {
    if !medium.find(folder)?.is_some_and(|e| e.is_dir) {
        return Ok(None);
    }
    let mut files = Vec::new();
    collect(medium, folder, "", 0, &mut files)?;
    let paths: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
    let empty: Vec<&str> = files
        .iter()
        .filter(|(_, entry)| entry.size == 0)
        .map(|(path, _)| path.as_str())
        .collect();
    let packages = choice::choose(
        &paths,
        is_here,
        |path| empty.contains(&path),
        |path| {
            let (_, entry) = files
                .iter()
                .find(|(known, _)| known == path)
                .ok_or_else(|| Error::failed(format!("{path} is not in {folder}")))?;
            medium.read(entry, MAX_INF_SIZE)
        },
    )?;
    Ok(Some(MediumDrivers { files, packages }))
}

/// Returns true for a file directly in the folder, not in one below it.
pub fn is_here(path: &str) -> bool {
    !path.contains('/')
}

/// Finds the driver packages in a folder of the host, for the INFs that `is_wanted` accepts.
pub fn in_folder(
    folder: &Path,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Result<DriverSelection, Vec<DriverPackageFault>>> {
    let files = io::files_below(folder).map_err(|e| Error::io("read", folder, e))?;
    let paths: Vec<&str> = files.iter().map(String::as_str).collect();
    select_packages(folder, &paths, is_wanted)
}

/// Selects the packages of the INFs that `is_wanted` accepts; `paths` are all files below `folder`.
pub fn select_packages(
    folder: &Path,
    paths: &[&str],
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Result<DriverSelection, Vec<DriverPackageFault>>> {
    choice::choose(
        paths,
        is_wanted,
        |path| is_empty_file(&folder.join(path)),
        |path| {
            let file = folder.join(path);
            let size = std::fs::metadata(&file)
                .map_err(|e| Error::io("read", &file, e))?
                .len();
            if size > MAX_INF_SIZE {
                let fact = "this file is too large for an INF";
                return Err(Error::failed(fact)
                    .at(file.display())
                    .expected(format!("{MAX_INF_SIZE} bytes at most"))
                    .found(format!("{size} bytes")));
            }
            std::fs::read(&file).map_err(|e| Error::io("read", &file, e))
        },
    )
}

/// A file that cannot be read is not empty: reading it reports the reason.
fn is_empty_file(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.len() == 0)
}

/// Combines the faults of a folder's packages into one problem.
pub fn merge_faults(faults: Vec<DriverPackageFault>) -> Problem {
    let mut problems: Vec<Problem> = faults.into_iter().map(|fault| fault.problem).collect();
    if problems.len() == 1 {
        return problems.remove(0);
    }
    let fact = format!(
        "{} problems in the driver packages of this folder",
        problems.len()
    );
    let mut cures: Vec<String> = Vec::new();
    for cure in problems.iter().flat_map(|problem| &problem.cures) {
        if !cures.contains(cure) {
            cures.push(cure.clone());
        }
    }
    let lines = problems.iter().map(Problem::in_one_line);
    let all = Problem::new(fact).lines(lines);
    cures.into_iter().fold(all, Problem::cure)
}

/// Describes ignored files: `13 files not referenced by any INF are left out: netkvmco.exe and 12
/// more`.
pub fn left_out_in_words(paths: &[String]) -> Option<String> {
    const MAX_SHOWN: usize = 4;
    let shown: Vec<&str> = paths.iter().take(MAX_SHOWN).map(String::as_str).collect();
    let more = match paths.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let files = match paths.len() {
        0 => return None,
        1 => "1 file not referenced by any INF is".into(),
        count => format!("{count} files not referenced by any INF are"),
    };
    Some(format!("{files} left out: {}{more}", shown.join(", ")))
}

fn collect(
    medium: &Medium,
    folder: &str,
    above: &str,
    depth: usize,
    files: &mut Vec<(String, MediumEntry)>,
) -> Result<()> {
    for entry in medium.read_dir(&format!("{folder}/{above}"))? {
        let path = format!("{above}{}", entry.name);
        if !entry.is_dir {
            files.push((path, entry));
        } else if depth < MAX_DEPTH {
            collect(medium, folder, &format!("{path}/"), depth + 1, files)?;
        }
    }
    Ok(())
}
