//! The guest's end of the channel: an agent that behaves as qemu-ga does on Windows, with Wine as its Windows.
//!
//! Strict where the real one is: unknown commands and arguments, unknown handles and pids, and files that cannot be opened
//! are errors (QEMU: qga/qapi-schema.json, qga/commands.c, qga/commands-win32.c). Stricter in one thing: `env` is refused,
//! because it would replace the guest's whole environment.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, ErrorKind, Read, Seek as _, SeekFrom, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use winimg_machine::guest::agent::AgentPort;

use crate::wine::glib::Glib;
use crate::wine::prefix::{Prefix, program};

/// Until a program has been started or not.
const START: Duration = Duration::from_secs(60);

/// What is allowed with each command; `!` marks what is required.
const COMMANDS: [(&str, &[&str]); 13] = [
    ("guest-sync", &["!id"]),
    ("guest-sync-delimited", &["!id"]),
    ("guest-ping", &[]),
    ("guest-info", &[]),
    (
        "guest-exec",
        &["!path", "arg", "input-data", "capture-output"],
    ),
    ("guest-exec-status", &["!pid"]),
    ("guest-file-open", &["!path", "mode"]),
    ("guest-file-read", &["!handle", "count"]),
    ("guest-file-write", &["!handle", "!buf-b64", "count"]),
    ("guest-file-seek", &["!handle", "!offset", "!whence"]),
    ("guest-file-flush", &["!handle"]),
    ("guest-file-close", &["!handle"]),
    ("guest-shutdown", &["mode"]),
];

pub struct Agent {
    prefix: Arc<Prefix>,
    glib: Glib,
    port: Arc<Mutex<AgentPort>>,
    files: BTreeMap<u64, File>,
    programs: BTreeMap<u64, Program>,
    next: u64,
}

struct Program {
    child: Child,
    answer: PathBuf,
    pipes: Option<Pipes>,
}

/// What it says on its standard output and its standard error.
type Pipes = [JoinHandle<Vec<u8>>; 2];

/// `None`: no answer at all, which is how a shutdown is answered.
type Answer = Result<Option<Value>, String>;

impl Agent {
    /// Answers until the other end closes.
    pub fn start(prefix: Arc<Prefix>, glib: Glib, port: Arc<Mutex<AgentPort>>) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().expect("a socket pair");
        let mut agent = Self {
            prefix,
            glib,
            port,
            files: BTreeMap::new(),
            programs: BTreeMap::new(),
            next: 1000,
        };
        agent.port.lock().expect("lock").set_open(true);
        std::thread::spawn(move || {
            let mut writer = ours.try_clone().expect("clone");
            for line in BufReader::new(ours).split(b'\n').map_while(Result::ok) {
                let line = line
                    .rsplit(|b| *b == 0xff)
                    .next()
                    .unwrap_or_default()
                    .to_vec();
                let Some(reply) = agent.reply(&line) else {
                    continue;
                };
                if writer.write_all(&reply).is_err() {
                    return;
                }
            }
        });
        theirs
    }

    fn reply(&mut self, line: &[u8]) -> Option<Vec<u8>> {
        let request: Value = match serde_json::from_slice(line) {
            Ok(request) => request,
            Err(e) => return Some(refusal(&format!("JSON parse error, {e}"))),
        };
        let command = request["execute"].as_str().unwrap_or_default();
        let answer = allowed(command, &request["arguments"])
            .and_then(|()| self.answer(command, &request["arguments"]));
        let mut bytes = match answer {
            Ok(Some(value)) => format!("{}\n", json!({"return": value})).into_bytes(),
            Ok(None) => return None,
            Err(why) => refusal(&why),
        };
        if command == "guest-sync-delimited" {
            bytes.insert(0, 0xff);
        }
        Some(bytes)
    }

    fn answer(&mut self, command: &str, arguments: &Value) -> Answer {
        match command {
            "guest-sync" | "guest-sync-delimited" => Ok(Some(arguments["id"].clone())),
            "guest-info" => Ok(Some(json!({"version": "7.2.22", "supported_commands": []}))),
            "guest-exec" => self.exec(arguments).map(Some),
            "guest-exec-status" => self.status(arguments).map(Some),
            "guest-file-open" => self.open(arguments).map(Some),
            "guest-file-close" => {
                let handle = arguments["handle"].as_u64().unwrap_or_default();
                self.files
                    .remove(&handle)
                    .map(|_| Some(json!({})))
                    .ok_or_else(|| no_handle(handle))
            }
            "guest-shutdown" => self.shut_down(arguments),
            _ if command.starts_with("guest-file-") => self.file(command, arguments).map(Some),
            _ => Ok(Some(json!({}))),
        }
    }

    /// Through glib's two passes; see `programs/runner.c` for the second.
    fn exec(&mut self, arguments: &Value) -> Result<Value, String> {
        let path = arguments["path"]
            .as_str()
            .ok_or("Invalid parameter type for 'path'")?;
        let strings = arguments["arg"].as_array().map_or(Ok(Vec::new()), |list| {
            list.iter()
                .map(|v| {
                    v.as_str()
                        .map(str::to_owned)
                        .ok_or("Invalid parameter type for 'arg'")
                })
                .collect()
        });
        let line = self.glib.line(path, &strings?);
        let request = self.prefix.scratch("request");
        let answer = self.prefix.scratch("answer");
        let units = format!("{}\0{line}\0", self.glib.name());
        let bytes: Vec<u8> = units.encode_utf16().flat_map(u16::to_le_bytes).collect();
        fs::write(&request, bytes).map_err(|e| e.to_string())?;
        self.prefix.wake();
        let capture = arguments["capture-output"] == true;
        let (mut child, pipes) = self.runner(&request, &answer, capture)?;
        started(&answer, &mut child)?;
        self.next += 4;
        self.programs.insert(
            self.next,
            Program {
                child,
                answer,
                pipes,
            },
        );
        Ok(json!({"pid": self.next}))
    }

    fn runner(
        &self,
        request: &Path,
        answer: &Path,
        capture: bool,
    ) -> Result<(Child, Option<Pipes>), String> {
        let pipe = || {
            if capture {
                Stdio::piped()
            } else {
                Stdio::null()
            }
        };
        let mut child = self
            .prefix
            .wine(&program("runner.exe"))
            .args([
                windows(request),
                windows(answer),
                windows(&self.prefix.environment()),
            ])
            .stdout(pipe())
            .stderr(pipe())
            .spawn()
            .map_err(|e| e.to_string())?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let pipes = out.zip(err).map(|(out, err)| [drain(out), drain(err)]);
        Ok((child, pipes))
    }

    /// The end is reported once, and only when both pipes are closed.
    fn status(&mut self, arguments: &Value) -> Result<Value, String> {
        let pid = arguments["pid"].as_u64().unwrap_or_default();
        let program = self
            .programs
            .get_mut(&pid)
            .ok_or("Invalid parameter 'pid'")?;
        let open = program
            .pipes
            .as_ref()
            .is_some_and(|p| p.iter().any(|t| !t.is_finished()));
        if open || program.child.try_wait().ok().flatten().is_none() {
            return Ok(json!({"exited": false}));
        }
        let program = self
            .programs
            .remove(&pid)
            .ok_or("Invalid parameter 'pid'")?;
        let said = fs::read_to_string(&program.answer).unwrap_or_default();
        let code: u32 = said
            .lines()
            .find_map(|l| l.strip_prefix("exit "))
            .and_then(|n| n.parse().ok())
            .ok_or_else(|| format!("the runner said {said:?}"))?;
        let mut status = match code {
            0xC000_0000.. => json!({"exited": true, "signal": code.cast_signed()}),
            code => json!({"exited": true, "exitcode": code.cast_signed()}),
        };
        for (name, pipe) in ["out-data", "err-data"]
            .into_iter()
            .zip(program.pipes.into_iter().flatten())
        {
            let bytes = pipe.join().unwrap_or_default();
            if !bytes.is_empty() {
                status[name] = BASE64.encode(bytes).into();
            }
        }
        Ok(status)
    }

    fn open(&mut self, arguments: &Value) -> Result<Value, String> {
        let guest = arguments["path"].as_str().unwrap_or_default();
        let path = self.prefix.host(guest);
        let mut options = File::options();
        match arguments["mode"].as_str().unwrap_or("r") {
            "r" | "rb" => options.read(true),
            "w" | "wb" => options.write(true).create(true).truncate(true),
            "a" | "ab" => options.append(true).create(true),
            other => return Err(format!("invalid file open mode '{other}'")),
        };
        let failed = |why: &str| format!("failed to open file '{guest}': {why}");
        if path.is_dir() {
            return Err(failed("Access is denied."));
        }
        let file = options.open(&path).map_err(|e| match e.kind() {
            ErrorKind::NotFound if path.parent().is_some_and(|p| p.exists()) => {
                failed("The system cannot find the file specified.")
            }
            ErrorKind::NotFound => failed("The system cannot find the path specified."),
            _ => failed(&e.to_string()),
        })?;
        self.next += 1;
        self.files.insert(self.next, file);
        Ok(json!(self.next))
    }

    fn file(&mut self, command: &str, arguments: &Value) -> Result<Value, String> {
        let handle = arguments["handle"].as_u64().unwrap_or_default();
        let file = self
            .files
            .get_mut(&handle)
            .ok_or_else(|| no_handle(handle))?;
        let failed = |e: std::io::Error| e.to_string();
        match command {
            "guest-file-read" => {
                let most = arguments["count"].as_u64().unwrap_or(4096);
                let mut bytes = Vec::new();
                file.take(most).read_to_end(&mut bytes).map_err(failed)?;
                let eof = (bytes.len() as u64) < most;
                Ok(json!({"count": bytes.len(), "buf-b64": BASE64.encode(&bytes), "eof": eof}))
            }
            "guest-file-write" => {
                let bytes = BASE64.decode(arguments["buf-b64"].as_str().unwrap_or_default());
                let bytes = bytes.map_err(|_| "Invalid parameter 'buf-b64'")?;
                file.write_all(&bytes).map_err(failed)?;
                Ok(json!({"count": bytes.len(), "eof": false}))
            }
            "guest-file-seek" => {
                let to = arguments["offset"].as_i64().unwrap_or_default();
                let to = match arguments["whence"].as_str() {
                    Some("set") => SeekFrom::Start(to.cast_unsigned()),
                    Some("cur") => SeekFrom::Current(to),
                    Some("end") => SeekFrom::End(to),
                    _ => return Err("invalid whence code".into()),
                };
                let position = file.seek(to).map_err(failed)?;
                Ok(json!({"position": position, "eof": false}))
            }
            _ => file.sync_all().map(|()| json!({})).map_err(failed),
        }
    }

    /// Every program dies with the guest, and the agent that comes back knows none of them.
    fn shut_down(&mut self, arguments: &Value) -> Answer {
        let reboot = match arguments["mode"].as_str() {
            Some("reboot") => true,
            None | Some("powerdown" | "halt") => false,
            Some(_) => return Err("Invalid parameter 'mode'".into()),
        };
        self.port.lock().expect("lock").set_open(false);
        self.programs.clear();
        self.files.clear();
        self.prefix.stop();
        let mut port = self.port.lock().expect("lock");
        if reboot {
            drop(port);
            self.prefix.boot();
            self.port.lock().expect("lock").set_open(true);
        } else {
            port.off = true;
        }
        Ok(None)
    }
}

fn allowed(command: &str, arguments: &Value) -> Result<(), String> {
    let known = COMMANDS.iter().find(|(name, _)| *name == command);
    let (_, parameters) =
        known.ok_or_else(|| format!("The command {command} has not been found"))?;
    let given: Vec<&String> = arguments
        .as_object()
        .into_iter()
        .flat_map(|o| o.keys())
        .collect();
    for parameter in parameters.iter().filter_map(|p| p.strip_prefix('!')) {
        if !given.iter().any(|g| *g == parameter) {
            return Err(format!("Parameter '{parameter}' is missing"));
        }
    }
    match given.iter().find(|g| {
        !parameters
            .iter()
            .any(|p| p.trim_start_matches('!') == g.as_str())
    }) {
        Some(unknown) => Err(format!("Parameter '{unknown}' is unexpected")),
        None => Ok(()),
    }
}

fn refusal(why: &str) -> Vec<u8> {
    format!(
        "{}\n",
        json!({"error": {"class": "GenericError", "desc": why}})
    )
    .into_bytes()
}

fn no_handle(handle: u64) -> String {
    format!("handle '{handle}' has not been found")
}

fn windows(path: &Path) -> String {
    format!("Z:{}", path.display()).replace('/', "\\")
}

fn drain(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        bytes
    })
}

/// CreateProcess fails: glib's helper says so, and there is no pid.
fn started(answer: &Path, child: &mut Child) -> Result<(), String> {
    let deadline = Instant::now() + START;
    while Instant::now() < deadline {
        let ended = child.try_wait().ok().flatten();
        let said = fs::read_to_string(answer).unwrap_or_default();
        match (said.lines().nth(1), ended) {
            (Some("started"), _) => return Ok(()),
            (Some(line), _) if said.ends_with('\n') => {
                let number = line.trim_start_matches("failed ");
                return Err(format!("Failed to execute child process: error {number}"));
            }
            (None, Some(status)) => return Err(format!("the runner ended with {status}")),
            _ => std::thread::sleep(Duration::from_millis(3)),
        }
    }
    Err("the runner said nothing".into())
}

/// An agent without winimg's client before it, to send what the client would refuse.
pub struct Bare {
    pub prefix: Arc<Prefix>,
    agent: Mutex<Agent>,
}

impl Bare {
    pub fn new(glib: Glib) -> Self {
        let prefix = Arc::new(Prefix::new());
        let agent = Agent {
            prefix: Arc::clone(&prefix),
            glib,
            port: Arc::default(),
            files: BTreeMap::new(),
            programs: BTreeMap::new(),
            next: 0,
        };
        Self {
            prefix,
            agent: Mutex::new(agent),
        }
    }

    pub fn exec(&self, program: &str, arguments: &[String]) {
        let mut agent = self.agent.lock().expect("lock");
        let pid = agent
            .exec(&json!({"path": program, "arg": arguments}))
            .expect("it starts")["pid"]
            .clone();
        let deadline = Instant::now() + START;
        while agent.status(&json!({"pid": pid})).expect("a status")["exited"] != true {
            assert!(Instant::now() < deadline, "{program} does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.prefix.end();
    }
}
