//! A small file written beside its final name, synced, and renamed.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::error::{Error, Result};

/// Replaces `path` in one step. The directory must exist.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let bad = |e| Error::io("write", path, e);
    // Removes its file by itself when anything below fails.
    let mut file = tempfile::Builder::new()
        .prefix(".winimg-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(directory)
        .map_err(bad)?;
    file.write_all(bytes).map_err(bad)?;
    file.as_file().sync_all().map_err(bad)?;
    file.persist(path).map_err(|e| bad(e.error))?;
    File::open(directory)
        .and_then(|d| d.sync_all())
        .map_err(bad)
}
