//! Copies the files of the VM and the step, without secrets and without filling the host's disk.
//!
//! Copies only regular files, follows no links, and keeps only the end of huge files.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::redact::Redactor;

/// Folder in the diagnostics for the logs read from the disk.
pub const LOGS_OF_WINDOWS: &str = "logs-of-windows";
/// Folder for screenshots in the run directory and in the diagnostics; after success, in the output
/// folder.
pub const SCREENS: &str = "screens";
/// The failed step's full output.
pub const STEP_LOG: &str = "step.log";

/// Extensions of text files to save. Sockets and firmware variables have none of them.
const TEXT_EXTENSIONS: &[&str] = &["log", "txt", "jsonl"];
const SCREENSHOT_EXTENSION: &str = "png";
/// Maximum size of a saved text; only its end is saved.
const MAX_TEXT_SIZE: usize = 32 << 20;
/// Maximum size of a screenshot; a larger one is not saved.
const MAX_PICTURE_SIZE: u64 = 16 << 20;
/// Maximum depth below the run directory.
const MAX_DEPTH: usize = 3;
/// Maximum number of files per folder.
const MAX_FILES_PER_DIR: usize = 2000;

/// A writer that keeps only the last bytes.
pub struct TailWriter {
    bytes: Vec<u8>,
    keep: usize,
    total: u64,
}

impl TailWriter {
    pub fn new(keep: usize) -> Self {
        Self {
            bytes: Vec::new(),
            keep,
            total: 0,
        }
    }

    /// Returns the bytes, and true if earlier ones were dropped.
    ///
    /// If so, they start after a line break. Without one, the first `longest` bytes are dropped,
    /// which could be the rest of a secret. UTF-16 text starts on a whole character if the
    /// one before is below U+0100.
    pub fn end(mut self, longest: usize) -> (Vec<u8>, bool) {
        let cut = self.bytes.len().saturating_sub(self.keep);
        let dropped = self.total - (self.bytes.len() - cut) as u64;
        self.bytes.drain(..cut);
        if dropped == 0 {
            return (self.bytes, false);
        }
        let newline = self.bytes.iter().position(|b| *b == b'\n');
        let start = newline.map_or(longest, |n| n + 1).min(self.bytes.len());
        let odd = (dropped + start as u64) % 2;
        // In UTF-16 the newline's second byte follows: drop it. UTF-8 text has no zero bytes.
        let wide = self.bytes.get(start) == Some(&0) && odd == 1;
        self.bytes
            .drain(..(start + usize::from(wide)).min(self.bytes.len()));
        (self.bytes, true)
    }
}

impl Write for TailWriter {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.total += part.len() as u64;
        self.bytes.extend_from_slice(part);
        if self.bytes.len() > 2 * self.keep + (1 << 20) {
            self.bytes.drain(..self.bytes.len() - self.keep);
        }
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Copies the VM's files and returns their paths relative to `to`.
pub fn copy_machine(from: &Path, to: &Path, redactor: &Redactor) -> io::Result<Vec<PathBuf>> {
    let mut copied = Vec::new();
    walk_files(from, Path::new(""), 0, &mut |path| {
        let (from, to) = (from.join(path), to.join(path));
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        let is_copied = if extension == SCREENSHOT_EXTENSION {
            copy_picture(&from, &to)?
        } else if TEXT_EXTENSIONS.contains(&extension) {
            copy_text(&from, &to, redactor)?;
            true
        } else {
            false
        };
        if is_copied {
            copied.push(path.to_owned());
        }
        Ok(())
    })?;
    copied.sort();
    Ok(copied)
}

fn walk_files(
    root: &Path,
    folder: &Path,
    depth: usize,
    each: &mut dyn FnMut(&Path) -> io::Result<()>,
) -> io::Result<()> {
    for entry in fs::read_dir(root.join(folder))?.take(MAX_FILES_PER_DIR) {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() && depth < MAX_DEPTH {
            walk_files(root, &path, depth + 1, each)?;
        } else if kind.is_file() {
            each(&path)?;
        }
    }
    Ok(())
}

fn copy_picture(from: &Path, to: &Path) -> io::Result<bool> {
    if fs::metadata(from)?.len() > MAX_PICTURE_SIZE {
        return Ok(false);
    }
    make_folder_of(to)?;
    fs::copy(from, to).map(|_| true)
}

/// Copies the end of a text file, redacted.
pub fn copy_text(from: &Path, to: &Path, redactor: &Redactor) -> io::Result<()> {
    let bytes = read_end(from, MAX_TEXT_SIZE, redactor.longest_len())?;
    make_folder_of(to)?;
    fs::write(to, redactor.redact_bytes(&bytes))
}

/// Reads the last bytes of one of winimg's own files, from the start of a line.
pub fn read_end(path: &Path, keep: usize, longest: usize) -> io::Result<Vec<u8>> {
    let mut tail = TailWriter::new(keep);
    let mut file = winimg_base::io::open_regular(path)?;
    let mut piece = vec![0; 1 << 20];
    loop {
        let n = file.read(&mut piece)?;
        if n == 0 {
            break;
        }
        tail.write_all(&piece[..n])?;
    }
    Ok(tail.end(longest).0)
}

/// Saves the screenshots of a successful build, and `times.jsonl` with their timestamps.
pub fn keep_screens(run_dir: &Path, output: &Path) -> io::Result<()> {
    let from = run_dir.join(SCREENS);
    if from.is_dir() {
        copy_machine(&from, &output.join(SCREENS), &Redactor::default()).map(|_| ())
    } else {
        Ok(())
    }
}

fn make_folder_of(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(keep: usize, parts: &[&[u8]], longest: usize) -> (Vec<u8>, bool) {
        let mut tail = TailWriter::new(keep);
        for part in parts {
            tail.write_all(part).expect("memory");
        }
        tail.end(longest)
    }

    #[test]
    fn of_a_long_log_the_last_whole_lines_are_kept() {
        assert_eq!(
            tail(99, &[b"one\n", b"two"], 5),
            (b"one\ntwo".into(), false)
        );
        assert_eq!(
            tail(7, &[b"on", b"e\ntwo\nthree"], 5),
            (b"three".into(), true)
        );
        // No line ends: what may be the rest of a secret goes.
        assert_eq!(tail(8, &[b"0123456789abcdef"], 5), (b"def".into(), true));
        let wide =
            |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
        for keep in 6..12 {
            let all = wide("one\nTwo");
            assert_eq!(tail(keep, &[&all], 0), (wide("Two"), true), "{keep}");
        }
    }
}
