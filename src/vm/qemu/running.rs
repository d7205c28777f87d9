//! A running QEMU, shared by the machine and the agent: both see it die, pause or being interrupted.
//!
//! Translates QMP into the few questions and orders that the rest needs. Decides nothing.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::args::{ANSWER_CD, DISK_DRIVE, INSTALL_CD, INSTALL_DRIVE};
use super::events::Seen;
use super::process::Process;
use super::qmp::{PATIENCE, Qmp};
use super::rundir::RunDir;
use super::watch::State;
use crate::error::{Error, Kind, Result};
use crate::event::Cancel;
use crate::recipe::Firmware;

/// How long QEMU may take to open its monitor.
const START: Duration = Duration::from_secs(30);

pub struct Running {
    pub qmp: Qmp,
    pub process: Process,
    pub dir: RunDir,
    pub cancel: Cancel,
    /// Where this machine's part of the firmware's log begins.
    pub log_start: u64,
}

/// Bytes moved so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    pub disc_read: u64,
    pub disk_written: u64,
    pub total: u64,
}

impl Running {
    pub fn start(
        program: &Path,
        arguments: &[String],
        dir: RunDir,
        cancel: Cancel,
        firmware: Firmware,
        heading: &str,
    ) -> Result<Self> {
        for socket in [dir.qmp(), dir.agent()] {
            // What a dead process left; QEMU makes its own.
            let _ = std::fs::remove_file(socket);
        }
        let mut log_start = begin_log(&dir.serial(), heading)?;
        if firmware == Firmware::Bios {
            log_start = begin_log(&dir.bios_log(), heading)?;
        }
        begin_log(&dir.stderr(), heading)?;
        let process = Process::spawn(program, arguments, &dir.stderr())?;
        let alive = || match process.ended() {
            Some(status) => Err(process.death("QEMU did not start: it", status)),
            None => cancel.check(),
        };
        let qmp = Qmp::connect(&dir.qmp(), START, &alive)?;
        Ok(Self {
            qmp,
            process,
            dir,
            cancel,
            log_start,
        })
    }

    pub fn ask(&self, command: &str, arguments: Value) -> Result<Value> {
        self.qmp.request(command, arguments, PATIENCE)
    }

    pub fn seen(&self) -> Seen {
        self.qmp.seen()
    }

    /// What the machine is doing, without waiting for anything.
    pub fn state(&self) -> State {
        if let Some(status) = self.process.ended() {
            // Its last events may still be on their way.
            self.qmp.wait_closed(Duration::from_secs(1));
            return match self.seen().shutdown {
                Some(shutdown) if shutdown.guest => State::Off,
                Some(shutdown) => State::Gone(format!(
                    "{} ({})",
                    super::process::describe(status),
                    shutdown.reason
                )),
                None => State::Gone(super::process::describe(status)),
            };
        }
        let seen = self.seen();
        if seen.shutdown.as_ref().is_some_and(|s| s.guest) {
            return State::Off;
        }
        if !seen.stopped {
            return State::Running;
        }
        let status = self.ask("query-status", json!({}));
        let status = status
            .ok()
            .and_then(|s| s["status"].as_str().map(String::from));
        match status.as_deref() {
            // It went on between the event and the question.
            Some("running") => State::Running,
            status => {
                let mut why = status.unwrap_or("paused").to_string();
                for fault in &seen.faults {
                    why.push_str(&format!(" ({fault})"));
                }
                State::Paused(why)
            }
        }
    }

    /// An error unless the machine runs and nobody interrupted. For waits of the agent.
    pub fn check(&self) -> Result<()> {
        self.cancel.check()?;
        // The common case costs a lock, no question to QEMU.
        if self.process.ended().is_none() && !self.seen().stopped {
            return Ok(());
        }
        match self.state() {
            State::Running => Ok(()),
            State::Off => Err(Error::new(Kind::Machine, "the guest powered off")),
            State::Paused(why) => Err(self.paused(&why)),
            State::Gone(how) => Err(self.crashed(&how)),
        }
    }

    pub fn paused(&self, why: &str) -> Error {
        let error = Error::new(Kind::Machine, format!("the machine stopped: {why}"))
            .at(self.dir.stderr().display())
            .lines(self.process.last_words());
        match why {
            _ if why.starts_with("io-error") => {
                error.cure("make room on the host's disk, then build again")
            }
            _ if why.starts_with("internal-error") => error
                .cure("this host's virtualisation is broken: take --accel tcg, or another host"),
            _ => error,
        }
    }

    pub fn crashed(&self, how: &str) -> Error {
        Error::new(Kind::Machine, format!("QEMU died: {how}"))
            .at(self.dir.stderr().display())
            .lines(self.process.last_words())
    }

    pub fn moved(&self) -> Result<Moved> {
        let answer = self.ask("query-blockstats", json!({}))?;
        let mut moved = Moved::default();
        for drive in answer.as_array().into_iter().flatten() {
            let bytes = |name: &str| drive["stats"][name].as_u64().unwrap_or(0);
            let (read, written) = (bytes("rd_bytes"), bytes("wr_bytes"));
            moved.total += read + written;
            match drive["device"].as_str() {
                Some(INSTALL_DRIVE) => moved.disc_read = read,
                Some(DISK_DRIVE) => moved.disk_written = written,
                _ => {}
            }
        }
        Ok(moved)
    }

    pub fn press(&self, key: &str) -> Result<()> {
        let keys = json!({"keys": [{"type": "qcode", "data": key}]});
        self.ask("send-key", keys).map(|_| ())
    }

    /// `format`: `png`, or `ppm`.
    pub fn dump_screen(&self, file: &Path, format: &str) -> Result<()> {
        self.ask("screendump", json!({"filename": file, "format": format}))
            .map(|_| ())
    }

    /// Puts an ISO into the answer drive, or empties both. The guest may have locked the tray: it is forced.
    pub fn discs(&self, iso: Option<&Path>) -> Result<()> {
        let Some(iso) = iso else {
            for id in [ANSWER_CD, INSTALL_CD] {
                self.ask("eject", json!({"id": id, "force": true}))?;
            }
            return Ok(());
        };
        let iso = super::absolute_path(iso)?;
        let arguments = json!({
            "id": ANSWER_CD, "filename": iso, "format": "raw", "force": true, "read-only-mode": "retain",
        });
        self.ask("blockdev-change-medium", arguments)
            .map(|_| ())
            .map_err(|e| e.at(iso.display()))
    }

    /// `quit` and a second for it, then SIGKILL.
    pub fn stop(&self) {
        if self.process.ended().is_some() {
            return;
        }
        let second = Duration::from_secs(1);
        let _ = self.qmp.request("quit", json!({}), second);
        if self.process.wait(second).is_none() {
            self.process.kill();
            self.process.wait(Duration::from_secs(10));
        }
    }
}

/// Adds a heading to a log that several machines write to, one after the other; the length with it.
fn begin_log(path: &Path, heading: &str) -> Result<u64> {
    let write = || -> std::io::Result<u64> {
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        // A line that a machine did not finish must not swallow the heading.
        let gap = if file.metadata()?.len() > 0 { "\n" } else { "" };
        file.write_all(format!("{gap}{heading}\n").as_bytes())?;
        Ok(file.metadata()?.len())
    };
    write().map_err(|e| Error::io("write", path, e))
}
