//! The guest of the fake machine.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use crate::script::{self, RunOutcome, matches};
use crate::{Power, Shared, crashed, key};
use winimg_base::error::{Error, Kind, Result};
use winimg_machine::guest::{Guest, GuestCommand, GuestDelivery, GuestExit};

pub struct FakeGuest {
    pub(super) shared: Arc<Shared>,
}

impl FakeGuest {
    /// The first entry that matches and is not used up.
    fn entry(&self, line: &str) -> Option<script::Run> {
        let runs = &self.shared.script.run;
        let mut stage = self.shared.lock();
        let found = runs.iter().enumerate().find(|(n, run)| {
            matches(&run.command, line) && run.times.is_none_or(|times| stage.used[*n] < times)
        })?;
        stage.used[found.0] += 1;
        Some(found.1.clone())
    }
}

impl Guest for FakeGuest {
    fn run(&mut self, command: &GuestCommand, output: &mut dyn FnMut(&[u8])) -> Result<GuestExit> {
        let mut line = command.program.clone();
        for argument in &command.arguments {
            line.push(' ');
            line.push_str(argument);
        }
        self.shared.note(&format!("run {line}"));
        self.shared.check()?;
        let Some(entry) = self.entry(&line) else {
            let code = self.shared.script.default_exit.unwrap_or(9009);
            if code == 9009 {
                output(format!("the fake machine's script has no reply to: {line}\r\n").as_bytes());
            }
            return Ok(GuestExit::Code(code));
        };
        let delay = Duration::from_millis(entry.delay_ms);
        self.shared.cancel.sleep(delay.min(command.timeout))?;
        if entry.outcome == RunOutcome::Hangs || delay > command.timeout {
            self.shared
                .cancel
                .sleep(command.timeout.saturating_sub(delay))?;
            return Err(Error::new(
                Kind::Step,
                format!(
                    "the program did not end within {} s",
                    command.timeout.as_secs()
                ),
            )
            .at(&command.program));
        }
        output(entry.output.as_bytes());
        let mut stage = self.shared.lock();
        let files = entry
            .files
            .iter()
            .map(|(p, t)| (key(p), t.clone().into_bytes()));
        stage.files.extend(files);
        match entry.outcome {
            RunOutcome::GuestGone => {
                stage.power = Power::Restarting;
                Ok(GuestExit::GuestGone)
            }
            RunOutcome::MachineCrashes => {
                stage.power = Power::Dead;
                Err(crashed())
            }
            RunOutcome::PowersOff => {
                stage.power = Power::Off;
                Ok(GuestExit::Code(entry.exit))
            }
            RunOutcome::Ends | RunOutcome::Hangs => Ok(GuestExit::Code(entry.exit)),
        }
    }

    fn put(&mut self, what: GuestDelivery<'_>) -> Result<()> {
        match what {
            GuestDelivery::Bytes { path, bytes } => {
                self.shared
                    .note(&format!("put {path} {}", String::from_utf8_lossy(bytes)));
                self.shared.check()?;
                self.shared.lock().files.insert(key(path), bytes.to_vec());
            }
            GuestDelivery::Disc(iso) => {
                let name = iso.file_name().unwrap_or_default().to_string_lossy();
                self.shared.note(&format!("disc {name}"));
                self.shared.check()?;
                // The real one opens it: a disc that is not there must not pass here either.
                File::open(iso).map_err(|e| Error::io("open", iso, e))?;
            }
            GuestDelivery::NoDiscs => {
                self.shared.note("no discs");
                self.shared.check()?;
            }
        }
        Ok(())
    }

    fn get(&mut self, path: &str, limit: usize) -> Result<Option<Vec<u8>>> {
        self.shared.note(&format!("get {path}"));
        self.shared.check()?;
        let bytes = self.shared.lock().files.get(&key(path)).cloned();
        match bytes {
            Some(bytes) if bytes.len() > limit => {
                Err(Error::new(Kind::Machine, "the guest's file is too large")
                    .at(path)
                    .expected(format!("at most {limit} bytes")))
            }
            other => Ok(other),
        }
    }

    fn reboot(&mut self, timeout: Duration) -> Result<()> {
        self.shared.note("reboot");
        self.shared.check()?;
        self.shared.come_back(timeout)
    }

    fn wait_for_return(&mut self, timeout: Duration) -> Result<()> {
        self.shared.note("wait_back");
        self.shared.check()?;
        self.shared.come_back(timeout)
    }

    fn is_there(&mut self) -> Result<bool> {
        self.shared.check()?;
        Ok(self.shared.lock().power == Power::On)
    }

    /// Takes no time.
    fn stay_up(&mut self, time: Duration) -> Result<bool> {
        self.shared.check()?;
        if time.is_zero() {
            return self.is_there();
        }
        self.shared.note(&format!("stay_up {} s", time.as_secs()));
        let mut stage = self.shared.lock();
        if stage.again > 0 {
            stage.again -= 1;
            stage.power = Power::Restarting;
        }
        Ok(stage.power == Power::On)
    }

    fn has_restarted(&mut self) -> bool {
        self.shared.lock().power == Power::Restarting
    }

    fn is_off(&mut self) -> Result<bool> {
        if self.shared.lock().power == Power::Off {
            return Ok(true);
        }
        self.shared.check().map(|()| false)
    }

    fn shut_down(&mut self) -> Result<()> {
        self.shared.note("shut_down");
        self.shared.check()?;
        self.shared.lock().power = Power::Off;
        Ok(())
    }
}
