//! What is known of a machine when its watch ends, and the words that all messages about it share.
//!
//! Pure. What follows from it is said in `setup` and `boot`.

use std::path::PathBuf;
use std::time::Duration;

use super::bugcheck::{self, Panic};
use super::reading;
use super::screen::dialog::{self, Known};
use winimg_base::error::{Error, Kind};

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
    /// A sealed Windows that becomes a machine of its own, from power-on to a screen that rests.
    Clone,
}

impl Purpose {
    /// What is on the screen, as far as the purpose tells.
    pub fn words(self) -> &'static str {
        match self {
            Self::Install => "Windows Setup",
            Self::Boot | Self::Steps | Self::Clone => "Windows",
        }
    }
}

impl From<Purpose> for Kind {
    /// Whose fault it is, as far as the purpose tells.
    fn from(purpose: Purpose) -> Self {
        match purpose {
            Purpose::Install => Self::Setup,
            Purpose::Boot | Purpose::Steps => Self::Machine,
            Purpose::Clone => Self::Trial,
        }
    }
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
    /// Where the machine's disk lies.
    pub disk_folder: PathBuf,
    /// What the firmware tried in vain, as it words it.
    pub failed_options: Vec<String>,
    /// Secure Boot refused one of them.
    pub refused: bool,
    pub screenshot: Option<PathBuf>,
    /// What was read from that picture, where it can be read.
    pub text: Vec<String>,
    /// The picture has the colours of a stop error: a hint, no more.
    pub blue: bool,
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

    /// The error with its picture, and what the picture says.
    pub fn shown(&self, error: Error) -> Error {
        let error = match &self.screenshot {
            Some(file) => error.at(file.display()),
            None => error,
        };
        let says = self.text.iter().map(|l| format!("the screen says: {l}"));
        error.lines(says)
    }

    /// The error of a machine that stands at a screen: a box that is known says what it is, where its text could be read.
    pub fn standing(&self, at: Standing<'_>) -> Error {
        let stands = |fact: String| {
            let error = Error::new(self.purpose.into(), fact).expected(at.expected);
            error.found(self.stillness())
        };
        match dialog::find(&self.text.join("\n")) {
            Some(Known::Dialog(known)) => {
                let error = stands(format!("{} stopped: {}", at.who, known.name));
                let error = error.lines([format!("likely: {}", known.cause)]);
                self.shown(error).cure(known.cure)
            }
            Some(Known::StopError(code)) => {
                let error = stands(format!(
                    "Windows crashed with the stop error {}",
                    code.words()
                ));
                let error = error.lines([format!("likely: {}", code.cause)]);
                self.shown(error).cure(match self.purpose {
                    Purpose::Clone => "the drivers for this machine's hardware are the first to suspect: `winimg verify` names one for the disk that does not start at boot",
                    _ => "the drivers and the steps that ran last are the first to suspect",
                })
            }
            None => {
                let hint = "the screen has the colours of a stop error (blue screen)";
                let error = stands(at.fact.to_string())
                    .lines(self.blue.then_some(hint))
                    .lines(at.causes.iter().map(|cause| format!("likely: {cause}")));
                self.shown(error)
                    .cure("look at the screenshot: its text names the cause")
            }
        }
    }
}

/// What is said of a machine that stands at a screen that nobody could read.
pub struct Standing<'a> {
    pub who: &'a str,
    pub fact: &'a str,
    pub expected: &'a str,
    pub causes: &'a [&'a str],
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

/// The error for a kernel that reported its end.
pub fn crashed(panic: &Panic, seen: &Seen) -> Error {
    let fact = match panic.words() {
        Some(words) => format!("Windows crashed with the stop error {words}"),
        None => "Windows crashed with a stop error".to_string(),
    };
    let mut lines = Vec::new();
    if !panic.parameters.is_empty() {
        let numbers = panic.parameters.iter().map(|n| format!("{n:#x}"));
        lines.push(format!(
            "parameters: {}",
            numbers.collect::<Vec<_>>().join(" ")
        ));
    }
    let known = panic.code.and_then(bugcheck::by_code);
    let known = known.or_else(|| bugcheck::on_screen(&reading::squash(&seen.text.join("\n"))));
    if let Some(known) = known {
        if panic.code.is_none() {
            lines.push(format!("the screen names {}", known.words()));
        }
        lines.push(format!("likely: {}", known.cause));
    }
    let error = Error::new(seen.purpose.into(), fact)
        .found(seen.when())
        .lines(lines);
    seen.shown(error).cure(
        "Microsoft's Bug Check Code Reference explains the code; the drivers and the steps that ran last are the first to suspect",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &[&str]) -> Seen {
        Seen {
            purpose: Purpose::Boot,
            elapsed: Duration::from_secs(31),
            screenshot: Some("/run/w/screens/stopped.png".into()),
            text: text.iter().map(ToString::to_string).collect(),
            ..Seen::default()
        }
    }

    #[test]
    fn the_crash_registers_give_code_parameters_and_cause() {
        let panic = Panic {
            code: Some(0x7b),
            parameters: vec![0xffff_f88a_0000_1000, 0xc000_0034, 0, 0],
        };
        assert_eq!(
            crashed(&panic, &seen(&[])).to_string(),
            "Windows crashed with the stop error INACCESSIBLE_BOOT_DEVICE (0x7B)\n  \
             at: /run/w/screens/stopped.png\n  \
             found: 31 s after power-on, before the first restart\n  \
             | parameters: 0xfffff88a00001000 0xc0000034 0x0 0x0\n  \
             | likely: no driver for the disk in the image, or the disk sits on another bus than when Windows was installed\n  \
             cure: Microsoft's Bug Check Code Reference explains the code; the drivers and the steps that ran last are the first to suspect"
        );
        let unknown = Panic {
            code: Some(0xdead),
            ..Panic::default()
        };
        assert_eq!(unknown.words().as_deref(), Some("0xDEAD"));
    }

    #[test]
    fn without_registers_the_screen_names_the_code() {
        let screen = seen(&["Stop code: UNMOUNTABLE BOOT VOLUME"]);
        assert_eq!(
            crashed(&Panic::default(), &screen).to_string(),
            "Windows crashed with a stop error\n  \
             at: /run/w/screens/stopped.png\n  \
             found: 31 s after power-on, before the first restart\n  \
             | the screen names UNMOUNTABLE_BOOT_VOLUME (0xED)\n  \
             | likely: the file system is damaged: the disk was cut off while Windows wrote\n  \
             | the screen says: Stop code: UNMOUNTABLE BOOT VOLUME\n  \
             cure: Microsoft's Bug Check Code Reference explains the code; the drivers and the steps that ran last are the first to suspect"
        );
    }
}
