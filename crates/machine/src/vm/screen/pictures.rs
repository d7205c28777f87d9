//! The pictures that are kept of a screen, numbered over all machines that run in one directory, with the times they were taken.
//!
//! Takes no picture itself and judges none; it says which file comes next and which one goes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Screen;
use winimg_base::error::{Error, Result};
use winimg_base::io::write_atomically;

/// Pictures kept: enough for the last minutes of anything.
const KEPT: usize = 30;
const TIMES: &str = "times.jsonl";
/// The picture of a machine that was given up.
const STOPPED: &str = "stopped.png";

/// A line of `times.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    file: String,
    time: String,
    /// Seconds since this machine's power-on.
    after: f64,
    stage: String,
}

pub struct Pictures {
    folder: PathBuf,
    /// Oldest first.
    entries: Vec<Entry>,
    next: u32,
    last: Option<Screen>,
}

impl Pictures {
    /// Goes on after what an earlier machine left in the folder.
    pub fn open(folder: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&folder).map_err(|e| Error::io("create", &folder, e))?;
        // A line that is not ours is dropped: the pictures count, and they carry their numbers.
        let text = std::fs::read_to_string(folder.join(TIMES)).unwrap_or_default();
        let entries = text.lines().filter_map(|l| serde_json::from_str(l).ok());
        let entries: Vec<Entry> = entries.collect();
        let here = std::fs::read_dir(&folder).map_err(|e| Error::io("list", &folder, e))?;
        let numbers = here
            .flatten()
            .filter_map(|f| number(&f.file_name().to_string_lossy()));
        let next = numbers.max().map_or(0, |n| n.saturating_add(1));
        Ok(Self {
            folder,
            entries,
            next,
            last: None,
        })
    }

    /// Whether this screen is worth a picture: it differs much from the last one that was kept.
    pub fn wants(&self, screen: &Screen) -> bool {
        self.last
            .as_ref()
            .is_none_or(|last| screen.is_another(last))
    }

    pub fn next(&self) -> PathBuf {
        self.folder.join(format!("{:04}.png", self.next))
    }

    pub fn stopped(&self) -> PathBuf {
        self.folder.join(STOPPED)
    }

    /// The next picture was taken. The oldest goes when there are too many.
    pub fn taken(&mut self, of: &Screen, after: Duration, stage: &str) {
        self.last = Some(of.clone());
        let file = self.next();
        self.next = self.next.saturating_add(1);
        self.note(&file, after, stage);
    }

    pub fn taken_stopped(&mut self, after: Duration, stage: &str) {
        self.entries.retain(|e| e.file != STOPPED);
        let file = self.stopped();
        self.note(&file, after, stage);
    }

    /// Best effort: a picture without its time is still a picture.
    fn note(&mut self, file: &Path, after: Duration, stage: &str) {
        self.entries.push(Entry {
            file: file
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            time: now(),
            after: (after.as_secs_f64() * 10.0).round() / 10.0,
            stage: stage.to_string(),
        });
        while self.entries.len() > KEPT {
            let old = self.entries.remove(0);
            // Only names that were given here: the list is a file that others could have written.
            if number(&old.file).is_some() || old.file == STOPPED {
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

/// The number of `0012.png`.
fn number(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".png")?;
    let plain = digits.len() >= 4 && digits.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| digits.parse().ok())?
}

/// To the second, UTC.
pub fn now() -> String {
    let now = jiff::Timestamp::now();
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(shade: u8) -> Screen {
        let ppm = [&b"P6\n1 1\n255\n"[..], &[shade; 3]].concat();
        Screen::from_ppm(&ppm).expect("one pixel")
    }

    fn take(pictures: &mut Pictures, count: u8, stage: &str) {
        for n in 0..count {
            let of = screen(n);
            assert!(pictures.wants(&of));
            std::fs::write(pictures.next(), [n]).expect("written");
            pictures.taken(&of, Duration::from_millis(u64::from(n) * 2500), stage);
            assert!(!pictures.wants(&of));
        }
    }

    #[test]
    fn numbers_and_times_go_on_when_another_machine_starts() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = || Pictures::open(folder.path().join("screens")).expect("opened");
        take(&mut open(), 2, "Windows Setup");
        take(&mut open(), 1, "the disk boots");
        let mut last = open();
        std::fs::write(last.stopped(), "png").expect("written");
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
        let mut pictures = Pictures::open(screens.clone()).expect("opened");
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
        assert_eq!(left.len(), KEPT + 1);
        assert_eq!(
            (left[0].as_str(), left[29].as_str()),
            ("0005.png", "0034.png")
        );
    }
}
