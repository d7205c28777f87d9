//! cmd.exe: its command line, batch files, and how a parsed command runs.
//!
//! Refused, with a message and a non-zero code: what can't be asked without a console (prompts), files that
//! only an associated program could open, switches of cmd.exe that are none. See `parse` for the grammar, `builtin`
//! and `files` for the internal commands.

mod arithmetic;
mod batch;
mod builtin;
mod copy;
mod delete;
mod dir;
mod expand;
mod files;
mod launch;
mod link;
mod loops;
mod parse;
mod run;

pub use copy::{ReadOnly, copy_file, copy_tree};
pub use delete::below_fits;
pub use expand::{civil, clock};
pub use files::pattern_matches;

use std::sync::Arc;

use super::cmdline;
use super::process::{Env, Process};
use super::volume::Cwd;

/// How deep batch files may call each other.
const MAX_CALLS: usize = 64;

/// A batch file's text.
pub struct Script {
    /// Its full path.
    pub file: String,
    pub text: String,
}

/// What to do after a command.
#[derive(Debug, PartialEq, Eq)]
enum Flow {
    Next,
    Goto(String),
    /// Leave this batch file or subroutine.
    Leave,
    /// Leave cmd.exe.
    Quit,
}

struct Frame {
    file: String,
    lines: Arc<Vec<String>>,
    at: usize,
    /// `%0` first.
    args: Vec<String>,
    scopes: Vec<Scope>,
    /// A `.cmd` file: successful `set` and the like clear ERRORLEVEL.
    is_cmd: bool,
}

struct Scope {
    env: Env,
    cwd: Cwd,
    delayed: bool,
}

struct Shell {
    p: Process,
    /// `%ERRORLEVEL%`
    errorlevel: i32,
    /// What the last command returned, for `&&` and `||`.
    code: i32,
    frames: Vec<Frame>,
    vars: Vec<(char, String)>,
    pushed: Vec<Cwd>,
    delayed: bool,
    echo: bool,
}

/// Runs `cmd.exe …` (the whole command line) and gives its exit code.
pub fn run(parent: &Process, line: &str) -> u32 {
    let (_, tail) = cmdline::program(line);
    let mut shell = Shell::new(parent.clone());
    let (mut rest, mut keep) = (tail.trim_start(), false);
    let command = loop {
        let Some(switch) = rest.strip_prefix('/') else {
            if rest.is_empty() {
                break "";
            }
            shell
                .p
                .complain(&format!("cmd.exe: {rest}: a command is given after /c\n"));
            return 1;
        };
        let letter = switch
            .chars()
            .next()
            .map_or(' ', |c| c.to_ascii_lowercase());
        let after = switch.get(letter.len_utf8()..).unwrap_or("");
        let word = after.find([' ', '\t', '/']).unwrap_or(after.len());
        match (letter, after[..word].to_ascii_lowercase().as_str()) {
            ('c' | 'k', _) => break after,
            ('s', "") => keep = true,
            ('d' | 'q' | 'a' | 'u', "") | ('e', ":on") | ('v', ":off") => {}
            ('v', ":on") => shell.delayed = true,
            (letter, more) => {
                shell.p.complain(&format!(
                    "cmd.exe: the stand-in does not know the switch /{letter}{more}\n"
                ));
                return 1;
            }
        }
        shell.echo &= letter != 'q';
        rest = after[word..].trim_start();
    };
    let command = shell.unquoted(command, keep);
    shell.command_line(&command);
    shell.exit_code()
}

/// Runs a batch file's text in a fresh cmd.exe.
pub fn run_script(parent: &Process, script: Script, args: &[String]) -> u32 {
    let mut shell = Shell::new(parent.clone());
    shell.batch(script, args.to_vec());
    shell.exit_code()
}

impl Shell {
    fn new(p: Process) -> Shell {
        let echo = true;
        Shell {
            p,
            errorlevel: 0,
            code: 0,
            frames: vec![],
            vars: vec![],
            pushed: vec![],
            delayed: false,
            echo,
        }
    }

    fn exit_code(&self) -> u32 {
        (if self.code != 0 {
            self.code
        } else {
            self.errorlevel
        }) as u32
    }

    /// The quoting rule of `/c` ("cmd /?"): the quotes around a single program name stay, otherwise the first and the
    /// last quote go.
    fn unquoted(&self, command: &str, keep_rule_off: bool) -> String {
        let command = command.trim_start();
        let Some(inner) = command.strip_prefix('"') else {
            return command.to_owned();
        };
        if !keep_rule_off && command.matches('"').count() == 2 {
            let name = inner.split('"').next().unwrap_or("");
            let plain = !name.contains(['&', '<', '>', '(', ')', '@', '^', '|']);
            if plain && name.contains([' ', '\t']) && self.program(name).is_some() {
                return command.to_owned();
            }
        }
        match inner.rfind('"') {
            Some(last) => format!("{}{}", &inner[..last], &inner[last + 1..]),
            None => inner.to_owned(),
        }
    }

    fn context(&self) -> expand::Context<'_> {
        let frame = self.frames.last();
        expand::Context {
            env: &self.p.env,
            cwd: &self.p.cwd.0,
            errorlevel: self.errorlevel,
            args: frame.map(|frame| frame.args.as_slice()),
            file: frame.map_or("", |frame| &frame.file),
        }
    }

    fn command_line(&mut self, line: &str) {
        let expanded = expand::percent(&self.context(), line);
        match parse::parse(&expanded, &mut || None) {
            Ok(node) => {
                self.node(&node);
            }
            Err(message) => self.syntax_error(&message, 1),
        }
    }

    fn syntax_error(&mut self, message: &str, code: i32) {
        self.p.complain(&format!("{message}\n"));
        self.fail(code);
    }

    fn fail(&mut self, code: i32) {
        (self.code, self.errorlevel) = (code, code);
    }
}

/// The first word of a command, without its quotes, and the text after it.
fn word(text: &str) -> (String, &str) {
    let mut quoted = false;
    let end = text
        .char_indices()
        .find(|&(_, c)| {
            quoted ^= c == '"';
            !quoted && matches!(c, ' ' | '\t' | ',' | ';' | '=')
        })
        .map_or(text.len(), |(at, _)| at);
    // A slash ends the name of a program that is in no directory: `reg/?`.
    let slash = text[..end]
        .find('/')
        .filter(|&at| at > 0 && !text[..at].contains(['\\', '"', ':', '.']));
    let end = slash.unwrap_or(end);
    (text[..end].replace('"', ""), &text[end..])
}

/// A batch file's arguments: cut at blanks, commas, semicolons and equal signs outside quotes; quotes stay.
fn arguments(rest: &str) -> Vec<String> {
    let mut args = Vec::new();
    let mut arg = String::new();
    let mut quoted = false;
    for c in rest.chars() {
        quoted ^= c == '"';
        if !quoted && matches!(c, ' ' | '\t' | ',' | ';' | '=') {
            if !arg.is_empty() {
                args.push(std::mem::take(&mut arg));
            }
        } else {
            arg.push(c);
        }
    }
    if !arg.is_empty() {
        args.push(arg);
    }
    args
}
