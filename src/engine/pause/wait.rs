//! One wait: questions from the socket, lines typed at the build's own terminal, the machine, the limit, the interrupt.
//!
//! Carries out what is asked and ends with a choice that the pause allows. What the guest refuses is the answer to the person
//! who asked, and ends nothing.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::menu::{Key, Menu, printable};
use super::{Pauses, Stop};
use crate::engine::console::wire::{Ask, Format, LARGEST_FILE, Reply};
use crate::engine::console::{self, Work};
use crate::engine::shell::{After, Said, Shell};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Choice, Reason};
use winimg_base::io;
use winimg_base::unseen;
use winimg_machine::guest::Guest;

/// How often a wait looks at the machine and for an interrupt.
const GLANCE: Duration = Duration::from_millis(100);
/// How often a machine without a guest that answers is looked at: it costs a picture.
const LOOK: Duration = Duration::from_secs(10);

pub struct Wait<'a, 'g> {
    pauses: &'a Pauses,
    stop: &'a Stop,
    guest: Option<&'g mut dyn Guest>,
    /// What the terminal is asked; `None`: nothing any more.
    menu: Option<Menu>,
    shell: Option<Shell>,
    looked: Instant,
}

impl<'a, 'g> Wait<'a, 'g> {
    pub fn new(pauses: &'a Pauses, stop: &'a Stop, guest: Option<&'g mut dyn Guest>) -> Self {
        Self {
            pauses,
            stop,
            guest,
            menu: stop.menu,
            shell: None,
            looked: Instant::now(),
        }
    }

    pub fn until_chosen(&mut self, queue: &Receiver<Work>) -> Result<Choice> {
        if self.menu.is_some() && self.pauses.console.is_typed_out() {
            return Ok(Choice::Stop);
        }
        self.prompt();
        loop {
            self.look()?;
            let chosen = match queue.recv_timeout(GLANCE) {
                Ok(Work::Asked { ask, reply }) => {
                    let sender = reply.clone();
                    let (answer, chosen) = self.answer(ask, &mut |text| {
                        let _ = sender.send(Reply::Output { text: text.into() });
                    })?;
                    let _ = reply.send(answer);
                    if chosen.is_some() && self.menu.is_some() {
                        eprintln!();
                    }
                    chosen
                }
                Ok(Work::Typed(line)) => self.typed(line)?,
                Err(RecvTimeoutError::Timeout) => None,
                // The console went away, and with it everyone who could choose.
                Err(RecvTimeoutError::Disconnected) => return Err(Error::cancelled()),
            };
            if let Some(choice) = chosen {
                return Ok(choice);
            }
        }
    }

    fn look(&mut self) -> Result<()> {
        self.pauses.cancel.check()?;
        if let Some(guest) = &mut self.guest {
            console::wait_back(*guest)?;
        } else if self.menu != Some(Menu::Gone) && self.looked.elapsed() > LOOK {
            self.pauses.console.picture(Format::Png)?;
            self.looked = Instant::now();
        }
        if self.stop.deadline.is_some_and(|end| Instant::now() >= end) {
            let waited = self.pauses.options.keep_for.unwrap_or_default().as_secs();
            return Err(
                Error::new(Kind::Step, format!("nobody continued within {waited} s"))
                    .at(self.stop.text.lines().next().unwrap_or_default())
                    .cure("give --keep-for a longer time"),
            );
        }
        Ok(())
    }

    fn prompt(&self) {
        let text = match (&self.shell, self.menu) {
            (Some(shell), _) => shell.prompt(),
            (None, Some(menu)) => menu.question().into(),
            (None, None) => return,
        };
        eprint!("{text}");
    }

    /// An answer, and the choice where it was one.
    fn answer(
        &mut self,
        ask: Ask,
        output: &mut dyn FnMut(&str),
    ) -> Result<(Reply, Option<Choice>)> {
        let reply = match ask {
            Ask::GoOn => return Ok(self.choose(Choice::GoOn)),
            Ask::Retry => return Ok(self.choose(Choice::Retry)),
            Ask::Stop => return Ok(self.choose(Choice::Stop)),
            Ask::State => Reply::State(self.pauses.console.state()),
            Ask::Screen { format } => match self.pauses.console.picture(format) {
                Ok(bytes) => Reply::bytes(Some(&bytes)),
                Err(error) => Reply::refused(error),
            },
            Ask::Run { line, folder } => {
                self.note_work();
                self.with_guest(|guest| console::run(guest, &line, &folder, output))?
            }
            Ask::Get { path } => self.with_guest(|guest| {
                let bytes = guest.get(&path, LARGEST_FILE)?;
                Ok(Reply::bytes(bytes.as_deref()))
            })?,
        };
        Ok((reply, None))
    }

    /// What the guest refuses is the person's affair; only the end of the wait is an error here.
    fn with_guest(&mut self, work: impl FnOnce(&mut dyn Guest) -> Result<Reply>) -> Result<Reply> {
        let Some(guest) = &mut self.guest else {
            return Ok(Reply::refused(
                "there is no guest that answers: the machine can only be looked at",
            ));
        };
        let outcome = work(*guest);
        self.pauses.cancel.check()?;
        Ok(outcome.unwrap_or_else(Reply::refused))
    }

    fn note_work(&self) {
        if let (Some(number), Some(_)) = (self.stop.step, &self.guest) {
            self.pauses.note_by_hand(match self.stop.reason {
                Reason::Failure => {
                    format!("somebody worked in the guest after step {number} had failed")
                }
                Reason::Break | Reason::Debug => {
                    format!("somebody worked in the guest before step {number} began")
                }
            });
        }
    }

    fn choose(&self, choice: Choice) -> (Reply, Option<Choice>) {
        if self.stop.choices.contains(&choice) {
            let reply = Reply::Chosen {
                choice: choice.name().into(),
            };
            return (reply, Some(choice));
        }
        let why = match choice {
            Choice::GoOn if self.stop.reason == Reason::Failure => {
                "what failed is never taken for good: .retry the step, or .stop the build"
            }
            Choice::Retry if self.guest.is_none() => "there is no step to try again: .stop",
            _ => "no step has failed: .go on, or .stop the build",
        };
        (Reply::refused(why), None)
    }

    fn typed(&mut self, line: Option<String>) -> Result<Option<Choice>> {
        if self.menu.is_none() {
            return Ok(None);
        }
        let Some(line) = line else {
            eprintln!();
            return Ok(Some(Choice::Stop));
        };
        if self.shell.is_some() {
            let chosen = self.in_shell(&line)?;
            if chosen.is_none() {
                self.prompt();
            }
            return Ok(chosen);
        }
        let menu = self.menu.unwrap_or(Menu::Gone);
        match menu.key(line.trim()) {
            Some(Key::Choose(choice)) => return Ok(Some(choice)),
            Some(Key::Shell) => {
                eprintln!("exit leaves, .help lists what else can be typed");
                self.shell = Some(Shell::default());
            }
            Some(Key::Picture) => self.save_picture(),
            Some(Key::Keep) => {
                self.pauses.kept.set(true);
                if menu == Menu::Gone {
                    return Ok(Some(Choice::Stop));
                }
                eprintln!("the machine runs until Ctrl-C");
                self.menu = None;
            }
            None => {}
        }
        self.prompt();
        Ok(None)
    }

    fn in_shell(&mut self, line: &str) -> Result<Option<Choice>> {
        let Some(mut shell) = self.shell.take() else {
            return Ok(None);
        };
        let mut chosen = None;
        let after = shell.enter(
            line,
            &mut |ask, output| {
                let (reply, choice) = self.answer(ask, output)?;
                chosen = choice;
                Ok(reply)
            },
            &mut |said| match said {
                Said::Output(text) => eprint!("{}", printable(text)),
                Said::Word(text) => eprintln!("{text}"),
            },
        )?;
        if after == After::Prompt {
            self.shell = Some(shell);
        }
        Ok(chosen)
    }

    fn save_picture(&self) {
        let file = self.pauses.console.state().output.join("screen.png");
        let saved = self
            .pauses
            .console
            .picture(Format::Png)
            .and_then(|bytes| io::write_atomically(&file, &bytes));
        match saved {
            Ok(()) => eprintln!("{}", file.display()),
            Err(error) => eprintln!("error: {}", unseen::lines(&error.to_string())),
        }
    }
}
