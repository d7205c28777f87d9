//! The guest agent as it is on Windows: QEMU's agent protocol on a stream.
//!
//! Messages, their errors and limits are qemu-ga's (`qapi/qmp-dispatch.c`, `qga/qapi-schema.json`, `qga/commands.c`,
//! `qga/commands-win32.c`); paths, command lines, exit codes and the process environment are Windows'. Commands that
//! are not in `guest-info` are not found. It has no network interfaces, no disks and no SSH keys to report.

mod command;
mod exec;
mod file;
mod wire;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Windows, service};
use wire::Message;

const SERVICE: &str = "QEMU-GA";

const POLL_MS: i32 = 100;

/// An error reply: its class and description.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    class: &'static str,
    desc: String,
}

pub(super) fn refuse<T>(desc: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal {
        class: "GenericError",
        desc: desc.into(),
    })
}

/// What an agent remembers between messages and reconnects.
pub struct Agent {
    windows: Arc<Windows>,
    children: exec::Children,
    files: file::Handles,
    frozen: bool,
}

/// Answers on `port` until a reboot or shutdown is due, its service is stopped or the other end closes. A virtio port (a character device)
/// that the host has closed is waited on, since the host may open it again.
pub fn serve_agent(port: File, windows: Arc<Windows>) {
    Agent::new(windows).serve(port);
}

impl Agent {
    pub fn new(windows: Arc<Windows>) -> Agent {
        Agent {
            windows,
            children: exec::Children::default(),
            files: file::Handles::default(),
            frozen: false,
        }
    }

    pub fn serve(&mut self, mut port: File) {
        let device = port
            .metadata()
            .is_ok_and(|meta| meta.file_type().is_char_device());
        let mut splitter = wire::Splitter::default();
        let mut chunk = vec![0; 64 * 1024];
        let me = service::pid(&self.windows.machine, SERVICE);
        loop {
            // Stopped, killed, or started anew.
            let is_gone = me.is_some() && service::pid(&self.windows.machine, SERVICE) != me;
            if is_gone || self.windows.power_request().is_some() {
                return;
            }
            if !readable(&port) {
                continue;
            }
            match port.read(&mut chunk) {
                Ok(0) if device => std::thread::sleep(Duration::from_millis(20)),
                Ok(0) => return,
                Ok(len) => {
                    for message in splitter.feed(&chunk[..len]) {
                        if let Some(reply) = self.answer(message)
                            && port.write_all(&reply).and_then(|()| port.flush()).is_err()
                            && !device
                        {
                            return;
                        }
                    }
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) if device => std::thread::sleep(Duration::from_millis(20)),
                Err(_) => return,
            }
        }
    }

    /// The bytes to send for one message; None when the command has no reply.
    fn answer(&mut self, message: Message) -> Option<Vec<u8>> {
        let (id, result) = match message {
            Message::Fault(desc) => (None, refuse(desc)),
            Message::Value(value) => {
                let id = value.get("id").cloned();
                (id, self.dispatch(value))
            }
        };
        let mut reply = Map::new();
        let mut lead = vec![];
        match result {
            Ok(Reply::Value(value)) => reply.insert("return".into(), value),
            Ok(Reply::Delimited(value)) => {
                lead.push(0xff);
                reply.insert("return".into(), value)
            }
            Ok(Reply::Nothing) => return None,
            Err(refusal) => reply.insert(
                "error".into(),
                json!({"class": refusal.class, "desc": refusal.desc}),
            ),
        };
        if let Some(id) = id {
            reply.insert("id".into(), id);
        }
        lead.extend(Value::Object(reply).to_string().into_bytes());
        lead.push(b'\n');
        Some(lead)
    }

    fn dispatch(&mut self, message: Value) -> Result<Reply, Refusal> {
        let Value::Object(members) = message else {
            return refuse("QMP input must be a JSON object");
        };
        let (mut name, mut arguments) = (None, Map::new());
        for (member, value) in members {
            match (member.as_str(), value) {
                ("execute", Value::String(text)) => name = Some(text),
                ("execute", _) => return refuse("QMP input member 'execute' must be a string"),
                ("arguments", Value::Object(map)) => arguments = map,
                ("arguments", _) => {
                    return refuse("QMP input member 'arguments' must be an object");
                }
                ("id", _) => {}
                _ => return refuse(format!("QMP input member '{member}' is unexpected")),
            }
        }
        let Some(name) = name else {
            return refuse("QMP input lacks member 'execute'");
        };
        command::run(self, &name, Fields(arguments))
    }
}

pub(super) enum Reply {
    Value(Value),
    /// With the 0xFF byte of `guest-sync-delimited` before it.
    Delimited(Value),
    Nothing,
}

pub(super) fn readable(port: &File) -> bool {
    let mut poll = libc::pollfd {
        fd: port.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one pollfd, alive for the call.
    let count = unsafe { libc::poll(&mut poll, 1, POLL_MS) };
    if count > 0 && poll.revents & libc::POLLIN == 0 {
        // Only "hung up": a virtio port without a host, or a socket's end that the read will tell.
        std::thread::sleep(Duration::from_millis(20));
    }
    count > 0
}

/// The arguments of a command; each is taken by name and type, what is left over is unexpected.
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    fn typed<T>(
        &mut self,
        name: &str,
        kind: &str,
        read: impl Fn(Value) -> Option<T>,
    ) -> Result<Option<T>, Refusal> {
        match self.0.remove(name) {
            None => Ok(None),
            Some(value) => match read(value) {
                Some(value) => Ok(Some(value)),
                None => refuse(format!(
                    "Invalid parameter type for '{name}', expected: {kind}"
                )),
            },
        }
    }

    pub fn required<T>(&mut self, name: &str, value: Option<T>) -> Result<T, Refusal> {
        value.map_or_else(|| refuse(format!("Parameter '{name}' is missing")), Ok)
    }

    pub fn text(&mut self, name: &str) -> Result<Option<String>, Refusal> {
        self.typed(name, "string", |value| value.as_str().map(str::to_owned))
    }

    pub fn number(&mut self, name: &str) -> Result<Option<i64>, Refusal> {
        self.typed(name, "integer", |value| value.as_i64())
    }

    pub fn boolean(&mut self, name: &str) -> Result<Option<bool>, Refusal> {
        self.typed(name, "boolean", |value| value.as_bool())
    }

    pub fn texts(&mut self, name: &str) -> Result<Option<Vec<String>>, Refusal> {
        let Some(items) = self.typed(name, "array", |value| value.as_array().cloned())? else {
            return Ok(None);
        };
        let item = |(at, item): (usize, Value)| match item {
            Value::String(text) => Ok(text),
            _ => refuse(format!(
                "Invalid parameter type for '{name}[{at}]', expected: string"
            )),
        };
        items
            .into_iter()
            .enumerate()
            .map(item)
            .collect::<Result<_, _>>()
            .map(Some)
    }

    pub fn any(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }

    /// Everything has been taken.
    pub fn end(self) -> Result<(), Refusal> {
        match self.0.keys().next() {
            Some(name) => refuse(format!("Parameter '{name}' is unexpected")),
            None => Ok(()),
        }
    }
}

/// Base64 as qemu-ga decodes it.
pub(super) fn decode(text: &str) -> Result<Vec<u8>, Refusal> {
    use base64::Engine;
    let decoded = base64::engine::general_purpose::STANDARD.decode(text);
    decoded.or_else(|_| refuse("Base64 data contains invalid characters"))
}

pub(super) fn encode(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[cfg(test)]
pub(super) fn encode_for_tests(text: &str) -> String {
    encode(text.as_bytes())
}
