//! cloudbase-init's log: oslo.log's line format, into `log_dir\log_file` and to a serial port.

use std::io::Write;
use std::path::PathBuf;
use std::sync::PoisonError;

use super::config::Settings;
use crate::windows::process::{Process, Stream};
use crate::windows::program::timestamp;

/// Where one run writes.
pub struct Log {
    file: Option<PathBuf>,
    serial: Option<Stream>,
    debug: bool,
}

impl Log {
    /// Opens the log. A directory that is missing ends the program, as Python's FileHandler does.
    pub fn open(p: &Process, settings: &Settings) -> Result<Log, String> {
        let file = match (&settings.log_dir, &settings.log_file) {
            (_, None) => None,
            (None, Some(file)) => Some(file.clone()),
            (Some(dir), Some(file)) => Some(format!(r"{}\{file}", dir.trim_end_matches('\\'))),
        };
        let file = match file {
            None => None,
            Some(path) => {
                let found = p
                    .locate(&path)
                    .and_then(|found| found.writable())
                    .map_err(|e| format!("{path}: {}", e.text()))?;
                Some(found.host)
            }
        };
        let serial = settings.serial_port.as_ref().map(|_| p.machine.serial());
        Ok(Log {
            file,
            serial,
            debug: settings.debug,
        })
    }

    fn write(&self, level: &str, module: &str, message: &str) {
        let line = format!(
            "{}.000 1000 {level} cloudbaseinit.{module} [-] {message}\r\n",
            timestamp()
        );
        if let Some(path) = &self.file
            && let Ok(mut file) = std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(path)
        {
            // A disk that is full stops no program that only logs.
            let _ = file.write_all(line.as_bytes());
        }
        if let Some(serial) = &self.serial {
            let mut serial = serial.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = serial.write_all(line.as_bytes());
        }
    }

    pub fn debug(&self, module: &str, message: &str) {
        if self.debug {
            self.write("DEBUG", module, message);
        }
    }

    pub fn info(&self, module: &str, message: &str) {
        self.write("INFO", module, message);
    }

    pub fn warning(&self, module: &str, message: &str) {
        self.write("WARNING", module, message);
    }

    pub fn error(&self, module: &str, message: &str) {
        self.write("ERROR", module, message);
    }
}
