//! Opens and reads files whose paths come from the user or from another program.
//!
//! Accepts only regular files, so that a named pipe, a device or a folder is an error instead of an
//! endless wait, and reads only up to a limit, so that memory is bounded.

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read as _};
use std::path::Path;

/// Maximum sizes of files that are read into memory, in bytes, by purpose.
pub mod limit {
    /// Recipes, packs, targets, scripts, configuration files and lists.
    pub const TEXT: u64 = 4 << 20;
    /// Answer files; Microsoft's longest samples have a tenth of this.
    pub const ANSWER_FILE: u64 = 1 << 20;
    /// Keys, certificates and other trust material.
    pub const KEY: u64 = 4 << 20;
    /// Records that winimg wrote: manifests, event streams, bills of materials.
    pub const RECORD: u64 = 256 << 20;
}

/// Opens a regular file for reading. Links are followed; for anything else the error names its
/// type.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    // Opening a named pipe would wait for a writer.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        nix::fcntl::OFlag::O_NONBLOCK.bits(),
    );
    let file = options.open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        return Ok(file);
    }
    let found = name_of(kind);
    Err(io::Error::other(format!("not a regular file ({found})")))
}

/// Refuses a named pipe, a socket or a character device, but not a file, disk, folder or missing
/// path.
pub fn refuse_streams(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        let Ok(metadata) = std::fs::metadata(path) else {
            return Ok(());
        };
        let kind = metadata.file_type();
        if kind.is_fifo() || kind.is_socket() || kind.is_char_device() {
            let found = name_of(kind);
            return Err(io::Error::other(format!("not a regular file ({found})")));
        }
    }
    let _ = path;
    Ok(())
}

/// Reads a whole regular file of at most `limit` bytes.
pub fn read_limited(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_open(open_regular(path)?, limit)
}

/// Reads a file given on the command line, of at most `limit` bytes: a regular file, or the unnamed
/// pipe of a shell's `<(command)`.
pub fn read_argument(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    if is_unnamed_pipe(path) {
        read_open(File::open(path)?, limit)
    } else {
        read_limited(path, limit)
    }
}

/// Returns true for an unnamed pipe, which has no path of its own. Opening it does not wait, since
/// its other end is already open.
#[cfg(unix)]
fn is_unnamed_pipe(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    let is_pipe = std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo());
    is_pipe && std::fs::canonicalize(path).is_err()
}

#[cfg(not(unix))]
fn is_unnamed_pipe(_: &Path) -> bool {
    false
}

fn read_open(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let size = file.metadata()?.len();
    if size > limit {
        return Err(too_large(limit));
    }
    // Pipes and files in `/proc` have no size, and any file may grow.
    let mut bytes = Vec::with_capacity(size as usize);
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        Err(too_large(limit))
    } else {
        Ok(bytes)
    }
}

/// Reads a whole regular file of at most `limit` bytes of UTF-8.
pub fn read_text_limited(path: &Path, limit: u64) -> io::Result<String> {
    decode_text(read_limited(path, limit)?)
}

/// Reads UTF-8 text like [`read_argument`].
pub fn read_text_argument(path: &Path, limit: u64) -> io::Result<String> {
    decode_text(read_argument(path, limit)?)
}

fn decode_text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("byte {at} is not UTF-8"),
        )
    })
}

fn too_large(limit: u64) -> io::Error {
    let limit = match limit >> 20 {
        0 => format!("{} KiB", limit >> 10),
        mib => format!("{mib} MiB"),
    };
    io::Error::new(
        io::ErrorKind::FileTooLarge,
        format!("larger than the limit of {limit} for this kind of file"),
    )
}

fn name_of(kind: FileType) -> &'static str {
    if kind.is_dir() {
        return "a folder";
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        if kind.is_fifo() {
            return "a named pipe";
        }
        if kind.is_char_device() || kind.is_block_device() {
            return "a device";
        }
        if kind.is_socket() {
            return "a socket";
        }
    }
    "a special file"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_up_to_their_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        for (size, is_read) in [(0, true), (1023, true), (1024, true), (1025, false)] {
            std::fs::write(&path, vec![b'x'; size]).unwrap();
            let read = read_limited(&path, 1024);
            assert_eq!(
                read.is_ok_and(|bytes| bytes.len() == size),
                is_read,
                "{size}"
            );
        }
        let huge = File::create(&path).unwrap();
        huge.set_len(1 << 40).unwrap();
        let error = read_limited(&path, 4 << 20).unwrap_err();
        assert_eq!(
            error.to_string(),
            "larger than the limit of 4 MiB for this kind of file"
        );
    }

    #[test]
    #[cfg(unix)]
    fn pipes_devices_sockets_and_folders_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        for (path, what) in [
            (pipe.as_path(), "a named pipe"),
            (Path::new("/dev/zero"), "a device"),
            (&link, "a device"),
            (folder.path(), "a folder"),
        ] {
            let error = read_limited(path, 1 << 20).unwrap_err();
            assert_eq!(error.to_string(), format!("not a regular file ({what})"));
            assert_eq!(refuse_streams(path).is_ok(), what == "a folder", "{what}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn an_unnamed_pipe_is_read_where_a_user_gives_it() {
        use std::io::Write as _;
        use std::os::fd::AsRawFd as _;

        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"key").unwrap();
        drop(writer);
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        assert_eq!(read_argument(Path::new(&path), 3).unwrap(), b"key");
        assert!(read_limited(Path::new(&path), 3).is_err());
        let folder = tempfile::tempdir().unwrap();
        let named = folder.path().join("pipe");
        nix::unistd::mkfifo(&named, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(read_argument(&named, 3).is_err());
    }

    #[test]
    #[cfg(unix)]
    fn links_to_regular_files_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "text").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("a", &link).unwrap();
        assert_eq!(read_text_limited(&link, 4).unwrap(), "text");
    }
}
