//! The machine as the build sees it.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::settle::Settling;
use super::start::Starting;
use super::{Clock, Supervisor, room, steps};
use crate::guest::Guest;
use crate::vm::driver::{Driver, Hold, Oversight, State};
use crate::vm::{Camera, Machine, MachinePlan, Platform, Settled};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Attended, Cancel, Sink};

/// Between two looks at a machine that is going off.
const OFF_LOOK: Duration = Duration::from_millis(250);

/// What the supervisor has to know of a machine besides its plan.
pub struct Terms {
    pub platform: Platform,
    /// Multiplies the limits of what a slow processor takes longer for.
    pub slowness: u32,
    /// What the driver takes the times of its events by.
    pub clock: Arc<Clock>,
    /// How long the guest waits for room on the host's disk. `None`: the hypervisor sees to that itself.
    pub room: Option<(Arc<dyn Hold>, Duration)>,
}

/// A machine of any driver, watched until it ends.
pub struct Supervised {
    supervisor: Arc<Supervisor>,
    /// What watches beside us.
    threads: Vec<JoinHandle<()>>,
}

impl Supervised {
    /// The machine is made and waits for its first instruction. Stopped where it can't be watched.
    pub fn new(
        driver: Arc<dyn Driver>,
        plan: MachinePlan,
        sink: Arc<dyn Sink>,
        cancel: Cancel,
        terms: Terms,
    ) -> Result<Self> {
        let supervise = || -> Result<Self> {
            let supervisor = Supervisor::new(Arc::clone(&driver), plan, sink, cancel, &terms)?;
            let supervisor = Arc::new(supervisor);
            let mut threads = Vec::new();
            if let Some((hold, patience)) = terms.room {
                threads.push(room::keep(Arc::clone(&supervisor), hold, patience)?);
            }
            Ok(Self {
                supervisor,
                threads,
            })
        };
        supervise().inspect_err(|_| driver.stop())
    }

    fn end_watch(&mut self) {
        self.supervisor.end();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Machine for Supervised {
    fn guest(&mut self) -> Result<Box<dyn Guest>> {
        let driver = &self.supervisor.driver;
        let oversight = Arc::clone(&self.supervisor);
        let mut channel = Arc::clone(driver).channel(oversight)?;
        let came_up = Starting::new(&self.supervisor).wait(channel.as_mut());
        let lookout = came_up.inspect_err(|error| driver.doubt(error))?;
        self.threads.push(steps::keep(lookout)?);
        Ok(channel.into_guest())
    }

    fn settle(&mut self, quiet: Duration, timeout: Duration) -> Result<Settled> {
        let settled = Settling::new(&self.supervisor, quiet).wait(timeout);
        settled.inspect_err(|error| self.supervisor.driver.doubt(error))
    }

    fn press_power_button(&mut self) -> Result<()> {
        self.supervisor.driver.press_power_button()
    }

    fn wait_off(&mut self, timeout: Duration) -> Result<()> {
        let supervisor = Arc::clone(&self.supervisor);
        let deadline = supervisor.clock.now() + timeout;
        loop {
            supervisor.cancel.check()?;
            match supervisor.glance(true)?.state {
                State::Off => {
                    self.end_watch();
                    if supervisor.driver.settle()? {
                        return Ok(());
                    }
                }
                State::Stopped(halt) => return Err(supervisor.halted(&halt)),
                State::Gone(how) => return Err(supervisor.driver.gone(&how)),
                State::Running => supervisor.check(false)?,
                State::Held => {}
            }
            if supervisor.clock.now() >= deadline {
                let fact = format!("the guest did not power off within {} s", timeout.as_secs());
                return Err(Error::new(Kind::Machine, fact));
            }
            supervisor.cancel.sleep(OFF_LOOK)?;
        }
    }

    fn stop(&mut self) {
        // The guest's channel may still hold its share of the machine: it must find it dead, not keep it alive.
        self.supervisor.driver.stop();
        self.end_watch();
    }

    fn screenshot(&mut self, file: &Path) -> Result<()> {
        self.supervisor.screenshot(file)
    }

    fn camera(&self) -> Camera {
        // A camera that is kept must not keep the machine alive.
        let supervisor = Arc::downgrade(&self.supervisor);
        Box::new(move |file| match supervisor.upgrade() {
            Some(supervisor) => supervisor.screenshot(file),
            None => Err(Error::new(Kind::Machine, "the machine has ended")),
        })
    }

    fn attended(&self) -> Attended {
        self.supervisor.attended.clone()
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.stop();
    }
}
