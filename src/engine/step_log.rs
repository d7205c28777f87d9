//! The log of one step: everything it said in a file, its last lines in memory for an error.
//!
//! Knows nothing of what a step means or whether it went well.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use winimg_base::error::{Error, Result};

pub const LAST_LINES: usize = 20;

pub struct StepLog {
    path: PathBuf,
    to: BufWriter<File>,
    last: VecDeque<String>,
    partial: String,
}

impl StepLog {
    /// What stands there is an earlier try of this build, since a build begins with no logs: it stays, and this one follows.
    pub fn open(dir: &Path, number: usize, name: &str) -> Result<Self> {
        let path = path(dir, number, name);
        let file = File::options().create(true).append(true).open(&path);
        let file = file.map_err(|e| Error::io("write", &path, e))?;
        Ok(Self {
            path,
            to: BufWriter::new(file),
            last: VecDeque::new(),
            partial: String::new(),
        })
    }

    pub fn heading(&mut self, line: &str) -> Result<()> {
        self.write(&format!("> {line}\n"))
    }

    pub fn output(&mut self, text: &str) -> Result<()> {
        self.write(text)?;
        self.partial.push_str(text);
        while let Some(end) = self.partial.find('\n') {
            let line: String = self.partial.drain(..=end).collect();
            self.remember(line.trim_end());
        }
        Ok(())
    }

    fn remember(&mut self, line: &str) {
        if line.is_empty() {
            return;
        }
        if self.last.len() == LAST_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line.to_string());
    }

    fn write(&mut self, text: &str) -> Result<()> {
        self.to
            .write_all(text.as_bytes())
            .map_err(|e| Error::io("write", &self.path, e))
    }

    pub fn close(&mut self) -> Result<()> {
        self.to
            .flush()
            .map_err(|e| Error::io("write", &self.path, e))
    }

    /// What the program says from now on is another attempt: the one before is not shown with it.
    pub fn attempt(&mut self) {
        self.last.clear();
        self.partial.clear();
    }

    /// What the last attempt said, in one line.
    pub fn said(&self) -> String {
        let mut lines: Vec<&str> = self.last.iter().map(String::as_str).collect();
        let rest = self.partial.trim_end();
        lines.extend((!rest.is_empty()).then_some(rest));
        lines.join("; ")
    }

    /// The command, its last lines and the path of the whole log.
    pub fn explain(&mut self, error: Error, command: &str) -> Error {
        let rest = std::mem::take(&mut self.partial);
        self.remember(rest.trim_end());
        error
            .lines([format!("> {command}")])
            .lines(self.last.iter().cloned())
            .at(format!("whole log: {}", self.path.display()))
    }
}

/// The log of a step, by its number and name.
pub fn path(dir: &Path, number: usize, name: &str) -> PathBuf {
    dir.join(format!("{number:02}-{}.log", slug(name)))
}

/// A file name made of a step's name: its letters and digits, a dash for whatever stands between them.
fn slug(name: &str) -> String {
    let words = name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    let mut slug = words.collect::<Vec<_>>().join("-").to_ascii_lowercase();
    slug.truncate(48);
    slug
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_name_becomes_a_file_name() {
        assert_eq!(slug("Install kubelet (v1.36)"), "install-kubelet-v1-36");
    }
}
