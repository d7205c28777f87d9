//! Running a parsed command: sequences, conditions, pipes, redirections.

use std::sync::{Arc, Mutex};

use super::parse::{How, Node, Redirect, Test};
use super::{Flow, Shell, arithmetic, expand, files, loops};
use crate::windows::error::*;
use crate::windows::process::{self, Stream, buffer, taken};
use crate::windows::volume::Place;

impl Shell {
    pub(super) fn node(&mut self, node: &Node) -> Flow {
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
    pub(super) fn text(&self, text: &str) -> String {
        let text = expand::loops(&self.vars, text, &self.p);
        if self.delayed {
            expand::delayed(&self.context(), &text)
        } else {
            text
        }
    }

    /// The left side runs to its end first; each side is a cmd.exe of its own, so what it sets is lost.
    pub(super) fn pipe(&mut self, left: &Node, right: &Node) -> Flow {
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

    pub(super) fn test(&mut self, test: &Test, fold: bool) -> Result<bool, String> {
        let same = |a: &str, b: &str| {
            if fold {
                crate::windows::regf::same(a, b)
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

    pub(super) fn redirected(
        &mut self,
        redirects: &[Redirect],
        act: impl FnOnce(&mut Shell) -> Flow,
    ) -> Flow {
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

    pub(super) fn redirect(&mut self, redirect: &Redirect) -> Result<(), Win32> {
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
}
