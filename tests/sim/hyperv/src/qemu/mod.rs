//! Virtual machines that really run: a QEMU on a flat copy of the VHDX chain, booted from the discs in the drives.
//!
//! QEMU is detached. All that is known of it lies in the machine's folder, so the next process finds it again. Its disk hangs on AHCI, which stands for the
//! synthetic controller whose driver every Windows has; its firmware says that it is a virtual machine of Hyper-V; a virtio port stands for the socket
//! that PowerShell Direct uses. When it is off, what the guest changed goes back into the leaf of the chain. Not modelled: Secure Boot, TPM, saved
//! states, networks, COM ports as pipes (the first port's output is `com1.log`).

mod arguments;
mod monitor;
mod process;
mod session;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::{Engine, Figures, Heartbeat, Picture, Power, SessionError, Spec};
use crate::vhdx::Chain;
use monitor::Monitor;
use session::Session;

/// Names in the machine's folder.
const RUNNING: &str = "running.json";
const DISK: &str = "disk.raw";
const LOCK: &str = "qemu.lock";
/// What the guest knows the newest session by.
const SESSION: &str = "session";
const FIGURES: &str = "figures.json";

/// Nothing but its folder: each call may be another process's.
pub struct Machine {
    folder: PathBuf,
}

/// A machine that was started and whose disk is not brought up to date yet.
#[derive(Serialize, Deserialize)]
struct Started {
    spec: Spec,
    /// Milliseconds of Unix time.
    at: u64,
}

/// When the processor time was last asked for, and what it was; milliseconds.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Used {
    at: u64,
    time: u64,
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |now| now.as_millis() as u64)
}

impl Machine {
    pub fn open(folder: &Path) -> Machine {
        Machine {
            folder: std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()),
        }
    }

    fn started(&self) -> Option<Started> {
        let text = std::fs::read(self.folder.join(RUNNING)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// One process at a time starts the machine or takes its disk back.
    fn locked(&self) -> Result<File, String> {
        let file = File::create(self.folder.join(LOCK)).and_then(|file| {
            file.lock()?;
            Ok(file)
        });
        file.map_err(|e| format!("{}: {e}", self.folder.display()))
    }

    fn pid(&self, spec: &Spec) -> Option<u32> {
        process::running(&self.folder, &spec.id)
    }

    fn launch(&self, spec: &Spec) -> Result<(), String> {
        let io = |e: std::io::Error| format!("{}: {e}", self.folder.display());
        let raw = self.folder.join(DISK);
        let _ = std::fs::remove_file(&raw);
        let file = File::create_new(&raw).map_err(io)?;
        let flat = Chain::open(&spec.disk).and_then(|chain| chain.flatten(&file));
        flat.map_err(|fault| fault.to_string())?;
        process::firmware(&self.folder, spec)?;
        let started = json!(Started {
            spec: spec.clone(),
            at: now(),
        });
        std::fs::write(self.folder.join(RUNNING), started.to_string()).map_err(io)?;
        process::start(&self.folder, &arguments::of(spec, &self.folder))
            .inspect_err(|_| drop(std::fs::remove_file(self.folder.join(RUNNING))))
    }

    /// Takes back what the guest changed. Doing it again after a kill in between changes nothing more.
    fn close(&self, spec: &Spec) -> Result<(), String> {
        let raw = self.folder.join(DISK);
        if let Ok(file) = File::open(&raw) {
            Chain::open_to_write(&spec.disk)
                .and_then(|chain| chain.absorb(&file))
                .map_err(|fault| fault.to_string())?;
        }
        let io = |e: std::io::Error| format!("{}: {e}", self.folder.display());
        std::fs::remove_file(self.folder.join(RUNNING)).map_err(io)?;
        let _ = std::fs::remove_file(raw);
        Ok(())
    }

    fn looked(&self) -> Result<Power, String> {
        let _lock = self.locked()?;
        let Some(started) = self.started() else {
            return Ok(Power::Off);
        };
        if self.pid(&started.spec).is_some() {
            return Ok(Power::Running);
        }
        self.close(&started.spec).map(|()| Power::Off)
    }

    fn monitor(&self) -> Result<Monitor, String> {
        Monitor::connect(&self.folder)
    }

    fn drop_session(&self) -> SessionError {
        let _ = std::fs::remove_file(self.folder.join(SESSION));
        SessionError::Ended
    }
}

impl Engine for Machine {
    fn start(&mut self, spec: &Spec) -> Result<(), String> {
        self.looked()?;
        let _lock = self.locked()?;
        match self.started() {
            Some(_) => Err("the virtual machine is running already".into()),
            None => self.launch(spec),
        }
    }

    fn state(&mut self) -> Power {
        self.looked().unwrap_or_else(|why| {
            // The guest's writes have no place: what Hyper-V calls paused, critical.
            eprintln!("powershell.exe: {why}");
            Power::PausedCritical
        })
    }

    fn turn_off(&mut self) {
        self.drop_session();
        if let Some(started) = self.started() {
            process::kill(&self.folder, &started.spec.id);
        }
        self.state();
    }

    fn set_dvd(&mut self, slot: usize, disc: Option<&Path>) -> Result<(), String> {
        if self.state() != Power::Running {
            return Ok(());
        }
        let id = arguments::dvd(slot);
        let mut monitor = self.monitor()?;
        match disc {
            Some(disc) => {
                let file = std::path::absolute(disc).map_err(|e| e.to_string())?;
                let arguments = json!({"id": id, "filename": file, "format": "raw"});
                monitor.ask("blockdev-change-medium", arguments)
            }
            None => monitor.ask("eject", json!({"id": id, "force": true})),
        }
        .map(drop)
    }

    fn screen(&mut self) -> Option<Picture> {
        let file = self.folder.join("screen.ppm");
        self.monitor()
            .and_then(|mut monitor| monitor.ask("screendump", json!({"filename": file})))
            .ok()?;
        let bytes = std::fs::read(&file).ok()?;
        monitor::picture(&bytes)
    }

    fn key(&mut self, code: u32) -> Result<(), String> {
        let name = monitor::key(code).ok_or_else(|| format!("no key {code:#x}"))?;
        let keys = json!({"keys": [{"type": "qcode", "data": name}]});
        self.monitor()?.ask("send-key", keys).map(drop)
    }

    fn open_session(&mut self, user: &str, password: &str) -> Result<(), SessionError> {
        self.drop_session();
        if self.state() != Power::Running {
            return Err(SessionError::Ended);
        }
        if self.heartbeat() == Heartbeat::NoContact {
            // Nobody in the guest listens yet: Setup, or a Windows that comes up.
            return Err(SessionError::Credential);
        }
        let reply = self.ask(json!({"user": user, "password": password}))?;
        if let Some(token) = reply["session"].as_str() {
            let kept = std::fs::write(self.folder.join(SESSION), token);
            return kept.map_err(|_| SessionError::Ended);
        }
        if reply["refused"].is_string() {
            Err(SessionError::Credential)
        } else {
            Err(SessionError::Ended)
        }
    }

    fn guest(&mut self, call: &str, arguments: &[Value]) -> Result<Value, SessionError> {
        let token = std::fs::read_to_string(self.folder.join(SESSION));
        let token = token.map_err(|_| SessionError::Ended)?;
        let asked = json!({"session": token, "call": call, "arguments": arguments});
        let mut reply = self.ask(asked)?;
        if let Some(why) = reply["threw"].as_str() {
            return Err(SessionError::Threw(why.to_owned()));
        }
        match reply["value"].take() {
            value @ Value::Object(_) => Ok(value),
            _ => Err(self.drop_session()),
        }
    }

    fn heartbeat(&mut self) -> Heartbeat {
        let listens = self
            .monitor()
            .and_then(|mut monitor| monitor.ask("query-chardev", json!({})))
            .is_ok_and(|devices| {
                let open = |device: &Value| {
                    device["label"] == arguments::SESSIONS && device["frontend-open"] == true
                };
                devices.as_array().is_some_and(|all| all.iter().any(open))
            });
        if listens {
            Heartbeat::OkApplicationsUnknown
        } else {
            Heartbeat::NoContact
        }
    }

    fn figures(&mut self) -> Figures {
        let Some(started) = self.started() else {
            return Figures::default();
        };
        let time = self.pid(&started.spec).and_then(process::processor_time);
        let used = Used {
            at: now(),
            time: time.unwrap_or(0),
        };
        let file = self.folder.join(FIGURES);
        let before = std::fs::read(&file)
            .ok()
            .and_then(|text| serde_json::from_slice::<Used>(&text).ok())
            .filter(|before| before.at >= started.at)
            .unwrap_or(Used {
                at: started.at,
                time: 0,
            });
        let _ = std::fs::write(&file, json!(used).to_string());
        let elapsed = used.at.saturating_sub(before.at).max(1);
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
        let spent = used.time.saturating_sub(before.time);
        Figures {
            uptime: used.at.saturating_sub(started.at) / 1000,
            cpu: (spent * 100 / (elapsed * cores)).min(100) as u32,
        }
    }
}

impl Machine {
    /// Asks over a connection of its own, and waits as long as the guest listens: a restart ends the session.
    fn ask(&mut self, asked: Value) -> Result<Value, SessionError> {
        let mut session = Session::connect(&self.folder).map_err(|_| self.drop_session())?;
        let id = session.ask(asked).map_err(|_| self.drop_session())?;
        loop {
            match session.reply(&id) {
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) if self.heartbeat() == Heartbeat::OkApplicationsUnknown => {}
                _ => return Err(self.drop_session()),
            }
        }
    }
}
