//! Restricts access to layers to their owner: a disk contains the build's files and Windows'
//! passwords.
//!
//! Files are 0600, folders 0700. On Windows the cache is in the user's profile, which others cannot
//! access.

use std::fs;
use std::path::Path;

use winimg_base::error::{Error, Result};
use winimg_base::io::{self, WorkFolder};

use super::{list_entries, name_of};

/// Restricts access to the layers' folder and to layers of earlier versions.
pub(super) fn close_layers(store: &Path) -> Result<()> {
    let layers = store.join("layers");
    if !is_open(&layers) {
        return Ok(());
    }
    io::restrict_to_owner(&layers).map_err(|e| not_closed(&layers, e))?;
    for path in [layers, store.join("quarantine"), store.join("trash")] {
        let mut folders = list_entries(&path);
        // The targets of links do not belong to the store.
        folders.retain(|path| {
            !io::is_link(path)
                && (path.join(super::layer::RECORD).is_file()
                    || WorkFolder::Draft.matches_name(&name_of(path)))
        });
        for folder in folders {
            // Another process may be removing it.
            let _ = close(&folder);
        }
    }
    Ok(())
}

/// Builds the error. The layers' folder may belong to another user, from an earlier version.
fn not_closed(layers: &Path, e: std::io::Error) -> Error {
    let is_others = e.kind() == std::io::ErrorKind::PermissionDenied;
    let error = Error::io("restrict access to", layers, e);
    if is_others {
        error.cure(
            "have its owner run winimg with this cache once, \
             or set WINIMG_CACHE_DIR to a folder of your own",
        )
    } else {
        error
    }
}

fn close(folder: &Path) -> std::io::Result<()> {
    io::restrict_to_owner(folder)?;
    for file in fs::read_dir(folder)?.flatten() {
        let path = file.path();
        if !io::is_link(&path) {
            io::restrict_to_owner(&path)?;
        }
    }
    Ok(())
}

#[cfg(unix)]
fn is_open(folder: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(folder).is_ok_and(|found| found.permissions().mode() & 0o077 != 0)
}

#[cfg(windows)]
fn is_open(_: &Path) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use crate::store::{LayerInfo, Store};
    use winimg_base::event::Cancel;
    use winimg_formats::disk::MachineDiskFormat;
    use winimg_recipe::plan::{BuildChain, BuildPart};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn open_to_all(path: &Path) {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn the_cache_of_somebody_else_is_reported_with_its_cure() {
        let denied = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let rendered = not_closed(Path::new("/cache/layers"), denied).to_string();
        assert_eq!(
            rendered,
            "cannot restrict access to /cache/layers: permission denied\n  \
             cure: have its owner run winimg with this cache once, or set WINIMG_CACHE_DIR to a \
             folder of your own"
        );
    }

    #[test]
    fn layers_are_for_their_owner_alone_also_those_of_earlier_versions() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let layers = store.layers_folder();
        assert_eq!(mode(&layers), 0o700);
        let draft = store.create_draft().unwrap();
        assert_eq!(mode(&draft.folder), 0o700);
        for name in ["disk.qcow2", "uefi-vars.fd"] {
            fs::write(draft.folder.join(name), name).unwrap();
            open_to_all(&draft.folder.join(name));
        }
        assert!(draft.disk_path(MachineDiskFormat::Qcow2).is_file());
        let mut chain = BuildChain::default();
        chain.push("windows", BuildPart::Skipped);
        let about = LayerInfo {
            parent: None,
            recipe: "node",
            links: chain.links(),
            notes: serde_json::Value::Null,
            made: 1,
        };
        let layer = store.seal(draft, about, &Cancel::default()).unwrap();
        let files = ["disk.qcow2", "uefi-vars.fd"].map(|name| layer.folder.join(name));
        assert_eq!(mode(&layer.folder), 0o700);
        for file in &files {
            assert_eq!(mode(file), 0o600, "{}", file.display());
        }
        let draft = store.create_draft().unwrap();
        fs::write(draft.folder.join("disk.qcow2"), "in the making").unwrap();
        let unfinished = draft.folder.join("disk.qcow2");

        for path in [&layers, &layer.folder, &files[0], &files[1], &unfinished] {
            open_to_all(path);
        }
        Store::open(folder.path()).unwrap();
        for path in [&layers, &layer.folder] {
            assert_eq!(mode(path), 0o700, "{}", path.display());
        }
        for path in [&files[0], &files[1], &unfinished] {
            assert_eq!(mode(path), 0o600, "{}", path.display());
        }
    }
}
