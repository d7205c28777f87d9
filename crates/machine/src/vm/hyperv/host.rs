//! The one PowerShell that carries out our calls: a process, a line of JSON each way, a deadline for each.
//!
//! What is called is decided elsewhere. A process that hangs, dies or talks nonsense is replaced by another, which learns which machine is ours;
//! the call it had is an error. The process is not killed with us: when its input ends it removes the machine itself, then it goes.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::call::{Call, SCRIPTS};
use super::errors::{Refusal, Trouble, explain};
use crate::guest::direct;
use crate::vm::{last_lines, lock};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::io::{Lock, WorkFolder, lock_of, without_secrets, write_atomically};

/// What the process says first.
const PROTOCOL: u64 = 1;
/// Windows PowerShell takes seconds to start, on a busy host more.
const START: Duration = Duration::from_secs(90);
/// After an interrupt, for the call that is under way.
const GRACE: Duration = Duration::from_secs(5);
/// From the end of its input to its own end: it may have a machine to remove.
const END: Duration = Duration::from_secs(60);
/// Bytes of one answer. The largest are pictures of the screen, of 2 to 3 MB.
const LONGEST_LINE: u64 = 64 << 20;
const GLANCE: Duration = Duration::from_millis(50);

pub struct Host {
    program: PathBuf,
    /// Declared before the folder, which on Windows can't go while a file in it is open.
    _lock: Lock,
    folder: TempDir,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    process: Option<Process>,
    /// How many processes there were.
    generation: u32,
    next_id: u64,
    /// The machine that a new process has to know.
    owned: Option<String>,
    log: Option<CallLog>,
}

impl Host {
    /// Writes the scripts. Starts nothing.
    pub fn new(program: PathBuf) -> Result<Self> {
        let temporary = std::env::temp_dir();
        let folder = tempfile::Builder::new()
            .prefix(WorkFolder::Scripts.prefix())
            .tempdir()
            .map_err(|e| Error::io("create a folder in", &temporary, e))?;
        let path = lock_of(folder.path());
        let lock = Lock::try_take(&path)?.ok_or_else(|| {
            Error::new(Kind::Failed, "a fresh folder is already locked").at(path.display())
        })?;
        let scripts = folder.path().join("hyperv");
        std::fs::create_dir(&scripts).map_err(|e| Error::io("create", &scripts, e))?;
        let own = SCRIPTS.iter().map(|(name, text)| (*name, (*text).into()));
        for (name, text) in own.chain(direct::scripts()) {
            write_atomically(
                &scripts.join(format!("{name}.ps1")),
                winimg_base::text::crlf(&text).as_bytes(),
            )?;
        }
        Ok(Self {
            program,
            folder,
            _lock: lock,
            inner: Mutex::default(),
        })
    }

    /// Adds each call from now on to a file, without secrets. A file that can't be written stops nothing.
    pub fn write_down(&self, file: &Path) {
        lock(&self.inner).log = CallLog::open(file);
    }

    /// The machine that goes when we do; none from the moment it was removed.
    pub fn own(&self, id: Option<&str>) {
        lock(&self.inner).owned = id.map(String::from);
    }

    /// Of the process that takes the next call; a new one keeps nothing of what an older one kept.
    pub fn generation(&self, cancel: &Cancel) -> Result<u32, Trouble> {
        let mut inner = lock(&self.inner);
        self.process(&mut inner, cancel)?;
        Ok(inner.generation)
    }

    /// Carries out one call; others wait. What it gave, as far as it was selected.
    pub fn call(&self, call: &Call, cancel: &Cancel) -> Result<Vec<Value>, Trouble> {
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
        if result.as_ref().is_err_and(Trouble::ends_process) {
            // What it still does is not known: a new one begins anew.
            if let Some(process) = inner.process.take() {
                process.kill();
            }
        }
        result.map_err(|trouble| trouble.with_words(self.last_words()))
    }

    /// The same for a call whose refusal is an error: `doing` completes "Hyper-V refused to …".
    pub fn order(&self, doing: &str, call: &Call, cancel: &Cancel) -> Result<Vec<Value>> {
        self.call(call, cancel)
            .map_err(|trouble| explain(doing, &trouble))
    }

    fn script(&self) -> PathBuf {
        self.folder.path().join("hyperv").join("host.ps1")
    }

    fn stderr(&self) -> PathBuf {
        self.folder.path().join("hyperv").join("host.err")
    }

    /// A process that answers; a new one knows its machine again.
    fn process(&self, inner: &mut Inner, cancel: &Cancel) -> Result<(), Trouble> {
        if inner.process.is_some() {
            return Ok(());
        }
        let process = Process::start(&self.program, &self.script(), &self.stderr())?;
        process.wait_ready(cancel)?;
        inner.process = Some(process);
        inner.generation += 1;
        let Some(id) = inner.owned.clone() else {
            return Ok(());
        };
        let found = Call::new(r"Hyper-V\Get-VM").text("Id", &id).keep("vm");
        match inner.ask(&found, cancel) {
            // A machine that is gone is found so by the next look at it.
            Ok(_) | Err(Trouble::Refused(_)) => {}
            Err(other) => return Err(other),
        }
        let own = Call::new("script:own").text("VmId", &id);
        inner.ask(&own, cancel).map(|_| ())
    }

    /// The last lines of what PowerShell said outside the protocol.
    fn last_words(&self) -> Vec<String> {
        last_lines(&self.stderr(), 0, 5)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(process) = lock(&self.inner).process.take() {
            process.end();
        }
    }
}

impl Inner {
    fn ask(&mut self, call: &Call, cancel: &Cancel) -> Result<Vec<Value>, Trouble> {
        self.next_id += 1;
        let id = self.next_id;
        let Some(process) = &mut self.process else {
            return Err(Trouble::died("it was not started"));
        };
        process.send(&call.request(id))?;
        process.answer(id, call, cancel)
    }
}

struct Process {
    child: Child,
    input: ChildStdin,
    lines: Receiver<std::io::Result<String>>,
}

impl Process {
    fn start(program: &Path, script: &Path, stderr: &Path) -> Result<Self, Trouble> {
        let errors = OpenOptions::new().create(true).append(true).open(stderr);
        let errors = errors.map_err(|e| Trouble::died(format!("{}: {e}", stderr.display())))?;
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
        without_secrets(&mut command);
        alone(&mut command);
        let mut child = command.spawn().map_err(|e| {
            Trouble::NoPowerShell(format!("{} cannot be started: {e}", program.display()))
        })?;
        tracing::debug!(program = %program.display(), pid = child.id(), "started PowerShell");
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Trouble::died("its pipes are missing"));
        };
        let (sender, lines) = sync_channel(16);
        let reader = std::thread::Builder::new().name("powershell".into());
        // It ends with the pipe, or with the process that would have asked for more.
        let spawned = reader.spawn(move || {
            let mut output = BufReader::new(output);
            while let Some(line) = next_line(&mut output) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        spawned.map_err(|e| Trouble::died(format!("no thread can be started: {e}")))?;
        Ok(Self {
            child,
            input,
            lines,
        })
    }

    fn wait_ready(&self, cancel: &Cancel) -> Result<(), Trouble> {
        let line = self.line("its start", START, cancel)?;
        let said: Option<Value> = serde_json::from_str(&line).ok();
        match said.as_ref().and_then(|said| said["ready"].as_u64()) {
            Some(PROTOCOL) => Ok(()),
            _ => Err(Trouble::garbled(&line)),
        }
    }

    fn send(&mut self, request: &str) -> Result<(), Trouble> {
        let line = format!("{request}\n");
        let sent = self.input.write_all(line.as_bytes());
        sent.and_then(|()| self.input.flush())
            .map_err(|e| Trouble::died(format!("its input is closed: {e}")))
    }

    fn answer(&self, id: u64, call: &Call, cancel: &Cancel) -> Result<Vec<Value>, Trouble> {
        let line = self.line(call.name, call.patience, cancel)?;
        let Ok(answer) = serde_json::from_str::<Value>(&line) else {
            return Err(Trouble::garbled(&line));
        };
        if answer["id"].as_u64() != Some(id) {
            return Err(Trouble::garbled(&line));
        }
        if let Some(error) = answer.get("error") {
            return Err(Trouble::Refused(Refusal::of(call, error)));
        }
        match answer.get("done").and_then(Value::as_array) {
            Some(done) => Ok(done.clone()),
            None => Err(Trouble::garbled(&line)),
        }
    }

    /// The next line. An interrupt leaves it a moment to end in order.
    fn line(&self, doing: &str, patience: Duration, cancel: &Cancel) -> Result<String, Trouble> {
        let mut deadline = Instant::now() + patience;
        let mut interrupted = false;
        loop {
            match self.lines.recv_timeout(GLANCE) {
                Ok(Ok(line)) => return Ok(line),
                Ok(Err(e)) => return Err(Trouble::died(e.to_string())),
                Err(RecvTimeoutError::Disconnected) => return Err(Trouble::died("it ended")),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if cancel.is_cancelled() && !interrupted {
                interrupted = true;
                deadline = deadline.min(Instant::now() + GRACE);
            }
            if Instant::now() >= deadline {
                return Err(match interrupted {
                    true => Trouble::Interrupted,
                    false => Trouble::Late {
                        doing: doing.to_string(),
                        seconds: patience.as_secs(),
                    },
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
            // Its last lines must not fill the pipe.
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

/// Out of our group: a Ctrl-C in the terminal is ours to handle.
#[cfg(unix)]
fn alone(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    command.process_group(0);
}

/// Without a console of ours, whose Ctrl-C is ours to handle (Microsoft: Process Creation Flags, CREATE_NO_WINDOW).
#[cfg(windows)]
fn alone(command: &mut Command) {
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
        Ok(_) => Some(Err(std::io::Error::other("its last line is cut short"))),
        Err(e) => Some(Err(e)),
    }
}

/// What was called, when, for how long and with what outcome. Repeats are counted, not written.
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

    fn write(&mut self, call: &str, took: Duration, trouble: Option<&Trouble>) {
        let outcome = trouble.map_or_else(String::new, |t| format!("\n  {}", t.fact()));
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
        // A full disk is reported by the work that needs it.
        let _ = self.file.write_all(text.as_bytes());
        self.last = line;
        self.repeats = 0;
    }
}

#[cfg(all(test, unix))]
mod tests;
