//! The PowerShell process that executes our calls: one line of JSON in each direction, with a
//! deadline.
//!
//! A process that hangs, dies or sends invalid output is replaced by a new one, which gets the id
//! of our machine; the pending call fails. The process survives winimg: when its input ends it
//! removes the machine and exits.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::call::{CmdletCall, SCRIPTS};
use super::errors::{CallFailure, CallRefusal, explain};
use crate::guest::direct;
use crate::vm::{last_lines, lock};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::io::{FileLock, WorkFolder, lock_path, remove_secrets, write_atomically};

/// Version in the first line of the process.
const PROTOCOL: u64 = 1;
/// Limit for starting Windows PowerShell, which takes seconds, longer on a busy host.
const START: Duration = Duration::from_secs(90);
/// Time for the pending call after an interrupt.
const GRACE: Duration = Duration::from_secs(5);
/// Limit from the end of its input to its exit: it may have to remove a machine.
const END: Duration = Duration::from_secs(60);
/// Maximum bytes of an answer. The largest are screenshots of 2 to 3 MB.
const LONGEST_LINE: u64 = 64 << 20;
const GLANCE: Duration = Duration::from_millis(50);

pub struct PowerShellHost {
    program: PathBuf,
    /// Declared before the folder: Windows cannot remove a folder with an open file.
    _lock: FileLock,
    folder: TempDir,
    inner: Mutex<HostState>,
}

#[derive(Default)]
struct HostState {
    process: Option<PowerShellProcess>,
    /// Number of processes so far.
    generation: u32,
    next_id: u64,
    /// Machine that a new process has to know.
    owned: Option<String>,
    log: Option<CallLog>,
}

impl PowerShellHost {
    /// Writes the scripts, but does not start the process.
    pub fn new(program: PathBuf) -> Result<Self> {
        let temporary = std::env::temp_dir();
        let folder = tempfile::Builder::new()
            .prefix(WorkFolder::Scripts.prefix())
            .tempdir()
            .map_err(|e| Error::io("create a folder in", &temporary, e))?;
        let path = lock_path(folder.path());
        let lock = FileLock::try_take(&path)?.ok_or_else(|| {
            Error::new(Kind::Failed, "a fresh folder is already locked").at(path.display())
        })?;
        let scripts = folder.path().join("hyperv");
        std::fs::create_dir(&scripts).map_err(|e| Error::io("create", &scripts, e))?;
        let own = SCRIPTS.iter().map(|(name, text)| (*name, (*text).into()));
        for (name, text) in own.chain(direct::list_scripts()) {
            write_atomically(
                &scripts.join(format!("{name}.ps1")),
                winimg_base::text::to_crlf(&text).as_bytes(),
            )?;
        }
        Ok(Self {
            program,
            folder,
            _lock: lock,
            inner: Mutex::default(),
        })
    }

    /// Appends each call from now on to a file, without secrets. Errors of that file are ignored.
    pub fn write_down(&self, file: &Path) {
        lock(&self.inner).log = CallLog::open(file);
    }

    /// Sets the machine that is removed when winimg ends; `None` after it was removed.
    pub fn set_owned(&self, id: Option<&str>) {
        lock(&self.inner).owned = id.map(String::from);
    }

    /// Returns the generation of the process for the next call. A new process has no kept objects.
    pub fn generation(&self, cancel: &Cancel) -> Result<u32, CallFailure> {
        let mut inner = lock(&self.inner);
        self.process(&mut inner, cancel)?;
        Ok(inner.generation)
    }

    /// Executes one call and returns the selected properties. Concurrent calls wait.
    pub fn call(&self, call: &CmdletCall, cancel: &Cancel) -> Result<Vec<Value>, CallFailure> {
        let mut inner = lock(&self.inner);
        let result = self.process(&mut inner, cancel).and_then(|()| {
            let began = Instant::now();
            let result = inner.ask(call, cancel);
            tracing::trace!(%call, good = result.is_ok(), took = ?began.elapsed(), "Hyper-V call");
            if let Some(log) = &mut inner.log {
                log.write(&call.to_string(), began.elapsed(), result.as_ref().err());
            }
            result
        });
        if result.as_ref().is_err_and(CallFailure::ends_process) {
            // Its state is unknown: start a new one.
            if let Some(process) = inner.process.take() {
                process.kill();
            }
        }
        result.map_err(|trouble| trouble.with_words(self.last_words()))
    }

    /// Executes a call and converts its failure: `doing` completes "Hyper-V refused to …".
    pub fn order(&self, doing: &str, call: &CmdletCall, cancel: &Cancel) -> Result<Vec<Value>> {
        self.call(call, cancel)
            .map_err(|trouble| explain(doing, &trouble))
    }

    fn script_path(&self) -> PathBuf {
        self.folder.path().join("hyperv").join("host.ps1")
    }

    fn stderr_path(&self) -> PathBuf {
        self.folder.path().join("hyperv").join("host.err")
    }

    /// Ensures that a process is running. A new one gets the id of our machine.
    fn process(&self, inner: &mut HostState, cancel: &Cancel) -> Result<(), CallFailure> {
        if inner.process.is_some() {
            return Ok(());
        }
        let process =
            PowerShellProcess::start(&self.program, &self.script_path(), &self.stderr_path())?;
        process.wait_ready(cancel)?;
        inner.process = Some(process);
        inner.generation += 1;
        let Some(id) = inner.owned.clone() else {
            return Ok(());
        };
        let found = CmdletCall::new(r"Hyper-V\Get-VM")
            .with_text("Id", &id)
            .keep("vm");
        match inner.ask(&found, cancel) {
            // A missing machine is noticed by the next status query.
            Ok(_) | Err(CallFailure::Refused(_)) => {}
            Err(other) => return Err(other),
        }
        let own = CmdletCall::new("script:own").with_text("VmId", &id);
        inner.ask(&own, cancel).map(|_| ())
    }

    /// Returns the last lines of PowerShell's stderr.
    fn last_words(&self) -> Vec<String> {
        last_lines(&self.stderr_path(), 0, 5)
    }
}

impl Drop for PowerShellHost {
    fn drop(&mut self) {
        if let Some(process) = lock(&self.inner).process.take() {
            process.end();
        }
    }
}

impl HostState {
    fn ask(&mut self, call: &CmdletCall, cancel: &Cancel) -> Result<Vec<Value>, CallFailure> {
        self.next_id += 1;
        let id = self.next_id;
        let Some(process) = &mut self.process else {
            return Err(CallFailure::from_death("it was not started"));
        };
        process.send(&call.request(id))?;
        process.read_answer(id, call, cancel)
    }
}

struct PowerShellProcess {
    child: Child,
    input: ChildStdin,
    lines: Receiver<std::io::Result<String>>,
}

impl PowerShellProcess {
    fn start(program: &Path, script: &Path, stderr: &Path) -> Result<Self, CallFailure> {
        let errors = OpenOptions::new().create(true).append(true).open(stderr);
        let errors =
            errors.map_err(|e| CallFailure::from_death(format!("{}: {e}", stderr.display())))?;
        let mut command = Command::new(program);
        command
            .args([
                "-NoLogo",
                "-NoProfile",
                "-NonInteractive",
                "-ExecutionPolicy",
                "Bypass",
            ])
            .arg("-File")
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors);
        remove_secrets(&mut command);
        detach(&mut command);
        let mut child = command.spawn().map_err(|e| {
            CallFailure::NoPowerShell(format!("{} cannot be started: {e}", program.display()))
        })?;
        tracing::debug!(program = %program.display(), pid = child.id(), "started PowerShell");
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(CallFailure::from_death("its pipes are missing"));
        };
        let (sender, lines) = sync_channel(16);
        let reader = std::thread::Builder::new().name("powershell".into());
        // The thread ends with the pipe, or when the receiver is dropped.
        let spawned = reader.spawn(move || {
            let mut output = BufReader::new(output);
            while let Some(line) = next_line(&mut output) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        spawned.map_err(|e| CallFailure::from_death(format!("cannot start a thread: {e}")))?;
        Ok(Self {
            child,
            input,
            lines,
        })
    }

    fn wait_ready(&self, cancel: &Cancel) -> Result<(), CallFailure> {
        let line = self.read_line("its start", START, cancel)?;
        let said: Option<Value> = serde_json::from_str(&line).ok();
        match said.as_ref().and_then(|said| said["ready"].as_u64()) {
            Some(PROTOCOL) => Ok(()),
            _ => Err(CallFailure::from_garbage(&line)),
        }
    }

    fn send(&mut self, request: &str) -> Result<(), CallFailure> {
        let line = format!("{request}\n");
        let sent = self.input.write_all(line.as_bytes());
        sent.and_then(|()| self.input.flush())
            .map_err(|e| CallFailure::from_death(format!("its input is closed: {e}")))
    }

    fn read_answer(
        &self,
        id: u64,
        call: &CmdletCall,
        cancel: &Cancel,
    ) -> Result<Vec<Value>, CallFailure> {
        let line = self.read_line(call.name, call.patience, cancel)?;
        let Ok(answer) = serde_json::from_str::<Value>(&line) else {
            return Err(CallFailure::from_garbage(&line));
        };
        if answer["id"].as_u64() != Some(id) {
            return Err(CallFailure::from_garbage(&line));
        }
        if let Some(error) = answer.get("error") {
            return Err(CallFailure::Refused(CallRefusal::from_record(call, error)));
        }
        match answer.get("done").and_then(Value::as_array) {
            Some(done) => Ok(done.clone()),
            None => Err(CallFailure::from_garbage(&line)),
        }
    }

    /// Reads the next line. After an interrupt the call has a moment to finish.
    fn read_line(
        &self,
        doing: &str,
        patience: Duration,
        cancel: &Cancel,
    ) -> Result<String, CallFailure> {
        let mut deadline = Instant::now() + patience;
        let mut interrupted = false;
        loop {
            match self.lines.recv_timeout(GLANCE) {
                Ok(Ok(line)) => return Ok(line),
                Ok(Err(e)) => return Err(CallFailure::from_death(e.to_string())),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(CallFailure::from_death("it ended"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if cancel.is_cancelled() && !interrupted {
                interrupted = true;
                deadline = deadline.min(Instant::now() + GRACE);
            }
            if Instant::now() >= deadline {
                return Err(if interrupted {
                    CallFailure::Interrupted
                } else {
                    CallFailure::Late {
                        doing: doing.to_string(),
                        seconds: patience.as_secs(),
                    }
                });
            }
        }
    }

    fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Closes its input and waits for its end.
    fn end(self) {
        let Self {
            mut child,
            input,
            lines,
        } = self;
        drop(input);
        let deadline = Instant::now() + END;
        while Instant::now() < deadline {
            // Keep the pipe from filling up.
            while lines.try_recv().is_ok() {}
            match child.try_wait() {
                Ok(None) => std::thread::sleep(GLANCE),
                _ => return,
            }
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Moves the process out of our group, so that only winimg receives Ctrl-C.
#[cfg(unix)]
fn detach(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    command.process_group(0);
}

/// Detaches the process from our console, so that only winimg receives Ctrl-C (Microsoft: Process
/// Creation Flags, CREATE_NO_WINDOW).
#[cfg(windows)]
fn detach(command: &mut Command) {
    use std::os::windows::process::CommandExt as _;
    command.creation_flags(0x0800_0000);
}

fn next_line(output: &mut impl BufRead) -> Option<std::io::Result<String>> {
    let mut bytes = Vec::new();
    match output.take(LONGEST_LINE).read_until(b'\n', &mut bytes) {
        Ok(0) => None,
        Ok(_) if bytes.last() == Some(&b'\n') => {
            bytes.pop();
            let text = String::from_utf8(bytes);
            Some(text.map_err(|_| std::io::Error::other("its answer is not UTF-8")))
        }
        Ok(_) => Some(Err(std::io::Error::other("its last line is incomplete"))),
        Err(e) => Some(Err(e)),
    }
}

/// Log of calls with time, duration and outcome. Repetitions are only counted.
struct CallLog {
    file: File,
    last: String,
    repeats: u32,
}

impl CallLog {
    fn open(path: &Path) -> Option<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Some(Self {
            file: file.ok()?,
            last: String::new(),
            repeats: 0,
        })
    }

    fn write(&mut self, call: &str, took: Duration, trouble: Option<&CallFailure>) {
        let outcome = trouble.map_or_else(String::new, |t| format!("\n  {}", t.describe()));
        let line = format!("{call}{outcome}");
        if line == self.last {
            self.repeats += 1;
            return;
        }
        let time = format!("{:.3}", jiff::Timestamp::now());
        let mut text = String::new();
        if self.repeats > 0 {
            text = format!("  {} times more, until {time}\n", self.repeats);
        }
        text += &format!("{time} [{:.1} s] {line}\n", took.as_secs_f64());
        // A full disk is reported by the operations that need it.
        let _ = self.file.write_all(text.as_bytes());
        self.last = line;
        self.repeats = 0;
    }
}

#[cfg(all(test, unix))]
mod tests;
