//! Panther's logs: setupact.log and setuperr.log, first in memory, then beside the files of the installation.
//!
//! Source: Microsoft, "Windows Setup Log Files and Event Logs".

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::machine;

/// Where it is kept while Windows PE has no disk.
const RAM: &str = "/tmp/X/Windows/Panther";

pub struct Log {
    directory: PathBuf,
    component: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Info,
    Error,
}

impl Log {
    /// Windows PE's log; it moves to the disk later.
    pub fn in_memory() -> Log {
        Log::at(Path::new(RAM), "IBS")
    }

    /// A log in `directory`, added to what is there. `component` is the part of Setup that writes.
    pub fn at(directory: &Path, component: &'static str) -> Log {
        let _ = fs::create_dir_all(directory);
        Log {
            directory: directory.to_owned(),
            component,
        }
    }

    pub fn info(&self, text: &str) {
        machine::debug(text);
        self.line(Level::Info, text);
    }

    pub fn error(&self, text: &str) {
        machine::debug(text);
        self.line(Level::Error, text);
    }

    fn line(&self, level: Level, text: &str) {
        let word = if level == Level::Error {
            "Error"
        } else {
            "Info"
        };
        let line = format!(
            "{}, {word:<21} {:<6} {text}\r\n",
            timestamp(SystemTime::now()),
            self.component
        );
        let files: &[&str] = if level == Level::Error {
            &["setupact.log", "setuperr.log"]
        } else {
            &["setupact.log"]
        };
        for name in files {
            // A log that can't be written stops nothing.
            if let Ok(mut file) = File::options()
                .create(true)
                .append(true)
                .open(self.directory.join(name))
            {
                let _ = file.write_all(line.as_bytes());
            }
        }
    }

    /// Goes on in `directory`, taking what was written so far along.
    pub fn move_to(&mut self, directory: &Path) -> std::io::Result<()> {
        fs::create_dir_all(directory)?;
        for name in ["setupact.log", "setuperr.log"] {
            let text = fs::read(self.directory.join(name)).unwrap_or_default();
            fs::write(directory.join(name), text)?;
        }
        self.directory = directory.to_owned();
        Ok(())
    }
}

/// `2026-11-21 09:40:00`, in UTC.
pub fn timestamp(time: SystemTime) -> String {
    let seconds = time
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let (days, rest) = (seconds / 86400, seconds % 86400);
    // Days to a civil date: years start in March, eras have 400 years.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn timestamps_are_civil() {
        let at = |seconds| timestamp(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01 00:00:00");
        assert_eq!(at(951_827_696), "2000-02-29 12:34:56");
        assert_eq!(at(1_630_000_000), "2021-08-26 17:46:40");
    }
}
