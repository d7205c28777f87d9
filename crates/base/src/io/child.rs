//! Child processes that end with this process and do not inherit its secrets.

use std::io;
use std::process::{Child, Command};

use crate::text::Secret;

/// Starts a child that the kernel kills when the calling *thread* ends (Linux: prctl(2),
/// `PR_SET_PDEATHSIG`), so that thread must live until the child has ended.
#[cfg(target_os = "linux")]
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    use std::os::unix::process::CommandExt;

    let parent = std::process::id();
    // SAFETY: prctl and getppid are plain system calls; nothing allocates or locks between fork and
    // exec.
    unsafe { command.pre_exec(move || set_death_signal(parent)) };
    command.spawn()
}

/// Makes the kernel kill this process when its parent ends.
#[cfg(target_os = "linux")]
fn set_death_signal(parent: u32) -> io::Result<()> {
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
    // If the parent ended before the line above, the signal will never come.
    if nix::unistd::getppid().as_raw().unsigned_abs() != parent {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok(())
}

/// Starts a child that Windows ends with this process.
#[cfg(windows)]
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    let child = command.spawn()?;
    job::add(&child);
    Ok(child)
}

/// Starts a child. This system has no call to end it with this process.
#[cfg(not(any(target_os = "linux", windows)))]
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    command.spawn()
}

/// Environment variables with secrets that only winimg may know.
const WINIMG_SECRETS: [&str; 7] = [
    "WINIMG_ADMIN_PASSWORD",
    "WINIMG_CACHE_PASSWORD",
    "WINIMG_CACHE_SIGN_KEY",
    "WINIMG_PUBLISH_PASSWORD",
    "WINIMG_PUBLISH_TOKEN",
    "WINIMG_SIGN_KEY",
    "WINIMG_SIGN_PASSWORD",
];
const PROXIES: [&str; 6] = [
    "http_proxy",
    "HTTP_PROXY",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
];

/// Removes winimg's own secrets from a child's environment, for programs that use the network, such
/// as a KMS client.
pub fn remove_winimg_secrets(command: &mut Command) {
    for name in WINIMG_SECRETS {
        command.env_remove(name);
    }
}

/// Removes all possible secrets from a child's environment, including proxies: QEMU and its tools
/// do not use the network, and their environment is visible for longer than ours.
pub fn remove_secrets(command: &mut Command) {
    remove_winimg_secrets(command);
    for name in PROXIES {
        command.env_remove(name);
    }
}

/// Collects the secrets of the environment, which must not be logged: for a proxy the password in
/// its address, for a key each of its lines.
pub fn environment_secrets() -> Vec<Secret> {
    WINIMG_SECRETS
        .iter()
        .chain(&PROXIES)
        .filter_map(|name| Some(split_secrets(name, &std::env::var(name).ok()?)))
        .flatten()
        .collect()
}

fn split_secrets(name: &str, value: &str) -> Vec<Secret> {
    let value = value.trim_end_matches(['\r', '\n']);
    if PROXIES.contains(&name) {
        proxy_password(value)
    } else if value.contains('\n') {
        value
            .lines()
            .filter(|line| !line.contains(' '))
            .map(Secret::new)
            .collect()
    } else {
        vec![Secret::new(value)]
    }
}

/// Returns the password in an address, if any, in its encoded form; `user:password@host` needs no
/// scheme.
fn proxy_password(address: &str) -> Vec<Secret> {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let user = rest.rsplit_once('@').map_or("", |(user, _)| user);
    user.split_once(':')
        .map(|(_, password)| Secret::new(password))
        .into_iter()
        .collect()
}

/// The children's job. This process has its only handle; the system closes it when the process ends
/// for any reason, and then ends the children (Microsoft: Job Objects). The process itself is not
/// in the job: PowerShell outlives it to remove the machine.
#[cfg(windows)]
mod job {
    use std::os::windows::io::AsRawHandle as _;
    use std::process::Child;
    use std::ptr::{from_ref, null};
    use std::sync::OnceLock;

    use windows_sys::Win32::Foundation::{CloseHandle, HANDLE};
    use windows_sys::Win32::System::JobObjects::{
        AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
        JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation,
        SetInformationJobObject,
    };

    struct ChildJob(HANDLE);

    // SAFETY: a handle may be used by every thread of its process.
    unsafe impl Send for ChildJob {}
    // SAFETY: as above.
    unsafe impl Sync for ChildJob {}

    /// Adds a child to the job. Failure is acceptable: each child is also ended by name.
    pub fn add(child: &Child) {
        static JOB: OnceLock<Option<ChildJob>> = OnceLock::new();
        if let Some(job) = JOB.get_or_init(create) {
            // SAFETY: both handles are open, and the job's stays open until this process ends.
            unsafe { AssignProcessToJobObject(job.0, child.as_raw_handle()) };
        }
    }

    fn create() -> Option<ChildJob> {
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        // SAFETY: an unnamed job with a handle that no child inherits; `limits` lives through its
        // call.
        unsafe {
            let job = CreateJobObjectW(null(), null());
            if job.is_null() {
                return None;
            }
            let limited = SetInformationJobObject(
                job,
                JobObjectExtendedLimitInformation,
                from_ref(&limits).cast(),
                size_of_val(&limits) as u32,
            );
            if limited == 0 {
                CloseHandle(job);
                return None;
            }
            Some(ChildJob(job))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_proxys_address_the_password_is_the_secret() {
        for (address, password) in [
            ("http://me:p:a@ss@proxy.example:3128/", Some("p:a@ss")),
            ("me:pass@proxy.example:3128", Some("pass")),
            ("http://me@proxy.example:3128", None),
            ("http://proxy.example:3128", None),
        ] {
            let found = proxy_password(address);
            let found: Vec<&str> = found.iter().map(Secret::expose).collect();
            assert_eq!(found, Vec::from_iter(password), "{address}");
        }
    }
}
