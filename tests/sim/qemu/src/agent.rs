//! The guest's agent (QEMU: docs/interop/qemu-ga-ref, 7.2 for Windows) over a Windows that is a handful of files and the script's answers.
//!
//! Reads nothing before the guest has opened its port: until then the bytes lie in the socket, as they do in QEMU's buffer. One request after the other;
//! what a guest that went down was asked, it never answers.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

use crate::disk::Bytes;
use crate::machine::{Machine, Order};
use crate::script::{Deed, Fault, Moment, Run, matches};

const GLANCE: Duration = Duration::from_millis(5);

/// A reply's value, or class and description; `None`: none is due.
type Answer = Option<Result<Value, (&'static str, String)>>;

pub fn serve(machine: &Machine, listener: &UnixListener) {
    for stream in listener.incoming().flatten() {
        let mut agent = Agent {
            machine,
            stream,
            session: 0,
            buffer: Vec::new(),
            complaint: false,
            open: BTreeMap::new(),
            programs: BTreeMap::new(),
            off: None,
            next: 1000,
            old: json!({"return": {}}),
        };
        let _ = agent.serve();
    }
}

struct Agent<'a> {
    machine: &'a Machine,
    stream: UnixStream,
    session: u64,
    buffer: Vec<u8>,
    /// `0xFF` came: the parser was cleared, and says so after the next reply.
    complaint: bool,
    open: BTreeMap<u64, OpenFile>,
    programs: BTreeMap<u64, Program>,
    /// When a program powers the guest off.
    off: Option<Instant>,
    next: u64,
    /// The last reply, for a fault that sends it again.
    old: Value,
}

struct OpenFile {
    path: String,
    at: usize,
    writes: bool,
}

struct Program {
    line: String,
    entry: Option<Run>,
    ends: Instant,
}

impl Agent<'_> {
    /// Until the client has gone.
    fn serve(&mut self) -> std::io::Result<()> {
        self.stream.set_read_timeout(Some(GLANCE))?;
        let mut piece = vec![0; 64 << 10];
        loop {
            if !self.is_awake() {
                std::thread::sleep(GLANCE);
                continue;
            }
            if self.off.is_some_and(|due| Instant::now() >= due) {
                self.machine.change(|s| s.order = Order::Off);
                self.off = None;
            }
            match self.stream.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(n) => self.take(&piece[..n])?,
                Err(e)
                    if matches!(
                        e.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Whether the agent of this session runs; a new session has forgotten everything.
    fn is_awake(&mut self) -> bool {
        let state = self.machine.lock();
        let awake = state.port_open
            && state.status == "running"
            && !state.frozen
            && state.silent_session != Some(state.session);
        if state.session != self.session {
            self.session = state.session;
            self.buffer.clear();
            self.open.clear();
            self.programs.clear();
            self.off = None;
        }
        awake
    }

    fn take(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        for &byte in bytes {
            match byte {
                0xff => {
                    self.buffer.clear();
                    self.complaint = true;
                }
                byte => self.buffer.push(byte),
            }
            if byte == b'}' && self.is_whole() {
                let line = std::mem::take(&mut self.buffer);
                self.request(&line)?;
                if !self.is_awake() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Whether the buffer holds all of an object.
    fn is_whole(&self) -> bool {
        let (mut depth, mut quoted, mut escaped) = (0i64, false, false);
        for &byte in &self.buffer {
            match (quoted, byte) {
                (true, _) if escaped => escaped = false,
                (true, b'\\') => escaped = true,
                (_, b'"') => quoted = !quoted,
                (false, b'{' | b'[') => depth += 1,
                (false, b'}' | b']') => depth -= 1,
                _ => {}
            }
        }
        depth <= 0 && !quoted
    }

    fn request(&mut self, line: &[u8]) -> std::io::Result<()> {
        let Ok(Value::Object(request)) = serde_json::from_slice::<Value>(line) else {
            return self.say(&error("GenericError", "JSON parse error, invalid input"));
        };
        let command = request
            .get("execute")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_string();
        let empty = Map::new();
        let arguments = request
            .get("arguments")
            .and_then(Value::as_object)
            .unwrap_or(&empty);
        let session = self.session;
        let wire = self.faults(&command, arguments);
        let has = |deed: Deed| wire.iter().find(|f| f.deed == deed);
        if !self.is_awake() || self.session != session {
            return Ok(());
        }
        if let Some(fault) = has(Deed::Refuses) {
            return self.say(&error("GenericError", &fault.words));
        }
        if has(Deed::Ignores).is_some() {
            return Ok(());
        }
        let answer = match (has(Deed::Forgets), has(Deed::NoCode)) {
            (Some(_), _) => Some(Err(("GenericError", "Invalid parameter 'pid'".to_string()))),
            (_, Some(_)) => Some(Ok(json!({"exited": true}))),
            _ => self.answer(&command, arguments),
        };
        let Some(answer) = answer else { return Ok(()) };
        let mut reply = match answer {
            Ok(value) => json!({"return": value}),
            Err((class, desc)) => error(class, &desc),
        };
        if let Some(id) = request.get("id") {
            reply["id"] = id.clone();
        }
        if command == "guest-sync-delimited" {
            self.stream.write_all(&[0xff])?;
        }
        self.deliver(&reply, &wire)?;
        if std::mem::take(&mut self.complaint) {
            self.say(&error("GenericError", "JSON parse error, stray '\\uFFFD'"))?;
        }
        self.old = reply;
        Ok(())
    }

    /// What is due now; what concerns the whole machine has then happened.
    fn faults(&mut self, command: &str, arguments: &Map<String, Value>) -> Vec<Fault> {
        let mut due = self.machine.moment(Moment::Agent, command);
        let text = |key: &str| {
            arguments
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let number = |key: &str| {
            arguments
                .get(key)
                .and_then(Value::as_u64)
                .unwrap_or_default()
        };
        let special = match command {
            "guest-exec" => Some((Moment::Command, line(arguments))),
            "guest-exec-status" => self
                .programs
                .get(&number("pid"))
                .map(|p| (Moment::Status, p.line.clone())),
            "guest-file-write" => self
                .open
                .get(&number("handle"))
                .map(|f| (Moment::Write, f.path.clone())),
            "guest-shutdown" if text("mode") == "reboot" => Some((Moment::Restart, String::new())),
            "guest-shutdown" => Some((Moment::Off, String::new())),
            _ => None,
        };
        if let Some((moment, about)) = special {
            due.extend(self.machine.moment(moment, &about));
        }
        due.retain(|fault| !self.machine.suffer(fault));
        due
    }

    /// The reply as the faults let it come.
    fn deliver(&mut self, reply: &Value, wire: &[Fault]) -> std::io::Result<()> {
        for fault in wire {
            match fault.deed {
                Deed::AgentDrops => return Ok(()),
                Deed::AgentLate => {
                    let end = Instant::now() + Duration::from_millis(fault.ms);
                    let session = self.session;
                    while Instant::now() < end {
                        std::thread::sleep(GLANCE);
                        if !self.is_awake() || self.session != session {
                            return Ok(());
                        }
                    }
                }
                Deed::AgentSplits => {
                    let size = usize::try_from(fault.number).unwrap_or(1).max(1);
                    self.machine.change(|s| s.pieces = Some(size));
                }
                Deed::AgentGarbage => self.stream.write_all(b"?? {\"return\": }\n")?,
                Deed::AgentOldReply => {
                    let old = self.old.clone();
                    self.say(&old)?;
                }
                Deed::PortCloses => {
                    let text = reply.to_string();
                    self.stream.write_all(&text.as_bytes()[..text.len() / 2])?;
                    self.machine.close_port();
                    std::thread::sleep(Duration::from_millis(fault.ms));
                    self.machine.open_port();
                    return Ok(());
                }
                _ => {}
            }
        }
        self.say(reply)
    }

    fn say(&mut self, reply: &Value) -> std::io::Result<()> {
        let text = format!("{reply}\n");
        let Some(size) = self.machine.lock().pieces else {
            return self.stream.write_all(text.as_bytes());
        };
        for (n, piece) in text.as_bytes().chunks(size).enumerate() {
            self.stream.write_all(piece)?;
            if n < 200 {
                std::thread::sleep(Duration::from_micros(500));
            }
        }
        Ok(())
    }

    fn answer(&mut self, command: &str, arguments: &Map<String, Value>) -> Answer {
        let given = Given { arguments };
        let answer = match command {
            "guest-ping" => given.only(&[]).map(|()| json!({})),
            "guest-sync" | "guest-sync-delimited" => given
                .only(&["id"])
                .and_then(|()| given.number("id"))
                .map(Value::from),
            "guest-info" => given.only(&[]).map(|()| info()),
            "guest-get-osinfo" => given.only(&[]).map(
                |()| json!({"id": "mswindows", "name": "Microsoft Windows", "version": "stand-in"}),
            ),
            "guest-exec" => self.exec(&given),
            "guest-exec-status" => self.exec_status(&given),
            "guest-file-open" => self.file_open(&given),
            "guest-file-close" => self.file(&given, &["handle"]).map(|handle| {
                self.open.remove(&handle);
                json!({})
            }),
            "guest-file-flush" => self.file(&given, &["handle"]).map(|_| json!({})),
            "guest-file-read" => self.file_read(&given),
            "guest-file-write" => self.file_write(&given),
            "guest-shutdown" => return self.shutdown(&given),
            other => Err((
                "CommandNotFound",
                format!("The command {other} has not been found"),
            )),
        };
        Some(answer)
    }

    fn exec(&mut self, given: &Given<'_>) -> Result<Value, (&'static str, String)> {
        given.only(&["path", "arg", "env", "input-data", "capture-output"])?;
        given.text("path")?;
        let line = line(given.arguments);
        self.machine.note(&format!("exec {line}"));
        let entry = self.entry(&line);
        let delay = Duration::from_millis(entry.as_ref().map_or(0, |e| e.delay_ms));
        self.next += 4;
        self.programs.insert(
            self.next,
            Program {
                line,
                entry,
                ends: Instant::now() + delay,
            },
        );
        Ok(json!({"pid": self.next}))
    }

    fn entry(&self, line: &str) -> Option<Run> {
        self.machine.change(|state| {
            let there = |path: &String| {
                state
                    .windows
                    .as_ref()
                    .is_some_and(|w| w.files.contains_key(&path.to_lowercase()))
            };
            let lies = |name: &String| {
                state
                    .images
                    .values()
                    .any(|(path, _)| path.to_string_lossy().ends_with(name.as_str()))
            };
            let fits = |(n, run): &(usize, &Run)| {
                matches(&run.command, line)
                    && run.times.is_none_or(|times| state.used[*n] < times)
                    && run.if_file.as_ref().is_none_or(there)
                    && run.if_disc.as_ref().is_none_or(lies)
            };
            let (n, run) = self.machine.script.run.iter().enumerate().find(fits)?;
            state.used[n] += 1;
            Some(run.clone())
        })
    }

    fn exec_status(&mut self, given: &Given<'_>) -> Result<Value, (&'static str, String)> {
        given.only(&["pid"])?;
        let pid = u64::try_from(given.number("pid")?).unwrap_or(0);
        let program = self
            .programs
            .get(&pid)
            .ok_or_else(|| generic("Invalid parameter 'pid'"))?;
        if Instant::now() < program.ends {
            return Ok(json!({"exited": false}));
        }
        // Told once, then forgotten.
        let Some(program) = self.programs.remove(&pid) else {
            return Ok(json!({"exited": false}));
        };
        let Some(run) = program.entry else {
            let words = format!("the script has no reply to: {}\r\n", program.line);
            return Ok(json!({"exited": true, "exitcode": 9009, "err-data": BASE64.encode(words)}));
        };
        self.machine.change(|state| {
            let Some(windows) = state.windows.as_mut() else {
                return;
            };
            for pattern in &run.deletes {
                windows.files.retain(|path, _| !matches(pattern, path));
            }
            let files = run.files.iter();
            windows
                .files
                .extend(files.map(|(p, t)| (p.to_lowercase(), Bytes(t.clone().into_bytes()))));
        });
        if let Some(ms) = run.off_ms {
            self.off = Some(Instant::now() + Duration::from_millis(ms));
        }
        let mut status = json!({"exited": true, "exitcode": run.exit});
        if !run.output.is_empty() {
            status["out-data"] = BASE64.encode(&run.output).into();
        }
        Ok(status)
    }

    fn file_open(&mut self, given: &Given<'_>) -> Result<Value, (&'static str, String)> {
        given.only(&["path", "mode"])?;
        let path = given.text("path")?;
        let mode = given
            .arguments
            .get("mode")
            .and_then(Value::as_str)
            .unwrap_or("r");
        let key = path.to_lowercase();
        let cannot = |why: &str| generic(&format!("failed to open file '{path}': {why}"));
        let folder_is_there = key
            .rsplit_once('\\')
            .is_some_and(|(folder, _)| self.has_folder(folder));
        let writes = match mode {
            "r" | "rb" => false,
            "w" | "wb" | "a" | "ab" => true,
            _ => return Err(generic(&format!("invalid file open mode '{mode}'"))),
        };
        if !folder_is_there {
            return Err(cannot("The system cannot find the path specified. "));
        }
        let at = self.machine.change(|state| {
            let windows = state.windows.get_or_insert_default();
            match (mode.as_bytes()[0], windows.files.get(&key)) {
                (b'r', None) => None,
                (b'w', _) => {
                    windows.files.insert(key.clone(), Bytes::default());
                    Some(0)
                }
                (b'a', Some(found)) => Some(found.0.len()),
                _ => Some(0),
            }
        });
        let at = at.ok_or_else(|| cannot("The system cannot find the file specified. "))?;
        self.next += 1;
        self.open.insert(
            self.next,
            OpenFile {
                path: key,
                at,
                writes,
            },
        );
        Ok(json!(self.next))
    }

    /// A folder is there when a file lies in it or below, or when Windows always has it.
    fn has_folder(&self, folder: &str) -> bool {
        let always = [
            "c:",
            "c:\\windows",
            "c:\\windows\\temp",
            "c:\\windows\\system32\\sysprep",
            "c:\\windows\\system32\\sysprep\\panther",
            "c:\\windows\\panther",
        ];
        let below = format!("{folder}\\");
        let state = self.machine.lock();
        always.contains(&folder)
            || state
                .windows
                .as_ref()
                .is_some_and(|w| w.files.keys().any(|path| path.starts_with(&below)))
    }

    /// The handle, when it is one.
    fn file(&self, given: &Given<'_>, known: &[&str]) -> Result<u64, (&'static str, String)> {
        given.only(known)?;
        let handle = given.number("handle")?;
        let number = u64::try_from(handle).unwrap_or(0);
        if self.open.contains_key(&number) {
            Ok(number)
        } else {
            Err(generic(&format!("handle '{handle}' has not been found")))
        }
    }

    fn file_read(&mut self, given: &Given<'_>) -> Result<Value, (&'static str, String)> {
        let handle = self.file(given, &["handle", "count"])?;
        let count = match given.arguments.get("count") {
            None => 4096,
            Some(_) => usize::try_from(given.number("count")?).unwrap_or(usize::MAX),
        };
        if count > 48 << 20 {
            return Err(generic(&format!(
                "value '{count}' is invalid for argument count"
            )));
        }
        let Some(file) = self.open.get_mut(&handle) else {
            return Err(generic("no handle"));
        };
        let state = self.machine.lock();
        let bytes = state.windows.as_ref().and_then(|w| w.files.get(&file.path));
        let rest = bytes.and_then(|b| b.0.get(file.at..)).unwrap_or_default();
        let piece = &rest[..rest.len().min(count)];
        file.at += piece.len();
        Ok(
            json!({"count": piece.len(), "buf-b64": BASE64.encode(piece), "eof": piece.len() < count}),
        )
    }

    fn file_write(&mut self, given: &Given<'_>) -> Result<Value, (&'static str, String)> {
        let handle = self.file(given, &["handle", "buf-b64", "count"])?;
        let bytes = BASE64
            .decode(given.text("buf-b64")?)
            .map_err(|e| generic(&format!("Base64 decoding failed: {e}")))?;
        let Some(file) = self.open.get_mut(&handle) else {
            return Err(generic("no handle"));
        };
        if !file.writes {
            return Err(generic(&format!(
                "failed to write to file, handle: '{handle}': Access is denied. "
            )));
        }
        self.machine
            .note(&format!("write {} {}", file.path, bytes.len()));
        let at = file.at;
        self.machine.change(|state| {
            let windows = state.windows.get_or_insert_default();
            let whole = &mut windows.files.entry(file.path.clone()).or_default().0;
            whole.resize(at.min(whole.len()), 0);
            whole.extend_from_slice(&bytes);
        });
        file.at += bytes.len();
        Ok(json!({"count": bytes.len(), "eof": false}))
    }

    /// Answered only when it is refused.
    fn shutdown(&self, given: &Given<'_>) -> Answer {
        let mode = match given.only(&["mode"]) {
            Ok(()) => given
                .arguments
                .get("mode")
                .and_then(Value::as_str)
                .unwrap_or("powerdown"),
            Err(refusal) => return Some(Err(refusal)),
        };
        let script = &self.machine.script;
        match mode {
            "reboot" => {
                self.machine.note("restart");
                if self.machine.pass(script.restart_ms).is_ok() {
                    self.machine.reset();
                }
                None
            }
            "halt" | "powerdown" => {
                if self.machine.pass(script.off_ms).is_ok() {
                    self.machine.change(|s| s.order = Order::Off);
                }
                None
            }
            _ => Some(Err(generic(
                "mode is invalid (valid values are: halt|powerdown|reboot",
            ))),
        }
    }
}

fn info() -> Value {
    let commands = [
        "guest-sync",
        "guest-sync-delimited",
        "guest-ping",
        "guest-info",
        "guest-get-osinfo",
        "guest-exec",
        "guest-exec-status",
        "guest-file-open",
        "guest-file-close",
        "guest-file-read",
        "guest-file-write",
        "guest-file-flush",
        "guest-shutdown",
    ];
    let each = commands.map(
        |name| json!({"enabled": true, "name": name, "success-response": name != "guest-shutdown"}),
    );
    json!({"version": "107.0.1", "supported_commands": each})
}

/// Program and arguments as a run's pattern sees them.
fn line(arguments: &Map<String, Value>) -> String {
    let program = arguments.get("path").and_then(Value::as_str);
    let rest = arguments
        .get("arg")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let words: Vec<&str> = program
        .into_iter()
        .chain(rest.filter_map(Value::as_str))
        .collect();
    words.join(" ")
}

fn error(class: &str, desc: &str) -> Value {
    json!({"error": {"class": class, "desc": desc}})
}

fn generic(desc: &str) -> (&'static str, String) {
    ("GenericError", desc.to_string())
}

/// A request's arguments, judged as the agent judges them.
struct Given<'a> {
    arguments: &'a Map<String, Value>,
}

impl Given<'_> {
    fn only(&self, known: &[&str]) -> Result<(), (&'static str, String)> {
        match self
            .arguments
            .keys()
            .find(|key| !known.contains(&key.as_str()))
        {
            Some(key) => Err(generic(&format!("Parameter '{key}' is unexpected"))),
            None => Ok(()),
        }
    }

    fn text(&self, key: &str) -> Result<&str, (&'static str, String)> {
        match self.arguments.get(key) {
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(generic(&format!(
                "Invalid parameter type for '{key}', expected: string"
            ))),
            None => Err(generic(&format!("Parameter '{key}' is missing"))),
        }
    }

    fn number(&self, key: &str) -> Result<i64, (&'static str, String)> {
        match self.arguments.get(key) {
            Some(value) if value.is_i64() || value.is_u64() => {
                Ok(value.as_i64().unwrap_or(i64::MAX))
            }
            Some(_) => Err(generic(&format!(
                "Invalid parameter type for '{key}', expected: integer"
            ))),
            None => Err(generic(&format!("Parameter '{key}' is missing"))),
        }
    }
}
