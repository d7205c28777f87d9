//! Runs the program as a user does, and reads its events while it runs.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use support::killed::KilledChild;
use support::tree;

use serde_json::Value;

/// A running `winimg build --log-format json`.
pub struct Build {
    pub child: KilledChild,
    events: Receiver<String>,
    pub said: Vec<String>,
}

impl Build {
    /// Builds a recipe of the source tree into `output` with its own cache, plus `more` arguments.
    pub fn start(recipe: &str, output: &Path, cache: &Path, more: &[&str]) -> Self {
        Self::start_where(recipe, output, cache, more, &[])
    }

    /// The same with more environment.
    pub fn start_where(
        recipe: &str,
        output: &Path,
        cache: &Path,
        more: &[&str],
        environment: &[(&str, &OsStr)],
    ) -> Self {
        let standin = tree::root().join("target/standin/standin.iso");
        assert!(
            standin.exists(),
            "no stand-in installer: run `make standin`"
        );
        let mut child = Command::new(tree::winimg())
            .args(["--log-format", "json", "build", recipe, "--output"])
            .arg(output)
            .args(more)
            .env("WINIMG_CACHE_DIR", cache)
            .envs(environment.iter().copied())
            .current_dir(tree::root())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("winimg starts");
        let stderr = BufReader::new(child.stderr.take().expect("stderr is piped"));
        let (to, events) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if to.send(line).is_err() {
                    break;
                }
            }
        });
        Self {
            child: KilledChild(child),
            events,
            said: Vec::new(),
        }
    }

    /// Waits for an event that `wanted` accepts; the program's whole output is the failure message.
    pub fn wait_for(&mut self, what: &str, limit: Duration, wanted: impl Fn(&Value) -> bool) {
        let deadline = Instant::now() + limit;
        loop {
            match self
                .events
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(line) => {
                    let found = serde_json::from_str(&line).is_ok_and(|event| wanted(&event));
                    self.said.push(line);
                    if found {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    panic!("{what}: not within {limit:?}\n{}", self.tail())
                }
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("{what}: winimg ended first\n{}", self.tail())
                }
            }
        }
    }

    /// Waits for the end of the program.
    pub fn end(&mut self, limit: Duration) -> ExitStatus {
        let deadline = Instant::now() + limit;
        loop {
            self.said.extend(self.events.try_iter());
            if let Some(status) = self.child.0.try_wait().expect("winimg can be waited for") {
                while let Ok(line) = self.events.recv_timeout(Duration::from_millis(500)) {
                    self.said.push(line);
                }
                return status;
            }
            if Instant::now() > deadline {
                let _ = self.child.0.kill();
                panic!("winimg did not end within {limit:?}\n{}", self.tail());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The event that says how it failed; null when it did not.
    pub fn failed(&self) -> Value {
        let mut events = self
            .said
            .iter()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events
            .rfind(|event| event["event"] == "failed")
            .unwrap_or_default()
    }

    /// The same as text, to look for words in.
    pub fn error(&self) -> String {
        format!("{:#}", self.failed())
    }

    fn tail(&self) -> String {
        let from = self.said.len().saturating_sub(40);
        self.said[from..].join("\n")
    }
}

/// Whether the event is of this kind and says this: `is(event, "phase_started", "phase", "install")`.
pub fn is(event: &Value, kind: &str, field: &str, value: &str) -> bool {
    event["event"] == kind && event[field] == value
}

/// A program's standard output; it must succeed.
pub fn output_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|e| panic!("{program}: {e}"));
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}\n{stdout}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    stdout
}

/// Processes whose command line, or the folder that they work in, holds `word`.
pub fn processes_with(word: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let Ok(line) = std::fs::read(entry.path().join("cmdline")) else {
            continue;
        };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let is_machine = line.starts_with("qemu-system")
            || line.contains("--tpmstate")
            || line.contains("/qemu-system");
        let folder = std::fs::read_link(entry.path().join("cwd")).unwrap_or_default();
        if is_machine && (line.contains(word) || folder.to_string_lossy().contains(word)) {
            found.push(line);
        }
    }
    found
}
