//! Watches the machine while steps run: a Windows that crashed, hangs at a dialog or keeps
//! restarting is reported long before the step's timeout.
//!
//! `watchdog` decides; this module takes the samples and records the finding.

use std::sync::Arc;
use std::thread::JoinHandle;

use super::errors::{self, WatchContext};
use super::judge::{MachineVerdict, WatchLimits};
use super::observer::MachineObserver;
use super::watchdog::Watchdog;
use super::{SAMPLE, Supervisor, spawn};
use crate::vm::lock;
use crate::vm::observation::MachineObservation;
use crate::vm::purpose::MachinePurpose;
use crate::vm::screen::ScreenGrid;
use crate::vm::supervisor::driver::{FirmwareEvent, MachineState, MachineStatus};
use crate::vm::symptoms::{self, KnownScreen};
use winimg_base::error::{Error, Result};

/// Result of the watch, for the thread that waits for the guest.
pub struct WatchFinding {
    verdict: MachineVerdict,
    seen: MachineObservation,
    about: WatchContext,
}

impl WatchFinding {
    pub fn error(&self) -> Option<Error> {
        errors::explain_verdict(&self.verdict, &self.seen, &self.about)
    }
}

/// Watches until the machine has ended.
pub fn keep(lookout: MachineObserver) -> Result<JoinHandle<()>> {
    let supervisor = Arc::clone(&lookout.supervisor);
    supervisor.steps_begin();
    let still = supervisor.plan.still_limit;
    let limits = WatchLimits::from_purpose(MachinePurpose::Steps, still, supervisor.slowness);
    let watch = StepWatch {
        supervisor,
        lookout,
        limits,
        dog: Watchdog::new(limits),
        nothing_boots: false,
        read: None,
    };
    spawn("watchdog", move || watch.run())
}

struct StepWatch {
    supervisor: Arc<Supervisor>,
    lookout: MachineObserver,
    limits: WatchLimits,
    dog: Watchdog,
    nothing_boots: bool,
    /// Last unchanged screen that was read; `true` if it is a dialog that Windows never leaves.
    read: Option<(ScreenGrid, bool)>,
}

impl StepWatch {
    fn run(mut self) {
        while !self.supervisor.is_over(SAMPLE) {
            if self.supervisor.attended.is_on() {
                // Not an error: a person is controlling the machine.
                self.dog = Watchdog::new(self.limits);
                self.supervisor.find(None);
                continue;
            }
            // The thread that waits for the guest checks the state itself.
            if let Ok(glance) = self.supervisor.read_status(true)
                && glance.state == MachineState::Running
            {
                self.check_once(glance);
            }
        }
    }

    fn check_once(&mut self, glance: MachineStatus) {
        let now = self.supervisor.elapsed();
        let silence = self.supervisor.measure_silence(glance.link);
        let restarted = self.lookout.count_restarts(&glance, now);
        let lines = self.lookout.read_firmware().unwrap_or_default();
        self.nothing_boots = !restarted && self.nothing_boots;
        self.nothing_boots |= lines.contains(&FirmwareEvent::NothingBoots);
        let sample = self.lookout.take_sample(glance, now, self.nothing_boots);
        let screen = sample.screen.clone();
        let mut verdict = self.dog.judge_sample(sample, silence);
        if verdict == MachineVerdict::Fine && self.dog.is_stalled && self.is_hopeless(screen) {
            let since = now.saturating_sub(self.limits.still);
            verdict = MachineVerdict::Stalled { since };
        }
        let since = match &verdict {
            MachineVerdict::Fine => return self.supervisor.find(None),
            MachineVerdict::Stalled { since } => Some(*since),
            _ => None,
        };
        let is_first = lock(&self.supervisor.finding).is_none();
        if is_first {
            self.supervisor.find(Some(WatchFinding {
                verdict,
                seen: self.lookout.observe_now(since),
                about: WatchContext {
                    platform: self.supervisor.platform,
                    firmware: self.limits.firmware,
                    retries: 0,
                },
            }));
        }
    }

    /// Returns true for a final error of Setup; the guest may still answer behind it. Each
    /// unchanged screen is read once.
    fn is_hopeless(&mut self, screen: Option<ScreenGrid>) -> bool {
        let Some(screen) = screen.filter(|s| !s.is_blank()) else {
            return false;
        };
        match &self.read {
            Some((read, hopeless)) if read.is_unchanged(&screen) => *hopeless,
            _ => {
                let text = self.supervisor.read(&self.lookout.ppm).join("\n");
                let found = symptoms::find_on_screen(&text);
                let hopeless = matches!(found, Some(KnownScreen::Dialog(known)) if known.hopeless);
                self.read = Some((screen, hopeless));
                hopeless
            }
        }
    }
}
