//! The QEMU process: started detached, found again by its pid file, ended.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::arguments::{CODE, PID, VARIABLES, VARIABLES_NEW};
use crate::engine::Spec;

const PROGRAM: &str = "qemu-system-x86_64";
const GONE_WITHIN: Duration = Duration::from_secs(20);

/// The firmware's variables stay with the machine from its first start on.
pub fn firmware(folder: &Path, spec: &Spec) -> Result<(), String> {
    let file = folder.join(VARIABLES);
    if spec.generation != 2 || file.exists() {
        return Ok(());
    }
    if Path::new(CODE).exists() {
        std::fs::copy(VARIABLES_NEW, file)
            .map(drop)
            .map_err(|e| format!("{VARIABLES_NEW}: {e}"))
    } else {
        Err(format!("{CODE} is missing: install the package ovmf"))
    }
}

pub fn start(folder: &Path, arguments: &[String]) -> Result<(), String> {
    // QEMU itself leaves the session and its parent (-daemonize), when its sockets are there.
    let output = Command::new(PROGRAM)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{PROGRAM}: {e}"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!(
            "{PROGRAM}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ))
    }
}

/// The process of this machine, when it runs. Its number may have gone to another program since.
pub fn running(folder: &Path, id: &str) -> Option<u32> {
    let pid: u32 = std::fs::read_to_string(folder.join(PID))
        .ok()?
        .trim()
        .parse()
        .ok()?;
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    // Empty for one that has ended and that nobody has waited for.
    let line = String::from_utf8_lossy(&line);
    (line.contains(PROGRAM) && line.contains(id)).then_some(pid)
}

/// As pulling the plug.
pub fn kill(folder: &Path, id: &str) {
    let deadline = Instant::now() + GONE_WITHIN;
    while let Some(pid) = running(folder, id) {
        // SAFETY: two numbers; the process was just seen to be this machine's.
        unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) };
        if Instant::now() > deadline {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Milliseconds of processor time that its threads have used or waited for (Linux: scheduler statistics, /proc/PID/schedstat): a host that is
/// overloaded must not make a busy guest look idle.
pub fn processor_time(pid: u32) -> Option<u64> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let of = |thread: std::fs::DirEntry| -> Option<u64> {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let mut fields = text.split_whitespace().map(str::parse::<u64>);
        Some(fields.next()?.ok()? + fields.next()?.ok()?)
    };
    let nanoseconds: u64 = threads.flatten().filter_map(of).sum();
    Some(nanoseconds / 1_000_000)
}
