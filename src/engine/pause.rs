//! Pauses a build for the user: before a step (`--break`, `--debug`) and after a failure
//! (`--on-error keep|ask`).
//!
//! Decides when to stop and how the user may continue. The console delivers requests, and the shell
//! parses lines. A failed step cannot be skipped. An interrupt ends every wait.

mod menu;
mod wait;

use std::cell::{Cell, RefCell};
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use self::menu::PauseMenu;
pub use self::menu::sanitize_output;
use self::wait::PauseWait;
use super::console::wire::{PauseState, ScreenFormat};
use super::console::{BuildConsole, HAS_SOCKET};
use winimg_base::diag;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Event, PauseChoice, PauseReason, Sink};
use winimg_machine::guest::Guest;
use winimg_recipe::plan::BuildPlan;

/// Treatment of the VM after a failure. `--help` shows the sentences below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnError {
    /// Keep screenshots and logs, delete the disk
    Cleanup,
    /// Keep everything and print where it is; on a terminal, or with --keep-for, the VM runs until
    /// Ctrl-C
    Keep,
    /// Ask on the terminal: retry the step, open a shell in the guest, keep, or clean up
    Ask,
}

#[derive(Clone, Debug)]
pub struct PauseOptions {
    pub on_error: OnError,
    /// Steps to stop before, by name or number.
    pub breaks: Vec<String>,
    pub debug: bool,
    /// The build's own terminal is interactive.
    pub interactive: bool,
    pub keep_for: Option<Duration>,
}

impl PauseOptions {
    /// Validates the options before the build creates anything, and reports all errors at once.
    pub fn check(&self, plan: &BuildPlan) -> Result<()> {
        let names: Vec<&str> = plan.steps.iter().map(|s| s.name.as_str()).collect();
        let mut problems = Vec::new();
        for wanted in &self.breaks {
            let mut found = (1..)
                .zip(&plan.steps)
                .filter(|(n, s)| matches_step(wanted, *n, &s.name));
            match found.next() {
                None if wanted.parse::<usize>().is_ok() => problems.push(format!(
                    "--break {wanted}: the steps are numbered from 1 to {}",
                    names.len()
                )),
                None => problems.push(format!(
                    "--break {wanted}: no step has this name; {}",
                    diag::suggest(wanted, &names, "steps")
                )),
                Some((number, step)) => {
                    if let Some(when) = &step.skipped {
                        problems.push(format!(
                            "--break {wanted}: step {number} is skipped, when = {when}"
                        ));
                    }
                }
            }
        }
        if self.on_error == OnError::Ask && !self.interactive {
            problems.push("--on-error ask: needs a terminal; use --on-error keep".into());
        }
        if self.debug && !self.interactive {
            problems.push(
                if HAS_SOCKET {
                    "--debug: needs a terminal; use --break and `winimg attach`"
                } else {
                    "--debug: needs a terminal"
                }
                .into(),
            );
        }
        let is_endless = !self.breaks.is_empty() && self.keep_for.is_none();
        if is_endless && !HAS_SOCKET && !self.interactive {
            problems.push("--break: needs a terminal to continue from; add --keep-for".into());
        }
        if self.keep_for.is_some() && self.on_error == OnError::Cleanup && self.breaks.is_empty() {
            problems.push("--keep-for: has no effect without --on-error keep".into());
        }
        if problems.is_empty() {
            return Ok(());
        }
        Err(Error::new(Kind::Recipe, "the build cannot pause with these options").lines(problems))
    }

    fn stops_at(&self, number: usize, name: &str) -> bool {
        self.breaks.iter().any(|b| matches_step(b, number, name))
    }

    /// Returns true if the build may prompt on its own terminal.
    fn needs_prompt(&self) -> bool {
        self.interactive
            && (self.debug || !self.breaks.is_empty() || self.on_error != OnError::Cleanup)
    }
}

fn matches_step(wanted: &str, number: usize, name: &str) -> bool {
    wanted == name || wanted.parse() == Ok(number)
}

/// Pauses the build where the user requested it.
pub struct BuildPauses {
    options: PauseOptions,
    console: Arc<BuildConsole>,
    sink: Arc<dyn Sink>,
    cancel: Cancel,
    /// The user chose to keep the VM's disk.
    keeps_disk: Cell<bool>,
    /// Manual changes to the guest: the image no longer follows from the recipe alone.
    manual_changes: RefCell<Vec<String>>,
}

struct PausePoint {
    reason: PauseReason,
    step: Option<usize>,
    text: String,
    choices: &'static [PauseChoice],
    menu: Option<PauseMenu>,
    deadline: Option<Instant>,
}

impl BuildPauses {
    pub fn new(
        options: PauseOptions,
        console: Arc<BuildConsole>,
        sink: Arc<dyn Sink>,
        cancel: Cancel,
    ) -> Result<Self> {
        if options.needs_prompt() {
            menu::read_terminal(Arc::clone(&console))?;
        }
        Ok(Self {
            options,
            console,
            sink,
            cancel,
            keeps_disk: Cell::default(),
            manual_changes: RefCell::default(),
        })
    }

    pub fn console(&self) -> &BuildConsole {
        &self.console
    }

    /// Returns the number, counted from 1, of the first step that the build pauses before. That
    /// step and those after it must not come from a layer.
    pub fn find_first_stop(&self, plan: &BuildPlan) -> Option<usize> {
        let options = &self.options;
        (1..)
            .zip(&plan.steps)
            .filter(|(_, step)| step.skipped.is_none())
            .find(|(number, step)| options.debug || options.stops_at(*number, &step.name))
            .map(|(number, _)| number)
    }

    pub fn should_keep(&self) -> bool {
        self.options.on_error == OnError::Keep || self.keeps_disk.get()
    }

    /// Returns the manual changes to the guest, for the manifest. If there are any, the disk no
    /// longer follows from the recipe alone, and no layer may be sealed from it.
    pub fn manual_changes(&self) -> Vec<String> {
        self.manual_changes.borrow().clone()
    }

    /// Pauses before the step if the user requested it. Returns `Stop` if the user ends the build.
    pub fn before_step(
        &self,
        number: usize,
        name: &str,
        guest: &mut dyn Guest,
    ) -> Result<PauseChoice> {
        let reason = if self.options.stops_at(number, name) {
            PauseReason::Break
        } else if self.options.debug {
            PauseReason::Debug
        } else {
            return Ok(PauseChoice::GoOn);
        };
        let stop = PausePoint {
            reason,
            step: Some(number),
            text: format!("stopped before step {number}, {name}"),
            choices: &[PauseChoice::GoOn, PauseChoice::Stop],
            menu: self.options.interactive.then_some(PauseMenu::Step),
            deadline: self.compute_deadline(),
        };
        self.wait(stop, Some(guest))
    }

    /// Pauses after a failure if the user requested it. Never returns an error: the build reports
    /// the failure itself, and an interrupt only ends the wait. Without a guest (Setup failed)
    /// there is nothing to retry.
    pub fn after_failure(
        &self,
        error: &Error,
        guest: Option<&mut dyn Guest>,
    ) -> Result<PauseChoice> {
        let options = &self.options;
        let is_silent = match options.on_error {
            OnError::Cleanup => true,
            OnError::Keep => !options.interactive && options.keep_for.is_none(),
            OnError::Ask => false,
        };
        if is_silent || error.kind() == Kind::Cancelled || self.cancel.is_cancelled() {
            return Ok(PauseChoice::Stop);
        }
        let guest = guest.and_then(|g| g.is_there().is_ok().then_some(g));
        let is_alive = guest.is_some() || self.console.take_screenshot(ScreenFormat::Png).is_ok();
        let prompts = options.on_error == OnError::Ask;
        if !prompts && !is_alive {
            return Ok(PauseChoice::Stop);
        }
        let menu = match (&guest, is_alive) {
            (Some(_), _) => PauseMenu::Failure,
            (None, true) => PauseMenu::Setup,
            (None, false) => PauseMenu::Gone,
        };
        let choices: &[PauseChoice] = match guest {
            Some(_) => &[PauseChoice::Retry, PauseChoice::Stop],
            None => &[PauseChoice::Stop],
        };
        let stop = PausePoint {
            reason: PauseReason::Failure,
            step: guest
                .as_ref()
                .and(self.console.state().step)
                .map(|s| s.number),
            text: format!("error: {error}"),
            choices,
            menu: prompts.then_some(menu),
            deadline: self.compute_deadline(),
        };
        let chosen = self.wait(stop, guest);
        // Ctrl-C releases a kept VM; it must not interrupt the cleanup that follows.
        let was_interrupt = self.cancel.take();
        Ok(chosen.unwrap_or_else(|e| {
            if !was_interrupt {
                self.sink.warn(format!("stopped waiting: {}", e.fact()));
            }
            PauseChoice::Stop
        }))
    }

    fn compute_deadline(&self) -> Option<Instant> {
        self.options.keep_for.map(|time| Instant::now() + time)
    }

    fn wait(&self, stop: PausePoint, guest: Option<&mut dyn Guest>) -> Result<PauseChoice> {
        let started = Instant::now();
        let names = stop.choices.iter().map(|c| c.name().to_string());
        let state = PauseState {
            text: stop.text.clone(),
            choices: names.collect(),
        };
        // Before the event is emitted: its readers may attach immediately.
        let queue = self.console.pause(state);
        self.sink.emit(&Event::Paused {
            reason: stop.reason,
            step: stop.step,
            text: match stop.menu {
                Some(PauseMenu::Gone) => stop.text.clone(),
                _ => format!("{}\n{}", stop.text, self.describe_options(&stop)),
            },
        });
        let outcome = PauseWait::new(self, &stop, guest).wait_for_choice(&queue);
        self.console.resume();
        let choice = *outcome.as_ref().unwrap_or(&PauseChoice::Stop);
        if choice == PauseChoice::Retry
            && let Some(number) = stop.step
        {
            self.record_manual_change(format!("step {number} failed and was retried manually"));
        }
        self.sink.emit(&Event::Resumed {
            choice,
            seconds: started.elapsed().as_secs_f64(),
        });
        outcome
    }

    /// Describes how to continue, for a user without a prompt on the terminal.
    fn describe_options(&self, stop: &PausePoint) -> String {
        let output = self.console.state().output;
        let output = output.display();
        let end = match stop.menu {
            None if stop.reason == PauseReason::Failure => "Ctrl-C stops the VM",
            _ => "Ctrl-C stops the build",
        };
        if HAS_SOCKET {
            format!("the VM is running: winimg attach {output}, winimg screen {output}; {end}")
        } else {
            format!("the VM is running; {end}")
        }
    }

    fn record_manual_change(&self, what: String) {
        let mut manual_changes = self.manual_changes.borrow_mut();
        if !manual_changes.contains(&what) {
            manual_changes.push(what);
        }
    }
}

/// Returns true if both standard input and standard error are terminals.
pub fn is_at_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}
