//! A signing program: a KMS client, a PKCS#11 tool, cosign.
//!
//! It reads the bytes from standard input and writes the signature in base64 to standard output,
//! within a deadline. It runs without a shell unless the user names one.

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
/// Time to drain the pipes after the program has ended.
const PIPES: Duration = Duration::from_secs(5);
/// Maximum length of the output in bytes; a signature has about a hundred characters.
const MAX_OUTPUT: u64 = 64 << 10;

pub struct SignProgram(Vec<String>);

/// Shows the command without its arguments, which may reveal the location of a key.
impl fmt::Display for SignProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.first().map_or("", String::as_str))
    }
}

/// Splits a command line at whitespace. `'…'` and `"…"` quote literally; there is no other syntax.
pub fn split_command(line: &str) -> Result<Vec<String>, String> {
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

impl SignProgram {
    pub fn new(line: &str) -> Result<Self> {
        split_command(line).map(Self).map_err(|why| {
            Error::new(Kind::Recipe, "--sign-command cannot be parsed")
                .found(why)
                .cure(
                    "use PROGRAM ARGUMENTS, separated by spaces; quote words with spaces in \
                     '…' or \"…\"",
                )
        })
    }

    /// Returns the decoded signature, not verified yet.
    pub fn sign(&self, bytes: &[u8], cancel: &Cancel) -> Result<Vec<u8>> {
        let (status, stdout, stderr) = self.run(bytes, cancel)?;
        let stderr = String::from_utf8_lossy(&stderr);
        let lines: Vec<&str> = stderr.lines().collect();
        let last = &lines[lines.len().saturating_sub(8)..];
        if !status.success() {
            return Err(Error::new(Kind::Host, "--sign-command failed")
                .at(self)
                .found(status)
                .lines(last.iter().copied()));
        }
        let base64: Vec<u8> = stdout
            .into_iter()
            .filter(|b| !b.is_ascii_whitespace())
            .collect();
        STANDARD
            .decode(&base64)
            .ok()
            .filter(|s| !s.is_empty())
            .ok_or_else(|| {
                Error::new(Kind::Host, "--sign-command returned no signature")
                    .at(self)
                    .expected("DER in base64, and nothing else, on standard output")
                    .found(format!("{} characters", base64.len()))
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
            Error::new(Kind::Host, "--sign-command cannot be started")
                .at(self)
                .because(e)
        })?;
        // The arguments may contain a secret, so they are not logged.
        tracing::debug!(program, pid = child.id(), "started --sign-command");
        let input = child.stdin.take();
        let bytes = bytes.to_vec();
        // A program that needs only part of its input may close it early.
        thread::spawn(move || {
            if let Some(mut input) = input {
                let _ = input.write_all(&bytes);
            }
        });
        let stdout = drain(child.stdout.take());
        let stderr = drain(child.stderr.take());
        let status = self.wait(&mut child, cancel)?;
        Ok((status, self.receive(&stdout)?, self.receive(&stderr)?))
    }

    /// Waits for a pipe's output. A child of the program that still runs may keep the pipe open.
    fn receive(&self, pipe: &Receiver<Vec<u8>>) -> Result<Vec<u8>> {
        pipe.recv_timeout(PIPES).map_err(|_| {
            Error::new(Kind::Host, "--sign-command left its standard output open")
                .at(self)
                .found("a child process that is still running")
        })
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
                Ok(()) => Error::new(Kind::Host, "--sign-command did not exit")
                    .at(self)
                    .found(format!("still running after {} s", DEADLINE.as_secs())),
            };
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
    }
}

/// Reads a pipe in a thread of its own; discards everything beyond the maximum length.
fn drain(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut kept = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = (&mut pipe).take(MAX_OUTPUT).read_to_end(&mut kept);
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        }
        let _ = sender.send(kept);
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::split_command;

    #[test]
    fn words_are_what_blanks_and_quotes_make_of_them() {
        let words = |line| split_command(line).map(|w| w.join("|"));
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
