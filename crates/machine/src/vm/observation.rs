//! Observations of a machine at the end of its watch, and the phrases that its messages share.
//!
//! Pure. The supervisor derives the errors from it.

use std::path::PathBuf;
use std::time::Duration;

use super::bugcheck::KernelCrash;
use super::purpose::MachinePurpose;
use super::symptoms::{self, KnownScreen};
use winimg_base::error::Error;

/// Observations at the end of the watch.
#[derive(Clone, Debug, Default)]
pub struct MachineObservation {
    pub purpose: MachinePurpose,
    /// Since power-on.
    pub elapsed: Duration,
    /// Start of the current inactivity, counted from power-on.
    pub still_since: Option<Duration>,
    pub restarts: u32,
    /// The firmware has started something since the last restart.
    pub started: bool,
    pub disk_written: u64,
    /// Folder of the machine's disk.
    pub disk_folder: PathBuf,
    /// Boot options that failed, in the firmware's words.
    pub failed_options: Vec<String>,
    /// Secure Boot rejected one of them.
    pub refused: bool,
    pub screenshot: Option<PathBuf>,
    /// Text recognized in that picture, if any.
    pub text: Vec<String>,
    /// The picture has the colours of a stop error, which is only a hint.
    pub blue: bool,
}

impl MachineObservation {
    /// Returns for example "12 s after power-on, after 1 restart".
    pub fn describe_time(&self) -> String {
        format!(
            "{} after power-on, {}",
            format_time(self.elapsed),
            self.describe_restarts()
        )
    }

    pub fn describe_stillness(&self) -> String {
        let since = self.still_since.unwrap_or(self.elapsed);
        format!(
            "no activity since {} after power-on, for {}, {}",
            format_time(since),
            format_time(self.elapsed.saturating_sub(since)),
            self.describe_restarts()
        )
    }

    pub fn describe_restarts(&self) -> String {
        match self.restarts {
            0 => "before the first restart".to_string(),
            1 => "after 1 restart".to_string(),
            n => format!("after {n} restarts"),
        }
    }

    /// Adds the screenshot and its text to the error.
    pub fn attach_screen(&self, error: Error) -> Error {
        let error = match &self.screenshot {
            Some(file) => error.at(file.display()),
            None => error,
        };
        let says = self.text.iter().map(|l| format!("the screen says: {l}"));
        error.lines(says)
    }

    /// Builds the error for a machine that is stuck at a screen. A known dialog is named if its
    /// text could be read.
    pub fn stuck_screen_error(&self, at: StuckScreen<'_>) -> Error {
        let known = symptoms::find_on_screen(&self.text.join("\n"));
        let fact = match &known {
            Some(KnownScreen::Dialog(dialog)) => format!("{} stopped: {}", at.who, dialog.name),
            Some(KnownScreen::StopError(code)) => {
                format!("Windows crashed with the stop error {}", code.describe())
            }
            None => at.fact.to_string(),
        };
        let error = Error::new(self.purpose.into(), fact)
            .expected(at.expected)
            .found(self.describe_stillness());
        match known {
            Some(KnownScreen::Dialog(dialog)) => {
                let error = error.lines([format!("likely: {}", dialog.cause)]);
                self.attach_screen(error).cure(&dialog.cure)
            }
            Some(KnownScreen::StopError(code)) => {
                let error = error.lines([format!("likely: {}", code.cause)]);
                self.attach_screen(error).cure(match self.purpose {
                    MachinePurpose::Clone => {
                        "check the drivers for this machine's hardware first: `winimg verify` \
                         reports a disk driver that does not start at boot"
                    }
                    _ => "check the drivers and the last steps first",
                })
            }
            None => {
                let hint = "the screen has the colours of a stop error (blue screen)";
                let error = error
                    .lines(self.blue.then_some(hint))
                    .lines(at.causes.iter().map(|cause| format!("likely: {cause}")));
                self.attach_screen(error)
                    .cure("look at the screenshot: its text names the cause")
            }
        }
    }
}

/// Message for a machine that is stuck at an unknown screen.
pub struct StuckScreen<'a> {
    pub who: &'a str,
    pub fact: &'a str,
    pub expected: &'a str,
    pub causes: &'a [String],
}

/// Formats a duration: `42 s`, `3 min 5 s`, `1 h 2 min`.
pub fn format_time(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

/// Builds the error for a crashed kernel.
pub fn crash_error(panic: &KernelCrash, seen: &MachineObservation) -> Error {
    let fact = match panic.describe() {
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
    let known = panic.code.and_then(symptoms::find_stop_code);
    let known = known.or_else(|| symptoms::find_stop_error(&seen.text.join("\n")));
    if let Some(known) = known {
        if panic.code.is_none() {
            lines.push(format!("the screen names {}", known.describe()));
        }
        lines.push(format!("likely: {}", known.cause));
    }
    let error = Error::new(seen.purpose.into(), fact)
        .found(seen.describe_time())
        .lines(lines);
    seen.attach_screen(error).cure(
        "look the code up in Microsoft's Bug Check Code Reference; \
         check the drivers and the last steps first",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &[&str]) -> MachineObservation {
        MachineObservation {
            purpose: MachinePurpose::Boot,
            elapsed: Duration::from_secs(31),
            screenshot: Some("/run/w/screens/stopped.png".into()),
            text: text.iter().map(ToString::to_string).collect(),
            ..MachineObservation::default()
        }
    }

    #[test]
    fn the_crash_registers_give_code_parameters_and_cause() {
        let panic = KernelCrash {
            code: Some(0x7b),
            parameters: vec![0xffff_f88a_0000_1000, 0xc000_0034, 0, 0],
        };
        assert_eq!(
            crash_error(&panic, &seen(&[])).to_string(),
            "Windows crashed with the stop error INACCESSIBLE_BOOT_DEVICE (0x7B)\n  \
             at: /run/w/screens/stopped.png\n  \
             found: 31 s after power-on, before the first restart\n  \
             | parameters: 0xfffff88a00001000 0xc0000034 0x0 0x0\n  \
             | likely: no driver for the disk in the image, or the disk is on another bus than when Windows was installed\n  \
             cure: look the code up in Microsoft's Bug Check Code Reference; check the drivers and the last steps first"
        );
        let unknown = KernelCrash {
            code: Some(0xdead),
            ..KernelCrash::default()
        };
        assert_eq!(unknown.describe().as_deref(), Some("0xDEAD"));
    }

    #[test]
    fn without_registers_the_screen_names_the_code() {
        let screen = seen(&["Stop code: UNMOUNTABLE BOOT VOLUME"]);
        assert_eq!(
            crash_error(&KernelCrash::default(), &screen).to_string(),
            "Windows crashed with a stop error\n  \
             at: /run/w/screens/stopped.png\n  \
             found: 31 s after power-on, before the first restart\n  \
             | the screen names UNMOUNTABLE_BOOT_VOLUME (0xED)\n  \
             | likely: the file system is damaged: the disk was cut off while Windows wrote\n  \
             | the screen says: Stop code: UNMOUNTABLE BOOT VOLUME\n  \
             cure: look the code up in Microsoft's Bug Check Code Reference; check the drivers and the last steps first"
        );
    }
}
