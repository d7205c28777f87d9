//! Folders that their owner alone may look into.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Kind, Result};

/// Makes the folder, and those above it, for its owner alone (0700). On Windows it inherits the rights of the folder above,
/// and [`runtime_folder`] lies in the user's profile.
pub fn create_private_folders(folder: &Path) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let made = builder.create(folder);
    made.map_err(|e| Error::io("create", folder, e))
}

/// Where this user's builds have their sockets: `/tmp/winimg-<uid>`, 0700 and ours. Not `$TMPDIR`: its path may be too
/// long for a socket.
#[cfg(unix)]
pub fn runtime_folder() -> Result<PathBuf> {
    use std::os::unix::fs::MetadataExt as _;

    let uid = nix::unistd::getuid();
    let folder = PathBuf::from(format!("/tmp/winimg-{uid}"));
    create_private_folders(&folder)?;
    let found = fs::symlink_metadata(&folder).map_err(|e| Error::io("read", &folder, e))?;
    if !found.is_dir() || found.uid() != uid.as_raw() || found.mode() & 0o077 != 0 {
        return Err(
            Error::new(Kind::Host, "the directory for sockets is not private")
                .at(folder.display())
                .expected(format!("a directory of user {uid}, mode 0700"))
                .cure("remove it"),
        );
    }
    Ok(folder)
}

/// Where this user's builds have what is theirs alone: `%LOCALAPPDATA%\winimg\run`. A profile's folders are open to its
/// user, to SYSTEM and to administrators (Microsoft: KNOWNFOLDERID, FOLDERID_LocalAppData).
#[cfg(windows)]
pub fn runtime_folder() -> Result<PathBuf> {
    let local = std::env::var_os("LOCALAPPDATA").map(PathBuf::from);
    let Some(local) = local.filter(|folder| folder.is_absolute()) else {
        return Err(
            Error::new(Kind::Host, "there is no private folder for the build")
                .expected("LOCALAPPDATA with a full path")
                .cure("run winimg as a user who has a profile"),
        );
    };
    let folder = local.join("winimg").join("run");
    create_private_folders(&folder)?;
    Ok(folder)
}
