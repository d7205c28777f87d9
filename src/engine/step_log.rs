//! The log of one step: its full output in a file, and its last lines in memory for error messages.
//!
//! Independent of the step's kind and outcome.

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
    /// Opens the log for appending. Existing content is from an earlier attempt in this build,
    /// since a build starts without logs.
    pub fn open(dir: &Path, number: usize, name: &str) -> Result<Self> {
        let path = log_path(dir, number, name);
        let file = File::options().create(true).append(true).open(&path);
        let file = file.map_err(|e| Error::io("write", &path, e))?;
        Ok(Self {
            path,
            to: BufWriter::new(file),
            last: VecDeque::new(),
            partial: String::new(),
        })
    }

    pub fn write_heading(&mut self, line: &str) -> Result<()> {
        self.write(&format!("> {line}\n"))
    }

    pub fn write_output(&mut self, text: &str) -> Result<()> {
        self.write(text)?;
        self.partial.push_str(text);
        while let Some(end) = self.partial.find('\n') {
            let line: String = self.partial.drain(..=end).collect();
            self.keep_line(line.trim_end());
        }
        Ok(())
    }

    fn keep_line(&mut self, line: &str) {
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

    /// Starts another attempt: error messages no longer show the output of the one before.
    pub fn begin_attempt(&mut self) {
        self.last.clear();
        self.partial.clear();
    }

    /// Returns the last lines of the last attempt, joined to one line.
    pub fn join_last_lines(&self) -> String {
        let mut lines: Vec<&str> = self.last.iter().map(String::as_str).collect();
        let rest = self.partial.trim_end();
        lines.extend((!rest.is_empty()).then_some(rest));
        lines.join("; ")
    }

    /// Adds the command, its last lines and the path of the full log to the error.
    pub fn explain(&mut self, error: Error, command: &str) -> Error {
        let rest = std::mem::take(&mut self.partial);
        self.keep_line(rest.trim_end());
        error
            .lines([format!("> {command}")])
            .lines(self.last.iter().cloned())
            .at(format!("full log: {}", self.path.display()))
    }
}

/// Returns the path of a step's log.
pub fn log_path(dir: &Path, number: usize, name: &str) -> PathBuf {
    dir.join(format!("{number:02}-{}.log", to_file_name(name)))
}

/// Converts a step's name to a file name: letters and digits, with a dash for everything between.
fn to_file_name(name: &str) -> String {
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
        assert_eq!(
            to_file_name("Install kubelet (v1.36)"),
            "install-kubelet-v1-36"
        );
    }
}
