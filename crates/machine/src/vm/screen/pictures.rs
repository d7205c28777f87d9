//! Index of the screenshots in a run directory, numbered over all of its machines, with their
//! times.
//!
//! Takes no screenshot itself; decides which file comes next and which one is deleted.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ScreenGrid;
use winimg_base::error::{Error, Result};
use winimg_base::io::write_atomically;

/// Number of pictures kept: enough for the last minutes.
const MAX_PICTURES: usize = 30;
const TIMES: &str = "times.jsonl";
/// Picture of a machine that was given up.
const STOPPED: &str = "stopped.png";

/// A line of `times.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct PictureEntry {
    file: String,
    time: String,
    /// Seconds since this machine's power-on.
    after: f64,
    stage: String,
}

pub struct ScreenPictures {
    folder: PathBuf,
    /// Oldest first.
    entries: Vec<PictureEntry>,
    next: u32,
    last: Option<ScreenGrid>,
}

impl ScreenPictures {
    /// Opens the folder and continues its numbering.
    pub fn open(folder: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&folder).map_err(|e| Error::io("create", &folder, e))?;
        // Invalid lines are dropped: the numbers come from the file names.
        let text = std::fs::read_to_string(folder.join(TIMES)).unwrap_or_default();
        let entries = text.lines().filter_map(|l| serde_json::from_str(l).ok());
        let entries: Vec<PictureEntry> = entries.collect();
        let here = std::fs::read_dir(&folder).map_err(|e| Error::io("list", &folder, e))?;
        let numbers = here
            .flatten()
            .filter_map(|f| parse_number(&f.file_name().to_string_lossy()));
        let next = numbers.max().map_or(0, |n| n.saturating_add(1));
        Ok(Self {
            folder,
            entries,
            next,
            last: None,
        })
    }

    /// Returns true if this screen differs enough from the last one that was kept.
    pub fn is_worth_keeping(&self, screen: &ScreenGrid) -> bool {
        self.last
            .as_ref()
            .is_none_or(|last| screen.differs_widely(last))
    }

    pub fn next(&self) -> PathBuf {
        self.folder.join(format!("{:04}.png", self.next))
    }

    pub fn stopped_file(&self) -> PathBuf {
        self.folder.join(STOPPED)
    }

    /// Records that the next picture was taken, and deletes the oldest if there are too many.
    pub fn record_picture(&mut self, of: &ScreenGrid, after: Duration, stage: &str) {
        self.last = Some(of.clone());
        let file = self.next();
        self.next = self.next.saturating_add(1);
        self.note(&file, after, stage);
    }

    pub fn taken_stopped(&mut self, after: Duration, stage: &str) {
        self.entries.retain(|e| e.file != STOPPED);
        let file = self.stopped_file();
        self.note(&file, after, stage);
    }

    /// Adds an entry. Failing to write the list is not an error.
    fn note(&mut self, file: &Path, after: Duration, stage: &str) {
        self.entries.push(PictureEntry {
            file: file
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            time: format_now(),
            after: (after.as_secs_f64() * 10.0).round() / 10.0,
            stage: stage.to_string(),
        });
        while self.entries.len() > MAX_PICTURES {
            let old = self.entries.remove(0);
            // Only names of this format: the list could have been written by others.
            if parse_number(&old.file).is_some() || old.file == STOPPED {
                let _ = std::fs::remove_file(self.folder.join(old.file));
            }
        }
        let mut text = String::new();
        for entry in &self.entries {
            text += &serde_json::to_string(entry).unwrap_or_default();
            text.push('\n');
        }
        let _ = write_atomically(&self.folder.join(TIMES), text.as_bytes());
    }
}

/// Parses the number in `0012.png`.
fn parse_number(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".png")?;
    let plain = digits.len() >= 4 && digits.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| digits.parse().ok())?
}

/// Returns the current time in UTC, to the second.
pub fn format_now() -> String {
    let now = jiff::Timestamp::now();
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(shade: u8) -> ScreenGrid {
        let ppm = [&b"P6\n1 1\n255\n"[..], &[shade; 3]].concat();
        ScreenGrid::from_ppm(&ppm).expect("one pixel")
    }

    fn take(pictures: &mut ScreenPictures, count: u8, stage: &str) {
        for n in 0..count {
            let of = screen(n);
            assert!(pictures.is_worth_keeping(&of));
            std::fs::write(pictures.next(), [n]).expect("written");
            pictures.record_picture(&of, Duration::from_millis(u64::from(n) * 2500), stage);
            assert!(!pictures.is_worth_keeping(&of));
        }
    }

    #[test]
    fn numbers_and_times_go_on_when_another_machine_starts() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = || ScreenPictures::open(folder.path().join("screens")).expect("opened");
        take(&mut open(), 2, "Windows Setup");
        take(&mut open(), 1, "the disk boots");
        let mut last = open();
        std::fs::write(last.stopped_file(), "png").expect("written");
        last.taken_stopped(Duration::from_secs(90), "Windows");
        let text = std::fs::read_to_string(folder.path().join("screens/times.jsonl"));
        let lines = text
            .expect("times")
            .lines()
            .map(without_time)
            .collect::<Vec<_>>();
        assert_eq!(
            lines,
            [
                r#"{"file":"0000.png","after":0.0,"stage":"Windows Setup"}"#,
                r#"{"file":"0001.png","after":2.5,"stage":"Windows Setup"}"#,
                r#"{"file":"0002.png","after":0.0,"stage":"the disk boots"}"#,
                r#"{"file":"stopped.png","after":90.0,"stage":"Windows"}"#,
            ]
        );
    }

    fn without_time(line: &str) -> String {
        let mut entry: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let time = entry.as_object_mut().and_then(|e| e.shift_remove("time"));
        let time = time
            .and_then(|t| t.as_str().map(String::from))
            .expect("a time");
        assert!(time.parse::<jiff::Timestamp>().is_ok(), "{time}");
        entry.to_string()
    }

    #[test]
    fn the_oldest_goes_and_a_foreign_list_removes_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let beside = folder.path().join("beside");
        std::fs::write(&beside, "kept").expect("written");
        let screens = folder.path().join("screens");
        std::fs::create_dir(&screens).expect("created");
        let foreign = r#"{"file":"../beside","time":"x","after":0,"stage":""}"#;
        std::fs::write(screens.join(TIMES), format!("{foreign}\nno JSON\n")).expect("written");
        let mut pictures = ScreenPictures::open(screens.clone()).expect("opened");
        take(&mut pictures, 35, "Windows");
        assert!(beside.exists());
        let mut left: Vec<String> = std::fs::read_dir(&screens)
            .expect("listed")
            .map(|f| {
                f.expect("a file")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        left.sort();
        assert_eq!(left.len(), MAX_PICTURES + 1);
        assert_eq!(
            (left[0].as_str(), left[29].as_str()),
            ("0005.png", "0034.png")
        );
    }
}
