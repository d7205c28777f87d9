//! A guest on a machine that stands: no time passes in it. For tests of limits.

use std::time::{Duration, Instant};

use winimg_base::error::Result;
use winimg_machine::guest::{Command, Exit, Guest, Put};

/// Each file is there from the third look on; the first program finds another installation under way.
pub struct Standing {
    now: Instant,
    pub looks: u32,
    pub programs: u32,
    /// What it says of Setup's programs.
    pub setup: &'static str,
}

impl Standing {
    pub fn new() -> Self {
        Self {
            now: Instant::now(),
            looks: 0,
            programs: 0,
            setup: "    SystemSetupInProgress    REG_DWORD    0x0\r\n    SetupType    REG_DWORD    0x0\r\n",
        }
    }
}

impl Guest for Standing {
    fn run(&mut self, command: &Command, output: &mut dyn FnMut(&[u8])) -> Result<Exit> {
        if command.program.ends_with("reg.exe") {
            let is_state = command.arguments.iter().any(|a| a == "ImageState");
            output(match is_state {
                true => b"IMAGE_STATE_COMPLETE",
                false => self.setup.as_bytes(),
            });
            return Ok(Exit::Code(0));
        }
        self.programs += 1;
        Ok(Exit::Code(if self.programs > 1 { 0 } else { 1618 }))
    }

    fn get(&mut self, _: &str, _: usize) -> Result<Option<Vec<u8>>> {
        self.looks += 1;
        Ok((self.looks > 2).then(|| b"result=ok\r\n".to_vec()))
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn put(&mut self, _: Put<'_>) -> Result<()> {
        unreachable!("nothing is put")
    }

    fn reboot(&mut self, _: Duration) -> Result<()> {
        unreachable!("nobody restarts it")
    }

    fn wait_back(&mut self, _: Duration) -> Result<()> {
        unreachable!("it does not restart")
    }

    fn is_there(&mut self) -> Result<bool> {
        Ok(true)
    }

    fn has_restarted(&mut self) -> bool {
        false
    }

    fn is_off(&mut self) -> Result<bool> {
        Ok(false)
    }

    fn shut_down(&mut self) -> Result<()> {
        unreachable!("it goes on")
    }
}
