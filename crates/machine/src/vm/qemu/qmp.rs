//! A QMP connection: one thread reads, anyone may ask (QEMU: docs/interop/qmp-spec).
//!
//! Every request has a deadline; events are summed up as they come. Refuses to know what the commands mean.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::events::Seen;
use crate::vm::supervisor::Clock;
use winimg_base::error::{Error, Kind, Result};

/// How long QEMU may take over a request that does no work. Its main loop can be busy for seconds on a loaded host.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct Qmp {
    writer: Mutex<UnixStream>,
    shared: Arc<Shared>,
    next: AtomicU64,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// By id; `None` while waited for. A reply that nobody waits for any more is dropped.
    replies: BTreeMap<u64, Option<Value>>,
    seen: Seen,
    closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Qmp {
    /// Connects within `patience` and negotiates. `alive` is asked between tries: QEMU may have refused its arguments.
    /// Events have the times of `clock`.
    pub fn connect(
        path: &Path,
        patience: Duration,
        alive: &dyn Fn() -> Result<()>,
        clock: Arc<Clock>,
    ) -> Result<Self> {
        let deadline = Instant::now() + patience;
        let stream = loop {
            match UnixStream::connect(path) {
                Ok(stream) => break stream,
                Err(e) if Instant::now() >= deadline => {
                    return Err(Error::io("connect to", path, e));
                }
                Err(_) => alive()?,
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let failed = |e| Error::io("use", path, e);
        stream.set_write_timeout(Some(patience)).map_err(failed)?;
        let reader = stream.try_clone().map_err(failed)?;
        let shared = Arc::new(Shared::default());
        let for_reader = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("qmp".into())
            .spawn(move || read(reader, &for_reader, &clock))
            .map_err(failed)?;
        let qmp = Self {
            writer: Mutex::new(stream),
            shared,
            next: AtomicU64::new(1),
        };
        qmp.request("qmp_capabilities", json!({}), patience)?;
        Ok(qmp)
    }

    /// The `return` of `command`.
    pub fn request(&self, command: &str, arguments: Value, patience: Duration) -> Result<Value> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut line = json!({"execute": command, "arguments": arguments, "id": id}).to_string();
        line.push('\n');
        self.shared.lock().replies.insert(id, None);
        let written = {
            let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
            writer.write_all(line.as_bytes())
        };
        let reply = match written {
            Ok(()) => self.reply(command, id, patience),
            Err(e) => {
                Err(Error::new(Kind::Machine, format!("QEMU took no command {command}")).because(e))
            }
        };
        self.shared.lock().replies.remove(&id);
        let reply = reply?;
        match reply.get("return") {
            Some(value) => Ok(value.clone()),
            None => Err(Error::new(Kind::Machine, format!("QEMU refused {command}"))
                .found(reply["error"]["desc"].as_str().unwrap_or("no reason"))),
        }
    }

    fn reply(&self, command: &str, id: u64, patience: Duration) -> Result<Value> {
        let deadline = Instant::now() + patience;
        let mut state = self.shared.lock();
        loop {
            if let Some(reply) = state.replies.get_mut(&id).and_then(Option::take) {
                return Ok(reply);
            }
            if state.closed {
                return Err(Error::new(
                    Kind::Machine,
                    format!("QEMU ended before it answered {command}"),
                ));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::new(
                    Kind::Machine,
                    format!(
                        "QEMU did not answer {command} within {} s",
                        patience.as_secs()
                    ),
                ));
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub fn seen(&self) -> Seen {
        self.shared.lock().seen.clone()
    }

    /// Waits until QEMU has closed the connection, so that no event is missing any more.
    pub fn wait_closed(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let mut state = self.shared.lock();
        while !state.closed && Instant::now() < deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Qmp {
    fn drop(&mut self) {
        // Ends the reading thread, whose clone of the stream would keep the connection.
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writer.shutdown(std::net::Shutdown::Both);
    }
}

fn read(stream: UnixStream, shared: &Shared, clock: &Clock) {
    for line in BufReader::new(stream).split(b'\n') {
        let Ok(line) = line else { break };
        let Ok(message) = serde_json::from_slice::<Value>(&line) else {
            continue;
        };
        let mut state = shared.lock();
        if message.get("event").is_some() {
            state.seen.add(&message, clock.now());
        } else if let Some(id) = message.get("id").and_then(Value::as_u64)
            && let Some(slot) = state.replies.get_mut(&id)
        {
            *slot = Some(message);
        }
        drop(state);
        shared.changed.notify_all();
    }
    shared.lock().closed = true;
    shared.changed.notify_all();
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::sync::mpsc::channel;

    use super::*;

    /// What the watch measures the agent's silence by: both ends of it by the same clock.
    #[test]
    fn events_have_the_machines_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("qmp.sock");
        let listener = UnixListener::bind(&path).expect("a socket");
        let (stands, stood) = channel();
        let qemu = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut said = String::new();
            BufReader::new(stream.try_clone().expect("a clone"))
                .read_line(&mut said)
                .expect("a request");
            let request: Value = serde_json::from_str(&said).expect("JSON");
            let reply = json!({"return": {}, "id": request["id"]});
            writeln!(stream, "{}\n{reply}", json!({"QMP": {}})).expect("a reply");
            stood.recv().expect("a word");
            let event = json!({"event": "VSERPORT_CHANGE", "data": {"id": "agent0", "open": true}});
            writeln!(stream, "{event}").expect("an event");
        });
        let clock = Arc::new(Clock::default());
        let patience = Duration::from_secs(20);
        let qmp = Qmp::connect(&path, patience, &|| Ok(()), Arc::clone(&clock));
        let qmp = qmp.expect("a connection");
        clock.stop();
        stands.send(()).expect("it listens");
        qemu.join().expect("it ends");
        qmp.wait_closed(patience);
        assert_eq!(qmp.seen().port_changed, Some(clock.now()));
    }
}
