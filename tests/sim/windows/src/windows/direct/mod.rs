//! PowerShell Direct's end in the guest: sessions by user name and password, and the calls of winimg's guest scripts.
//!
//! In-box on every Windows since 2016 (service vmicvmsession): it needs no driver package and no installer. The stand-in has no PowerShell, so it
//! carries out what the scripts do by their names. One JSON object a line each way: `{"id", "user", "password"}` opens a session,
//! `{"id", "session", "call", "arguments"}` uses it. Sessions end with the boot, and when the account takes their password no more: Windows may
//! let an open one live, which nobody can count on. Not modelled: rights of users that are no administrators, transcripts,
//! endpoints, output streams.
//!
//! Source: Microsoft, "Manage Windows virtual machines with PowerShell Direct".

mod call;
mod job;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::agent::readable;
use super::{Windows, account};

/// No request is larger: `put` carries small files only.
const LIMIT: usize = 64 << 20;
const CREDENTIAL: &str = "The credential is invalid.";

/// What the service remembers of one boot.
pub struct Direct {
    windows: Arc<Windows>,
    /// Which boot this is: no two have the same.
    boot: String,
    /// Each with its user and password.
    sessions: BTreeMap<String, (String, String)>,
    jobs: job::Jobs,
}

/// Answers on `port` until a restart or shutdown is due, or the other end of a socket closes.
pub fn serve_direct(mut port: File, windows: Arc<Windows>, device: bool) {
    let mut direct = Direct::new(windows);
    let mut pending = Vec::new();
    let mut chunk = vec![0; 64 * 1024];
    while direct.windows.power_request().is_none() {
        if !readable(&port) {
            continue;
        }
        match port.read(&mut chunk) {
            Ok(0) if !device => return,
            Ok(len) if len > 0 => pending.extend(&chunk[..len]),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) if !device => return,
            // The host has closed its end, and may open it again.
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            if let Some(reply) = direct.answer(&line)
                && port.write_all(format!("{reply}\n").as_bytes()).is_err()
                && !device
            {
                return;
            }
        }
        if pending.len() > LIMIT {
            pending.clear();
        }
    }
}

fn random() -> String {
    let mut bytes = [0u8; 16];
    let _ = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Direct {
    pub fn new(windows: Arc<Windows>) -> Direct {
        Direct {
            windows,
            boot: random(),
            sessions: BTreeMap::new(),
            jobs: job::Jobs::default(),
        }
    }

    /// None for what is no request: the rest of a line that the last boot did not read.
    pub fn answer(&mut self, line: &[u8]) -> Option<Value> {
        let Ok(Value::Object(mut request)) = serde_json::from_slice(line) else {
            return None;
        };
        let id = request.remove("id")?;
        let reply = if request.contains_key("user") {
            self.open(&request)
        } else {
            self.used(&request)
        };
        let mut reply = reply.unwrap_or_else(|(kind, text)| {
            let mut reply = Map::new();
            reply.insert(kind.into(), json!(text));
            reply
        });
        reply.insert("id".into(), id);
        Some(Value::Object(reply))
    }

    fn open(&mut self, request: &Map<String, Value>) -> Result<Map<String, Value>, Refusal> {
        let text = |name: &str| {
            request
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let registry = self.windows.machine.registry();
        let (domain, user) = text("user").split_once('\\').unwrap_or((".", text("user")));
        let here = domain == "." || domain.eq_ignore_ascii_case(&super::computer_name(&registry));
        if !here || !account::takes(&registry, user, text("password")) {
            return Err(("refused", CREDENTIAL.into()));
        }
        let session = random();
        let account = (user.to_owned(), text("password").to_owned());
        self.sessions.insert(session.clone(), account);
        let mut reply = Map::new();
        reply.insert("session".into(), json!(session));
        Ok(reply)
    }

    fn used(&mut self, request: &Map<String, Value>) -> Result<Map<String, Value>, Refusal> {
        let session = request
            .get("session")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let lives = self.sessions.get(session).is_some_and(|(user, password)| {
            account::takes(&self.windows.machine.registry(), user, password)
        });
        if !lives {
            return Err(("ended", "A remote session might have ended.".into()));
        }
        let name = request
            .get("call")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let empty = Vec::new();
        let arguments = request
            .get("arguments")
            .and_then(Value::as_array)
            .unwrap_or(&empty);
        let mut value = call::run(self, name, arguments).map_err(|why| ("threw", why))?;
        value.insert("boot".into(), json!(self.boot));
        let mut reply = Map::new();
        reply.insert("value".into(), Value::Object(value));
        Ok(reply)
    }
}

/// The reply's member and its text.
type Refusal = (&'static str, String);
