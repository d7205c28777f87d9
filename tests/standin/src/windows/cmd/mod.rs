//! cmd.exe: its command line, batch files, and how a parsed command runs.
//!
//! Refused, with a message and a non-zero code: what can't be asked without a console (prompts), `mklink`, files that
//! only an associated program could open, switches of cmd.exe that are none. See `parse` for the grammar, `builtin`
//! and `files` for the internal commands.

mod arithmetic;
mod builtin;
mod expand;
mod files;
mod loops;
mod parse;

pub use expand::{civil, clock};
pub use files::{copy_file, copy_tree, pattern_matches};

use std::sync::{Arc, Mutex};

use super::cmdline;
use super::codepage;
use super::error::*;
use super::process::{self, Env, Process, Stream, buffer, taken};
use super::volume::{Cwd, Located, Place};
use parse::{How, Node, Redirect, Test};

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

    // ------------------------------------------------------------------------------------------------------- batches

    /// Runs a batch file to its end; whether cmd.exe itself has to end.
    fn batch(&mut self, script: Script, mut args: Vec<String>) -> Flow {
        let lines: Vec<String> = script.text.lines().map(str::to_owned).collect();
        args.insert(0, script.file.clone());
        let is_cmd = script.file.to_ascii_lowercase().ends_with(".cmd");
        self.frame(Frame {
            file: script.file,
            lines: Arc::new(lines),
            at: 0,
            args,
            scopes: vec![],
            is_cmd,
        })
    }

    fn frame(&mut self, frame: Frame) -> Flow {
        if self.frames.len() >= MAX_CALLS {
            self.p
                .complain("******  B A T C H   R E C U R S I O N  exceeds STACK limits ******\n");
            self.fail(1);
            return Flow::Quit;
        }
        let (vars, echo) = (std::mem::take(&mut self.vars), self.echo);
        self.frames.push(frame);
        let flow = self.lines();
        if let Some(mut frame) = self.frames.pop()
            && let Some(first) = frame.scopes.drain(..).next()
        {
            self.restore(first);
        }
        self.vars = vars;
        if self.frames.is_empty() {
            self.echo = echo;
        }
        flow
    }

    fn lines(&mut self) -> Flow {
        loop {
            let Some(frame) = self.frames.last() else {
                return Flow::Next;
            };
            let (lines, mut at) = (frame.lines.clone(), frame.at);
            let Some(line) = lines.get(at) else {
                return Flow::Next;
            };
            at += 1;
            if line.trim_start().starts_with(':') {
                self.jump(at);
                continue;
            }
            let first = expand::percent(&self.context(), line);
            let parsed = parse::parse(&first, &mut || {
                let next = lines.get(at)?;
                at += 1;
                Some(expand::percent(&self.context(), next))
            });
            self.jump(at);
            let node = match parsed {
                Ok(node) => node,
                Err(message) => {
                    self.syntax_error(&message, 255);
                    return Flow::Quit;
                }
            };
            if self.echo && !matches!(node, Node::Quiet(_) | Node::Empty) {
                self.p.print(&format!("\n{}>{first}\n", self.p.cwd.0));
            }
            match self.node(&node) {
                Flow::Next => {}
                Flow::Goto(label) if label == "eof" => return Flow::Next,
                Flow::Goto(label) => match self.label(&label) {
                    Some(at) => self.jump(at),
                    None => {
                        self.p.complain(&format!(
                            "The system cannot find the batch label specified - {label}\n"
                        ));
                        self.fail(1);
                        return Flow::Next;
                    }
                },
                Flow::Leave => return Flow::Next,
                Flow::Quit => return Flow::Quit,
            }
        }
    }

    fn jump(&mut self, at: usize) {
        if let Some(frame) = self.frames.last_mut() {
            frame.at = at;
        }
    }

    /// The line after a label: searched from here to the end, then from the start.
    fn label(&self, name: &str) -> Option<usize> {
        let frame = self.frames.last()?;
        let is = |at: &usize| {
            let line = frame.lines[*at].trim_start_matches([' ', '\t', ';', ',', '=']);
            line.strip_prefix(':').is_some_and(|label| {
                let end = label
                    .find([' ', '\t', ':', '+', ',', ';', '=', '&', '<', '>', '|'])
                    .unwrap_or(label.len());
                super::regf::same(&label[..end], name)
            })
        };
        let count = frame.lines.len();
        (frame.at..count)
            .chain(0..frame.at.min(count))
            .find(is)
            .map(|at| at + 1)
    }

    fn restore(&mut self, scope: Scope) {
        (self.p.env, self.p.cwd, self.delayed) = (scope.env, scope.cwd, scope.delayed);
    }

    // -------------------------------------------------------------------------------------------------------- running

    fn node(&mut self, node: &Node) -> Flow {
        match node {
            Node::Empty => Flow::Next,
            Node::Quiet(inner) => self.node(inner),
            Node::Seq(nodes) => {
                for node in nodes {
                    let flow = self.node(node);
                    if flow != Flow::Next {
                        return flow;
                    }
                }
                Flow::Next
            }
            Node::And(left, right) => match self.node(left) {
                Flow::Next if self.code == 0 => self.node(right),
                flow => flow,
            },
            Node::Or(left, right) => match self.node(left) {
                Flow::Next if self.code != 0 => self.node(right),
                flow => flow,
            },
            Node::Pipe(left, right) => self.pipe(left, right),
            Node::Block(inner, redirects) => self.redirected(redirects, |shell| shell.node(inner)),
            Node::If {
                test,
                not,
                fold,
                then,
                other,
            } => match self.test(test, *fold) {
                Ok(holds) if holds != *not => self.node(then),
                Ok(_) => other.as_ref().map_or(Flow::Next, |other| self.node(other)),
                Err(message) => {
                    self.syntax_error(&message, 255);
                    Flow::Quit
                }
            },
            Node::For {
                kind,
                var,
                set,
                body,
            } => loops::run(self, kind, *var, set, body),
            Node::Simple { text, redirects } => {
                let text = self.text(text);
                self.redirected(redirects, |shell| shell.simple(&text))
            }
        }
    }

    /// `for` variables, then delayed expansion.
    fn text(&self, text: &str) -> String {
        let text = expand::loops(&self.vars, text, &self.p);
        if self.delayed {
            expand::delayed(&self.context(), &text)
        } else {
            text
        }
    }

    /// The left side runs to its end first; each side is a cmd.exe of its own, so what it sets is lost.
    fn pipe(&mut self, left: &Node, right: &Node) -> Flow {
        let kept = (self.p.clone(), self.errorlevel);
        let between = buffer();
        self.p.out = between.clone();
        let flow = self.node(left);
        (self.p, self.errorlevel) = kept.clone();
        if flow == Flow::Quit {
            return flow;
        }
        self.p.stdin = Arc::new(taken(&between));
        let flow = self.node(right);
        self.p = kept.0;
        flow
    }

    fn test(&mut self, test: &Test, fold: bool) -> Result<bool, String> {
        let same = |a: &str, b: &str| {
            if fold {
                super::regf::same(a, b)
            } else {
                a == b
            }
        };
        Ok(match test {
            Test::Errorlevel(level) => {
                let level = self.text(level);
                let level: i32 = level
                    .parse()
                    .map_err(|_| format!("{level} was unexpected at this time."))?;
                self.errorlevel >= level
            }
            Test::Exist(path) => {
                let path = self.text(path).replace('"', "");
                matches!(self.p.place(&path), Ok(Place::Null))
                    || !files::pattern_matches(&self.p, &path).is_empty()
            }
            Test::Defined(name) => self.context().variable(&self.text(name)).is_some(),
            Test::Equal(left, right) => same(&self.text(left), &self.text(right)),
            Test::Compare(left, op, right) => {
                let (left, right) = (self.text(left), self.text(right));
                let order = match (arithmetic::number(&left), arithmetic::number(&right)) {
                    (Some(left), Some(right)) => left.cmp(&right),
                    _ if fold => left.to_uppercase().cmp(&right.to_uppercase()),
                    _ => left.cmp(&right),
                };
                match op.as_str() {
                    "equ" => order.is_eq(),
                    "neq" => order.is_ne(),
                    "lss" => order.is_lt(),
                    "leq" => order.is_le(),
                    "gtr" => order.is_gt(),
                    _ => order.is_ge(),
                }
            }
        })
    }

    fn redirected(&mut self, redirects: &[Redirect], act: impl FnOnce(&mut Shell) -> Flow) -> Flow {
        let kept = (self.p.stdin.clone(), self.p.out.clone(), self.p.err.clone());
        let failed = redirects
            .iter()
            .find_map(|redirect| self.redirect(redirect).err());
        let flow = match failed {
            None => act(self),
            Some(error) => {
                (self.p.out, self.p.err) = (kept.1.clone(), kept.2.clone());
                self.p.complain(&format!("{}\n", error.text()));
                self.fail(1);
                Flow::Next
            }
        };
        (self.p.stdin, self.p.out, self.p.err) = kept;
        flow
    }

    fn redirect(&mut self, redirect: &Redirect) -> Result<(), Win32> {
        let stream: Stream = match &redirect.how {
            How::Same(1) => self.p.out.clone(),
            How::Same(2) => self.p.err.clone(),
            How::Same(_) => return Err(Win32(87)),
            How::Read(path) => {
                let path = self.text(path).replace('"', "");
                self.p.stdin = Arc::new(match self.p.place(&path)? {
                    Place::File(found) if found.is_dir() => return Err(ACCESS_DENIED),
                    Place::File(found) => {
                        std::fs::read(&found.existing()?.host).map_err(|e| Win32::from_io(&e))?
                    }
                    Place::Null | Place::Serial => Vec::new(),
                });
                return Ok(());
            }
            How::Write(path) | How::Append(path) => {
                let path = self.text(path).replace('"', "");
                match self.p.place(&path)? {
                    Place::Null => process::null(),
                    Place::Serial => self.p.machine.serial(),
                    Place::File(found) => {
                        let append = matches!(redirect.how, How::Append(_));
                        let host = found.writable()?.host;
                        let mut options = std::fs::OpenOptions::new();
                        options
                            .create(true)
                            .append(append)
                            .write(true)
                            .truncate(!append);
                        Arc::new(Mutex::new(
                            options.open(host).map_err(|e| Win32::from_io(&e))?,
                        ))
                    }
                }
            }
        };
        match redirect.fd {
            1 => self.p.out = stream,
            2 => self.p.err = stream,
            _ => {}
        }
        Ok(())
    }

    // ------------------------------------------------------------------------------------------------------- commands

    /// Runs one simple command, all expansions done.
    fn simple(&mut self, text: &str) -> Flow {
        let text = text.trim_start_matches([' ', '\t', ',', ';', '=']);
        if text.is_empty() {
            return Flow::Next;
        }
        if let Some((name, rest)) = builtin::split(text) {
            return builtin::run(self, &name, rest);
        }
        let (name, rest) = word(text);
        match self.program(&name) {
            Some(found) => self.launch(&found, &name, rest, false),
            None => self.unknown(&name),
        }
    }

    fn unknown(&mut self, name: &str) -> Flow {
        self.p.complain(&format!(
            "'{name}' is not recognized as an internal or external command,\noperable program or batch file.\n"
        ));
        self.fail(if self.frames.is_empty() { 1 } else { 9009 });
        Flow::Next
    }

    /// The file that a command name means: the current directory first, then PATH, with the extensions of PATHEXT.
    fn program(&self, name: &str) -> Option<Located> {
        let mut dirs = vec![self.p.cwd.0.clone()];
        dirs.extend(self.p.path_dirs());
        let pathext = self
            .p
            .env
            .get("PATHEXT")
            .unwrap_or(".COM;.EXE;.BAT;.CMD")
            .to_ascii_lowercase();
        let mut tries: Vec<&str> = pathext.split(';').filter(|ext| !ext.is_empty()).collect();
        let last = name.rsplit(['\\', '/']).next().unwrap_or(name);
        if last.contains('.') {
            tries.insert(0, "");
        }
        self.p.find(name, &dirs, &tries)
    }

    fn launch(&mut self, found: &Located, name: &str, rest: &str, called: bool) -> Flow {
        let lower = found.name.to_ascii_lowercase();
        if lower.ends_with(".cmd") || lower.ends_with(".bat") {
            return self.enter(found, rest, called);
        }
        if !lower.ends_with(".exe") && !lower.ends_with(".com") {
            self.p.complain(&format!(
                "{}: the stand-in has no program associated with such files\n",
                found.name
            ));
            self.fail(1);
            return Flow::Next;
        }
        let name = if name.contains([' ', '\t']) {
            format!("\"{name}\"")
        } else {
            name.to_owned()
        };
        let code = self
            .p
            .start(found, &format!("{name}{rest}"))
            .unwrap_or_else(|error| {
                self.p
                    .complain(&format!("{}\n", error.text().replace("%1", &found.name)));
                error.0
            });
        self.fail(code as i32);
        Flow::Next
    }

    /// Runs a batch file: as a subroutine when called, otherwise in place of the one that runs.
    fn enter(&mut self, found: &Located, rest: &str, called: bool) -> Flow {
        let bytes = match std::fs::read(&found.host) {
            Ok(bytes) => bytes,
            Err(e) => {
                self.p.complain(&format!("{}\n", Win32::from_io(&e).text()));
                self.fail(1);
                return Flow::Next;
            }
        };
        let script = Script {
            file: found.name.clone(),
            text: codepage::decode(self.p.code_page, &bytes),
        };
        self.code = 0;
        let flow = self.batch(script, arguments(rest));
        self.code = self.errorlevel;
        match flow {
            Flow::Quit => Flow::Quit,
            _ if called || self.frames.is_empty() => Flow::Next,
            _ => Flow::Leave,
        }
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
