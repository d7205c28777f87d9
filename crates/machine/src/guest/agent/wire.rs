//! The agent's line protocol (QEMU: docs/interop/qemu-ga): one request, one reply, in step.
//!
//! Honoured traps: nothing is sent before the guest has opened its port (the bytes would lie in a buffer and be answered much later); a reply
//! that came too late belongs to an older request, so after every missed deadline the two sides are brought in step again with a number that
//! was never used before; each request carries an `id`, and a reply with another `id` answers an older one; `0xFF` clears the agent's parser only when half a request may lie in it (ours or another client's), since it makes the agent complain once more
//! *after* it has answered. Names and members of the commands are qapi's, which are QEMU's own schema, and so are the replies: what its types
//! ask for, agents have sent since the commands came into being. Every wait has a deadline and sees the machine die, pause or being interrupted.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use qapi::Command as _;
use qapi::qga::{QgaCommand, guest_sync, guest_sync_delimited};
use serde::Deserialize as _;
use serde_json::Value;

use super::transcript::{self, Transcript};
use super::{Host, Port};
use crate::guest::request;
use winimg_base::error::{Error, Kind, Result};

/// The longest reply: 16 MiB each of stdout and stderr in base64, and room.
const LONGEST_REPLY: usize = 64 << 20;
/// How long one number may wait for its echo before another is sent.
const SYNC_PATIENCE: Duration = Duration::from_secs(2);
/// How often a blocked read or write looks at the machine.
const GLANCE: Duration = Duration::from_millis(20);

/// Why there is no answer.
#[derive(Debug)]
pub enum Trouble {
    /// The guest restarted, powered off or closed its port.
    Gone,
    Late,
    Refused(String),
    /// The machine or the channel failed.
    Broken(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Broken(error)
    }
}

/// What the agent does with a request's `id` (QEMU: docs/interop/qmp-spec).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ids {
    Unknown,
    /// As agents do that know the member `id`.
    Echoed,
    /// Older agents take the member for a mistake.
    Refused,
}

/// What an agent that knows no `id` says of it.
const REFUSES_ID: &str = "member 'id' is unexpected";

pub struct Wire {
    stream: UnixStream,
    pub(super) host: Host,
    /// Bytes that have come and are no whole line yet; `searched` of them hold no newline.
    buffer: Vec<u8>,
    searched: usize,
    /// The port as it was when this session began.
    session: Port,
    in_step: bool,
    half_sent: bool,
    next_id: i64,
    ids: Ids,
    transcript: Option<Transcript>,
}

impl Wire {
    pub fn new(stream: UnixStream, host: Host) -> Result<Self> {
        let broken = |e| Error::new(Kind::Machine, "the agent's socket can't be used").because(e);
        stream.set_read_timeout(Some(GLANCE)).map_err(broken)?;
        stream.set_write_timeout(Some(GLANCE)).map_err(broken)?;
        let mut random = [0; 4];
        getrandom::fill(&mut random)
            .map_err(|e| Error::new(Kind::Failed, "no random number").found(e))?;
        Ok(Self {
            stream,
            host,
            buffer: Vec::new(),
            searched: 0,
            session: Port::default(),
            in_step: false,
            half_sent: false,
            // Numbers of an earlier process that used the same agent must not come again.
            next_id: i64::from(u32::from_le_bytes(random)) << 16,
            ids: Ids::Unknown,
            transcript: None,
        })
    }

    pub fn write_down(&mut self, transcript: Option<Transcript>) {
        self.transcript = transcript;
    }

    /// The time that deadlines are measured by.
    pub fn now(&self) -> Instant {
        (self.host.now)()
    }

    /// Waits until the guest has opened its port and answers.
    pub fn open(&mut self, deadline: Instant) -> Result<(), Trouble> {
        loop {
            let port = (self.host.port)();
            if port.off {
                return Err(Trouble::Gone);
            }
            self.check()?;
            if port.open {
                self.session = port;
                self.buffer.clear();
                self.searched = 0;
                self.in_step = false;
                // Maybe another agent than before.
                self.ids = Ids::Unknown;
                match self.sync(deadline) {
                    Ok(()) => return Ok(()),
                    Err(Trouble::Gone) => {}
                    Err(other) => return Err(other),
                }
            }
            if self.now() >= deadline {
                return Err(Trouble::Late);
            }
            std::thread::sleep(GLANCE);
        }
    }

    pub fn wait_gone(&self, deadline: Instant) -> Result<(), Trouble> {
        loop {
            match self.watch() {
                Ok(()) if self.now() >= deadline => return Err(Trouble::Late),
                Ok(()) => std::thread::sleep(GLANCE),
                Err(Trouble::Gone) => return Ok(()),
                Err(other) => return Err(other),
            }
        }
    }

    /// The `return` of a command.
    pub fn ask<C: QgaCommand>(&mut self, command: &C, deadline: Instant) -> Result<C::Ok, Trouble> {
        let answer = self.answer(&request::of(command), deadline)?;
        C::Ok::deserialize(&answer)
            .map_err(|_| Trouble::Broken(strange(&transcript::summary(&answer))))
    }

    fn answer(&mut self, asked: &Value, deadline: Instant) -> Result<Value, Trouble> {
        self.watch()?;
        if !self.in_step {
            self.sync(deadline)?;
        }
        let mut answer = self.exchange(asked, deadline);
        if let Err(Trouble::Refused(words)) = &answer
            && self.ids == Ids::Unknown
            && words.contains(REFUSES_ID)
        {
            self.ids = Ids::Refused;
            answer = self.exchange(asked, deadline);
        }
        // Whatever was not answered may be answered later.
        self.in_step = matches!(answer, Ok(_) | Err(Trouble::Refused(_)));
        answer
    }

    /// Sleeps, unless the machine has something to say.
    pub fn pause(&self, time: Duration) -> Result<(), Trouble> {
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

    fn exchange(&mut self, asked: &Value, deadline: Instant) -> Result<Value, Trouble> {
        let mut request = asked.clone();
        if self.ids != Ids::Refused {
            self.next_id += 1;
            request["id"] = self.next_id.into();
        }
        let answer = self.send_and_read(&request, deadline);
        // Asked twice a second while a program runs.
        if answer
            .as_ref()
            .ok()
            .is_none_or(|value| value["exited"] != false)
        {
            tracing::trace!(asked = %transcript::summary(asked), answer = summary(&answer), "agent");
        }
        if let Some(transcript) = &mut self.transcript {
            // Without its number: what is asked again and again is one line.
            transcript.exchange(&transcript::summary(asked), &summary(&answer));
        }
        answer
    }

    fn send_and_read(&mut self, request: &Value, deadline: Instant) -> Result<Value, Trouble> {
        let mut line = request.to_string();
        line.push('\n');
        self.send(line.as_bytes(), deadline)?;
        loop {
            let line = self.read_line(deadline)?;
            let Ok(mut reply) = serde_json::from_slice::<Value>(&line) else {
                return Err(Trouble::Broken(strange(&String::from_utf8_lossy(&line))));
            };
            if self.is_older(&reply, request.get("id")) {
                // A guest that floods the port leaves no silence in which the deadline would be noticed.
                if self.now() >= deadline {
                    return Err(Trouble::Late);
                }
                continue;
            }
            if let Some(error) = reply.get("error") {
                let words = error["desc"].as_str().unwrap_or("no reason");
                return Err(Trouble::Refused(words.to_string()));
            }
            return match reply.get_mut("return") {
                Some(value) => Ok(value.take()),
                None => Err(Trouble::Broken(strange(&transcript::summary(&reply)))),
            };
        }
    }

    /// Whether the reply answers another request than this one. An agent that could not read a request complains without its `id`.
    fn is_older(&mut self, reply: &Value, id: Option<&Value>) -> bool {
        match (reply.get("id"), id) {
            (Some(echo), Some(id)) if echo == id => {
                self.ids = Ids::Echoed;
                false
            }
            (Some(_), _) => true,
            (None, _) => self.ids == Ids::Echoed && reply.get("return").is_some(),
        }
    }

    fn sync(&mut self, deadline: Instant) -> Result<(), Trouble> {
        loop {
            let until = deadline.min(self.now() + SYNC_PATIENCE);
            let answer = self.sync_once(until);
            if let Some(transcript) = &mut self.transcript {
                transcript.exchange(guest_sync::NAME, &outcome(&answer, |()| "in step".into()));
            }
            match answer {
                Ok(()) => {
                    self.in_step = true;
                    return Ok(());
                }
                // It may have been glued to half a request that somebody left behind.
                Err(Trouble::Late) if self.now() < deadline => self.half_sent = true,
                Err(other) => return Err(other),
            }
        }
    }

    fn sync_once(&mut self, deadline: Instant) -> Result<(), Trouble> {
        if self.half_sent {
            self.echo(
                &[0xff],
                |id| request::of(&guest_sync_delimited { id }),
                deadline,
            )?;
            self.half_sent = false;
        }
        self.echo(&[], |id| request::of(&guest_sync { id }), deadline)
    }

    /// Sends a new number and reads on until it comes back; what else comes is older and dropped.
    fn echo(
        &mut self,
        before: &[u8],
        request: impl FnOnce(i64) -> Value,
        deadline: Instant,
    ) -> Result<(), Trouble> {
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
            // A guest that floods the port leaves no silence in which the deadline would be noticed.
            if self.now() >= deadline {
                return Err(Trouble::Late);
            }
        }
    }

    fn send(&mut self, bytes: &[u8], deadline: Instant) -> Result<(), Trouble> {
        (self.host.talked)(true);
        let mut sent = 0;
        while sent < bytes.len() {
            let outcome = match self.stream.write(&bytes[sent..]) {
                Ok(0) => self.closed(),
                Ok(n) => {
                    sent += n;
                    Ok(())
                }
                Err(e) if is_pause(&e) && self.now() >= deadline => Err(Trouble::Late),
                Err(e) if is_pause(&e) => self.watch(),
                Err(_) => self.closed(),
            };
            if let Err(trouble) = outcome {
                self.half_sent |= sent > 0;
                return Err(trouble);
            }
        }
        Ok(())
    }

    /// The next line, without its newline and without the sentinels of `guest-sync-delimited`.
    fn read_line(&mut self, deadline: Instant) -> Result<Vec<u8>, Trouble> {
        let mut piece = vec![0; 64 << 10];
        loop {
            if let Some(end) = self.buffer[self.searched..]
                .iter()
                .position(|&b| b == b'\n')
            {
                let rest = self.buffer.split_off(self.searched + end + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                self.searched = 0;
                (self.host.talked)(false);
                line.retain(|&b| b != b'\n' && b != 0xff);
                return Ok(line);
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > LONGEST_REPLY {
                self.buffer.clear();
                self.searched = 0;
                return Err(Trouble::Broken(
                    Error::new(Kind::Machine, "the guest agent's reply has no end")
                        .expected(format!("at most {} MiB", LONGEST_REPLY >> 20)),
                ));
            }
            self.watch()?;
            match self.stream.read(&mut piece) {
                Ok(0) => self.closed()?,
                Ok(n) => self.buffer.extend_from_slice(&piece[..n]),
                Err(e) if is_pause(&e) && self.now() >= deadline => return Err(Trouble::Late),
                Err(e) if is_pause(&e) => {}
                Err(_) => self.closed()?,
            }
        }
    }

    /// The machine first, then the guest: a machine that crashed has also closed the port.
    pub fn watch(&self) -> Result<(), Trouble> {
        let port = (self.host.port)();
        if port.off {
            return Err(Trouble::Gone);
        }
        self.check()?;
        match port.downs == self.session.downs {
            true => Ok(()),
            false => Err(Trouble::Gone),
        }
    }

    /// Whether the guest restarted in this session: a port alone may close without that.
    pub fn has_restarted(&self) -> bool {
        (self.host.port)().restarts != self.session.restarts
    }

    /// A guest that powered off after its port was looked at is gone, and no broken machine.
    fn check(&self) -> Result<(), Trouble> {
        (self.host.check)().map_err(|error| match (self.host.port)().off {
            true => Trouble::Gone,
            false => Trouble::Broken(error),
        })
    }

    /// The socket's other end is closed. The machine gets a moment to say why.
    fn closed(&self) -> Result<(), Trouble> {
        let end = Instant::now() + Duration::from_secs(2);
        while Instant::now() < end {
            self.watch()?;
            std::thread::sleep(GLANCE);
        }
        Err(Trouble::Broken(Error::new(
            Kind::Machine,
            "the guest agent's socket was closed",
        )))
    }
}

/// An answer as the transcript shows it.
fn summary(answer: &Result<Value, Trouble>) -> String {
    outcome(answer, |value| {
        format!("{{\"return\":{}}}", transcript::summary(value))
    })
}

fn outcome<T>(answer: &Result<T, Trouble>, good: impl FnOnce(&T) -> String) -> String {
    match answer {
        Ok(value) => good(value),
        Err(Trouble::Gone) => "the guest is gone".into(),
        Err(Trouble::Late) => "no answer in time".into(),
        Err(Trouble::Refused(words)) => transcript::cut(&format!("refused: {words}")),
        Err(Trouble::Broken(error)) => transcript::cut(error.fact()),
    }
}

fn is_pause(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

fn strange(reply: &str) -> Error {
    let start: String = reply.chars().take(200).collect();
    Error::new(Kind::Machine, "the guest agent's reply can't be understood").found(start)
}
