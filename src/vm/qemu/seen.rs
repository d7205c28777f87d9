//! What is known of a machine when its watch ends, and the words that all messages about it share.
//!
//! Pure. What follows from it is said in `setup` and `boot`.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::Error;

/// What the machine was doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// Windows Setup, from the empty disk to the agent's first answer.
    #[default]
    Install,
    /// An installed Windows, from power-on to the agent's first answer.
    Boot,
    /// An installed Windows whose agent has answered already.
    Steps,
}

/// What is known when the watch ends.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub purpose: Purpose,
    /// Since power-on.
    pub elapsed: Duration,
    /// Since when nothing moves, counted from power-on.
    pub still_since: Option<Duration>,
    pub restarts: u32,
    /// The firmware handed over to something since the last restart.
    pub started: bool,
    pub disk_written: u64,
    /// What the firmware tried in vain, as it words it.
    pub failed_options: Vec<String>,
    pub screenshot: Option<PathBuf>,
}

impl Seen {
    /// "12 s after power-on, after 1 restart"
    pub fn when(&self) -> String {
        format!("{} after power-on, {}", time(self.elapsed), self.restarts())
    }

    pub fn stillness(&self) -> String {
        let since = self.still_since.unwrap_or(self.elapsed);
        format!(
            "nothing moved since {} after power-on, for {}, {}",
            time(since),
            time(self.elapsed.saturating_sub(since)),
            self.restarts()
        )
    }

    pub fn restarts(&self) -> String {
        match self.restarts {
            0 => "before the first restart".to_string(),
            1 => "after 1 restart".to_string(),
            n => format!("after {n} restarts"),
        }
    }

    /// The error with its picture.
    pub fn shown(&self, error: Error) -> Error {
        match &self.screenshot {
            Some(file) => error.at(file.display()),
            None => error,
        }
    }
}

/// `42 s`, `3 min 5 s`, `1 h 2 min`
pub fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}
