//! The machine as the build sees it.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use qapi::qmp::ImageFormat;

use super::install::Install;
use super::process::describe;
use super::running::Running;
use super::{Doubt, room, watchdog};
use crate::guest::Guest;
use crate::guest::agent::{Agent, Host};
use crate::vm::watch::State;
use crate::vm::{Camera, Machine, MachinePlan, Platform};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Attended, Sink};
use winimg_base::io::folder_of;

/// For the agent's small calls, with hardware acceleration: servicing keeps it silent for half a minute.
const AGENT_PATIENCE: Duration = Duration::from_secs(90);

pub struct QemuMachine {
    running: Arc<Running>,
    plan: MachinePlan,
    sink: Arc<dyn Sink>,
    slowness: u32,
    doubt: Doubt,
    /// What watches beside us; each ends with the process.
    threads: Vec<JoinHandle<()>>,
}

impl QemuMachine {
    /// `patience`: how long the guest waits for room on the host's disk.
    pub fn new(
        running: Arc<Running>,
        plan: MachinePlan,
        sink: Arc<dyn Sink>,
        slowness: u32,
        patience: Duration,
        doubt: Doubt,
    ) -> Result<Self> {
        let folder = folder_of(&plan.disk).to_path_buf();
        let room = room::keep(Arc::clone(&running), folder, patience, Arc::clone(&sink))?;
        Ok(Self {
            running,
            plan,
            sink,
            slowness,
            doubt,
            threads: vec![room],
        })
    }

    /// Connected before the guest runs, so that its port has a host's end from the first moment; nothing is sent.
    fn agent(&self) -> Result<Agent> {
        let path = self.running.dir.agent();
        let stream = UnixStream::connect(&path).map_err(|e| Error::io("connect to", &path, e))?;
        let share = || Arc::clone(&self.running);
        let (check, port, discs, talked, clock) = (share(), share(), share(), share(), share());
        let host = Host {
            check: Box::new(move || check.check()),
            port: Box::new(move || port.seen().port),
            discs: Box::new(move |iso| discs.discs(iso)),
            talked: Box::new(move |asked| talked.talked(asked)),
            now: Box::new(move || clock.clock.now()),
        };
        let agent = Agent::new(stream, host, AGENT_PATIENCE * self.slowness)?;
        Ok(agent.written_down(&self.running.dir.agent_log()))
    }
}

impl Machine for QemuMachine {
    fn guest(&mut self) -> Result<Box<dyn Guest>> {
        let mut agent = self.agent()?;
        let running = Arc::clone(&self.running);
        let sink = Arc::clone(&self.sink);
        let install = Install::new(running, &self.plan, sink, self.slowness);
        let came_up = install.wait(&mut agent);
        let (lookout, limits) = came_up.inspect_err(|error| (self.doubt)(error))?;
        self.threads.push(watchdog::keep(lookout, limits)?);
        Ok(Box::new(agent))
    }

    fn wait_off(&mut self, timeout: Duration) -> Result<()> {
        let deadline = self.running.clock.now() + timeout;
        loop {
            self.running.cancel.check()?;
            if let Some(status) = self.running.process.wait(Duration::from_millis(100)) {
                return match self.running.state() {
                    State::Off if status.success() => Ok(()),
                    State::Off => Err(Error::new(
                        Kind::Machine,
                        format!(
                            "the guest powered off, but QEMU ended with {}",
                            describe(status)
                        ),
                    )
                    .at(self.running.dir.stderr().display())
                    .lines(self.running.process.last_words())),
                    _ => Err(self.running.crashed(&describe(status))),
                };
            }
            match self.running.state() {
                State::Paused(why) => return Err(self.running.paused(&why)),
                State::Running => self.running.check()?,
                State::Held | State::Off | State::Gone(_) => {}
            }
            if self.running.clock.now() >= deadline {
                return Err(Error::new(
                    Kind::Machine,
                    format!("the guest did not power off within {} s", timeout.as_secs()),
                ));
            }
        }
    }

    fn stop(&mut self) {
        self.running.stop();
    }

    fn screenshot(&mut self, file: &Path) -> Result<()> {
        let file = Platform::Qemu.absolute(file)?;
        self.running.dump_screen(&file, ImageFormat::png)
    }

    fn camera(&self) -> Camera {
        let running = Arc::clone(&self.running);
        Box::new(move |file| {
            let file = Platform::Qemu.absolute(file)?;
            let format = match file.extension().is_some_and(|e| e == "ppm") {
                true => ImageFormat::ppm,
                false => ImageFormat::png,
            };
            running.dump_screen(&file, format)
        })
    }

    fn attended(&self) -> Attended {
        self.running.attended.clone()
    }
}

impl Drop for QemuMachine {
    fn drop(&mut self) {
        // The agent may still hold its share of the machine: it must find it dead, not keep it alive.
        self.running.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
