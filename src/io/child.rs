//! Children that do not outlive us, and that know none of our secrets.

use std::process::Command;

/// Has the kernel kill the child with the *thread* that spawns it (Linux: prctl(2), `PR_SET_PDEATHSIG`): that thread must
/// stay until the child has ended. On Windows the child ends with this process. Other systems have no such call.
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

#[cfg(windows)]
pub fn die_with_parent(_command: &mut Command) {
    job::enter();
}

#[cfg(not(any(target_os = "linux", windows)))]
pub fn die_with_parent(_command: &mut Command) {}

/// This process in a job of its own, which every child is born into. The last handle of the job is ours alone; the system
/// closes it when we end, however that happens, and ends the children (Microsoft: Job Objects).
#[cfg(windows)]
mod job {
    use std::ptr::{from_ref, null, null_mut};
    use std::sync::Once;

    use windows_sys::Win32::Foundation::CloseHandle;
    use windows_sys::Win32::System::JobObjects::{
        AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
        JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation,
        SetInformationJobObject,
    };
    use windows_sys::Win32::System::Threading::GetCurrentProcess;

    /// Once for all children. A system that refuses costs no more than its help: each child is also ended by name.
    pub fn enter() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
            limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
            // SAFETY: an unnamed job with a handle that no child inherits; `limits` lives through its call. The handle stays
            // open to the end of the process, unless the job is not entered.
            unsafe {
                let job = CreateJobObjectW(null(), null());
                if job == null_mut() {
                    return;
                }
                let limited = SetInformationJobObject(
                    job,
                    JobObjectExtendedLimitInformation,
                    from_ref(&limits).cast(),
                    size_of_val(&limits) as u32,
                );
                if limited == 0 || AssignProcessToJobObject(job, GetCurrentProcess()) == 0 {
                    CloseHandle(job);
                }
            }
        });
    }
}
