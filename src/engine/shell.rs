//! The shell that a person has into the guest: what a typed line means, and what is said about it.
//!
//! The same in the build's own terminal and in `winimg attach`; how a question travels is the caller's business. Keeps the
//! guest's current folder from line to line and nothing else: each line has its own cmd.

use std::path::Path;

use super::console::wire::{Ask, Format, Reply, decode};
use winimg_base::error::Result;
use winimg_base::io;

/// Sends a question, passes on the output, brings the last reply.
pub type Asker<'a> = dyn FnMut(Ask, &mut dyn FnMut(&str)) -> Result<Reply> + 'a;

pub enum Said<'a> {
    /// Of the guest.
    Output(&'a str),
    /// A line of our own.
    Word(String),
}

/// What comes after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    Prompt,
    Leave,
    Chosen,
}

pub struct Shell {
    folder: String,
    /// Of the last line: its exit code, or 1 where there is none.
    pub code: i64,
}

impl Default for Shell {
    fn default() -> Self {
        Self {
            folder: r"C:\".into(),
            code: 0,
        }
    }
}

pub const HELP: &str = "\
a line        is run by the guest's cmd as a batch file's line (for loops: %%i); each has its own environment
exit          leaves the shell; the build stays paused
.go           runs the step that the build paused before
.retry        tries the step that failed again
.stop         ends the build
.screen FILE  writes the screen as a PNG
.get PATH FILE  brings a file of the guest, up to 16 MiB; names with blanks in double quotes
.help         shows this";

#[derive(Clone, Debug, PartialEq, Eq)]
enum Typed {
    Nothing,
    Help,
    Leave,
    Choose(Ask),
    Screen(String),
    Get(String, String),
    Run,
    Wrong(String),
}

impl Shell {
    /// `C:\k>`
    pub fn prompt(&self) -> String {
        format!("{}>", self.folder)
    }

    pub fn enter(
        &mut self,
        line: &str,
        ask: &mut Asker,
        say: &mut dyn FnMut(Said),
    ) -> Result<After> {
        let line = line.trim_end_matches(['\r', '\n']);
        let mut word = |text: String| say(Said::Word(text));
        match understood(line.trim()) {
            Typed::Nothing => {}
            Typed::Help => word(HELP.into()),
            Typed::Leave => return Ok(After::Leave),
            Typed::Wrong(why) => {
                self.code = 1;
                word(why);
            }
            Typed::Choose(choice) => match ask(choice, &mut |_| {})? {
                Reply::Chosen { .. } => {
                    self.code = 0;
                    return Ok(After::Chosen);
                }
                other => self.refused(&other, say),
            },
            Typed::Screen(file) => {
                let format = Format::Png;
                let reply = ask(Ask::Screen { format }, &mut |_| {})?;
                self.save(&reply, &file, "the machine shows nothing", say);
            }
            Typed::Get(path, file) => {
                let path = self.whole(&path);
                let missing = format!("there is no {path} in the guest");
                let reply = ask(Ask::Get { path }, &mut |_| {})?;
                self.save(&reply, &file, &missing, say);
            }
            Typed::Run => self.run(line, ask, say)?,
        }
        Ok(After::Prompt)
    }

    fn run(&mut self, line: &str, ask: &mut Asker, say: &mut dyn FnMut(Said)) -> Result<()> {
        let question = Ask::Run {
            line: line.into(),
            folder: self.folder.clone(),
        };
        match ask(question, &mut |text| say(Said::Output(text)))? {
            Reply::Ended { code, folder, note } => {
                self.folder = folder;
                self.code = code.unwrap_or(1);
                if let Some(code) = code.filter(|code| *code != 0) {
                    say(Said::Word(format!(
                        "[exit code {}]",
                        super::run::exit_code(code)
                    )));
                }
                if let Some(note) = note {
                    say(Said::Word(format!("[{note}]")));
                }
            }
            other => self.refused(&other, say),
        }
        Ok(())
    }

    /// A reply that was not hoped for.
    fn refused(&mut self, reply: &Reply, say: &mut dyn FnMut(Said)) {
        self.code = 1;
        say(Said::Word(match reply {
            Reply::Refused { why } => format!("error: {why}"),
            _ => "error: the build answered something else".into(),
        }));
    }

    fn save(&mut self, reply: &Reply, file: &str, missing: &str, say: &mut dyn FnMut(Said)) {
        let Reply::Bytes { bytes } = reply else {
            return self.refused(reply, say);
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
        say(Said::Word(match saved {
            Ok(bytes) => format!("{file}: {bytes} bytes"),
            Err(why) => format!("error: {why}"),
        }));
    }

    /// A path in the guest, from the current folder where it is not whole.
    fn whole(&self, path: &str) -> String {
        if path.get(1..2) == Some(":") || path.starts_with('\\') {
            return path.into();
        }
        format!("{}\\{path}", self.folder.trim_end_matches('\\'))
    }
}

fn understood(line: &str) -> Typed {
    let words = match words(line) {
        Ok(words) => words,
        Err(why) if line.starts_with('.') => return Typed::Wrong(why),
        Err(_) => return Typed::Run,
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => Typed::Nothing,
        ["exit"] => Typed::Leave,
        [".help"] => Typed::Help,
        [".go"] => Typed::Choose(Ask::GoOn),
        [".retry"] => Typed::Choose(Ask::Retry),
        [".stop"] => Typed::Choose(Ask::Stop),
        [".screen", file] => Typed::Screen((*file).into()),
        [".get", path, file] => Typed::Get((*path).into(), (*file).into()),
        [first, ..] if first.starts_with('.') && !first.contains(['\\', '/']) => Typed::Wrong(
            format!("`{line}` is not a command of this shell: try .help"),
        ),
        _ => Typed::Run,
    }
}

/// Blanks separate, double quotes keep together.
fn words(line: &str) -> Result<Vec<String>, String> {
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
    match is_quoted {
        true => Err("a double quote is not closed".into()),
        false => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A build that answers from a list, and all that was said.
    fn session(lines: &[&str], mut replies: Vec<Reply>) -> (String, Shell) {
        let mut shell = Shell::default();
        let mut said = String::new();
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
                    Said::Output(text) => words += &format!("  | {text}"),
                    Said::Word(text) => words += &format!("  {text}\n"),
                },
            );
            let after = after.expect("no error");
            said += &format!("{prompt}{line}\n{asked}{words}  {after:?}\n");
        }
        (said, shell)
    }

    #[test]
    fn a_session() {
        let ended = |code, folder: &str| Reply::Ended {
            code,
            folder: folder.into(),
            note: None,
        };
        let gone = Reply::Ended {
            code: None,
            folder: r"C:\".into(),
            note: Some("the guest restarted under it, and is back".into()),
        };
        let (said, shell) = session(
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
                Reply::bytes(None),
                Reply::refused("no step has failed"),
                Reply::Chosen {
                    choice: "go-on".into(),
                },
            ],
        );
        assert_eq!(
            said,
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
  [the guest restarted under it, and is back]
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
