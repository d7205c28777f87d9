//! Files of the machine and of the step, copied without secrets and without filling the host's disk.
//!
//! Copies regular files only, follows no link, and of a flood keeps the end.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::redact::Redactor;

/// Where the logs that were read from the disk lie in the evidence.
pub const LOGS_OF_WINDOWS: &str = "logs-of-windows";
/// Pictures of the screen: in the machine's folder, in the evidence, and of a build that ended well in its output folder.
pub const SCREENS: &str = "screens";
/// The failed step's whole output.
pub const STEP_LOG: &str = "step.log";

/// What the machine leaves in its run directory that is worth keeping. Sockets and firmware variables are not.
const TEXT: &[&str] = &["log", "txt", "jsonl"];
const PICTURE: &str = "png";
/// Of a text, its end; of a picture, all or nothing.
const KEPT: usize = 32 << 20;
const LARGEST_PICTURE: u64 = 16 << 20;
/// Directories below the run directory, and files in all.
const DEEPEST: usize = 3;
const MOST_FILES: usize = 2000;

/// The last bytes of what is written to it.
pub struct Tail {
    bytes: Vec<u8>,
    keep: usize,
    all: u64,
}

impl Tail {
    pub fn new(keep: usize) -> Self {
        Self {
            bytes: Vec::new(),
            keep,
            all: 0,
        }
    }

    /// The bytes, and whether something before them was dropped. Then they begin with a whole line, or at least behind
    /// what may be the rest of a secret of `longest` bytes, and at an even place: UTF-16 stays what it is.
    pub fn end(mut self, longest: usize) -> (Vec<u8>, bool) {
        let cut = self.bytes.len().saturating_sub(self.keep);
        let dropped = self.all - (self.bytes.len() - cut) as u64;
        self.bytes.drain(..cut);
        if dropped == 0 {
            return (self.bytes, false);
        }
        let newline = self.bytes.iter().position(|b| *b == b'\n');
        let start = newline.map_or(longest, |n| n + 1).min(self.bytes.len());
        let odd = (dropped + start as u64) % 2;
        // In UTF-16 the newline's second byte follows it; in UTF-8 a letter more is lost.
        let wide = self.bytes.get(start) == Some(&0) && odd == 1;
        self.bytes
            .drain(..(start + usize::from(wide)).min(self.bytes.len()));
        (self.bytes, true)
    }
}

impl Write for Tail {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.all += part.len() as u64;
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

/// Copies what the machine left; paths relative to `to`.
pub fn copy_machine(from: &Path, to: &Path, redactor: &Redactor) -> io::Result<Vec<PathBuf>> {
    let mut copied = Vec::new();
    below(from, Path::new(""), 0, &mut |path| {
        let (from, to) = (from.join(path), to.join(path));
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        let kept = if extension == PICTURE {
            copy_picture(&from, &to)?
        } else if TEXT.contains(&extension) {
            copy_text(&from, &to, redactor)?;
            true
        } else {
            false
        };
        if kept {
            copied.push(path.to_owned());
        }
        Ok(())
    })?;
    copied.sort();
    Ok(copied)
}

fn below(
    root: &Path,
    folder: &Path,
    depth: usize,
    each: &mut dyn FnMut(&Path) -> io::Result<()>,
) -> io::Result<()> {
    for entry in fs::read_dir(root.join(folder))?.take(MOST_FILES) {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() && depth < DEEPEST {
            below(root, &path, depth + 1, each)?;
        } else if kind.is_file() {
            each(&path)?;
        }
    }
    Ok(())
}

fn copy_picture(from: &Path, to: &Path) -> io::Result<bool> {
    if fs::metadata(from)?.len() > LARGEST_PICTURE {
        return Ok(false);
    }
    make_folder_of(to)?;
    fs::copy(from, to).map(|_| true)
}

/// The end of a text file, redacted.
pub fn copy_text(from: &Path, to: &Path, redactor: &Redactor) -> io::Result<()> {
    let bytes = end_of(from, KEPT, redactor.longest())?;
    make_folder_of(to)?;
    fs::write(to, redactor.bytes(&bytes))
}

/// The last bytes of a file of ours, from the beginning of a line.
pub fn end_of(path: &Path, keep: usize, longest: usize) -> io::Result<Vec<u8>> {
    let mut tail = Tail::new(keep);
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

/// Leaves the pictures of a build that ended well, with their times.
pub fn keep_screens(run_dir: &Path, output: &Path) -> io::Result<()> {
    let from = run_dir.join(SCREENS);
    match from.is_dir() {
        true => copy_machine(&from, &output.join(SCREENS), &Redactor::default()).map(|_| ()),
        false => Ok(()),
    }
}

fn make_folder_of(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(keep: usize, parts: &[&[u8]], longest: usize) -> (Vec<u8>, bool) {
        let mut tail = Tail::new(keep);
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
