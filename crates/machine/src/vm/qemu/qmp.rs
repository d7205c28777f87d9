//! A QMP connection: one thread reads, anyone may ask (QEMU: docs/interop/qmp-spec).
//!
//! Every request has a deadline; events are summed up as they come. Names and members of the commands are qapi's, which are QEMU's
//! own schema. Refuses to know what the commands mean.

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

use super::events::Seen;
use crate::guest::request;
use crate::vm::lock;
use crate::vm::supervisor::Clock;
use winimg_base::error::{Error, Kind, Result};

/// How long QEMU may take over a request that does no work. Its main loop can be busy for seconds on a loaded host.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A command that is given for its reply, with what is read of that. A reply type is our own where qapi's refuses what another
/// release of QEMU answers: members that came later are demanded there, and words that came later are unknown.
pub trait Query: QmpCommand {
    type Reply: DeserializeOwned;
}

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
        lock(&self.state)
    }

    /// Until `is_done`, at most `patience`.
    fn wait(&self, patience: Duration, is_done: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let state = self.lock();
        let waited = (self.changed).wait_timeout_while(state, patience, |state| !is_done(state));
        waited.unwrap_or_else(PoisonError::into_inner).0
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
        qmp.order(&qmp_capabilities { enable: None }, patience)?;
        Ok(qmp)
    }

    /// Gives a command whose reply says nothing but that it was taken.
    pub fn order(&self, command: &impl QmpCommand<Ok = Empty>, patience: Duration) -> Result<()> {
        self.request(command, patience).map(drop)
    }

    /// What `command` asks for.
    pub fn query<Q: Query>(&self, command: &Q, patience: Duration) -> Result<Q::Reply> {
        let reply = self.request(command, patience)?;
        Q::Reply::deserialize(&reply).map_err(|e| {
            let fact = format!("QEMU's reply to {} can't be understood", Q::NAME);
            let start: String = reply.to_string().chars().take(200).collect();
            Error::new(Kind::Machine, fact).found(start).because(e)
        })
    }

    /// The `return` of `command`.
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
        let has_come = |state: &State| state.replies.get(&id).is_some_and(Option::is_some);
        let mut state = self
            .shared
            .wait(patience, |state| state.closed || has_come(state));
        if let Some(reply) = state.replies.get_mut(&id).and_then(Option::take) {
            return Ok(reply);
        }
        let fact = match state.closed {
            true => format!("QEMU ended before it answered {command}"),
            false => {
                let seconds = patience.as_secs();
                format!("QEMU did not answer {command} within {seconds} s")
            }
        };
        Err(Error::new(Kind::Machine, fact))
    }

    pub fn seen(&self) -> Seen {
        self.shared.lock().seen.clone()
    }

    /// Waits until QEMU has closed the connection, so that no event is missing any more.
    pub fn wait_closed(&self, patience: Duration) {
        drop(self.shared.wait(patience, |state| state.closed));
    }
}

impl Drop for Qmp {
    fn drop(&mut self) {
        // Ends the reading thread, whose clone of the stream would keep the connection.
        let writer = lock(&self.writer);
        let _ = writer.shutdown(std::net::Shutdown::Both);
    }
}

/// One request, with its newline.
pub(super) fn request_line<C: QmpCommand>(command: &C, id: u64) -> String {
    let mut request = request::of(command);
    request["id"] = id.into();
    format!("{request}\n")
}

fn read(stream: UnixStream, shared: &Shared, clock: &Clock) {
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

    /// A monitor that answers each request with the next of `replies`, then says `last` once it is let.
    fn monitor(
        replies: Vec<Value>,
        last: Value,
        clock: &Arc<Clock>,
    ) -> (Qmp, Sender<()>, JoinHandle<()>) {
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
        let qmp = Qmp::connect(&path, PATIENCE, &|| Ok(()), Arc::clone(clock));
        (qmp.expect("a connection"), goes_on, qemu)
    }

    /// What the watch measures the agent's silence by: both ends of it by the same clock.
    #[test]
    fn events_have_the_machines_time() {
        let clock = Arc::new(Clock::default());
        let event = json!({"event": "VSERPORT_CHANGE", "data": {"id": "agent0", "open": true}});
        let (qmp, goes_on, qemu) = monitor(vec![json!({})], event, &clock);
        clock.stop();
        goes_on.send(()).expect("it listens");
        qemu.join().expect("it ends");
        qmp.wait_closed(PATIENCE);
        assert_eq!(qmp.seen().port_changed, Some(clock.now()));
    }

    /// What can't be read is an error, and nothing is made up for it.
    #[test]
    fn a_reply_of_another_shape_is_an_error() {
        let replies = vec![json!({}), json!({"running": true})];
        let (qmp, goes_on, qemu) = monitor(replies, json!({}), &Arc::default());
        let refused = qmp.query(&query_status {}, PATIENCE).err();
        assert_eq!(
            refused.expect("no status").to_string(),
            "QEMU's reply to query-status can't be understood: missing field `status`\n  found: {\"running\":true}"
        );
        goes_on.send(()).expect("it listens");
        qemu.join().expect("it ends");
    }
}
