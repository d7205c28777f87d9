//! QEMU, or swtpm beside it, as a child that can't outlive us.
//!
//! No shell, no inherited input. On Linux the kernel kills it with its parent (prctl(2), `PR_SET_PDEATHSIG`); that signal comes when the
//! spawning *thread* ends, so a thread of its own spawns the child and stays until the child has ended.

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
use winimg_base::io::{spawn, without_secrets};

/// A child process; dropping it kills it and waits until it is gone.
pub struct Process {
    pid: u32,
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
    stderr: PathBuf,
    /// Where its part of the log begins.
    stderr_start: u64,
}

#[derive(Default)]
struct Shared {
    status: Mutex<Option<ExitStatus>>,
    ended: Condvar,
}

impl Process {
    /// Starts `program`; its stderr is added to the file `stderr`. Its own process group: a Ctrl-C is ours to handle.
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
            // Messages that are looked at, and shown, are in English.
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .process_group(0);
        without_secrets(&mut command);
        let shared = Arc::new(Shared::default());
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
        let cannot = |e| Error::io("start", &program, e);
        let pid = receiver
            .recv()
            .map_err(|_| cannot(std::io::Error::other("its thread ended")))?
            .map_err(cannot)?;
        tracing::debug!(program = %program.display(), pid, arguments = arguments.join(" "), "started a child");
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

    /// How it ended, when it has.
    pub fn ended(&self) -> Option<ExitStatus> {
        *lock(&self.shared.status)
    }

    /// Waits for its end, at most `patience`.
    pub fn wait(&self, patience: Duration) -> Option<ExitStatus> {
        let status = lock(&self.shared.status);
        let waited = (self.shared.ended).wait_timeout_while(status, patience, |s| s.is_none());
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits for its end for a second; after that it is killed.
    pub fn end(&self) {
        if self.wait(Duration::from_secs(1)).is_none() {
            self.kill();
            self.wait(Duration::from_secs(10));
        }
    }

    /// SIGKILL, unless it has ended. The child is reaped only under the same lock, so the number is still its own.
    pub fn kill(&self) {
        let status = lock(&self.shared.status);
        if status.is_none()
            && let Ok(pid) = i32::try_from(self.pid)
        {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }

    /// How much processor it wanted so far: the time its threads ran and the time they were ready but had to wait for a processor. On a host
    /// with more to do than processors a busy guest runs little and waits much; an idle one does neither.
    /// (Linux: Documentation/scheduler/sched-stats, `/proc/<pid>/schedstat`.) `None` where the host does not say.
    pub fn demand(&self) -> Option<Duration> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid)).ok()?;
        let each = threads.flatten().filter_map(|thread| {
            let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            let mut numbers = text.split_whitespace().map_while(|n| n.parse::<u64>().ok());
            Some(numbers.next()? + numbers.next()?)
        });
        Some(Duration::from_nanos(each.sum())).filter(|sum| !sum.is_zero())
    }

    /// The last lines of its stderr.
    pub fn last_words(&self) -> Vec<String> {
        last_lines(&self.stderr, self.stderr_start, 10)
    }

    /// The error for a child that ended although nobody asked it to.
    pub fn death(&self, what: &str, status: ExitStatus) -> Error {
        Error::new(
            Kind::Machine,
            format!("{what} ended with {}", describe(status)),
        )
        .at(self.stderr.display())
        .lines(self.last_words())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

/// Stays until the child has ended; then reaps it, under the lock that `kill` takes.
fn keep(mut child: Child, shared: &Shared) {
    loop {
        wait_unreaped(&child);
        let mut status = lock(&shared.status);
        match child.try_wait() {
            Ok(None) => {}
            Ok(ended) => *status = ended,
            // It has ended, or somebody else reaped it: how is not known.
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

/// `exit status 1`, `signal 6 (SIGABRT)`.
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
