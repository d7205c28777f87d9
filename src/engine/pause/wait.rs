//! One wait: requests from the socket, lines typed at the build's own terminal, the VM, the
//! deadline and interrupts.
//!
//! Handles requests until the user makes a choice that the pause allows. An error from the guest is
//! returned to the user and does not end the wait.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::menu::{MenuKey, PauseMenu, sanitize_output};
use super::{BuildPauses, PausePoint};
use crate::engine::console::wire::{ConsoleReply, ConsoleRequest, MAX_FILE_SIZE, ScreenFormat};
use crate::engine::console::{self, ConsoleWork};
use crate::engine::shell::{GuestShell, ShellAction, ShellMessage};
use winimg_base::display_text;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{PauseChoice, PauseReason};
use winimg_base::io;
use winimg_machine::guest::Guest;

/// Interval for checking the VM and interrupts.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Interval for checking a VM whose guest does not respond: each check takes a screenshot.
const SCREEN_INTERVAL: Duration = Duration::from_secs(10);

pub struct PauseWait<'a, 'g> {
    pauses: &'a BuildPauses,
    stop: &'a PausePoint,
    guest: Option<&'g mut dyn Guest>,
    /// The prompt on the terminal; `None` if there is none any more.
    menu: Option<PauseMenu>,
    shell: Option<GuestShell>,
    last_check: Instant,
}

impl<'a, 'g> PauseWait<'a, 'g> {
    pub fn new(
        pauses: &'a BuildPauses,
        stop: &'a PausePoint,
        guest: Option<&'g mut dyn Guest>,
    ) -> Self {
        Self {
            pauses,
            stop,
            guest,
            menu: stop.menu,
            shell: None,
            last_check: Instant::now(),
        }
    }

    pub fn wait_for_choice(&mut self, queue: &Receiver<ConsoleWork>) -> Result<PauseChoice> {
        if self.menu.is_some() && self.pauses.console.is_typed_out() {
            return Ok(PauseChoice::Stop);
        }
        self.print_prompt();
        loop {
            self.check_machine()?;
            let chosen = match queue.recv_timeout(POLL_INTERVAL) {
                Ok(ConsoleWork::Asked { ask, reply }) => {
                    let sender = reply.clone();
                    let (answer, chosen) = self.handle_request(ask, &mut |text| {
                        let _ = sender.send(ConsoleReply::Output { text: text.into() });
                    })?;
                    let _ = reply.send(answer);
                    if chosen.is_some() && self.menu.is_some() {
                        eprintln!();
                    }
                    chosen
                }
                Ok(ConsoleWork::Typed(line)) => self.handle_line(line)?,
                Err(RecvTimeoutError::Timeout) => None,
                // The console is gone, and with it every client.
                Err(RecvTimeoutError::Disconnected) => return Err(Error::cancelled()),
            };
            if let Some(choice) = chosen {
                return Ok(choice);
            }
        }
    }

    fn check_machine(&mut self) -> Result<()> {
        self.pauses.cancel.check()?;
        if let Some(guest) = &mut self.guest {
            console::wait_back(*guest)?;
        } else if self.menu != Some(PauseMenu::Gone) && self.last_check.elapsed() > SCREEN_INTERVAL
        {
            self.pauses.console.take_screenshot(ScreenFormat::Png)?;
            self.last_check = Instant::now();
        }
        if self.stop.deadline.is_some_and(|end| Instant::now() >= end) {
            let waited = self.pauses.options.keep_for.unwrap_or_default().as_secs();
            return Err(
                Error::new(Kind::Step, format!("not continued within {waited} s"))
                    .at(self.stop.text.lines().next().unwrap_or_default())
                    .cure("use a longer --keep-for"),
            );
        }
        Ok(())
    }

    fn print_prompt(&self) {
        let text = match (&self.shell, self.menu) {
            (Some(shell), _) => shell.prompt(),
            (None, Some(menu)) => menu.prompt().into(),
            (None, None) => return,
        };
        eprint!("{text}");
    }

    /// Returns the reply, and the choice if the request was one.
    fn handle_request(
        &mut self,
        ask: ConsoleRequest,
        output: &mut dyn FnMut(&str),
    ) -> Result<(ConsoleReply, Option<PauseChoice>)> {
        let reply = match ask {
            ConsoleRequest::GoOn => return Ok(self.choose(PauseChoice::GoOn)),
            ConsoleRequest::Retry => return Ok(self.choose(PauseChoice::Retry)),
            ConsoleRequest::Stop => return Ok(self.choose(PauseChoice::Stop)),
            ConsoleRequest::State => ConsoleReply::State(self.pauses.console.state()),
            ConsoleRequest::Screen { format } => {
                match self.pauses.console.take_screenshot(format) {
                    Ok(bytes) => ConsoleReply::from_bytes(Some(&bytes)),
                    Err(error) => ConsoleReply::from_error(error),
                }
            }
            ConsoleRequest::Run { line, folder } => {
                self.record_work();
                self.with_guest(|guest| console::run(guest, &line, &folder, output))?
            }
            ConsoleRequest::Get { path } => self.with_guest(|guest| {
                let bytes = guest.get(&path, MAX_FILE_SIZE)?;
                Ok(ConsoleReply::from_bytes(bytes.as_deref()))
            })?,
        };
        Ok((reply, None))
    }

    /// Runs `work` in the guest. An error of the guest becomes a reply; only a cancelled wait is an
    /// error here.
    fn with_guest(
        &mut self,
        work: impl FnOnce(&mut dyn Guest) -> Result<ConsoleReply>,
    ) -> Result<ConsoleReply> {
        let Some(guest) = &mut self.guest else {
            return Ok(ConsoleReply::from_error(
                "the guest does not respond: only screenshots are available",
            ));
        };
        let outcome = work(*guest);
        self.pauses.cancel.check()?;
        Ok(outcome.unwrap_or_else(ConsoleReply::from_error))
    }

    fn record_work(&self) {
        if let (Some(number), Some(_)) = (self.stop.step, &self.guest) {
            self.pauses.record_manual_change(match self.stop.reason {
                PauseReason::Failure => {
                    format!("commands were run manually after step {number} failed")
                }
                PauseReason::Break | PauseReason::Debug => {
                    format!("commands were run manually before step {number}")
                }
            });
        }
    }

    fn choose(&self, choice: PauseChoice) -> (ConsoleReply, Option<PauseChoice>) {
        if self.stop.choices.contains(&choice) {
            let reply = ConsoleReply::Chosen {
                choice: choice.name().into(),
            };
            return (reply, Some(choice));
        }
        let why = match choice {
            PauseChoice::GoOn if self.stop.reason == PauseReason::Failure => {
                "a failed step cannot be skipped: .retry the step, or .stop the build"
            }
            PauseChoice::Retry if self.guest.is_none() => {
                "there is no step to retry: .stop the build"
            }
            _ => "no step has failed: .go to continue, or .stop the build",
        };
        (ConsoleReply::from_error(why), None)
    }

    fn handle_line(&mut self, line: Option<String>) -> Result<Option<PauseChoice>> {
        if self.menu.is_none() {
            return Ok(None);
        }
        let Some(line) = line else {
            eprintln!();
            return Ok(Some(PauseChoice::Stop));
        };
        if self.shell.is_some() {
            let chosen = self.handle_shell_line(&line)?;
            if chosen.is_none() {
                self.print_prompt();
            }
            return Ok(chosen);
        }
        let menu = self.menu.unwrap_or(PauseMenu::Gone);
        match menu.parse_key(line.trim()) {
            Some(MenuKey::Choose(choice)) => return Ok(Some(choice)),
            Some(MenuKey::Shell) => {
                eprintln!("type exit to leave, .help for the other commands");
                self.shell = Some(GuestShell::default());
            }
            Some(MenuKey::Picture) => self.save_picture(),
            Some(MenuKey::Keep) => {
                self.pauses.keeps_disk.set(true);
                if menu == PauseMenu::Gone {
                    return Ok(Some(PauseChoice::Stop));
                }
                eprintln!("the VM runs until you press Ctrl-C");
                self.menu = None;
            }
            None => {}
        }
        self.print_prompt();
        Ok(None)
    }

    fn handle_shell_line(&mut self, line: &str) -> Result<Option<PauseChoice>> {
        let Some(mut shell) = self.shell.take() else {
            return Ok(None);
        };
        let mut chosen = None;
        let after = shell.enter(
            line,
            &mut |ask, output| {
                let (reply, choice) = self.handle_request(ask, output)?;
                chosen = choice;
                Ok(reply)
            },
            &mut |message| match message {
                ShellMessage::Output(text) => eprint!("{}", sanitize_output(text)),
                ShellMessage::Word(text) => eprintln!("{text}"),
            },
        )?;
        if after == ShellAction::Prompt {
            self.shell = Some(shell);
        }
        Ok(chosen)
    }

    fn save_picture(&self) {
        let file = self.pauses.console.state().output.join("screen.png");
        let saved = self
            .pauses
            .console
            .take_screenshot(ScreenFormat::Png)
            .and_then(|bytes| io::write_atomically(&file, &bytes));
        match saved {
            Ok(()) => eprintln!("{}", file.display()),
            Err(error) => eprintln!(
                "error: {}",
                display_text::sanitize_lines(&error.to_string())
            ),
        }
    }
}
