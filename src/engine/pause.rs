//! Where a build waits for a person: before a step (`--break`, `--debug`) and after a failure (`--on-error keep|ask`).
//!
//! Decides when to stop and what may follow; the console carries questions here, the shell gives a line its meaning.
//! Never offers to take a failed step for a good one. An interrupt ends every wait.

mod menu;
mod wait;

use std::cell::{Cell, RefCell};
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use self::menu::Menu;
pub use self::menu::printable;
use self::wait::Wait;
use super::console::wire::{Format, Halt};
use super::console::{Console, HAS_SOCKET};
use winimg_base::diag;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Choice, Event, Reason, Sink};
use winimg_machine::guest::Guest;
use winimg_recipe::plan::Plan;

/// What becomes of the machine after a failure. `--help` shows the sentences below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnError {
    /// Keep screenshots and logs, delete the disk
    Cleanup,
    /// Keep everything and print where it is; on a terminal, or with --keep-for, the VM runs until Ctrl-C
    Keep,
    /// Ask on the terminal: retry the step, open a shell in the guest, keep, or clean up
    Ask,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub on_error: OnError,
    /// Steps to stop before, by name or number.
    pub breaks: Vec<String>,
    pub debug: bool,
    /// Whether a person sits at the build's own terminal.
    pub interactive: bool,
    pub keep_for: Option<Duration>,
}

impl Options {
    /// All that is wrong with them, before anything is made.
    pub fn check(&self, plan: &Plan) -> Result<()> {
        let names: Vec<&str> = plan.steps.iter().map(|s| s.name.as_str()).collect();
        let mut wrong = Vec::new();
        for wanted in &self.breaks {
            let mut found = (1..)
                .zip(&plan.steps)
                .filter(|(n, s)| is_meant(wanted, *n, &s.name));
            match found.next() {
                None if wanted.parse::<usize>().is_ok() => wrong.push(format!(
                    "--break {wanted}: the steps are numbered from 1 to {}",
                    names.len()
                )),
                None => wrong.push(format!(
                    "--break {wanted}: no step has this name; {}",
                    diag::suggestion(wanted, &names, "steps")
                )),
                Some((number, step)) => {
                    if let Some(when) = &step.skipped {
                        wrong.push(format!(
                            "--break {wanted}: step {number} is skipped, when = {when}"
                        ));
                    }
                }
            }
        }
        if self.on_error == OnError::Ask && !self.interactive {
            wrong.push(
                "--on-error ask: there is no terminal to ask on; take --on-error keep".into(),
            );
        }
        if self.debug && !self.interactive {
            wrong.push(
                match HAS_SOCKET {
                    true => {
                        "--debug: there is no terminal to ask on; take --break, and winimg attach"
                    }
                    false => "--debug: there is no terminal to ask on",
                }
                .into(),
            );
        }
        let is_endless = !self.breaks.is_empty() && self.keep_for.is_none();
        if is_endless && !HAS_SOCKET && !self.interactive {
            wrong.push("--break: there is no terminal to continue from; add --keep-for".into());
        }
        if self.keep_for.is_some() && self.on_error == OnError::Cleanup && self.breaks.is_empty() {
            wrong.push("--keep-for: nothing is kept; take --on-error keep with it".into());
        }
        if wrong.is_empty() {
            return Ok(());
        }
        Err(Error::new(Kind::Recipe, "the build can't wait for a person this way").lines(wrong))
    }

    fn stops_at(&self, number: usize, name: &str) -> bool {
        self.breaks.iter().any(|b| is_meant(b, number, name))
    }

    /// Whether the build's own terminal may be asked something.
    fn asks(&self) -> bool {
        self.interactive
            && (self.debug || !self.breaks.is_empty() || self.on_error != OnError::Cleanup)
    }
}

fn is_meant(wanted: &str, number: usize, name: &str) -> bool {
    wanted == name || wanted.parse() == Ok(number)
}

/// Stands beside the build and stops it where the user said.
pub struct Pauses {
    options: Options,
    console: Arc<Console>,
    sink: Arc<dyn Sink>,
    cancel: Cancel,
    /// The user chose to keep what is there.
    kept: Cell<bool>,
    /// What a person did to the guest; the image then is not the recipe's alone.
    by_hand: RefCell<Vec<String>>,
}

struct Stop {
    reason: Reason,
    step: Option<usize>,
    text: String,
    choices: &'static [Choice],
    menu: Option<Menu>,
    deadline: Option<Instant>,
}

impl Pauses {
    pub fn new(
        options: Options,
        console: Arc<Console>,
        sink: Arc<dyn Sink>,
        cancel: Cancel,
    ) -> Result<Self> {
        if options.asks() {
            menu::read_terminal(Arc::clone(&console))?;
        }
        Ok(Self {
            options,
            console,
            sink,
            cancel,
            kept: Cell::default(),
            by_hand: RefCell::default(),
        })
    }

    pub fn console(&self) -> &Console {
        &self.console
    }

    /// The number of the first step that the build stops before, counted from 1: it has to run, and those after it.
    pub fn first_stop(&self, plan: &Plan) -> Option<usize> {
        let mut steps = (1..).zip(&plan.steps);
        let stops = |number, name: &str| self.options.debug || self.options.stops_at(number, name);
        steps
            .find(|(number, step)| step.skipped.is_none() && stops(*number, &step.name))
            .map(|(number, _)| number)
    }

    pub fn keeps(&self) -> bool {
        self.options.on_error == OnError::Keep || self.kept.get()
    }

    /// What persons did to the guest, for the manifest. Not empty: the disk is no longer what the recipe alone makes,
    /// and no layer may be sealed from it.
    pub fn by_hand(&self) -> Vec<String> {
        self.by_hand.borrow().clone()
    }

    /// Waits where the user said so. `Stop`: the user ends the build here.
    pub fn before_step(&self, number: usize, name: &str, guest: &mut dyn Guest) -> Result<Choice> {
        let reason = match self.options.stops_at(number, name) {
            true => Reason::Break,
            false if self.options.debug => Reason::Debug,
            false => return Ok(Choice::GoOn),
        };
        let stop = Stop {
            reason,
            step: Some(number),
            text: format!("stopped before step {number}, {name}"),
            choices: &[Choice::GoOn, Choice::Stop],
            menu: self.options.interactive.then_some(Menu::Step),
            deadline: self.deadline(),
        };
        self.wait(stop, Some(guest))
    }

    /// Waits after a failure, as the user said. Never an error: the failure is what the build ends with, also after an
    /// interrupt, which ends the wait only. Without a guest (Setup failed) there is nothing to try again.
    pub fn after_failure(&self, error: &Error, guest: Option<&mut dyn Guest>) -> Result<Choice> {
        let options = &self.options;
        let is_silent = match options.on_error {
            OnError::Cleanup => true,
            OnError::Keep => !options.interactive && options.keep_for.is_none(),
            OnError::Ask => false,
        };
        if is_silent || error.kind() == Kind::Cancelled || self.cancel.is_cancelled() {
            return Ok(Choice::Stop);
        }
        let guest = guest.and_then(|g| g.is_there().is_ok().then_some(g));
        let is_alive = guest.is_some() || self.console.picture(Format::Png).is_ok();
        let asks = options.on_error == OnError::Ask;
        if !asks && !is_alive {
            return Ok(Choice::Stop);
        }
        let menu = match (&guest, is_alive) {
            (Some(_), _) => Menu::Failure,
            (None, true) => Menu::Setup,
            (None, false) => Menu::Gone,
        };
        let choices: &[Choice] = match guest {
            Some(_) => &[Choice::Retry, Choice::Stop],
            None => &[Choice::Stop],
        };
        let stop = Stop {
            reason: Reason::Failure,
            step: guest
                .as_ref()
                .and(self.console.state().step)
                .map(|s| s.number),
            text: format!("error: {error}"),
            choices,
            menu: asks.then_some(menu),
            deadline: self.deadline(),
        };
        let chosen = self.wait(stop, guest);
        // Ctrl-C is how a kept machine is let go: what follows, such as keeping the evidence, is not interrupted by it.
        let was_interrupt = self.cancel.take();
        Ok(chosen.unwrap_or_else(|e| {
            if !was_interrupt {
                self.sink.warn(format!("the wait is over: {}", e.fact()));
            }
            Choice::Stop
        }))
    }

    fn deadline(&self) -> Option<Instant> {
        self.options.keep_for.map(|time| Instant::now() + time)
    }

    fn wait(&self, stop: Stop, guest: Option<&mut dyn Guest>) -> Result<Choice> {
        let started = Instant::now();
        let names = stop.choices.iter().map(|c| c.name().to_string());
        let halt = Halt {
            text: stop.text.clone(),
            choices: names.collect(),
        };
        // First: who reads the event can attach.
        let queue = self.console.pause(halt);
        self.sink.emit(&Event::Paused {
            reason: stop.reason,
            step: stop.step,
            text: match stop.menu {
                Some(Menu::Gone) => stop.text.clone(),
                _ => format!("{}\n{}", stop.text, self.hint(&stop)),
            },
        });
        let outcome = Wait::new(self, &stop, guest).until_chosen(&queue);
        self.console.resume();
        let choice = *outcome.as_ref().unwrap_or(&Choice::Stop);
        if choice == Choice::Retry
            && let Some(number) = stop.step
        {
            self.note_by_hand(format!("step {number} failed and was tried again by hand"));
        }
        self.sink.emit(&Event::Resumed {
            choice,
            seconds: started.elapsed().as_secs_f64(),
        });
        outcome
    }

    /// Where to go from here, for a person who is not asked on the terminal.
    fn hint(&self, stop: &Stop) -> String {
        let output = self.console.state().output;
        let output = output.display();
        let end = match stop.menu {
            None if stop.reason == Reason::Failure => "Ctrl-C ends the machine",
            _ => "Ctrl-C ends the build",
        };
        match HAS_SOCKET {
            true => {
                format!("the machine runs: winimg attach {output}, winimg screen {output}; {end}")
            }
            false => format!("the machine runs; {end}"),
        }
    }

    fn note_by_hand(&self, what: String) {
        let mut by_hand = self.by_hand.borrow_mut();
        if !by_hand.contains(&what) {
            by_hand.push(what);
        }
    }
}

/// Whether questions on standard error can be answered on standard input.
pub fn is_at_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}
