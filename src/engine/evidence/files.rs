//! Copies the files of the VM and the step, without secrets and without filling the host's disk.
//!
//! Copies only regular files, follows no links, and keeps only the end of huge files.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

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
    /// The first two bytes, which may be a byte order mark.
    first: Vec<u8>,
    bytes: Vec<u8>,
    keep: usize,
    total: u64,
}

impl TailWriter {
    pub fn new(keep: usize) -> Self {
        Self {
            first: Vec::new(),
            bytes: Vec::new(),
            keep,
            total: 0,
        }
    }

    /// Returns the bytes, and true if earlier ones were dropped.
    ///
    /// If so, they start after a line break. Without one, the first `longest` bytes are dropped,
    /// which could be the rest of a secret. UTF-16 text with a byte order mark is cut between
    /// characters, and keeps the mark; without one, it starts on a whole character if the one
    /// before is below U+0100.
    pub fn end(mut self, longest: usize) -> (Vec<u8>, bool) {
        let cut = self.bytes.len().saturating_sub(self.keep);
        let dropped = self.total - (self.bytes.len() - cut) as u64;
        self.bytes.drain(..cut);
        if dropped == 0 {
            return (self.bytes, false);
        }
        let wide_newline = match self.first[..] {
            [0xff, 0xfe] => Some([b'\n', 0]),
            [0xfe, 0xff] => Some([0, b'\n']),
            _ => None,
        };
        if let Some(newline) = wide_newline {
            let aligned = usize::from(dropped % 2 == 1).min(self.bytes.len());
            let mut characters = self.bytes[aligned..].chunks_exact(2);
            let start = match characters.position(|c| c == newline) {
                Some(n) => aligned + 2 * (n + 1),
                None => aligned + longest.next_multiple_of(2),
            };
            let mut text = self.first;
            text.extend_from_slice(self.bytes.get(start..).unwrap_or_default());
            return (text, true);
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
        let missing = 2_usize.saturating_sub(self.first.len());
        self.first.extend(part.iter().take(missing));
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

/// Copies the VM's files. Returns the number of files and folders that exceed a limit and were left
/// out.
pub fn copy_machine(from: &Path, to: &Path, redactor: &Redactor) -> io::Result<usize> {
    let mut too_large = 0;
    let left_out = walk_files(from, Path::new(""), 0, &mut |path| {
        let (from, to) = (from.join(path), to.join(path));
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        if TEXT_EXTENSIONS.contains(&extension) {
            copy_text(&from, &to, redactor)
        } else if extension != SCREENSHOT_EXTENSION {
            Ok(())
        } else if fs::metadata(&from)?.len() > MAX_PICTURE_SIZE {
            too_large += 1;
            Ok(())
        } else {
            make_folder_of(&to)?;
            fs::copy(from, to).map(drop)
        }
    })?;
    Ok(left_out + too_large)
}

/// Calls `each` with every file. Returns the number of entries that are too many or too deep.
fn walk_files(
    root: &Path,
    folder: &Path,
    depth: usize,
    each: &mut dyn FnMut(&Path) -> io::Result<()>,
) -> io::Result<usize> {
    let mut left_out = 0;
    for (number, entry) in fs::read_dir(root.join(folder))?.enumerate() {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        let kind = entry.file_type()?;
        if number >= MAX_FILES_PER_DIR || (kind.is_dir() && depth >= MAX_DEPTH) {
            left_out += 1;
        } else if kind.is_dir() {
            left_out += walk_files(root, &path, depth + 1, each)?;
        } else if kind.is_file() {
            each(&path)?;
        }
    }
    Ok(left_out)
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

/// Saves the screenshots of a successful build, and `times.jsonl` with their timestamps. Returns
/// the number of files that were left out.
pub fn keep_screens(run_dir: &Path, output: &Path) -> io::Result<usize> {
    let from = run_dir.join(SCREENS);
    if from.is_dir() {
        copy_machine(&from, &output.join(SCREENS), &Redactor::default())
    } else {
        Ok(0)
    }
}

/// Describes files that [`copy_machine`] left out; `None` if there are none.
pub fn describe_left_out(count: usize) -> Option<String> {
    let files = match count {
        0 => return None,
        1 => "1 of the VM's files is".to_string(),
        n => format!("{n} of the VM's files are"),
    };
    Some(format!(
        "{files} not saved: a folder may have {MAX_FILES_PER_DIR} files, and a screenshot {} MiB",
        MAX_PICTURE_SIZE >> 20
    ))
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

    #[test]
    fn utf_16_is_cut_between_characters_whatever_their_bytes() {
        // The low byte of U+010A and the high byte of U+0A05 are those of a line break.
        let text = "\u{feff}\u{436}\u{10a}\u{a05}\u{436}\n\u{414}\u{432}\u{430}";
        let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        for all in [little, big] {
            let expected = [&all[..2], &all[all.len() - 6..]].concat();
            for keep in 8..=16 {
                assert_eq!(tail(keep, &[&all], 0), (expected.clone(), true), "{keep}");
            }
        }
    }

    #[test]
    fn files_over_the_limit_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("run"), folder.path().join("failure"));
        fs::create_dir_all(from.join("a/b/c/too-deep")).unwrap();
        fs::create_dir(from.join("many")).unwrap();
        for number in 0..MAX_FILES_PER_DIR + 2 {
            fs::write(from.join(format!("many/{number}.log")), "x").unwrap();
        }
        let huge = fs::File::create(from.join("huge.png")).unwrap();
        huge.set_len(MAX_PICTURE_SIZE + 1).unwrap();
        let left_out = copy_machine(&from, &to, &Redactor::default()).unwrap();
        assert_eq!(fs::read_dir(to.join("many")).unwrap().count(), 2000);
        assert_eq!(
            describe_left_out(left_out).as_deref(),
            Some(
                "4 of the VM's files are not saved: a folder may have 2000 files, \
                 and a screenshot 16 MiB"
            )
        );
        assert_eq!(describe_left_out(0), None);
    }
}
