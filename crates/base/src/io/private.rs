//! Folders and files that only their owner can access.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use crate::error::{Error, Kind, Result};

/// Removes the write permission of other users from everything that this process and its children
/// create from now on, in addition to the umask. Permissions of the group are kept.
#[cfg(unix)]
pub fn forbid_others_to_write() {
    use nix::sys::stat::{Mode, umask};
    let inherited = umask(Mode::S_IWOTH);
    umask(inherited | Mode::S_IWOTH);
}

/// Does nothing: a new file has the permissions of its folder.
#[cfg(windows)]
pub fn forbid_others_to_write() {}

/// Creates the folder and its parents for its owner alone (0700).
#[cfg(unix)]
pub fn create_private_folders(folder: &Path) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .create(folder)
        .map_err(|e| Error::io("create", folder, e))
}

/// Creates the folder for its owner, SYSTEM and administrators alone, and its parents with default
/// permissions.
#[cfg(windows)]
pub fn create_private_folders(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)
        .and_then(|()| make_private(folder))
        .map_err(|e| Error::io("create", folder, e))
}

/// Creates an empty file for its owner alone (0600), replacing an existing one. On Windows it has
/// the permissions of its folder.
pub fn create_private_file(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    // An existing file has kept its mode.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        if file.metadata()?.permissions().mode() & 0o077 != 0 {
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
        }
    }
    Ok(file)
}

/// Restricts an existing file or folder to its owner. On Windows its folder's permissions apply.
pub fn restrict_to_owner(path: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // The mode of a link's target, since that is the one that is set.
        let mode = fs::metadata(path)?.permissions().mode();
        if mode & 0o077 != 0 {
            fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o700))?;
        }
    }
    #[cfg(windows)]
    fs::metadata(path)?;
    Ok(())
}

/// Restricts a new, empty file or folder, and everything created in it, to its owner, SYSTEM (as
/// which Hyper-V attaches discs) and administrators.
#[cfg(windows)]
pub fn make_private(path: &Path) -> std::io::Result<()> {
    use std::os::windows::ffi::OsStrExt as _;
    use std::ptr::null_mut;
    use windows_sys::Win32::Foundation::LocalFree;
    use windows_sys::Win32::Security::Authorization::{
        ConvertStringSecurityDescriptorToSecurityDescriptorW, SDDL_REVISION_1,
    };
    use windows_sys::Win32::Security::{DACL_SECURITY_INFORMATION, SetFileSecurityW};

    /// Protected: nothing is inherited. S-1-3-4 is OWNER RIGHTS (Microsoft: Security Descriptor
    /// String Format).
    const RIGHTS: &str = "D:P(A;OICI;FA;;;S-1-3-4)(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)";
    let rights: Vec<u16> = RIGHTS.encode_utf16().chain([0]).collect();
    let path: Vec<u16> = path.as_os_str().encode_wide().chain([0]).collect();
    let mut descriptor = null_mut();
    // SAFETY: both texts end with a zero; the descriptor is the system's, and is freed once.
    unsafe {
        let read = ConvertStringSecurityDescriptorToSecurityDescriptorW(
            rights.as_ptr(),
            SDDL_REVISION_1,
            &mut descriptor,
            null_mut(),
        );
        if read == 0 {
            return Err(std::io::Error::last_os_error());
        }
        let set = SetFileSecurityW(path.as_ptr(), DACL_SECURITY_INFORMATION, descriptor);
        let result = match set {
            0 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        };
        LocalFree(descriptor);
        result
    }
}

/// Returns the folder for sockets of this user's builds: `/tmp/winimg-<uid>`, owned by the user
/// with mode 0700. Not `$TMPDIR`: its path may be too long for a socket.
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

/// Returns the private folder of this user's builds: `%LOCALAPPDATA%\winimg\run`. Only the user,
/// SYSTEM and administrators can access the folders of a profile (Microsoft: KNOWNFOLDERID,
/// FOLDERID_LocalAppData).
#[cfg(windows)]
pub fn runtime_folder() -> Result<PathBuf> {
    let local = std::env::var_os("LOCALAPPDATA").map(PathBuf::from);
    let Some(local) = local.filter(|folder| folder.is_absolute()) else {
        return Err(
            Error::new(Kind::Host, "there is no private folder for the build")
                .expected("LOCALAPPDATA with a full path")
                .cure("run winimg as a user with a profile"),
        );
    };
    let folder = local.join("winimg").join("run");
    create_private_folders(&folder)?;
    Ok(folder)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn an_existing_file_becomes_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "before").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        create_private_file(&path).unwrap();
        assert_eq!((mode(&path), fs::read(&path).unwrap()), (0o600, vec![]));
    }

    #[test]
    fn the_target_of_a_link_is_restricted() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        symlink(&path, &link).unwrap();
        restrict_to_owner(&link).unwrap();
        // Not 0700, which would be the link's own mode.
        assert_eq!(mode(&path), 0o600);
    }
}
