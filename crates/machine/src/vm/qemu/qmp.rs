//! QMP client: one thread reads, any thread may send requests (QEMU: docs/interop/qmp-spec).
//!
//! Every request has a deadline; events are accumulated as they arrive. The commands are defined by
//! qapi from QEMU's own schema. This module does not interpret them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use qapi::Empty;
use qapi::qmp::{QmpCommand, qmp_capabilities};
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::events::QemuEvents;
use crate::guest::request;
use crate::vm::lock;
use crate::vm::supervisor::PausableClock;
use winimg_base::error::{Error, Kind, Result};

/// Limit for a request that does no work. QEMU's main loop can be busy for seconds on a loaded
/// host.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Command with a reply. The reply type is our own where qapi's rejects replies of other releases:
/// it requires members and knows only values of its own schema's release.
pub trait QmpQuery: QmpCommand {
    type Reply: DeserializeOwned;
}

pub struct QmpClient {
    writer: Mutex<UnixStream>,
    shared: Arc<QmpShared>,
    next: AtomicU64,
}

#[derive(Default)]
struct QmpShared {
    state: Mutex<QmpState>,
    changed: Condvar,
}

#[derive(Default)]
struct QmpState {
    /// Replies by id; `None` while pending. Replies that are no longer expected are dropped.
    replies: BTreeMap<u64, Option<Value>>,
    seen: QemuEvents,
    closed: bool,
}

impl QmpShared {
    fn lock(&self) -> MutexGuard<'_, QmpState> {
        lock(&self.state)
    }

    /// Waits until `is_done`, at most `patience`.
    fn wait(
        &self,
        patience: Duration,
        is_done: impl Fn(&QmpState) -> bool,
    ) -> MutexGuard<'_, QmpState> {
        let state = self.lock();
        let waited = (self.changed).wait_timeout_while(state, patience, |state| !is_done(state));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl QmpClient {
    /// Connects within `patience` and negotiates. `alive` is called between attempts, because QEMU
    /// may have rejected its arguments. `clock` provides the time of events.
    pub fn connect(
        path: &Path,
        patience: Duration,
        alive: &dyn Fn() -> Result<()>,
        clock: Arc<PausableClock>,
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
        let shared = Arc::new(QmpShared::default());
        let for_reader = Arc::clone(&shared);
        stream
            .set_write_timeout(Some(patience))
            .and_then(|()| stream.try_clone())
            .and_then(|reader| {
                std::thread::Builder::new()
                    .name("qmp".into())
                    .spawn(move || read(reader, &for_reader, &clock))
            })
            .map_err(|e| Error::io("use", path, e))?;
        let qmp = Self {
            writer: Mutex::new(stream),
            shared,
            next: AtomicU64::new(1),
        };
        qmp.order(&qmp_capabilities { enable: None }, patience)?;
        Ok(qmp)
    }

    /// Executes a command with an empty reply.
    pub fn order(&self, command: &impl QmpCommand<Ok = Empty>, patience: Duration) -> Result<()> {
        self.request(command, patience).map(drop)
    }

    /// Executes a command and returns its parsed reply.
    pub fn query<Q: QmpQuery>(&self, command: &Q, patience: Duration) -> Result<Q::Reply> {
        let reply = self.request(command, patience)?;
        Q::Reply::deserialize(&reply).map_err(|e| {
            let fact = format!("cannot parse QEMU's reply to {}", Q::NAME);
            let start: String = reply.to_string().chars().take(200).collect();
            Error::new(Kind::Machine, fact).found(start).because(e)
        })
    }

    /// Executes a command and returns the `return` member of its reply.
    fn request<C: QmpCommand>(&self, command: &C, patience: Duration) -> Result<Value> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let line = request_line(command, id);
        tracing::trace!(command = C::NAME, request = line.trim_end(), "QMP request");
        self.shared.lock().replies.insert(id, None);
        let written = {
            let mut writer = lock(&self.writer);
            writer.write_all(line.as_bytes())
        };
        let reply = match written {
            Ok(()) => self.reply(C::NAME, id, patience),
            Err(e) => {
                let fact = format!("QEMU refused the command {}", C::NAME);
                Err(Error::new(Kind::Machine, fact).because(e))
            }
        };
        self.shared.lock().replies.remove(&id);
        let reply = reply?;
        tracing::trace!(command = C::NAME, %reply, "QMP reply");
        match reply.get("return") {
            Some(value) => Ok(value.clone()),
            None => Err(
                Error::new(Kind::Machine, format!("QEMU refused {}", C::NAME))
                    .found(reply["error"]["desc"].as_str().unwrap_or("no reason")),
            ),
        }
    }

    fn reply(&self, command: &str, id: u64, patience: Duration) -> Result<Value> {
        let mut state = self.shared.wait(patience, |state| {
            state.closed || state.replies.get(&id).is_some_and(Option::is_some)
        });
        if let Some(reply) = state.replies.get_mut(&id).and_then(Option::take) {
            return Ok(reply);
        }
        let fact = if state.closed {
            format!("QEMU ended before it answered {command}")
        } else {
            let seconds = patience.as_secs();
            format!("QEMU did not answer {command} within {seconds} s")
        };
        Err(Error::new(Kind::Machine, fact))
    }

    pub fn events(&self) -> QemuEvents {
        self.shared.lock().seen.clone()
    }

    /// Waits until QEMU has closed the connection, so that all events have been read.
    pub fn wait_closed(&self, patience: Duration) {
        drop(self.shared.wait(patience, |state| state.closed));
    }
}

impl Drop for QmpClient {
    fn drop(&mut self) {
        // Ends the reader thread, whose clone of the stream would keep the connection open.
        let writer = lock(&self.writer);
        let _ = writer.shutdown(std::net::Shutdown::Both);
    }
}

/// Renders a request with its newline.
pub(super) fn request_line<C: QmpCommand>(command: &C, id: u64) -> String {
    let mut request = request::to_json(command);
    request["id"] = id.into();
    format!("{request}\n")
}

fn read(stream: UnixStream, shared: &QmpShared, clock: &PausableClock) {
    for line in BufReader::new(stream).split(b'\n') {
        let Ok(line) = line else { break };
        let Ok(message) = serde_json::from_slice::<Value>(&line) else {
            continue;
        };
        let mut state = shared.lock();
        if message.get("event").is_some() {
            tracing::trace!(event = %message, "QMP event");
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
    use std::sync::mpsc::{Sender, channel};
    use std::thread::JoinHandle;

    use qapi::qmp::query_status;
    use serde_json::json;

    use super::*;

    /// A monitor that answers each request with the next of `replies`, then sends `last` on demand.
    fn monitor(
        replies: Vec<Value>,
        last: Value,
        clock: &Arc<PausableClock>,
    ) -> (QmpClient, Sender<()>, JoinHandle<()>) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("qmp.sock");
        let listener = UnixListener::bind(&path).expect("a socket");
        let (goes_on, waits) = channel();
        let qemu = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let requests = BufReader::new(stream.try_clone().expect("a clone"));
            for (reply, line) in replies.into_iter().zip(requests.lines()) {
                let request: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
                let reply = json!({"return": reply, "id": request["id"]});
                writeln!(stream, "{}\n{reply}", json!({"QMP": {}})).expect("a reply");
            }
            waits.recv().expect("a word");
            writeln!(stream, "{last}").expect("an event");
        });
        let qmp = QmpClient::connect(&path, PATIENCE, &|| Ok(()), Arc::clone(clock));
        (qmp.expect("a connection"), goes_on, qemu)
    }

    /// Both ends of the agent's silence are measured with the same clock.
    #[test]
    fn events_have_the_machines_time() {
        let clock = Arc::new(PausableClock::default());
        let event = json!({"event": "VSERPORT_CHANGE", "data": {"id": "agent0", "open": true}});
        let (qmp, goes_on, qemu) = monitor(vec![json!({})], event, &clock);
        clock.stop();
        goes_on.send(()).expect("it listens");
        qemu.join().expect("it ends");
        qmp.wait_closed(PATIENCE);
        assert_eq!(qmp.events().port_changed, Some(clock.now()));
    }

    /// An unreadable reply is an error, not a default value.
    #[test]
    fn a_reply_of_another_shape_is_an_error() {
        let replies = vec![json!({}), json!({"running": true})];
        let (qmp, goes_on, qemu) = monitor(replies, json!({}), &Arc::default());
        let refused = qmp.query(&query_status {}, PATIENCE).err();
        assert_eq!(
            refused.expect("no status").to_string(),
            "cannot parse QEMU's reply to query-status: missing field `status`\n  found: {\"running\":true}"
        );
        goes_on.send(()).expect("it listens");
        qemu.join().expect("it ends");
    }
}
