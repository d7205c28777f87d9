//! Ctrl-C and other requests to end the process: SIGTERM and SIGHUP; on Windows, Ctrl-Break and
//! closing the console.
//!
//! Does not stop anything itself: the handler decides.

use winimg_base::error::{Error, Kind, Result};

/// Calls `on_interrupt` at each interrupt, sequentially, on a separate thread.
#[cfg(unix)]
pub fn watch(on_interrupt: impl Fn() + Send + Sync + 'static) -> Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;

    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|e| Error::new(Kind::Failed, "cannot install a signal handler").because(e))?;
    std::thread::spawn(move || {
        for _ in &mut signals {
            on_interrupt();
        }
    });
    Ok(())
}

/// Ends the process without waiting for its threads.
#[cfg(unix)]
pub fn exit_now(status: i32) -> ! {
    signal_hook::low_level::exit(status)
}

/// Calls `on_interrupt` at each interrupt. The system starts a thread for each (Microsoft:
/// SetConsoleCtrlHandler).
#[cfg(windows)]
pub fn watch(on_interrupt: impl Fn() + Send + Sync + 'static) -> Result<()> {
    use windows_sys::Win32::System::Console::SetConsoleCtrlHandler;

    let outcome: std::io::Result<()> = if windows::HANDLER.set(Box::new(on_interrupt)).is_err() {
        Err(std::io::ErrorKind::AlreadyExists.into())
    } else {
        // SAFETY: the handler is a function of this program; the static that it reads was set
        // above.
        match unsafe { SetConsoleCtrlHandler(Some(windows::handle), 1) } {
            0 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    outcome.map_err(|e| Error::new(Kind::Failed, "cannot install a Ctrl-C handler").because(e))
}

/// Ends the process without waiting for its threads.
#[cfg(windows)]
pub fn exit_now(status: i32) -> ! {
    std::process::exit(status)
}

#[cfg(windows)]
mod windows {
    use std::sync::OnceLock;

    use windows_sys::Win32::System::Console::{
        CTRL_CLOSE_EVENT, CTRL_LOGOFF_EVENT, CTRL_SHUTDOWN_EVENT,
    };
    use windows_sys::core::BOOL;

    pub static HANDLER: OnceLock<Box<dyn Fn() + Send + Sync>> = OnceLock::new();

    pub unsafe extern "system" fn handle(event: u32) -> BOOL {
        if let Some(on_interrupt) = HANDLER.get() {
            on_interrupt();
        }
        // Windows ends the process when this returns (Microsoft: HandlerRoutine). So it blocks
        // until the main thread has cleaned up and exited, or until the system's timeout kills the
        // process.
        while let CTRL_CLOSE_EVENT | CTRL_LOGOFF_EVENT | CTRL_SHUTDOWN_EVENT = event {
            std::thread::park();
        }
        1
    }
}
