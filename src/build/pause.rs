//! Where a build waits for a person: before a step (`--break`, `--debug`) and after a failure (`--on-error keep|ask`).
//!
//! Decides when to stop and what may follow; the console carries questions here, the shell gives a line its meaning.
//! Never offers to take a failed step for a good one. An interrupt ends every wait.

mod menu;

use std::cell::{Cell, RefCell};
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

pub use self::menu::printable;
use self::menu::{Key, Menu};
use super::console::wire::{Ask, Format, Halt, LARGEST_FILE, Reply};
use super::console::{self, Console, Work};
use super::shell::{After, Said, Shell};
use crate::diag;
use crate::error::{Error, Kind, Result};
use crate::event::{Cancel, Event, Sink};
use crate::guest::Guest;
use crate::io;
use crate::plan::Plan;

/// How often a wait looks at the machine and for an interrupt.
const GLANCE: Duration = Duration::from_millis(100);
/// How often a machine without a guest that answers is looked at: it costs a picture.
const LOOK: Duration = Duration::from_secs(10);

/// What becomes of the machine after a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    #[default]
    Cleanup,
    Keep,
    Ask,
}

/// What the user asked for.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    pub on_error: OnError,
    /// Steps to stop before, by name or number.
    pub breaks: Vec<String>,
    pub debug: bool,
    /// Whether a person sits at the build's own terminal.
    pub interactive: bool,
    /// The longest wait for a person.
    pub keep_for: Option<Duration>,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    GoOn,
    Retry,
    Stop,
}

impl Choice {
    fn name(self) -> &'static str {
        match self {
            Self::GoOn => "go-on",
            Self::Retry => "retry",
            Self::Stop => "stop",
        }
    }
}

impl Wishes {
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
                "--debug: there is no terminal to ask on; take --break, and winimg attach".into(),
            );
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
    wishes: Wishes,
    console: Arc<Console>,
    sink: Arc<dyn Sink>,
    cancel: Cancel,
    /// The user chose to keep what is there.
    kept: Cell<bool>,
    /// What a person did to the guest; the image then is not the recipe's alone.
    by_hand: RefCell<Vec<String>>,
}

/// One pause: what is said and what may end it.
struct Stop {
    reason: &'static str,
    step: Option<usize>,
    text: String,
    choices: &'static [Choice],
    menu: Option<Menu>,
    deadline: Option<Instant>,
}

impl Pauses {
    pub fn new(
        wishes: Wishes,
        console: Arc<Console>,
        sink: Arc<dyn Sink>,
        cancel: Cancel,
    ) -> Result<Self> {
        if wishes.asks() {
            menu::read_terminal(Arc::clone(&console))?;
        }
        Ok(Self {
            wishes,
            console,
            sink,
            cancel,
            kept: Cell::default(),
            by_hand: RefCell::default(),
        })
    }

    /// Stops nowhere and asks nobody.
    pub fn none(sink: Arc<dyn Sink>, cancel: Cancel) -> Self {
        Self {
            wishes: Wishes::default(),
            console: Console::none(),
            sink,
            cancel,
            kept: Cell::default(),
            by_hand: RefCell::default(),
        }
    }

    pub fn console(&self) -> &Console {
        &self.console
    }

    /// The number of the first step that the build stops before, counted from 1: it has to run, and those after it.
    pub fn first_stop(&self, plan: &Plan) -> Option<usize> {
        let mut steps = (1..).zip(&plan.steps);
        let stops = |number, name: &str| self.wishes.debug || self.wishes.stops_at(number, name);
        steps
            .find(|(number, step)| step.skipped.is_none() && stops(*number, &step.name))
            .map(|(number, _)| number)
    }

    /// Whether disk and working files stay after a failure.
    pub fn keeps(&self) -> bool {
        self.wishes.on_error == OnError::Keep || self.kept.get()
    }

    /// What persons did to the guest, for the manifest. Not empty: the disk is no longer what the recipe alone makes,
    /// and no layer may be sealed from it.
    pub fn by_hand(&self) -> Vec<String> {
        self.by_hand.borrow().clone()
    }

    /// Waits where the user said so. `Stop`: the user ends the build here.
    pub fn before_step(&self, number: usize, name: &str, guest: &mut dyn Guest) -> Result<Choice> {
        let reason = match self.wishes.stops_at(number, name) {
            true => "break",
            false if self.wishes.debug => "debug",
            false => return Ok(Choice::GoOn),
        };
        let stop = Stop {
            reason,
            step: Some(number),
            text: format!("stopped before step {number}, {name}"),
            choices: &[Choice::GoOn, Choice::Stop],
            menu: self.wishes.interactive.then_some(Menu::Step),
            deadline: self.deadline(),
        };
        self.wait(stop, Some(guest))
    }

    /// Waits after a failure, as the user said. Never an error: the failure is what the build ends with, also after an
    /// interrupt, which ends the wait only. Without a guest (Setup failed) there is nothing to try again.
    pub fn after_failure(&self, error: &Error, guest: Option<&mut dyn Guest>) -> Result<Choice> {
        let wishes = &self.wishes;
        let is_silent = match wishes.on_error {
            OnError::Cleanup => true,
            OnError::Keep => !wishes.interactive && wishes.keep_for.is_none(),
            OnError::Ask => false,
        };
        if is_silent || error.kind() == Kind::Cancelled || self.cancel.is_cancelled() {
            return Ok(Choice::Stop);
        }
        let guest = guest.and_then(|g| g.is_there().is_ok().then_some(g));
        let is_alive = guest.is_some() || self.console.picture(Format::Png).is_ok();
        let asks = wishes.on_error == OnError::Ask;
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
            reason: "failure",
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
                self.sink.warn(format!("the wait is over: {e}"));
            }
            Choice::Stop
        }))
    }

    fn deadline(&self) -> Option<Instant> {
        self.wishes.keep_for.map(|time| Instant::now() + time)
    }

    fn wait(&self, stop: Stop, guest: Option<&mut dyn Guest>) -> Result<Choice> {
        let started = Instant::now();
        let names = stop.choices.iter().map(|c| c.name().to_string());
        let halt = Halt {
            text: stop.text.clone(),
            choices: names.collect(),
        };
        // First: who is told by the event can attach.
        let queue = self.console.pause(halt);
        self.sink.emit(&Event::Paused {
            reason: stop.reason,
            step: stop.step,
            text: match stop.menu {
                Some(Menu::Gone) => stop.text.clone(),
                _ => format!("{}\n{}", stop.text, self.hint(&stop)),
            },
        });
        let mut wait = Wait {
            pauses: self,
            stop: &stop,
            guest,
            menu: stop.menu,
            shell: None,
            looked: Instant::now(),
        };
        let outcome = wait.until_chosen(&queue);
        self.console.resume();
        let choice = *outcome.as_ref().unwrap_or(&Choice::Stop);
        if choice == Choice::Retry
            && let Some(number) = stop.step
        {
            self.note_by_hand(format!("step {number} failed and was tried again by hand"));
        }
        self.sink.emit(&Event::Resumed {
            choice: choice.name(),
            seconds: started.elapsed().as_secs_f64(),
        });
        outcome
    }

    /// Where to go from here, for whoever is not asked on the terminal.
    fn hint(&self, stop: &Stop) -> String {
        let output = self.console.state().output;
        let output = output.display();
        let end = match stop.menu {
            None if stop.reason == "failure" => "Ctrl-C ends the machine",
            _ => "Ctrl-C ends the build",
        };
        format!("the machine runs: winimg attach {output}, winimg screen {output}; {end}")
    }

    fn note_by_hand(&self, what: String) {
        let mut by_hand = self.by_hand.borrow_mut();
        if !by_hand.contains(&what) {
            by_hand.push(what);
        }
    }
}

/// A wait under way.
struct Wait<'a, 'g> {
    pauses: &'a Pauses,
    stop: &'a Stop,
    guest: Option<&'g mut dyn Guest>,
    /// What the terminal is asked; `None`: nothing any more.
    menu: Option<Menu>,
    /// The shell on the build's own terminal, while it is open.
    shell: Option<Shell>,
    looked: Instant,
}

impl Wait<'_, '_> {
    fn until_chosen(&mut self, queue: &std::sync::mpsc::Receiver<Work>) -> Result<Choice> {
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

    /// The machine, the interrupt and the limit.
    fn look(&mut self) -> Result<()> {
        self.pauses.cancel.check()?;
        if let Some(guest) = &mut self.guest {
            console::wait_back(*guest)?;
        } else if self.menu != Some(Menu::Gone) && self.looked.elapsed() > LOOK {
            self.pauses.console.picture(Format::Png)?;
            self.looked = Instant::now();
        }
        if self.stop.deadline.is_some_and(|end| Instant::now() >= end) {
            let waited = self.pauses.wishes.keep_for.unwrap_or_default().as_secs();
            return Err(
                Error::new(Kind::Step, format!("nobody went on within {waited} s"))
                    .at(&self.stop.text)
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
                "failure" => format!("somebody worked in the guest after step {number} had failed"),
                _ => format!("somebody worked in the guest before step {number} began"),
            });
        }
    }

    fn choose(&self, choice: Choice) -> (Reply, Option<Choice>) {
        if self.stop.choices.contains(&choice) {
            let choice_name = choice.name().into();
            return (
                Reply::Chosen {
                    choice: choice_name,
                },
                Some(choice),
            );
        }
        let why = match choice {
            Choice::GoOn if self.stop.reason == "failure" => {
                "what failed is never taken for good: .retry the step, or .stop the build"
            }
            Choice::Retry if self.guest.is_none() => "there is no step to try again: .stop",
            _ => "no step has failed: .go on, or .stop the build",
        };
        (Reply::refused(why), None)
    }

    /// A line at the build's own terminal.
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
            Err(error) => eprintln!("error: {error}"),
        }
    }
}

/// Whether questions on standard error can be answered on standard input.
pub fn is_at_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}
