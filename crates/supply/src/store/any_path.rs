//! Serializes paths as text, or as bytes if they are not UTF-8, which is possible on Unix.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize as _, Serializer};

#[derive(Deserialize)]
#[serde(untagged)]
enum RecordedPath {
    Text(PathBuf),
    Bytes(Vec<u8>),
}

pub fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    match path.to_str() {
        Some(text) => to.serialize_str(text),
        None => path.as_os_str().as_encoded_bytes().serialize(to),
    }
}

pub fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<PathBuf, D::Error> {
    Ok(match RecordedPath::deserialize(from)? {
        RecordedPath::Text(path) => path,
        RecordedPath::Bytes(bytes) => from_bytes(bytes),
    })
}

#[cfg(unix)]
fn from_bytes(bytes: Vec<u8>) -> PathBuf {
    use std::os::unix::ffi::OsStringExt as _;
    std::ffi::OsString::from_vec(bytes).into()
}

/// Paths on Windows that are not valid UTF-16 are not found again.
#[cfg(not(unix))]
fn from_bytes(bytes: Vec<u8>) -> PathBuf {
    String::from_utf8_lossy(&bytes).into_owned().into()
}
