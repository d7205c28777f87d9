//! A supervised machine: the [`VirtualMachine`] that builds work with.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::settle::SettleWatch;
use super::start::StartWatch;
use super::{PausableClock, Supervisor, disk_space, step_watch};
use crate::guest::{Guest, GuestFailure};
use crate::vm::supervisor::driver::{MachineDriver, MachineState};
use crate::vm::{HypervisorKind, MachinePlan, ScreenCamera, SettleOutcome, VirtualMachine};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Sink, UserControl};

/// Interval between two status checks while the machine powers off.
const OFF_LOOK: Duration = Duration::from_millis(250);

/// Settings of the supervisor besides the machine's plan.
pub struct SupervisorSettings {
    pub platform: HypervisorKind,
    /// Factor for limits that depend on the processor's speed.
    pub slowness: u32,
    /// Clock of the driver's events.
    pub clock: Arc<PausableClock>,
    /// Limit for pausing the guest while the host's disk is full. `None` if the hypervisor pauses
    /// it itself.
    pub room: Option<Duration>,
}

/// Machine of any driver, watched until it ends.
pub struct SupervisedMachine {
    supervisor: Arc<Supervisor>,
    /// Watch threads.
    threads: Vec<JoinHandle<()>>,
}

impl SupervisedMachine {
    /// Starts watching a machine that is created but not yet running. If that fails, the machine is
    /// stopped.
    pub fn new(
        driver: Arc<dyn MachineDriver>,
        plan: MachinePlan,
        sink: Arc<dyn Sink>,
        cancel: Cancel,
        terms: SupervisorSettings,
    ) -> Result<Self> {
        let started = Supervisor::new(Arc::clone(&driver), plan, sink, cancel, &terms);
        started
            .and_then(|supervisor| Self::start(supervisor, terms.room))
            .inspect_err(|_| driver.stop())
    }

    fn start(supervisor: Supervisor, room: Option<Duration>) -> Result<Self> {
        let supervisor = Arc::new(supervisor);
        let mut threads = Vec::new();
        if let Some(patience) = room {
            threads.push(disk_space::keep(Arc::clone(&supervisor), patience)?);
        }
        Ok(Self {
            supervisor,
            threads,
        })
    }

    fn end_watch(&mut self) {
        self.supervisor.end();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl VirtualMachine for SupervisedMachine {
    fn wait_for_guest(&mut self) -> Result<Box<dyn Guest>> {
        let driver = &self.supervisor.driver;
        let oversight = Arc::clone(&self.supervisor);
        let mut channel = Arc::clone(driver).open_channel(oversight)?;
        let came_up = StartWatch::new(&self.supervisor).wait(channel.as_mut());
        let lookout = came_up.inspect_err(|error| driver.note_failed_start(error))?;
        self.threads.push(step_watch::keep(lookout)?);
        Ok(channel.into_guest())
    }

    fn wait_settled(&mut self, quiet: Duration, timeout: Duration) -> SettleOutcome {
        let settled = SettleWatch::new(&self.supervisor, quiet).wait(timeout);
        if let Err(error) = &settled.after {
            self.supervisor.driver.note_failed_start(error);
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
            match supervisor.read_status(true)?.state {
                MachineState::Off => {
                    self.end_watch();
                    if supervisor.driver.check_disk_released()? {
                        return Ok(());
                    }
                }
                MachineState::Stopped(halt) => return Err(supervisor.report_halt(&halt)),
                MachineState::Gone(how) => return Err(supervisor.driver.describe_exit(&how)),
                MachineState::Running => match supervisor.check(false) {
                    // It powered off since the status was read.
                    Err(GuestFailure::PoweredOff) => continue,
                    found => found?,
                },
                MachineState::PausedForSpace => {}
            }
            if supervisor.clock.now() >= deadline {
                let fact = format!("the guest did not power off within {} s", timeout.as_secs());
                return Err(Error::new(supervisor.purpose().into(), fact));
            }
            supervisor.cancel.sleep(OFF_LOOK)?;
        }
    }

    fn stop(&mut self) {
        // The guest's channel may still have a reference to the machine. It must not keep it alive.
        self.supervisor.driver.stop();
        self.end_watch();
    }

    fn take_screenshot(&mut self, file: &Path) -> Result<()> {
        self.supervisor.save_screenshot(file)
    }

    fn camera(&self) -> ScreenCamera {
        // A camera must not keep the machine alive.
        let supervisor = Arc::downgrade(&self.supervisor);
        Box::new(move |file| match supervisor.upgrade() {
            Some(supervisor) => supervisor.save_screenshot(file),
            None => Err(Error::new(Kind::Machine, "the machine has ended")),
        })
    }

    fn attended(&self) -> UserControl {
        self.supervisor.attended.clone()
    }
}

impl Drop for SupervisedMachine {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::vm::observation::MachineObservation;
    use crate::vm::supervisor::driver::{
        ChannelLink, GuestChannel, HypervisorFault, MachineLoad, MachineStatus,
    };
    use crate::vm::{Accel, NetworkAccess, StartMode, StorageController};
    use winimg_base::event::Event;
    use winimg_base::text::Secret;
    use winimg_recipe::Firmware;

    /// A guest that is off from the second status on; nothing else is called once it is off.
    #[derive(Default)]
    struct GoesOff(AtomicBool);

    impl MachineDriver for GoesOff {
        fn read_status(&self, _fresh: bool) -> Result<MachineStatus> {
            Ok(MachineStatus {
                state: if self.0.swap(true, Ordering::Relaxed) {
                    MachineState::Off
                } else {
                    MachineState::Running
                },
                restarts: 0,
                link: ChannelLink {
                    open: false,
                    changed: None,
                },
                log_text: None,
            })
        }

        fn check_disk_released(&self) -> Result<bool> {
            Ok(true)
        }

        fn has_ended(&self, _patience: Duration) -> bool {
            false
        }

        fn stop(&self) {}

        fn power_on(&self) -> Result<()> {
            unreachable!()
        }

        fn load(&self) -> Result<MachineLoad> {
            unreachable!()
        }

        fn take_picture(&self) -> Result<Vec<u8>> {
            unreachable!()
        }

        fn press_up(&self) -> Result<()> {
            unreachable!()
        }

        fn press_power_button(&self) -> Result<()> {
            unreachable!()
        }

        fn open_channel(self: Arc<Self>, _: Arc<Supervisor>) -> Result<Box<dyn GuestChannel>> {
            unreachable!()
        }

        fn describe_halt(
            &self,
            _: HypervisorFault,
            _: &str,
            _: &dyn Fn() -> MachineObservation,
        ) -> Error {
            unreachable!()
        }

        fn describe_exit(&self, _how: &str) -> Error {
            unreachable!()
        }
    }

    struct Nobody;

    impl Sink for Nobody {
        fn emit(&self, _event: &Event) {}
    }

    /// Each iteration of the wait reads the status twice; a guest may power off in between.
    #[test]
    fn a_guest_that_goes_off_while_it_is_looked_at_is_off() {
        let dir = tempfile::tempdir().expect("a folder");
        let plan = MachinePlan {
            name: "test".into(),
            firmware: Firmware::Uefi,
            secure_boot: false,
            controller: StorageController::Nvme,
            disk: dir.path().join("disk"),
            room: 0,
            cpus: 1,
            memory: 1 << 30,
            network: NetworkAccess::None,
            tpm: false,
            password: Secret::new(""),
            start: StartMode::Boot,
            run_dir: dir.path().into(),
            accel: Accel::Tcg,
            timeout: Duration::from_secs(1),
            still_limit: Duration::from_secs(1),
        };
        let terms = SupervisorSettings {
            platform: HypervisorKind::Qemu,
            slowness: 1,
            clock: Arc::default(),
            room: None,
        };
        let driver = Arc::new(GoesOff::default());
        let machine =
            SupervisedMachine::new(driver, plan, Arc::new(Nobody), Cancel::default(), terms);
        let off = machine.expect("a machine").wait_off(Duration::from_secs(5));
        off.expect("it is off");
    }
}
