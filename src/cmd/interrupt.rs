//! Ctrl-C, and what else asks a process to end: SIGTERM and SIGHUP, on Windows Ctrl-Break and the console's close.
//!
//! Only hears it; what is to be done then is the caller's.

use winimg_base::error::{Error, Kind, Result};

/// Calls `heard` at each interrupt, one after the other, on a thread of its own.
#[cfg(unix)]
pub fn watch(heard: impl Fn() + Send + Sync + 'static) -> Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;

    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|e| Error::new(Kind::Failed, "cannot watch for signals").because(e))?;
    std::thread::spawn(move || {
        for _ in &mut signals {
            heard();
        }
    });
    Ok(())
}

/// Ends the process without waiting for its threads.
#[cfg(unix)]
pub fn exit_now(status: i32) -> ! {
    signal_hook::low_level::exit(status)
}

/// Calls `heard` at each interrupt. The system starts a thread for each (Microsoft: SetConsoleCtrlHandler).
#[cfg(windows)]
pub fn watch(heard: impl Fn() + Send + Sync + 'static) -> Result<()> {
    use windows_sys::Win32::System::Console::SetConsoleCtrlHandler;

    let failed = |e| Error::new(Kind::Failed, "cannot watch for interrupts").because(e);
    if windows::HEARD.set(Box::new(heard)).is_err() {
        return Err(failed(std::io::ErrorKind::AlreadyExists.into()));
    }
    // SAFETY: the handler is a function of this program, and what it reads was set above and stays.
    match unsafe { SetConsoleCtrlHandler(Some(windows::handle), 1) } {
        0 => Err(failed(std::io::Error::last_os_error())),
        _ => Ok(()),
    }
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

    pub static HEARD: OnceLock<Box<dyn Fn() + Send + Sync>> = OnceLock::new();

    pub unsafe extern "system" fn handle(event: u32) -> BOOL {
        if let Some(heard) = HEARD.get() {
            heard();
        }
        // The process is ended when this returns (Microsoft: HandlerRoutine). The work that stops meanwhile ends it
        // earlier, or the system does when its patience is over.
        while let CTRL_CLOSE_EVENT | CTRL_LOGOFF_EVENT | CTRL_SHUTDOWN_EVENT = event {
            std::thread::park();
        }
        1
    }
}
