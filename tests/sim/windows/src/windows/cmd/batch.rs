//! Batch files: lines, labels, subroutines, what `setlocal` saved.

use std::sync::Arc;

use super::parse::{self, Node};
use super::{Flow, Frame, MAX_CALLS, Scope, Script, Shell, expand};
use crate::windows::regf::same;

impl Shell {
    /// Runs a batch file to its end; whether cmd.exe itself has to end.
    pub(super) fn batch(&mut self, script: Script, mut args: Vec<String>) -> Flow {
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

    pub(super) fn frame(&mut self, frame: Frame) -> Flow {
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

    pub(super) fn lines(&mut self) -> Flow {
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

    pub(super) fn jump(&mut self, at: usize) {
        if let Some(frame) = self.frames.last_mut() {
            frame.at = at;
        }
    }

    /// The line after a label: searched from here to the end, then from the start.
    pub(super) fn label(&self, name: &str) -> Option<usize> {
        let frame = self.frames.last()?;
        let is = |at: &usize| {
            let line = frame.lines[*at].trim_start_matches([' ', '\t', ';', ',', '=']);
            line.strip_prefix(':').is_some_and(|label| {
                let end = label
                    .find([' ', '\t', ':', '+', ',', ';', '=', '&', '<', '>', '|'])
                    .unwrap_or(label.len());
                same(&label[..end], name)
            })
        };
        let count = frame.lines.len();
        (frame.at..count)
            .chain(0..frame.at.min(count))
            .find(is)
            .map(|at| at + 1)
    }

    pub(super) fn restore(&mut self, scope: Scope) {
        (self.p.env, self.p.cwd, self.delayed) = (scope.env, scope.cwd, scope.delayed);
    }
}
