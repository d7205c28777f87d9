//! The watch goes on while steps run: a Windows that crashed, hangs in a box or restarts for ever is named long before the step's own timeout.
//!
//! What condemns is decided in `vm::watchdog`; here the samples are taken and the finding is kept.

use std::sync::Arc;
use std::thread::JoinHandle;

use super::install::SAMPLE;
use super::lookout::Lookout;
use super::running::Running;
use super::stage::Line;
use super::{boot, room};
use crate::vm::screen::Screen;
use crate::vm::screen::dialog::{self, Known};
use crate::vm::seen::{Purpose, Seen};
use crate::vm::watch::{Limits, State, Verdict};
use crate::vm::watchdog::Watchdog;
use winimg_base::error::{Error, Kind, Result};

/// What the watch found, for whoever waits for the guest.
#[derive(Debug)]
pub struct Finding {
    verdict: Verdict,
    seen: Seen,
    limits: Limits,
}

impl Finding {
    pub fn error(&self) -> Option<Error> {
        let seen = &self.seen;
        Some(match &self.verdict {
            Verdict::StandsStill { .. } => boot::stands_still(seen),
            Verdict::RestartLoop { .. } => boot::restart_loop(seen),
            Verdict::NoBootDevice => boot::nothing_boots(seen),
            Verdict::FirmwareLate => boot::firmware_late(seen, self.limits.firmware),
            Verdict::DiskFailed => seen.shown(room::write_failed(&seen.disk_folder)),
            Verdict::Fine
            | Verdict::Paused { .. }
            | Verdict::Crashed { .. }
            | Verdict::PoweredOff => return None,
        })
    }
}

/// Watches until the machine has ended.
pub fn keep(mut lookout: Lookout, limits: Limits) -> Result<JoinHandle<()>> {
    lookout.purpose = Purpose::Steps;
    lookout.running.steps_begin();
    let watch = Watch {
        running: Arc::clone(&lookout.running),
        lookout,
        limits,
        dog: Watchdog::new(limits),
        nothing_boots: false,
        read: None,
    };
    std::thread::Builder::new()
        .name("watchdog".into())
        .spawn(move || watch.run())
        .map_err(|e| Error::new(Kind::Failed, "no thread can be started").because(e))
}

struct Watch {
    running: Arc<Running>,
    lookout: Lookout,
    limits: Limits,
    dog: Watchdog,
    nothing_boots: bool,
    /// The last screen that stood still and was read, and whether it is a box that Windows never gets over.
    read: Option<(Screen, bool)>,
}

impl Watch {
    fn run(mut self) {
        while self.running.process.wait(SAMPLE).is_none() {
            if self.running.attended.is_on() {
                // What a person does to the machine is no fault of it.
                self.dog = Watchdog::new(self.limits);
                self.running.find(None);
            } else if self.running.state() == State::Running {
                self.look();
            }
        }
    }

    fn look(&mut self) {
        let now = self.running.elapsed();
        let restarted = self.lookout.count_restarts(now);
        let lines = self.lookout.read_log().unwrap_or_default();
        self.nothing_boots = !restarted && self.nothing_boots;
        self.nothing_boots |= lines.contains(&Line::NothingBoots);
        let sample = self.lookout.sample(now, self.nothing_boots);
        let screen = sample.screen.clone();
        let mut verdict = self.dog.look(sample, self.running.silence());
        if verdict == Verdict::Fine && self.dog.stands && self.is_hopeless(screen) {
            let since = now.saturating_sub(self.limits.still);
            verdict = Verdict::StandsStill { since };
        }
        let since = match &verdict {
            Verdict::Fine => return self.running.find(None),
            Verdict::StandsStill { since } => Some(*since),
            _ => None,
        };
        if !self.running.has_finding() {
            let seen = self.lookout.seen(now, since);
            self.running.find(Some(Finding {
                verdict,
                seen,
                limits: self.limits,
            }));
        }
    }

    /// Setup's last words, behind which the agent may well answer. Each screen that stands is read once.
    fn is_hopeless(&mut self, screen: Option<Screen>) -> bool {
        let Some(screen) = screen.filter(|s| !s.is_blank()) else {
            return false;
        };
        match &self.read {
            Some((read, hopeless)) if read.stands(&screen) => *hopeless,
            _ => {
                let text = self.running.read_screen().join("\n");
                let found = dialog::find(&text);
                let hopeless = matches!(found, Some(Known::Dialog(known)) if known.hopeless);
                self.read = Some((screen, hopeless));
                hopeless
            }
        }
    }
}
