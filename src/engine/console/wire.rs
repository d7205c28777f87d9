//! The protocol of a build's socket: one JSON object per line, a request and its replies.
//!
//! Only the messages and their limits, shared by both sides.

use std::io::{self, BufRead as _, BufReader, ErrorKind, Read, Write};
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

pub const MAX_REQUEST: usize = 64 << 10;
/// The longest reply: a screenshot or a file of the guest, in base64.
pub const MAX_REPLY: usize = 128 << 20;
/// Maximum size of a file read from the guest.
pub const MAX_FILE_SIZE: usize = 16 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ConsoleRequest {
    State,
    Screen {
        format: ScreenFormat,
    },
    /// A line for the guest's cmd, in a folder of the guest. This request and the following ones
    /// are only valid while paused.
    Run {
        line: String,
        folder: String,
    },
    Get {
        path: String,
    },
    GoOn,
    Retry,
    Stop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScreenFormat {
    Png,
    Ppm,
}

/// Any number of `Output`, then one of the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum ConsoleReply {
    State(ConsoleStatus),
    /// A screenshot or a file, in base64; `None` if there is no such file.
    Bytes {
        bytes: Option<String>,
    },
    Output {
        text: String,
    },
    /// The line has run; without a code the guest went down meanwhile. `folder` is the current
    /// folder of the guest's cmd at the end.
    Ended {
        code: Option<i64>,
        folder: String,
        /// A remark for the user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// The build accepted the choice.
    Chosen {
        choice: String,
    },
    Refused {
        why: String,
    },
}

impl ConsoleReply {
    pub fn from_error(why: impl ToString) -> Self {
        Self::Refused {
            why: why.to_string(),
        }
    }

    pub fn from_bytes(bytes: Option<&[u8]>) -> Self {
        Self::Bytes {
            bytes: bytes.map(|b| BASE64.encode(b)),
        }
    }

    pub fn is_last(&self) -> bool {
        !matches!(self, Self::Output { .. })
    }
}

/// The bytes of a `Reply::Bytes`.
pub fn decode(bytes: &str) -> Result<Vec<u8>, String> {
    BASE64
        .decode(bytes)
        .map_err(|e| format!("cannot decode the build's reply: {e}"))
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsoleStatus {
    pub name: String,
    pub output: PathBuf,
    /// Empty before the first phase.
    pub phase: String,
    /// The running step, or the last one of this phase.
    pub step: Option<StepPosition>,
    pub paused: Option<PauseState>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepPosition {
    pub number: usize,
    pub of: usize,
    pub name: String,
}

/// A pause, and the choices that end it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseState {
    /// The text of the event `paused`.
    pub text: String,
    /// A subset of `go-on`, `retry` and `stop`.
    pub choices: Vec<String>,
}

impl ConsoleStatus {
    /// `provision, [2/5] kubelet`
    pub fn describe_position(&self) -> String {
        match (&self.step, self.phase.as_str()) {
            (_, "") => "starting".into(),
            (None, phase) => phase.into(),
            (Some(step), phase) => format!("{phase}, [{}/{}] {}", step.number, step.of, step.name),
        }
    }
}

/// Reads lines of at most `limit` bytes. A partial line is kept when a read times out.
pub struct LineReader<R> {
    from: BufReader<R>,
    limit: usize,
    line: Vec<u8>,
}

impl<R: Read> LineReader<R> {
    pub fn new(from: R, limit: usize) -> Self {
        Self {
            from: BufReader::new(from),
            limit,
            line: Vec::new(),
        }
    }

    /// Returns the next line without its newline; `None` at the end. Fails with `InvalidData` if
    /// the line is too long.
    pub fn next_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let room = (self.limit + 1).saturating_sub(self.line.len());
        let mut rest = (&mut self.from).take(room as u64);
        rest.read_until(b'\n', &mut self.line)?;
        if self.line.pop_if(|last| *last == b'\n').is_some() {
            return Ok(Some(std::mem::take(&mut self.line)));
        }
        if self.line.len() > self.limit {
            let why = format!("a line is longer than {} bytes", self.limit);
            return Err(io::Error::new(ErrorKind::InvalidData, why));
        }
        Ok(None)
    }
}

pub fn write(to: &mut impl Write, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    to.write_all(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_replies_as_they_are_written() {
        let asks = [
            ConsoleRequest::State,
            ConsoleRequest::Screen {
                format: ScreenFormat::Ppm,
            },
            ConsoleRequest::Run {
                line: "ver".into(),
                folder: r"C:\".into(),
            },
            ConsoleRequest::Get {
                path: r"C:\k\x.log".into(),
            },
            ConsoleRequest::GoOn,
        ];
        let mut written = Vec::new();
        for ask in &asks {
            write(&mut written, ask).expect("memory");
        }
        for reply in [
            ConsoleReply::from_bytes(Some(b"x")),
            ConsoleReply::from_bytes(None),
            ConsoleReply::Output { text: "a\n".into() },
            ConsoleReply::Ended {
                code: Some(5),
                folder: r"C:\k".into(),
                note: None,
            },
            ConsoleReply::from_error("no"),
        ] {
            write(&mut written, &reply).expect("memory");
        }
        let text = String::from_utf8(written.clone()).expect("text");
        assert_eq!(
            text,
            "{\"ask\":\"state\"}\n\
             {\"ask\":\"screen\",\"format\":\"ppm\"}\n\
             {\"ask\":\"run\",\"line\":\"ver\",\"folder\":\"C:\\\\\"}\n\
             {\"ask\":\"get\",\"path\":\"C:\\\\k\\\\x.log\"}\n\
             {\"ask\":\"go-on\"}\n\
             {\"reply\":\"bytes\",\"bytes\":\"eA==\"}\n\
             {\"reply\":\"bytes\",\"bytes\":null}\n\
             {\"reply\":\"output\",\"text\":\"a\\n\"}\n\
             {\"reply\":\"ended\",\"code\":5,\"folder\":\"C:\\\\k\"}\n\
             {\"reply\":\"refused\",\"why\":\"no\"}\n"
        );
        let mut lines = LineReader::new(written.as_slice(), MAX_REQUEST);
        for ask in asks {
            let line = lines.next_line().expect("memory").expect("a line");
            assert_eq!(
                serde_json::from_slice::<ConsoleRequest>(&line).expect("an ask"),
                ask
            );
        }
    }

    /// Gives its pieces one at a time, with a timeout between them.
    struct Slow(Vec<Option<&'static [u8]>>);

    impl Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.pop() {
                None => Ok(0),
                Some(None) => Err(ErrorKind::WouldBlock.into()),
                Some(Some(piece)) => {
                    buffer[..piece.len()].copy_from_slice(piece);
                    Ok(piece.len())
                }
            }
        }
    }

    #[test]
    fn a_line_in_pieces_stays_whole_and_a_flood_ends() {
        let slow = Slow(vec![Some(b"d\nrest"), None, Some(b"bc"), Some(b"one\na")]);
        let mut lines = LineReader::new(slow, 100);
        let next = |lines: &mut LineReader<Slow>| match lines.next_line() {
            Ok(Some(line)) => String::from_utf8(line).expect("text"),
            Ok(None) => "the end".into(),
            Err(e) => format!("{:?}", e.kind()),
        };
        let found: Vec<String> = (0..4).map(|_| next(&mut lines)).collect();
        assert_eq!(found, ["one", "WouldBlock", "abcd", "the end"]);
        let mut flood = LineReader::new(io::repeat(b'x'), 1000);
        let kind = flood.next_line().expect_err("no end").kind();
        assert_eq!(kind, ErrorKind::InvalidData);
    }
}
