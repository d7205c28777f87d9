//! Test double: a guest whose clock never advances, for tests of timeouts.

use std::time::{Duration, Instant};

use winimg_base::error::Result;
use winimg_machine::guest::{Guest, GuestCommand, GuestDelivery, GuestExit};

/// Every file exists from the third check on; the first program finds another installation in
/// progress.
pub struct FrozenGuest {
    now: Instant,
    pub looks: u32,
    pub programs: u32,
    /// Reply to the query for Setup's state.
    pub setup: &'static str,
}

impl FrozenGuest {
    pub fn new() -> Self {
        Self {
            now: Instant::now(),
            looks: 0,
            programs: 0,
            setup: "SystemSetupInProgress    REG_DWORD    0x0\r\n    \
                    SetupType    REG_DWORD    0x0\r\n",
        }
    }
}

impl Guest for FrozenGuest {
    fn run(&mut self, command: &GuestCommand, output: &mut dyn FnMut(&[u8])) -> Result<GuestExit> {
        if command.program.ends_with("reg.exe") {
            let is_state = command.arguments.iter().any(|a| a == "ImageState");
            output(if is_state {
                b"IMAGE_STATE_COMPLETE"
            } else {
                self.setup.as_bytes()
            });
            return Ok(GuestExit::Code(0));
        }
        self.programs += 1;
        Ok(GuestExit::Code(if self.programs > 1 { 0 } else { 1618 }))
    }

    fn get(&mut self, _: &str, _: usize) -> Result<Option<Vec<u8>>> {
        self.looks += 1;
        Ok((self.looks > 2).then(|| b"result=ok\r\n".to_vec()))
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn put(&mut self, _: GuestDelivery<'_>) -> Result<()> {
        unreachable!("nothing is put")
    }

    fn reboot(&mut self, _: Duration) -> Result<()> {
        unreachable!("nothing restarts it")
    }

    fn wait_for_return(&mut self, _: Duration) -> Result<()> {
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
        unreachable!("nothing shuts it down")
    }
}
