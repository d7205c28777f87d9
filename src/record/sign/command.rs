//! A program that signs: a KMS client, a PKCS#11 tool, cosign.
//!
//! It gets the bytes on standard input and gives the signature in base64 on standard output, within a deadline. No shell
//! stands between, unless the user names one.

use std::fmt;
use std::io::{Read, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::io::{spawn, without_our_secrets};

/// Long enough for a person to touch a token.
const DEADLINE: Duration = Duration::from_secs(120);
/// For what is still in the pipes when the program has ended.
const PIPES: Duration = Duration::from_secs(5);
/// A signature has about a hundred characters.
const LONGEST: u64 = 64 << 10;

pub struct Program(Vec<String>);

/// The command without its arguments, which may say where a key is.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.first().map_or("", String::as_str))
    }
}

/// Words are separated by blanks. `'…'` and `"…"` keep together what they enclose, as it is; nothing else has a meaning.
pub fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match quote {
            Some(end) if c == end => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '\'' || c == '"' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    if let Some(open) = quote {
        return Err(format!("a {open} is not closed"));
    }
    words.extend(word);
    match words.first() {
        Some(program) if !program.is_empty() => Ok(words),
        _ => Err("it names no program".into()),
    }
}

impl Program {
    pub fn new(line: &str) -> Result<Self> {
        split(line).map(Self).map_err(|why| {
            Error::new(Kind::Recipe, "--sign-command cannot be read")
                .found(why)
                .cure("PROGRAM ARGUMENTS, blanks between them, '…' or \"…\" around what has blanks")
        })
    }

    /// The decoded signature, of which nothing is known yet.
    pub fn sign(&self, bytes: &[u8], cancel: &Cancel) -> Result<Vec<u8>> {
        let (status, said, complaint) = self.run(bytes, cancel)?;
        let complaint = String::from_utf8_lossy(&complaint).into_owned();
        let lines: Vec<&str> = complaint.lines().collect();
        let last = &lines[lines.len().saturating_sub(8)..];
        if !status.success() {
            return Err(Error::new(Kind::Host, "--sign-command failed")
                .at(self)
                .found(status)
                .lines(last.iter().copied()));
        }
        let said: Vec<u8> = said
            .into_iter()
            .filter(|b| !b.is_ascii_whitespace())
            .collect();
        STANDARD
            .decode(&said)
            .ok()
            .filter(|s| !s.is_empty())
            .ok_or_else(|| {
                Error::new(Kind::Host, "--sign-command gave no signature")
                    .at(self)
                    .expected("DER in base64, and nothing else, on standard output")
                    .found(format!("{} characters", said.len()))
                    .lines(last.iter().copied())
            })
    }

    fn run(&self, bytes: &[u8], cancel: &Cancel) -> Result<(ExitStatus, Vec<u8>, Vec<u8>)> {
        let Some((program, arguments)) = self.0.split_first() else {
            return Err(Error::new(Kind::Recipe, "--sign-command names no program"));
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        without_our_secrets(&mut command);
        let mut child = spawn(&mut command).map_err(|e| {
            Error::new(Kind::Host, "--sign-command does not start")
                .at(self)
                .because(e)
        })?;
        // Its arguments are the user's own and may hold a secret.
        tracing::debug!(program, pid = child.id(), "started --sign-command");
        let input = child.stdin.take();
        let bytes = bytes.to_vec();
        // A program that needs only part of its input may close it early.
        thread::spawn(move || {
            if let Some(mut input) = input {
                let _ = input.write_all(&bytes);
            }
        });
        let said = drain(child.stdout.take());
        let complaint = drain(child.stderr.take());
        let status = self.wait(&mut child, cancel)?;
        // What it left running may hold the pipes open.
        let ended = |_| {
            Error::new(Kind::Host, "--sign-command left its standard output open")
                .at(self)
                .found("a program that goes on after it has ended")
        };
        Ok((
            status,
            said.recv_timeout(PIPES).map_err(ended)?,
            complaint.recv_timeout(PIPES).map_err(ended)?,
        ))
    }

    fn wait(&self, child: &mut Child, cancel: &Cancel) -> Result<ExitStatus> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let ended = child.try_wait().map_err(|e| {
                Error::new(Kind::Failed, "cannot wait for --sign-command").because(e)
            })?;
            if let Some(status) = ended {
                return Ok(status);
            }
            let error = match cancel.sleep(Duration::from_millis(10)) {
                Err(cancelled) => cancelled,
                Ok(()) if Instant::now() < deadline => continue,
                Ok(()) => Error::new(Kind::Host, "--sign-command does not end")
                    .at(self)
                    .found(format!("no end after {} s", DEADLINE.as_secs())),
            };
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
    }
}

/// Reads a pipe beside the wait; what is beyond any signature's length is read and dropped.
fn drain(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut kept = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = (&mut pipe).take(LONGEST).read_to_end(&mut kept);
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        }
        let _ = sender.send(kept);
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn words_are_what_blanks_and_quotes_make_of_them() {
        let words = |line| split(line).map(|w| w.join("|"));
        assert_eq!(
            words("cosign  sign-blob -"),
            Ok("cosign|sign-blob|-".into())
        );
        assert_eq!(
            words(r#"sh -c 'a "b" $c' --x="1 2" C:\k\e"#),
            Ok(r#"sh|-c|a "b" $c|--x=1 2|C:\k\e"#.into())
        );
        assert_eq!(words("p '' x"), Ok("p||x".into()));
        assert_eq!(words("p 'x"), Err("a ' is not closed".into()));
        assert_eq!(words("  "), Err("it names no program".into()));
        assert_eq!(words("'' x"), Err("it names no program".into()));
    }
}
