//! Drivers on the virtio-win medium: the folder of each for a release, and the files of it that go into an image.
//!
//! What is proved and what is taken are both listed here. Refuses nothing: a folder that is not there has no files.

use crate::udf::{Entry, Medium};
use crate::wim::Release;
use winimg_base::error::Result;

/// The kinds of files that belong to a driver package.
const KINDS: [&str; 5] = ["inf", "sys", "cat", "dll", "exe"];

/// `viostor/2k22/amd64`
pub fn folder(driver: &str, release: Release) -> String {
    format!("{driver}/{}/amd64", release.virtio_folder())
}

/// The files of this folder that go into an image; `None` when the medium has no such folder.
pub fn files(medium: &Medium, folder: &str) -> Result<Option<Vec<Entry>>> {
    if !medium.find(folder)?.is_some_and(|e| e.is_dir) {
        return Ok(None);
    }
    let mut entries = medium.read_dir(folder)?;
    entries.retain(|e| !e.is_dir && belongs(&e.name));
    Ok(Some(entries))
}

/// Whether a file of this name belongs to a driver package: not its symbols, and no text for people.
pub fn belongs(name: &str) -> bool {
    name.rsplit_once('.')
        .is_some_and(|(_, ext)| KINDS.iter().any(|kind| ext.eq_ignore_ascii_case(kind)))
}
