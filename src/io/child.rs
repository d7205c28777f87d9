//! Children that do not outlive us.

use std::process::Command;

/// Has the kernel kill the child with the *thread* that spawns it (Linux: prctl(2), `PR_SET_PDEATHSIG`): that thread must
/// stay until the child has ended. Other systems have no such call.
#[cfg(target_os = "linux")]
pub fn die_with_parent(command: &mut Command) {
    use std::os::unix::process::CommandExt;

    let parent = std::process::id();
    let prepare = move || {
        nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
        // The parent may have died before the line above; then nobody would send the signal.
        if nix::unistd::getppid().as_raw().unsigned_abs() != parent {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    };
    // SAFETY: prctl and getppid are plain system calls; nothing allocates or locks between fork and exec.
    unsafe { command.pre_exec(prepare) };
}

#[cfg(not(target_os = "linux"))]
pub fn die_with_parent(_command: &mut Command) {}
