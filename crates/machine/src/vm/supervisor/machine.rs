//! The machine as the build sees it.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::settle::Settling;
use super::start::Starting;
use super::{Clock, Supervisor, room, steps};
use crate::guest::{Ended, Guest};
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

    fn settle(&mut self, quiet: Duration, timeout: Duration) -> Settled {
        let settled = Settling::new(&self.supervisor, quiet).wait(timeout);
        if let Err(error) = &settled.after {
            self.supervisor.driver.doubt(error);
        }
        settled
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
                State::Running => match supervisor.check(false) {
                    // It went off since the look above.
                    Err(Ended::PoweredOff) => continue,
                    found => found?,
                },
                State::Held => {}
            }
            if supervisor.clock.now() >= deadline {
                let fact = format!("the guest did not power off within {} s", timeout.as_secs());
                return Err(Error::new(supervisor.purpose().into(), fact));
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::vm::driver::{Channel, Fault, Glance, Link, Load};
    use crate::vm::seen::Seen;
    use crate::vm::{Accel, Controller, Network, Start};
    use winimg_base::event::Event;
    use winimg_base::text::Secret;
    use winimg_recipe::recipe::Firmware;

    /// A guest that is off from the second look at it on; with its power off nothing else is asked of it.
    #[derive(Default)]
    struct GoesOff(AtomicBool);

    impl Driver for GoesOff {
        fn glance(&self, _fresh: bool) -> Result<Glance> {
            Ok(Glance {
                state: match self.0.swap(true, Ordering::Relaxed) {
                    false => State::Running,
                    true => State::Off,
                },
                restarts: 0,
                link: Link {
                    open: false,
                    changed: None,
                },
                words: None,
            })
        }

        fn settle(&self) -> Result<bool> {
            Ok(true)
        }

        fn has_ended(&self, _patience: Duration) -> bool {
            false
        }

        fn stop(&self) {}

        fn power_on(&self) -> Result<()> {
            unreachable!()
        }

        fn load(&self) -> Result<Load> {
            unreachable!()
        }

        fn picture(&self) -> Result<Vec<u8>> {
            unreachable!()
        }

        fn press_up(&self) -> Result<()> {
            unreachable!()
        }

        fn press_power_button(&self) -> Result<()> {
            unreachable!()
        }

        fn channel(self: Arc<Self>, _: Arc<dyn Oversight>) -> Result<Box<dyn Channel>> {
            unreachable!()
        }

        fn halted(&self, _: Fault, _: &str, _: &dyn Fn() -> Seen) -> Error {
            unreachable!()
        }

        fn gone(&self, _how: &str) -> Error {
            unreachable!()
        }
    }

    struct Nobody;

    impl Sink for Nobody {
        fn emit(&self, _event: &Event) {}
    }

    /// Two looks make one turn of the wait, and a guest may go off between them.
    #[test]
    fn a_guest_that_goes_off_while_it_is_looked_at_is_off() {
        let dir = tempfile::tempdir().expect("a folder");
        let plan = MachinePlan {
            name: "test".into(),
            firmware: Firmware::Uefi,
            secure_boot: false,
            controller: Controller::Nvme,
            disk: dir.path().join("disk"),
            room: 0,
            cpus: 1,
            memory: 1 << 30,
            network: Network::None,
            tpm: false,
            password: Secret::new(""),
            start: Start::Boot,
            run_dir: dir.path().into(),
            accel: Accel::Tcg,
            timeout: Duration::from_secs(1),
            still_limit: Duration::from_secs(1),
        };
        let terms = Terms {
            platform: Platform::Qemu,
            slowness: 1,
            clock: Arc::default(),
            room: None,
        };
        let driver = Arc::new(GoesOff::default());
        let machine = Supervised::new(driver, plan, Arc::new(Nobody), Cancel::default(), terms);
        let off = machine.expect("a machine").wait_off(Duration::from_secs(5));
        off.expect("it is off");
    }
}
