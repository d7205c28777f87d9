//! The watch goes on while steps run: a Windows that crashed, hangs in a box or restarts for ever is named long before the step's own timeout.
//!
//! What condemns is decided in `watchdog`; here the samples are taken and the finding is kept.

use std::sync::Arc;
use std::thread::JoinHandle;

use super::judge::{Limits, Verdict};
use super::lookout::Lookout;
use super::naming::{self, About};
use super::watchdog::Watchdog;
use super::{SAMPLE, Supervisor, spawn};
use crate::vm::driver::{Glance, Line, Oversight, State};
use crate::vm::lock;
use crate::vm::screen::Screen;
use crate::vm::screen::dialog::{self, Known};
use crate::vm::seen::{Purpose, Seen};
use winimg_base::error::{Error, Result};

/// What the watch found, for the thread that waits for the guest.
pub struct Finding {
    verdict: Verdict,
    seen: Seen,
    about: About,
}

impl Finding {
    pub fn error(&self) -> Option<Error> {
        naming::ending(&self.verdict, &self.seen, &self.about)
    }
}

/// Watches until the machine has ended.
pub fn keep(lookout: Lookout) -> Result<JoinHandle<()>> {
    let supervisor = Arc::clone(&lookout.supervisor);
    supervisor.steps_begin();
    let still = supervisor.plan.still_limit;
    let limits = Limits::of(Purpose::Steps, still, supervisor.slowness);
    let watch = Watch {
        supervisor,
        lookout,
        limits,
        dog: Watchdog::new(limits),
        nothing_boots: false,
        read: None,
    };
    spawn("watchdog", move || watch.run())
}

struct Watch {
    supervisor: Arc<Supervisor>,
    lookout: Lookout,
    limits: Limits,
    dog: Watchdog,
    nothing_boots: bool,
    /// The last screen that stood still and was read, and whether it is a box that Windows never gets over.
    read: Option<(Screen, bool)>,
}

impl Watch {
    fn run(mut self) {
        while !self.supervisor.is_over(SAMPLE) {
            if self.supervisor.attended.is_on() {
                // What a person does to the machine is no fault of it.
                self.dog = Watchdog::new(self.limits);
                self.supervisor.find(None);
                continue;
            }
            // The thread that waits for the guest sees the state itself.
            if let Ok(glance) = self.supervisor.glance(true)
                && glance.state == State::Running
            {
                self.look(glance);
            }
        }
    }

    fn look(&mut self, glance: Glance) {
        let now = self.supervisor.elapsed();
        let silence = self.supervisor.silence(glance.link);
        let restarted = self.lookout.count_restarts(&glance, now);
        let lines = self.lookout.read_firmware().unwrap_or_default();
        self.nothing_boots = !restarted && self.nothing_boots;
        self.nothing_boots |= lines.contains(&Line::NothingBoots);
        let sample = self.lookout.sample(glance, now, self.nothing_boots);
        let screen = sample.screen.clone();
        let mut verdict = self.dog.look(sample, silence);
        if verdict == Verdict::Fine && self.dog.stands && self.is_hopeless(screen) {
            let since = now.saturating_sub(self.limits.still);
            verdict = Verdict::StandsStill { since };
        }
        let since = match &verdict {
            Verdict::Fine => return self.supervisor.find(None),
            Verdict::StandsStill { since } => Some(*since),
            _ => None,
        };
        let is_first = lock(&self.supervisor.finding).is_none();
        if is_first {
            self.supervisor.find(Some(Finding {
                verdict,
                seen: self.lookout.seen(since),
                about: About {
                    platform: self.supervisor.platform,
                    firmware: self.limits.firmware,
                    retries: 0,
                },
            }));
        }
    }

    /// Setup's last words, behind which the guest may well answer. Each screen that stands is read once.
    fn is_hopeless(&mut self, screen: Option<Screen>) -> bool {
        let Some(screen) = screen.filter(|s| !s.is_blank()) else {
            return false;
        };
        match &self.read {
            Some((read, hopeless)) if read.stands(&screen) => *hopeless,
            _ => {
                let text = self.supervisor.read(&self.lookout.ppm).join("\n");
                let found = dialog::find(&text);
                let hopeless = matches!(found, Some(Known::Dialog(known)) if known.hopeless);
                self.read = Some((screen, hopeless));
                hopeless
            }
        }
    }
}
