//! Runs QEMU or swtpm as a child process that cannot outlive winimg.
//!
//! No shell, no inherited input. On Linux the kernel kills the child with its parent (prctl(2),
//! `PR_SET_PDEATHSIG`); the signal is sent when the spawning *thread* ends, so a dedicated thread
//! spawns the child and lives until the child has ended.

use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::vm::{last_lines, lock};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io::{remove_secrets, spawn};

/// Child process that is killed and reaped on drop.
pub struct ChildProcess {
    pid: u32,
    shared: Arc<ChildState>,
    keeper: Option<JoinHandle<()>>,
    stderr: PathBuf,
    /// Offset of its part of the log.
    stderr_start: u64,
}

#[derive(Default)]
struct ChildState {
    status: Mutex<Option<ExitStatus>>,
    ended: Condvar,
}

impl ChildProcess {
    /// Starts `program` and appends its stderr to the file `stderr`. It gets its own process group,
    /// so that only winimg receives Ctrl-C.
    pub fn spawn(program: &Path, arguments: &[String], stderr: &Path) -> Result<Self> {
        Self::start(Command::new(program), arguments, stderr)
    }

    /// The same, with this working directory.
    pub fn spawn_in(
        folder: &Path,
        program: &Path,
        arguments: &[String],
        stderr: &Path,
    ) -> Result<Self> {
        let mut command = Command::new(program);
        command.current_dir(folder);
        Self::start(command, arguments, stderr)
    }

    fn start(mut command: Command, arguments: &[String], stderr: &Path) -> Result<Self> {
        let program = PathBuf::from(command.get_program());
        let opened = File::options().create(true).append(true).open(stderr);
        let log = opened.map_err(|e| Error::io("create", stderr, e))?;
        let stderr_start = log.metadata().map_or(0, |m| m.len());
        command
            .args(arguments)
            // Messages are parsed and shown in English.
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .process_group(0);
        remove_secrets(&mut command);
        let shared = Arc::new(ChildState::default());
        let for_keeper = Arc::clone(&shared);
        let (sender, receiver) = mpsc::channel();
        let keeper = std::thread::Builder::new()
            .name("child".into())
            .spawn(move || match spawn(&mut command) {
                Ok(child) => {
                    let _ = sender.send(Ok(child.id()));
                    keep(child, &for_keeper);
                }
                Err(e) => {
                    let _ = sender.send(Err(e));
                }
            })
            .map_err(|e| Error::io("start", &program, e))?;
        let pid = receiver
            .recv()
            .unwrap_or_else(|_| Err(std::io::Error::other("its thread ended")))
            .map_err(|e| Error::io("start", &program, e))?;
        tracing::debug!(
            program = %program.display(),
            pid,
            arguments = arguments.join(" "),
            "started a child"
        );
        Ok(Self {
            pid,
            shared,
            keeper: Some(keeper),
            stderr: stderr.to_path_buf(),
            stderr_start,
        })
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns its exit status if it has ended.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        *lock(&self.shared.status)
    }

    /// Waits for its end, at most `patience`.
    pub fn wait(&self, patience: Duration) -> Option<ExitStatus> {
        let status = lock(&self.shared.status);
        let waited = (self.shared.ended).wait_timeout_while(status, patience, |s| s.is_none());
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits a second for its end, then kills it.
    pub fn end(&self) {
        if self.wait(Duration::from_secs(1)).is_none() {
            self.kill();
            self.wait(Duration::from_secs(10));
        }
    }

    /// Sends SIGKILL unless it has ended. It is reaped only under the same lock, so the pid is
    /// still valid.
    pub fn kill(&self) {
        let status = lock(&self.shared.status);
        if status.is_none()
            && let Ok(pid) = i32::try_from(self.pid)
        {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }

    /// Returns its processor demand so far: the time its threads ran plus the time they were
    /// runnable. On an overloaded host a busy guest runs little and waits a lot; an idle one does
    /// neither. (Linux: Documentation/scheduler/sched-stats, `/proc/<pid>/schedstat`.) `None` if
    /// the host does not report it.
    pub fn measure_demand(&self) -> Option<Duration> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid)).ok()?;
        let each = threads.flatten().filter_map(|thread| {
            let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            let mut numbers = text.split_whitespace().map_while(|n| n.parse::<u64>().ok());
            Some(numbers.next()? + numbers.next()?)
        });
        Some(Duration::from_nanos(each.sum())).filter(|sum| !sum.is_zero())
    }

    /// Returns the last lines of its stderr.
    pub fn last_words(&self) -> Vec<String> {
        last_lines(&self.stderr, self.stderr_start, 10)
    }

    /// Builds the error for a child that ended unexpectedly.
    pub fn describe_death(&self, what: &str, status: ExitStatus) -> Error {
        Error::new(
            Kind::Machine,
            format!("{what} ended with {}", describe(status)),
        )
        .at(self.stderr.display())
        .lines(self.last_words())
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.kill();
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

/// Waits until the child has ended, then reaps it under the lock that `kill` takes.
fn keep(mut child: Child, shared: &ChildState) {
    loop {
        wait_unreaped(&child);
        let mut status = lock(&shared.status);
        match child.try_wait() {
            Ok(None) => {}
            Ok(ended) => *status = ended,
            // It was reaped elsewhere: the status is unknown.
            Err(_) => *status = Some(ExitStatus::from_raw(0xff00)),
        }
        if status.is_some() {
            shared.ended.notify_all();
            return;
        }
    }
}

#[cfg(target_os = "linux")]
fn wait_unreaped(child: &Child) {
    use nix::sys::wait::{Id, WaitPidFlag, waitid};
    let Ok(pid) = i32::try_from(child.id()) else {
        return;
    };
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    while waitid(Id::Pid(Pid::from_raw(pid)), flags) == Err(nix::errno::Errno::EINTR) {}
}

#[cfg(not(target_os = "linux"))]
fn wait_unreaped(_child: &Child) {
    std::thread::sleep(Duration::from_millis(50));
}

/// Returns for example `exit status 1` or `signal 6 (SIGABRT)`.
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(number)) => match Signal::try_from(number) {
            Ok(signal) => format!("signal {number} ({signal})"),
            Err(_) => format!("signal {number}"),
        },
        (None, None) => "an unknown status".to_string(),
    }
}
