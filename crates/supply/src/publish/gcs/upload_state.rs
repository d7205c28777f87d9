//! State of an unfinished upload, stored beside the file to send: Cloud Storage does not list them.
//!
//! Anyone with the address of an upload may write to it, so only the owner can read the file. An
//! unreadable file is ignored.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::super::PublishObject;
use super::super::body::ObjectBody;
use winimg_base::error::{Error, Result};
use winimg_base::io;

/// An unfinished upload.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct UploadState {
    /// The object's address.
    at: String,
    /// Bytes.
    size: u64,
    sha256: String,
    /// Generation of the object that is replaced.
    generation: String,
    /// The upload's own address.
    upload: String,
}

impl UploadState {
    fn from_object(object: &PublishObject, generation: &str, upload: &str) -> Self {
        Self {
            at: object.at.clone(),
            size: object.size,
            sha256: object.sha256.hex(),
            generation: generation.to_owned(),
            upload: upload.to_owned(),
        }
    }
}

/// Reads the address of an earlier run's upload of exactly this object.
pub fn read(object: &PublishObject, generation: &str) -> Option<String> {
    let kept: UploadState = serde_json::from_slice(&fs::read(find_path(object)?).ok()?).ok()?;
    let ours = UploadState::from_object(object, generation, &kept.upload);
    (ours == kept).then_some(kept.upload)
}

pub fn write(object: &PublishObject, generation: &str, upload: &str) -> Result<()> {
    let Some(path) = find_path(object) else {
        return Ok(());
    };
    let kept = UploadState::from_object(object, generation, upload);
    let bytes = serde_json::to_vec(&kept)
        .map_err(|e| Error::failed("the state of an upload cannot be saved").because(e))?;
    io::create_private_file(&path)
        .and_then(|mut file| file.write_all(&bytes))
        .map_err(|e| Error::io("write", &path, e))
}

pub fn remove(object: &PublishObject) -> Result<()> {
    find_path(object).map_or(Ok(()), |path| io::remove_if_exists(&path))
}

/// Returns the path of the state; `None`: the object is not a file.
fn find_path(object: &PublishObject) -> Option<PathBuf> {
    match &object.body {
        ObjectBody::File { path, .. } => Some(state_path(path)),
        ObjectBody::Made(_) => None,
    }
}

fn state_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.upload"))
}
