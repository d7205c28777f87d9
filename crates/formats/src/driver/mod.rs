//! Driver packages: which files of a folder belong to one, and the folders of drivers on a
//! virtio-win medium.
//!
//! A package is what its INF names: the INF itself, its catalog, and the files of its
//! SourceDisksFiles. Everything else in the folder is left out, such as symbols and tools. Refuses
//! names that lead out of the folder, and packages that are not complete. Judges no signature.
//! (Microsoft: INF SourceDisksFiles Section, INF Version Section)

mod choice;
mod inf;

use std::path::Path;

use crate::udf::{Entry, Medium};
use crate::wim::Release;
use winimg_base::error::{Error, Result};
use winimg_base::io;
use winimg_base::problem::Problem;

pub use choice::{Chosen, Fault, Package, is_inf};

/// Size in bytes of the largest INF that is read; those of graphics drivers have up to 3 MiB.
const LARGEST_INF: u64 = 16 << 20;
/// Folders below each other that are looked into.
const MAX_DEPTH: usize = 8;

/// A folder on a medium: its files by their paths below it, and the packages among them.
pub struct OnMedium {
    pub files: Vec<(String, Entry)>,
    pub packages: Result<Chosen, Vec<Fault>>,
}

impl OnMedium {
    pub fn entry(&self, path: &str) -> Option<&Entry> {
        let found = self.files.iter().find(|(known, _)| known == path);
        found.map(|(_, entry)| entry)
    }
}

/// `viostor/2k22/amd64`
pub fn folder(driver: &str, release: Release) -> String {
    format!("{driver}/{}/amd64", release.virtio_folder())
}

/// The driver packages of a medium's folder; `None` when the medium has no such folder.
pub fn on_medium(medium: &Medium, folder: &str) -> Result<Option<OnMedium>> {
    if !medium.find(folder)?.is_some_and(|e| e.is_dir) {
        return Ok(None);
    }
    let mut files = Vec::new();
    collect(medium, folder, "", 0, &mut files)?;
    let paths: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
    let packages = choice::choose(&paths, is_here, |path| {
        let (_, entry) = files
            .iter()
            .find(|(known, _)| known == path)
            .ok_or_else(|| Error::failed(format!("{path} is not in {folder}")))?;
        medium.read(entry, LARGEST_INF)
    })?;
    Ok(Some(OnMedium { files, packages }))
}

/// Whether a path names a file of the folder itself, not of one below it.
pub fn is_here(path: &str) -> bool {
    !path.contains('/')
}

/// The driver packages of a folder of this computer, of those INFs that `is_wanted` takes.
pub fn in_folder(
    folder: &Path,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Result<Chosen, Vec<Fault>>> {
    let files = io::files_below(folder).map_err(|e| Error::io("read", folder, e))?;
    let paths: Vec<&str> = files.iter().map(String::as_str).collect();
    chosen(folder, &paths, is_wanted)
}

/// The packages of those INFs of a folder that `is_wanted` takes; `paths` are all files below it.
pub fn chosen(
    folder: &Path,
    paths: &[&str],
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Result<Chosen, Vec<Fault>>> {
    choice::choose(paths, is_wanted, |path| {
        let file = folder.join(path);
        let cannot = |e| Error::io("read", &file, e);
        let size = std::fs::metadata(&file).map_err(cannot)?.len();
        if size > LARGEST_INF {
            let fact = "this file is too large for an INF";
            return Err(Error::failed(fact)
                .at(file.display())
                .expected(format!("{LARGEST_INF} bytes at most"))
                .found(format!("{size} bytes")));
        }
        std::fs::read(&file).map_err(cannot)
    })
}

/// One problem of all that is wrong with the packages of a folder.
pub fn problem(faults: Vec<Fault>) -> Problem {
    let mut problems: Vec<Problem> = faults.into_iter().map(|fault| fault.problem).collect();
    if problems.len() == 1 {
        return problems.remove(0);
    }
    let fact = format!(
        "{} faults in the driver packages of this folder",
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

/// `13 files that no INF names are left out: netkvmco.exe, netkvmco.pdb and 11 more`
pub fn left_out_in_words(paths: &[String]) -> Option<String> {
    const SHOWN: usize = 4;
    let shown: Vec<&str> = paths.iter().take(SHOWN).map(String::as_str).collect();
    let more = match paths.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let files = match paths.len() {
        0 => return None,
        1 => "1 file that no INF names is".into(),
        count => format!("{count} files that no INF names are"),
    };
    Some(format!("{files} left out: {}{more}", shown.join(", ")))
}

fn collect(
    medium: &Medium,
    folder: &str,
    above: &str,
    depth: usize,
    files: &mut Vec<(String, Entry)>,
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
