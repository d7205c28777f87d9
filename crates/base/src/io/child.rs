//! Children that do not outlive us, and that know none of our secrets.

use std::io;
use std::process::{Child, Command};

use crate::text::Secret;

/// Starts a child that the kernel kills with the *thread* that calls this (Linux: prctl(2), `PR_SET_PDEATHSIG`): that thread
/// must stay until the child has ended.
#[cfg(target_os = "linux")]
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    use std::os::unix::process::CommandExt;

    let parent = std::process::id();
    let prepare = move || {
        nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
        // The parent may have died before the line above; then nobody would send the signal.
        if nix::unistd::getppid().as_raw().unsigned_abs() != parent {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    };
    // SAFETY: prctl and getppid are plain system calls; nothing allocates or locks between fork and exec.
    unsafe { command.pre_exec(prepare) };
    command.spawn()
}

/// Starts a child that Windows ends with this process.
#[cfg(windows)]
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    let child = command.spawn()?;
    job::take(&child);
    Ok(child)
}

/// Starts a child. This system has no call that would end it with us.
#[cfg(not(any(target_os = "linux", windows)))]
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    command.spawn()
}

/// Secrets of the environment that only winimg may know.
const OURS: [&str; 7] = [
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

/// Leaves winimg's own secrets out of a child's environment; for programs that ask the network, as a KMS client does.
pub fn without_our_secrets(command: &mut Command) {
    for name in OURS {
        command.env_remove(name);
    }
}

/// Leaves out of a child's environment what may hold a secret, proxies as well: QEMU and its tools ask no network, and
/// their environment is longer in sight than ours.
pub fn without_secrets(command: &mut Command) {
    without_our_secrets(command);
    for name in PROXIES {
        command.env_remove(name);
    }
}

/// What of the environment no log may hold. Of a proxy's address that is its password; of a key each line of its own.
pub fn environment_secrets() -> Vec<Secret> {
    let of = |name: &str, value: String| {
        let value = value.trim_end_matches(['\r', '\n']).to_owned();
        if PROXIES.contains(&name) {
            proxy_password(&value)
        } else if value.contains('\n') {
            let lines = value.lines().filter(|line| !line.contains(' '));
            lines.map(Secret::new).collect()
        } else {
            vec![Secret::new(value)]
        }
    };
    let names = OURS.iter().chain(&PROXIES);
    names
        .filter_map(|name| Some(of(name, std::env::var(name).ok()?)))
        .flatten()
        .collect()
}

/// As it is written in the address; `user:password@host` needs no scheme.
fn proxy_password(address: &str) -> Vec<Secret> {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let named = rest.rsplit_once('@').map_or("", |(user, _)| user);
    let password = named.split_once(':').map(|(_, password)| password);
    password.into_iter().map(Secret::new).collect()
}

/// The children's job. Its last handle is ours alone; the system closes it when we end, however that happens, and ends what
/// is in it (Microsoft: Job Objects). We are not in it ourselves: PowerShell outlives us, to remove the machine.
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

    struct Job(HANDLE);

    // SAFETY: a handle may be used by every thread of its process.
    unsafe impl Send for Job {}
    // SAFETY: the same.
    unsafe impl Sync for Job {}

    /// A system that refuses costs no more than its help: each child is also ended by name.
    pub fn take(child: &Child) {
        static JOB: OnceLock<Option<Job>> = OnceLock::new();
        if let Some(job) = JOB.get_or_init(make) {
            // SAFETY: both handles are open; the job's stays so to the end of this process.
            unsafe { AssignProcessToJobObject(job.0, child.as_raw_handle()) };
        }
    }

    fn make() -> Option<Job> {
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        // SAFETY: an unnamed job with a handle that no child inherits; `limits` lives through its call.
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
            Some(Job(job))
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
