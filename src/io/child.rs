//! Children that do not outlive us, and that know none of our secrets.

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

/// What the environment tells winimg and no program that it starts: QEMU and its tools ask no network, and their
/// environment is longer in sight than ours.
const OURS: [&str; 11] = [
    "WINIMG_ADMIN_PASSWORD",
    "WINIMG_CACHE_PASSWORD",
    "WINIMG_CACHE_SIGN_KEY",
    "WINIMG_SIGN_KEY",
    "WINIMG_SIGN_PASSWORD",
    "http_proxy",
    "HTTP_PROXY",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
];

/// Leaves out of a child's environment what may hold a secret.
pub fn without_secrets(command: &mut Command) {
    for name in OURS {
        command.env_remove(name);
    }
}

#[cfg(not(target_os = "linux"))]
pub fn die_with_parent(_command: &mut Command) {}
