//! `guest-exec` and `guest-exec-status`.
//!
//! The command line is glib's double quoting of the arguments, the program is searched as `_wspawnvp` does, the
//! environment is the agent's own unless `env` replaces all of it. Each command runs on a thread of its own.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::{Map, Value, json};

use super::{Agent, Fields, Refusal, decode, encode, refuse};
use crate::windows::cmdline;
use crate::windows::lock;
use crate::windows::process::{Env, Process, Stream, null};

/// Captured output is cut here.
const CAPTURE: usize = 16 << 20;

#[derive(Default)]
pub struct Children {
    next: i64,
    running: BTreeMap<i64, Child>,
}

struct Child {
    worker: JoinHandle<u32>,
    out: Option<Arc<Mutex<Captured>>>,
    err: Option<Arc<Mutex<Captured>>>,
}

#[derive(Default)]
struct Captured {
    bytes: Vec<u8>,
    truncated: bool,
}

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let room = CAPTURE - self.bytes.len();
        self.bytes.extend(&bytes[..bytes.len().min(room)]);
        self.truncated |= bytes.len() > room;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub fn start(agent: &mut Agent, mut fields: Fields) -> Result<Value, Refusal> {
    let path = fields.text("path")?;
    let path = fields.required("path", path)?;
    let args = fields.texts("arg")?.unwrap_or_default();
    let env = fields.texts("env")?;
    let input = fields.text("input-data")?;
    let (want_out, want_err) = capture(fields.any("capture-output"))?;
    fields.end()?;
    let input = input
        .map(|text| decode(&text))
        .transpose()?
        .unwrap_or_default();

    let mut process = agent.windows.process();
    process.stdin = Arc::new(input);
    if let Some(list) = env {
        let mut only = Env::default();
        list.iter()
            .filter_map(|item| item.split_once('='))
            .for_each(|(name, value)| only.set(name, value));
        process.env = only;
    }
    // `_wspawnvp`: the current directory, then PATH; the name as it is, then with the usual extensions.
    let mut dirs = vec![process.cwd.0.clone()];
    dirs.extend(agent.windows.process().path_dirs());
    let last = path.rsplit(['\\', '/']).next().unwrap_or(&path);
    let tries: &[&str] = if last.contains('.') {
        &[""]
    } else {
        &["", ".com", ".exe", ".bat", ".cmd"]
    };
    let Some(image) = process.find(&path, &dirs, tries) else {
        return failed("No such file or directory");
    };
    let line = cmdline::glib_line(&[vec![path], args].concat());
    if line.encode_utf16().count() > 32767 {
        return failed("Arg list too long");
    }
    let head = std::fs::read(&image.host).unwrap_or_default();
    let script = [".cmd", ".bat"]
        .iter()
        .any(|ext| image.name.to_ascii_lowercase().ends_with(ext));
    let runs = head.starts_with(crate::windows::image::MARKER.as_bytes())
        || agent.windows.machine.programs.find(&head).is_some();
    if !script && !runs {
        return failed("Exec format error");
    }

    let out = want_out.then(Arc::<Mutex<Captured>>::default);
    let err = want_err.then(Arc::<Mutex<Captured>>::default);
    let stream = |captured: &Option<Arc<Mutex<Captured>>>| -> Stream {
        match captured {
            Some(captured) => captured.clone(),
            None => null(),
        }
    };
    (process.out, process.err) = (stream(&out), stream(&err));
    let worker = std::thread::spawn(move || run(process, image, &line));
    agent.children.next += 4;
    let pid = 2000 + agent.children.next;
    agent
        .children
        .running
        .insert(pid, Child { worker, out, err });
    Ok(json!({"pid": pid}))
}

fn run(process: Process, image: crate::windows::volume::Located, line: &str) -> u32 {
    // It was there and had the right form a moment ago: gone since means what Windows says of a lost file.
    process.start(&image, line).unwrap_or(0xC000_0135)
}

fn failed<T>(why: &str) -> Result<T, Refusal> {
    refuse(format!(
        "Guest agent command failed, error was 'Failed to execute child process ({why})'"
    ))
}

/// `capture-output`: true or false, or since QEMU 8.1 a mode.
fn capture(value: Option<Value>) -> Result<(bool, bool), Refusal> {
    match value {
        None | Some(Value::Bool(false)) => Ok((false, false)),
        Some(Value::Bool(true)) => Ok((true, true)),
        Some(Value::String(mode)) => match mode.as_str() {
            "none" => Ok((false, false)),
            "stdout" => Ok((true, false)),
            "stderr" => Ok((false, true)),
            "separated" => Ok((true, true)),
            // The enum has no such value in the agent's Windows build.
            other => refuse(format!(
                "Parameter 'capture-output' does not accept value '{other}'"
            )),
        },
        Some(_) => {
            refuse("Invalid parameter type for 'capture-output', expected: GuestExecCaptureOutput")
        }
    }
}

pub fn status(agent: &mut Agent, mut fields: Fields) -> Result<Value, Refusal> {
    let pid = fields.number("pid")?;
    let pid = fields.required("pid", pid)?;
    fields.end()?;
    let children = &mut agent.children.running;
    match children.get(&pid) {
        None => return refuse(format!("PID {pid} does not exist")),
        Some(child) if !child.worker.is_finished() => return Ok(json!({"exited": false})),
        Some(_) => {}
    }
    let Some(child) = children.remove(&pid) else {
        return Ok(json!({"exited": false}));
    };
    let code = child.worker.join().unwrap_or(0xC000_0005);
    let mut status = Map::new();
    status.insert("exited".into(), json!(true));
    // An NT status in the place of an exit code counts as a crash; both are shown as signed 32-bit numbers.
    let name = if code >= 0xC000_0000 {
        "signal"
    } else {
        "exitcode"
    };
    status.insert(name.into(), json!(code as i32));
    for (prefix, captured) in [("out", &child.out), ("err", &child.err)] {
        let Some(captured) = captured else { continue };
        let captured = lock(captured);
        if !captured.bytes.is_empty() {
            status.insert(format!("{prefix}-data"), json!(encode(&captured.bytes)));
        }
        if captured.truncated {
            status.insert(format!("{prefix}-truncated"), json!(true));
        }
    }
    Ok(Value::Object(status))
}
