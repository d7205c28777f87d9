//! Cutting the agent's byte stream into messages, as QEMU's streaming JSON parser does: a message ends when its braces
//! close, line ends don't matter, a 0xFF byte throws away what is half received, with an error reply.

use serde_json::Value;

/// QEMU's limit on the tokens of one message.
const LIMIT: usize = 64 << 20;
const DEPTH: usize = 1024;

#[derive(Debug, PartialEq)]
pub enum Message {
    Value(Value),
    /// The description of the error reply.
    Fault(String),
}

#[derive(Default)]
pub struct Splitter {
    bytes: Vec<u8>,
    /// Where the token that is being read starts in `bytes`.
    token: Option<usize>,
    depth: usize,
    in_text: bool,
    escaped: bool,
    /// A message over the limit: its rest is skipped.
    skipping: bool,
    /// After a byte that can't be: what follows is dropped up to something a message may begin with.
    recovering: bool,
}

fn fault(what: &str) -> Message {
    Message::Fault(format!("JSON parse error, {what}"))
}

impl Splitter {
    pub fn feed(&mut self, chunk: &[u8]) -> Vec<Message> {
        let mut found = Vec::new();
        for &byte in chunk {
            self.byte(byte, &mut found);
        }
        found
    }

    fn reset(&mut self) {
        *self = Splitter {
            skipping: self.skipping,
            ..Splitter::default()
        };
    }

    fn byte(&mut self, byte: u8, found: &mut Vec<Message>) {
        if byte == 0xff {
            let partial = self.token.map_or("".into(), |at| {
                String::from_utf8_lossy(&self.bytes[at..]).into_owned()
            });
            self.skipping = false;
            self.reset();
            self.recovering = true;
            return found.push(fault(&format!("stray '{partial}\u{fffd}'")));
        }
        if self.skipping {
            self.skipping = byte != b'\n';
            return;
        }
        if self.bytes.len() >= LIMIT {
            self.skipping = true;
            self.reset();
            return found.push(Message::Fault("JSON token size limit exceeded".into()));
        }
        if self.recovering {
            self.recovering = (0x20..0xfe).contains(&byte) && !b"\"{}[]:,".contains(&byte);
            if self.recovering {
                return;
            }
        }
        if self.in_text {
            self.bytes.push(byte);
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => {
                    (self.in_text, self.token) = (false, None);
                    if self.depth == 0 {
                        self.finish(found);
                    }
                }
                _ => {}
            }
            return;
        }
        if !(byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.' | b'_')) {
            self.word_end(found);
        }
        self.plain(byte, found);
    }

    /// A byte outside of strings.
    fn plain(&mut self, byte: u8, found: &mut Vec<Message>) {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {
                if self.depth > 0 {
                    self.bytes.push(byte);
                }
            }
            b'{' | b'[' => {
                self.bytes.push(byte);
                self.depth += 1;
                if self.depth > DEPTH {
                    self.reset();
                    found.push(Message::Fault("JSON nesting depth limit exceeded".into()));
                }
            }
            b'}' | b']' if self.depth == 0 => found.push(fault("expecting value")),
            b'}' | b']' => {
                self.bytes.push(byte);
                self.depth -= 1;
                if self.depth == 0 {
                    self.finish(found);
                }
            }
            b'"' => {
                self.token = Some(self.bytes.len());
                self.bytes.push(byte);
                self.in_text = true;
            }
            b',' | b':' if self.depth > 0 => self.bytes.push(byte),
            b',' | b':' => found.push(fault("expecting value")),
            b'-' | b'+' | b'.' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                self.token.get_or_insert(self.bytes.len());
                self.bytes.push(byte);
            }
            stray => {
                self.reset();
                self.recovering = true;
                found.push(fault(&format!("stray '{}'", char::from(stray))));
            }
        }
    }

    /// A number or keyword has ended.
    fn word_end(&mut self, found: &mut Vec<Message>) {
        let Some(at) = self.token.take() else { return };
        let word = String::from_utf8_lossy(&self.bytes[at..]).into_owned();
        let keyword = word.starts_with(|c: char| c.is_ascii_alphabetic());
        if keyword && !matches!(word.as_str(), "true" | "false" | "null") && self.depth == 0 {
            self.reset();
            found.push(fault(&format!("invalid keyword '{word}'")));
        } else if self.depth == 0 {
            self.finish(found);
        }
    }

    fn finish(&mut self, found: &mut Vec<Message>) {
        let message = match serde_json::from_slice(&self.bytes) {
            Ok(value) => Message::Value(value),
            Err(e) => fault(&self.reason(&e)),
        };
        self.reset();
        found.push(message);
    }

    fn reason(&self, e: &serde_json::Error) -> String {
        let text = e.to_string();
        if text.starts_with("expected `:`") {
            return "missing : in object pair".into();
        }
        if text.starts_with("expected ident") || text.starts_with("expected value") {
            let upto = e.column().saturating_sub(1).min(self.bytes.len());
            let letter = |b: &u8| b.is_ascii_alphabetic();
            let start = upto
                - self.bytes[..upto]
                    .iter()
                    .rev()
                    .take_while(|b| letter(b))
                    .count();
            let end = upto + self.bytes[upto..].iter().take_while(|b| letter(b)).count();
            if end > start {
                return format!(
                    "invalid keyword '{}'",
                    String::from_utf8_lossy(&self.bytes[start..end])
                );
            }
        }
        "expecting value".into()
    }
}
