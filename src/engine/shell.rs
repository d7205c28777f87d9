//! The interactive shell into the guest: parses a typed line, runs it and reports the result.
//!
//! Shared by the build's own terminal and `winimg attach`; the caller transports the requests.
//! Remembers only the guest's current folder between lines: each line runs in its own cmd.

use std::path::Path;

use super::console::wire::{ConsoleReply, ConsoleRequest, ScreenFormat, decode};
use winimg_base::error::Result;
use winimg_base::io;

/// Sends a request, forwards its output and returns the last reply.
pub type SendRequest<'a> =
    dyn FnMut(ConsoleRequest, &mut dyn FnMut(&str)) -> Result<ConsoleReply> + 'a;

pub enum ShellMessage<'a> {
    /// Output of the guest.
    Output(&'a str),
    /// A message from winimg.
    Word(String),
}

/// The next action after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShellAction {
    Prompt,
    Leave,
    Chosen,
}

pub struct GuestShell {
    folder: String,
    /// Exit code of the last line, or 1 if it has none.
    pub code: i64,
}

impl Default for GuestShell {
    fn default() -> Self {
        Self {
            folder: r"C:\".into(),
            code: 0,
        }
    }
}

pub const HELP: &str = "\
LINE            runs in the guest's cmd as a line of a batch file (for loops: %%i), \
each in its own process
exit            leaves the shell; the build stays paused
.go             runs the step that the build paused before
.retry          retries the failed step
.stop           stops the build
.screen FILE    saves the screen as a PNG
.get PATH FILE  copies a file from the guest, up to 16 MiB; put names with spaces in double quotes
.help           shows this help";

#[derive(Clone, Debug, PartialEq, Eq)]
enum ShellCommand {
    Nothing,
    Help,
    Leave,
    Choose(ConsoleRequest),
    Screen(String),
    Get(String, String),
    Run,
    Wrong(String),
}

impl GuestShell {
    /// `C:\k>`
    pub fn prompt(&self) -> String {
        format!("{}>", self.folder)
    }

    pub fn enter(
        &mut self,
        line: &str,
        ask: &mut SendRequest,
        say: &mut dyn FnMut(ShellMessage),
    ) -> Result<ShellAction> {
        let line = line.trim_end_matches(['\r', '\n']);
        match parse_command(line.trim()) {
            ShellCommand::Nothing => {}
            ShellCommand::Help => say(ShellMessage::Word(HELP.into())),
            ShellCommand::Leave => return Ok(ShellAction::Leave),
            ShellCommand::Wrong(why) => {
                self.code = 1;
                say(ShellMessage::Word(why));
            }
            ShellCommand::Choose(choice) => match ask(choice, &mut |_| {})? {
                ConsoleReply::Chosen { .. } => {
                    self.code = 0;
                    return Ok(ShellAction::Chosen);
                }
                other => self.report_refusal(&other, say),
            },
            ShellCommand::Screen(file) => {
                let format = ScreenFormat::Png;
                let reply = ask(ConsoleRequest::Screen { format }, &mut |_| {})?;
                self.save(&reply, &file, "the VM has no screen", say);
            }
            ShellCommand::Get(path, file) => {
                let path = self.resolve_path(&path);
                let missing = format!("there is no {path} in the guest");
                let reply = ask(ConsoleRequest::Get { path }, &mut |_| {})?;
                self.save(&reply, &file, &missing, say);
            }
            ShellCommand::Run => self.run(line, ask, say)?,
        }
        Ok(ShellAction::Prompt)
    }

    fn run(
        &mut self,
        line: &str,
        ask: &mut SendRequest,
        say: &mut dyn FnMut(ShellMessage),
    ) -> Result<()> {
        let question = ConsoleRequest::Run {
            line: line.into(),
            folder: self.folder.clone(),
        };
        match ask(question, &mut |text| say(ShellMessage::Output(text)))? {
            ConsoleReply::Ended { code, folder, note } => {
                self.folder = folder;
                self.code = code.unwrap_or(1);
                if let Some(code) = code.filter(|code| *code != 0) {
                    say(ShellMessage::Word(format!(
                        "[exit code {}]",
                        super::run::exit_code(code)
                    )));
                }
                if let Some(note) = note {
                    say(ShellMessage::Word(format!("[{note}]")));
                }
            }
            other => self.report_refusal(&other, say),
        }
        Ok(())
    }

    /// Reports a refusal or an unexpected reply.
    fn report_refusal(&mut self, reply: &ConsoleReply, say: &mut dyn FnMut(ShellMessage)) {
        self.code = 1;
        say(ShellMessage::Word(match reply {
            ConsoleReply::Refused { why } => format!("error: {why}"),
            _ => "error: unexpected reply from the build".into(),
        }));
    }

    fn save(
        &mut self,
        reply: &ConsoleReply,
        file: &str,
        missing: &str,
        say: &mut dyn FnMut(ShellMessage),
    ) {
        let ConsoleReply::Bytes { bytes } = reply else {
            return self.report_refusal(reply, say);
        };
        let saved = match bytes {
            None => Err(missing.to_owned()),
            Some(text) => decode(text).and_then(|bytes| {
                io::write_atomically(Path::new(file), &bytes)
                    .map(|()| bytes.len())
                    .map_err(|e| e.to_string())
            }),
        };
        self.code = i64::from(saved.is_err());
        say(ShellMessage::Word(match saved {
            Ok(bytes) => format!("{file}: {bytes} bytes"),
            Err(why) => format!("error: {why}"),
        }));
    }

    /// Resolves a path in the guest against the current folder.
    fn resolve_path(&self, path: &str) -> String {
        if path.get(1..2) == Some(":") || path.starts_with('\\') {
            return path.into();
        }
        format!("{}\\{path}", self.folder.trim_end_matches('\\'))
    }
}

fn parse_command(line: &str) -> ShellCommand {
    let words = match split_words(line) {
        Ok(words) => words,
        Err(why) if line.starts_with('.') => return ShellCommand::Wrong(why),
        Err(_) => return ShellCommand::Run,
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => ShellCommand::Nothing,
        ["exit"] => ShellCommand::Leave,
        [".help"] => ShellCommand::Help,
        [".go"] => ShellCommand::Choose(ConsoleRequest::GoOn),
        [".retry"] => ShellCommand::Choose(ConsoleRequest::Retry),
        [".stop"] => ShellCommand::Choose(ConsoleRequest::Stop),
        [".screen", file] => ShellCommand::Screen((*file).into()),
        [".get", path, file] => ShellCommand::Get((*path).into(), (*file).into()),
        [first, ..] if first.starts_with('.') && !first.contains(['\\', '/']) => {
            ShellCommand::Wrong(format!(
                "`{line}` is not a command of this shell: try .help"
            ))
        }
        _ => ShellCommand::Run,
    }
}

/// Splits a line at whitespace outside of double quotes.
fn split_words(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), None::<String>, false);
    for c in line.chars() {
        match c {
            '"' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            c if c.is_whitespace() && !is_quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if is_quoted {
        Err("missing closing double quote".into())
    } else {
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A build that answers from a list, and all that was shown.
    fn session(lines: &[&str], mut replies: Vec<ConsoleReply>) -> (String, GuestShell) {
        let mut shell = GuestShell::default();
        let mut shown = String::new();
        replies.reverse();
        for line in lines {
            let mut asked = String::new();
            let mut words = String::new();
            let prompt = shell.prompt();
            let after = shell.enter(
                line,
                &mut |ask, output| {
                    asked = format!("  asks {}\n", serde_json::to_string(&ask).expect("JSON"));
                    output("of the guest\n");
                    Ok(replies.pop().expect("one reply for each question"))
                },
                &mut |text| match text {
                    ShellMessage::Output(text) => words += &format!("  | {text}"),
                    ShellMessage::Word(text) => words += &format!("  {text}\n"),
                },
            );
            let after = after.expect("no error");
            shown += &format!("{prompt}{line}\n{asked}{words}  {after:?}\n");
        }
        (shown, shell)
    }

    #[test]
    fn a_session() {
        let ended = |code, folder: &str| ConsoleReply::Ended {
            code,
            folder: folder.into(),
            note: None,
        };
        let gone = ConsoleReply::Ended {
            code: None,
            folder: r"C:\".into(),
            note: Some("the guest restarted meanwhile".into()),
        };
        let (shown, shell) = session(
            &[
                "cd k",
                "dir \"x",
                r".\setup.cmd",
                "shutdown /r /t 0",
                "",
                ".get a.log",
                ".get \"a b.log\" x.log",
                ".retry",
                ".go",
                "exit",
            ],
            vec![
                ended(Some(0), r"C:\k"),
                ended(Some(-2_146_498_529), r"C:\k"),
                ended(Some(5), r"C:\k"),
                gone,
                ConsoleReply::from_bytes(None),
                ConsoleReply::from_error("no step has failed"),
                ConsoleReply::Chosen {
                    choice: "go-on".into(),
                },
            ],
        );
        assert_eq!(
            shown,
            r#"C:\>cd k
  asks {"ask":"run","line":"cd k","folder":"C:\\"}
  | of the guest
  Prompt
C:\k>dir "x
  asks {"ask":"run","line":"dir \"x","folder":"C:\\k"}
  | of the guest
  [exit code -2146498529 (0x800f081f)]
  Prompt
C:\k>.\setup.cmd
  asks {"ask":"run","line":".\\setup.cmd","folder":"C:\\k"}
  | of the guest
  [exit code 5]
  Prompt
C:\k>shutdown /r /t 0
  asks {"ask":"run","line":"shutdown /r /t 0","folder":"C:\\k"}
  | of the guest
  [the guest restarted meanwhile]
  Prompt
C:\>
  Prompt
C:\>.get a.log
  `.get a.log` is not a command of this shell: try .help
  Prompt
C:\>.get "a b.log" x.log
  asks {"ask":"get","path":"C:\\a b.log"}
  error: there is no C:\a b.log in the guest
  Prompt
C:\>.retry
  asks {"ask":"retry"}
  error: no step has failed
  Prompt
C:\>.go
  asks {"ask":"go-on"}
  Chosen
C:\>exit
  Leave
"#
        );
        assert_eq!(shell.code, 0);
    }
}
