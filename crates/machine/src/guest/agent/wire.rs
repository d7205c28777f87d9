//! The agent's line protocol (QEMU: docs/interop/qemu-ga): one request, one reply.
//!
//! Pitfalls: nothing is sent before the guest has opened its port, because the bytes would be
//! buffered and answered much later. A late reply belongs to an older request, so after each missed
//! deadline both sides are synchronized with a new number. Each request has an `id`, and a reply
//! with a different `id` belongs to an older one. `0xFF` clears the agent's parser, and is sent
//! only if it may contain half a request (ours or another client's), because the agent sends one
//! more error *after* its reply. Commands and replies are qapi's types from QEMU's own schema;
//! agents have sent all of their required members since the commands exist. Every wait has a
//! deadline and notices a dead or paused machine and a cancelled build.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use qapi::Command as _;
use qapi::qga::{QgaCommand, guest_sync, guest_sync_delimited};
use serde::Deserialize as _;
use serde_json::Value;

use super::transcript::{self, AgentTranscript};
use super::{AgentHost, AgentPort};
use crate::guest::request;
use winimg_base::error::{Error, Kind, Result};

/// Maximum length of a reply: 16 MiB each of stdout and stderr in base64, with a margin.
const MAX_REPLY: usize = 64 << 20;
/// Limit for the echo of a number before another is sent.
const SYNC_PATIENCE: Duration = Duration::from_secs(2);
/// Interval of checking the machine during a blocked read or write.
const GLANCE: Duration = Duration::from_millis(20);

/// Reason there is no answer.
#[derive(Debug)]
pub enum AgentFailure {
    /// The guest restarted, powered off or closed its port.
    Gone,
    Late,
    Refused(String),
    /// The machine or the channel failed.
    Broken(Error),
}

impl From<Error> for AgentFailure {
    fn from(error: Error) -> Self {
        Self::Broken(error)
    }
}

/// Support of the agent for a request's `id` (QEMU: docs/interop/qmp-spec).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IdSupport {
    Unknown,
    /// The agent returns the member `id`.
    Echoed,
    /// Older agents reject the member.
    Refused,
}

/// Message of an agent that does not support `id`.
const REFUSES_ID: &str = "member 'id' is unexpected";

pub struct AgentWire {
    stream: UnixStream,
    pub(super) host: AgentHost,
    /// Received bytes of an incomplete line; the first `searched` bytes have no newline.
    buffer: Vec<u8>,
    searched: usize,
    /// State of the port at the start of this session.
    session: AgentPort,
    in_step: bool,
    half_sent: bool,
    next_id: i64,
    ids: IdSupport,
    transcript: Option<AgentTranscript>,
}

impl AgentWire {
    pub fn new(stream: UnixStream, host: AgentHost) -> Result<Self> {
        stream
            .set_read_timeout(Some(GLANCE))
            .and_then(|()| stream.set_write_timeout(Some(GLANCE)))
            .map_err(|e| Error::new(Kind::Machine, "cannot use the agent's socket").because(e))?;
        let mut random = [0; 4];
        getrandom::fill(&mut random)
            .map_err(|e| Error::new(Kind::Failed, "no random number").found(e))?;
        Ok(Self {
            stream,
            host,
            buffer: Vec::new(),
            searched: 0,
            session: AgentPort::default(),
            in_step: false,
            half_sent: false,
            // Do not repeat numbers of an earlier process that used the same agent.
            next_id: i64::from(u32::from_le_bytes(random)) << 16,
            ids: IdSupport::Unknown,
            transcript: None,
        })
    }

    pub fn set_transcript(&mut self, transcript: Option<AgentTranscript>) {
        self.transcript = transcript;
    }

    /// Returns the time for deadlines.
    pub fn now(&self) -> Instant {
        (self.host.now)()
    }

    /// Waits until the guest has opened its port and answers.
    pub fn open(&mut self, deadline: Instant) -> Result<(), AgentFailure> {
        loop {
            let port = (self.host.port)();
            if port.off {
                return Err(AgentFailure::Gone);
            }
            self.check()?;
            if port.open {
                self.session = port;
                self.buffer.clear();
                self.searched = 0;
                self.in_step = false;
                // It may be a different agent.
                self.ids = IdSupport::Unknown;
                match self.sync(deadline) {
                    Ok(()) => return Ok(()),
                    Err(AgentFailure::Gone) => {}
                    Err(other) => return Err(other),
                }
            }
            if self.now() >= deadline {
                return Err(AgentFailure::Late);
            }
            std::thread::sleep(GLANCE);
        }
    }

    pub fn wait_gone(&self, deadline: Instant) -> Result<(), AgentFailure> {
        loop {
            match self.watch() {
                Ok(()) if self.now() >= deadline => return Err(AgentFailure::Late),
                Ok(()) => std::thread::sleep(GLANCE),
                Err(AgentFailure::Gone) => return Ok(()),
                Err(other) => return Err(other),
            }
        }
    }

    /// Sends a command and returns the `return` member of the reply.
    pub fn ask<C: QgaCommand>(
        &mut self,
        command: &C,
        deadline: Instant,
    ) -> Result<C::Ok, AgentFailure> {
        let answer = self.request_value(&request::to_json(command), deadline)?;
        C::Ok::deserialize(&answer).map_err(|_| {
            AgentFailure::Broken(report_invalid_reply(&transcript::render_message(&answer)))
        })
    }

    fn request_value(&mut self, asked: &Value, deadline: Instant) -> Result<Value, AgentFailure> {
        self.watch()?;
        if !self.in_step {
            self.sync(deadline)?;
        }
        let mut answer = self.send_request(asked, deadline);
        if let Err(AgentFailure::Refused(words)) = &answer
            && self.ids == IdSupport::Unknown
            && words.contains(REFUSES_ID)
        {
            self.ids = IdSupport::Refused;
            answer = self.send_request(asked, deadline);
        }
        // An unanswered request may still be answered later.
        self.in_step = matches!(answer, Ok(_) | Err(AgentFailure::Refused(_)));
        answer
    }

    /// Sleeps while the session is intact.
    pub fn pause(&self, time: Duration) -> Result<(), AgentFailure> {
        let end = self.now() + time;
        loop {
            self.watch()?;
            let left = end.saturating_duration_since(self.now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(GLANCE));
        }
    }

    fn send_request(&mut self, asked: &Value, deadline: Instant) -> Result<Value, AgentFailure> {
        let mut request = asked.clone();
        if self.ids != IdSupport::Refused {
            self.next_id += 1;
            request["id"] = self.next_id.into();
        }
        let answer = self.send_and_read(&request, deadline);
        let asked = transcript::render_message(asked);
        // Polled twice a second while a program runs.
        let is_still_running = matches!(&answer, Ok(value) if value["exited"] == false);
        if !is_still_running {
            tracing::trace!(%asked, answer = render_answer(&answer), "agent");
        }
        if let Some(transcript) = &mut self.transcript {
            // Without its id, so that repeated requests are one entry.
            transcript.record_exchange(&asked, &render_answer(&answer));
        }
        answer
    }

    fn send_and_read(&mut self, request: &Value, deadline: Instant) -> Result<Value, AgentFailure> {
        let mut line = request.to_string();
        line.push('\n');
        self.send(line.as_bytes(), deadline)?;
        loop {
            let line = self.read_line(deadline)?;
            let Ok(mut reply) = serde_json::from_slice::<Value>(&line) else {
                return Err(AgentFailure::Broken(report_invalid_reply(
                    &String::from_utf8_lossy(&line),
                )));
            };
            if self.is_older(&reply, request.get("id")) {
                // A guest that floods the port leaves no silence in which the deadline would be
                // noticed.
                if self.now() >= deadline {
                    return Err(AgentFailure::Late);
                }
                continue;
            }
            if let Some(error) = reply.get("error") {
                let words = error["desc"].as_str().unwrap_or("no reason");
                return Err(AgentFailure::Refused(words.to_string()));
            }
            return match reply.get_mut("return") {
                Some(value) => Ok(value.take()),
                None => Err(AgentFailure::Broken(report_invalid_reply(
                    &transcript::render_message(&reply),
                ))),
            };
        }
    }

    /// Returns true if the reply belongs to an older request. An agent that could not parse a
    /// request replies without an `id`.
    fn is_older(&mut self, reply: &Value, id: Option<&Value>) -> bool {
        match (reply.get("id"), id) {
            (Some(echo), Some(id)) if echo == id => {
                self.ids = IdSupport::Echoed;
                false
            }
            (Some(_), _) => true,
            (None, _) => self.ids == IdSupport::Echoed && reply.get("return").is_some(),
        }
    }

    fn sync(&mut self, deadline: Instant) -> Result<(), AgentFailure> {
        loop {
            let until = deadline.min(self.now() + SYNC_PATIENCE);
            let answer = self.sync_once(until);
            if let Some(transcript) = &mut self.transcript {
                transcript.record_exchange(
                    guest_sync::NAME,
                    &render_outcome(&answer, |()| "in step".into()),
                );
            }
            match answer {
                Ok(()) => {
                    self.in_step = true;
                    return Ok(());
                }
                // It may have been appended to half a request in the agent's parser.
                Err(AgentFailure::Late) if self.now() < deadline => self.half_sent = true,
                Err(other) => return Err(other),
            }
        }
    }

    fn sync_once(&mut self, deadline: Instant) -> Result<(), AgentFailure> {
        if self.half_sent {
            self.request_echo(
                &[0xff],
                |id| request::to_json(&guest_sync_delimited { id }),
                deadline,
            )?;
            self.half_sent = false;
        }
        self.request_echo(&[], |id| request::to_json(&guest_sync { id }), deadline)
    }

    /// Sends a new number and reads until it is returned, dropping older replies.
    fn request_echo(
        &mut self,
        before: &[u8],
        request: impl FnOnce(i64) -> Value,
        deadline: Instant,
    ) -> Result<(), AgentFailure> {
        self.next_id += 1;
        let id = self.next_id;
        let mut bytes = before.to_vec();
        bytes.extend(format!("{}\n", request(id)).bytes());
        self.send(&bytes, deadline)?;
        loop {
            let line = self.read_line(deadline)?;
            let reply = serde_json::from_slice::<Value>(&line).unwrap_or_default();
            if reply["return"] == id {
                return Ok(());
            }
            // A guest that floods the port leaves no silence in which the deadline would be
            // noticed.
            if self.now() >= deadline {
                return Err(AgentFailure::Late);
            }
        }
    }

    fn send(&mut self, bytes: &[u8], deadline: Instant) -> Result<(), AgentFailure> {
        (self.host.on_contact)(true);
        let mut sent = 0;
        while sent < bytes.len() {
            let outcome = match self.stream.write(&bytes[sent..]) {
                Ok(0) => self.report_closed(),
                Ok(n) => {
                    sent += n;
                    Ok(())
                }
                Err(e) if is_pause(&e) && self.now() >= deadline => Err(AgentFailure::Late),
                Err(e) if is_pause(&e) => self.watch(),
                Err(_) => self.report_closed(),
            };
            if let Err(trouble) = outcome {
                self.half_sent |= sent > 0;
                return Err(trouble);
            }
        }
        Ok(())
    }

    /// Reads the next line, without its newline and the sentinels of `guest-sync-delimited`.
    fn read_line(&mut self, deadline: Instant) -> Result<Vec<u8>, AgentFailure> {
        let mut piece = vec![0; 64 << 10];
        loop {
            if let Some(end) = self.buffer[self.searched..]
                .iter()
                .position(|&b| b == b'\n')
            {
                let rest = self.buffer.split_off(self.searched + end + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                self.searched = 0;
                (self.host.on_contact)(false);
                line.retain(|&b| b != b'\n' && b != 0xff);
                return Ok(line);
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > MAX_REPLY {
                self.buffer.clear();
                self.searched = 0;
                return Err(AgentFailure::Broken(
                    Error::new(Kind::Machine, "the guest agent's reply is too long")
                        .expected(format!("at most {} MiB", MAX_REPLY >> 20)),
                ));
            }
            self.watch()?;
            match self.stream.read(&mut piece) {
                Ok(0) => self.report_closed()?,
                Ok(n) => self.buffer.extend_from_slice(&piece[..n]),
                Err(e) if is_pause(&e) && self.now() >= deadline => return Err(AgentFailure::Late),
                Err(e) if is_pause(&e) => {}
                Err(_) => self.report_closed()?,
            }
        }
    }

    /// Checks the machine first, then the guest: a crashed machine has also closed the port.
    pub fn watch(&self) -> Result<(), AgentFailure> {
        let port = (self.host.port)();
        if port.off {
            return Err(AgentFailure::Gone);
        }
        self.check()?;
        if port.disconnects == self.session.disconnects {
            Ok(())
        } else {
            Err(AgentFailure::Gone)
        }
    }

    /// Returns true if the guest restarted in this session; the port may also close without that.
    pub fn has_restarted(&self) -> bool {
        (self.host.port)().restarts != self.session.restarts
    }

    /// Checks the machine. A guest that has just powered off is gone, not a broken machine.
    fn check(&self) -> Result<(), AgentFailure> {
        (self.host.check)().map_err(|error| {
            if (self.host.port)().off {
                AgentFailure::Gone
            } else {
                AgentFailure::Broken(error)
            }
        })
    }

    /// Called when the socket's other end is closed. Waits a moment for the machine's reason.
    fn report_closed(&self) -> Result<(), AgentFailure> {
        let end = Instant::now() + Duration::from_secs(2);
        while Instant::now() < end {
            self.watch()?;
            std::thread::sleep(GLANCE);
        }
        Err(AgentFailure::Broken(Error::new(
            Kind::Machine,
            "the guest agent's socket was closed",
        )))
    }
}

/// Renders an answer for the transcript.
fn render_answer(answer: &Result<Value, AgentFailure>) -> String {
    render_outcome(answer, |value| {
        format!("{{\"return\":{}}}", transcript::render_message(value))
    })
}

fn render_outcome<T>(answer: &Result<T, AgentFailure>, good: impl FnOnce(&T) -> String) -> String {
    match answer {
        Ok(value) => good(value),
        Err(AgentFailure::Gone) => "the guest is gone".into(),
        Err(AgentFailure::Late) => "no answer in time".into(),
        Err(AgentFailure::Refused(words)) => {
            transcript::truncate_text(&format!("refused: {words}"))
        }
        Err(AgentFailure::Broken(error)) => transcript::truncate_text(error.fact()),
    }
}

fn is_pause(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

fn report_invalid_reply(reply: &str) -> Error {
    let start: String = reply.chars().take(200).collect();
    Error::new(Kind::Machine, "invalid reply of the guest agent").found(start)
}
