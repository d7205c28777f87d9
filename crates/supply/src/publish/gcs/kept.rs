//! What is kept of an upload until it ends, beside the file that is sent: Cloud Storage lists no unfinished ones.
//!
//! Who knows the address of an upload may write to it, so that the file is its owner's alone. One that cannot be read counts as none.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::super::Object;
use super::super::body::Body;
use winimg_base::error::{Error, Result};
use winimg_base::io;

/// An upload that was begun.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    /// The object's address.
    at: String,
    /// Bytes.
    size: u64,
    sha256: String,
    /// Of the object that is replaced.
    generation: String,
    /// The upload's own address.
    upload: String,
}

impl Kept {
    fn of(object: &Object, generation: &str, upload: &str) -> Self {
        Self {
            at: object.at.clone(),
            size: object.size,
            sha256: object.sha256.hex(),
            generation: generation.to_owned(),
            upload: upload.to_owned(),
        }
    }
}

/// The address of the upload that an earlier run began of this very object.
pub fn read(object: &Object, generation: &str) -> Option<String> {
    let kept: Kept = serde_json::from_slice(&fs::read(path(object)?).ok()?).ok()?;
    let ours = Kept::of(object, generation, &kept.upload);
    (ours == kept).then_some(kept.upload)
}

pub fn write(object: &Object, generation: &str, upload: &str) -> Result<()> {
    let Some(path) = path(object) else {
        return Ok(());
    };
    let kept = Kept::of(object, generation, upload);
    let unwritten = |e| Error::io("write", &path, e);
    let bytes = serde_json::to_vec(&kept)
        .map_err(|e| Error::failed("an upload cannot be noted").because(e))?;
    let mut file = io::create_private_file(&path).map_err(unwritten)?;
    file.write_all(&bytes).map_err(unwritten)
}

pub fn remove(object: &Object) -> Result<()> {
    path(object).map_or(Ok(()), |path| io::remove_if_there(&path))
}

/// `None`: the object is no file.
fn path(object: &Object) -> Option<PathBuf> {
    match &object.body {
        Body::File { path, .. } => Some(of(path)),
        Body::Made(_) => None,
    }
}

fn of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.upload"))
}
