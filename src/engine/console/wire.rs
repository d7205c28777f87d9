//! What is said over a build's socket: one JSON object a line, a question and its replies.
//!
//! Only words and their bounds; both ends use them. Knows neither guest nor machine.

use std::io::{self, BufRead as _, BufReader, ErrorKind, Read, Write};
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

pub const LONGEST_ASK: usize = 64 << 10;
/// The longest reply: a picture, or a file of the guest, in base64.
pub const LONGEST_REPLY: usize = 128 << 20;
/// The most that is read of a file in the guest.
pub const LARGEST_FILE: usize = 16 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Ask {
    State,
    Screen {
        format: Format,
    },
    /// A line for the guest's cmd, in a folder of the guest. Only while paused, as all that follows.
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
pub enum Format {
    Png,
    Ppm,
}

/// Any number of `Output`, then one of the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    State(State),
    /// A picture or a file, in base64; `None`: there is no such file.
    Bytes {
        bytes: Option<String>,
    },
    Output {
        text: String,
    },
    /// The line was run; without a code the guest went down under it. `folder` is where the guest's cmd stood at the end.
    Ended {
        code: Option<i64>,
        folder: String,
        /// What else the person has to know.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// The build does what was chosen.
    Chosen {
        choice: String,
    },
    Refused {
        why: String,
    },
}

impl Reply {
    pub fn refused(why: impl ToString) -> Self {
        Self::Refused {
            why: why.to_string(),
        }
    }

    pub fn bytes(bytes: Option<&[u8]>) -> Self {
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
        .map_err(|e| format!("the build's reply can't be understood: {e}"))
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    pub name: String,
    pub output: PathBuf,
    /// Empty before the first one.
    pub phase: String,
    /// The one that runs, or ran last in this phase.
    pub step: Option<Step>,
    pub paused: Option<Halt>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub number: usize,
    pub of: usize,
    pub name: String,
}

/// A pause, and what may end it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Halt {
    /// As the event `paused` has it.
    pub text: String,
    /// Of `go-on`, `retry` and `stop`.
    pub choices: Vec<String>,
}

impl State {
    /// `provision, [2/5] kubelet`
    pub fn place(&self) -> String {
        match (&self.step, self.phase.as_str()) {
            (_, "") => "it begins".into(),
            (None, phase) => phase.into(),
            (Some(step), phase) => format!("{phase}, [{}/{}] {}", step.number, step.of, step.name),
        }
    }
}

/// Lines of at most `limit` bytes. What has come of a line stays when a read times out.
pub struct Lines<R> {
    from: BufReader<R>,
    limit: usize,
    line: Vec<u8>,
}

impl<R: Read> Lines<R> {
    pub fn new(from: R, limit: usize) -> Self {
        Self {
            from: BufReader::new(from),
            limit,
            line: Vec::new(),
        }
    }

    /// The next line without its newline; `None` at the end. `InvalidData`: it is too long.
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
            Ask::State,
            Ask::Screen {
                format: Format::Ppm,
            },
            Ask::Run {
                line: "ver".into(),
                folder: r"C:\".into(),
            },
            Ask::Get {
                path: r"C:\k\x.log".into(),
            },
            Ask::GoOn,
        ];
        let mut said = Vec::new();
        for ask in &asks {
            write(&mut said, ask).expect("memory");
        }
        for reply in [
            Reply::bytes(Some(b"x")),
            Reply::bytes(None),
            Reply::Output { text: "a\n".into() },
            Reply::Ended {
                code: Some(5),
                folder: r"C:\k".into(),
                note: None,
            },
            Reply::refused("no"),
        ] {
            write(&mut said, &reply).expect("memory");
        }
        let text = String::from_utf8(said.clone()).expect("text");
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
        let mut lines = Lines::new(said.as_slice(), LONGEST_ASK);
        for ask in asks {
            let line = lines.next_line().expect("memory").expect("a line");
            assert_eq!(serde_json::from_slice::<Ask>(&line).expect("an ask"), ask);
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
        let mut lines = Lines::new(slow, 100);
        let next = |lines: &mut Lines<Slow>| match lines.next_line() {
            Ok(Some(line)) => String::from_utf8(line).expect("text"),
            Ok(None) => "the end".into(),
            Err(e) => format!("{:?}", e.kind()),
        };
        let said: Vec<String> = (0..4).map(|_| next(&mut lines)).collect();
        assert_eq!(said, ["one", "WouldBlock", "abcd", "the end"]);
        let mut flood = Lines::new(io::repeat(b'x'), 1000);
        let kind = flood.next_line().expect_err("no end").kind();
        assert_eq!(kind, ErrorKind::InvalidData);
    }
}
