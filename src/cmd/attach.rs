//! `winimg attach`: a shell in the guest of a paused build, on a terminal or in a pipe.
//!
//! Never affects the build. Ctrl-C does not reach the guest: its agent can't stop a program.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use crate::cli;
use crate::engine::pause::sanitize_output;
use crate::engine::shell::{GuestShell, ShellAction, ShellMessage};
use winimg_base::error::{Error, Kind, Result};

use super::running::RunningBuild;

const GLANCE: Duration = Duration::from_millis(100);

/// Exits with the exit code of the last command, or 1 if it is out of range.
pub fn run(args: &cli::AttachArgs) -> Result<ExitCode> {
    let mut running = RunningBuild::find(args.dir.as_deref())?;
    let typing = TerminalInput::start()?;
    if typing.is_terminal {
        eprintln!("{}", render_banner(&running));
    }
    let mut shell = GuestShell::default();
    loop {
        let line = match typing.read_line(&shell, &running)? {
            Some(line) => line,
            None => break,
        };
        if run_line(&mut shell, &line, &mut running, &typing)? != ShellAction::Prompt {
            break;
        }
    }
    Ok(ExitCode::from(match shell.code {
        0..=255 => shell.code as u8,
        _ => 1,
    }))
}

fn render_banner(running: &RunningBuild) -> String {
    let state = &running.state;
    let paused = match &state.paused {
        Some(halt) => halt.text.clone(),
        None => "the build is not paused: only .screen works".into(),
    };
    format!(
        "{}: {}, {}\n{paused}\n.help lists the commands; exit leaves the shell",
        state.output.display(),
        state.name,
        state.describe_position()
    )
}

fn run_line(
    shell: &mut GuestShell,
    line: &str,
    running: &mut RunningBuild,
    typing: &TerminalInput,
) -> Result<ShellAction> {
    let is_terminal = std::io::stdout().is_terminal();
    let mut printed = Ok(());
    let seen = typing.count_interrupts();
    let mut last = seen;
    let mut check_interrupts = || {
        let now = typing.count_interrupts();
        if now > last && last == seen {
            last = now;
            eprintln!(
                "\nthe command continues in the guest and prints its output when it ends; \
                 press Ctrl-C again to leave"
            );
        } else if now > last {
            return Err(Error::cancelled());
        }
        Ok(())
    };
    let after = shell.enter(
        line,
        &mut |ask, output| running.ask(&ask, output, &mut check_interrupts),
        &mut |message| match message {
            ShellMessage::Output(text) if is_terminal => {
                printed = super::print_as_is(&sanitize_output(text))
            }
            ShellMessage::Output(text) => printed = super::print_as_is(text),
            ShellMessage::Word(text) => eprintln!("{text}"),
        },
    )?;
    printed?;
    Ok(after)
}

/// Lines and interrupts from a terminal or a pipe.
struct TerminalInput {
    lines: Receiver<String>,
    interrupts: Arc<AtomicU32>,
    is_terminal: bool,
}

impl TerminalInput {
    fn start() -> Result<Self> {
        use signal_hook::consts::SIGINT;
        use signal_hook::iterator::Signals;

        let mut signals = Signals::new([SIGINT])
            .map_err(|e| Error::new(Kind::Failed, "cannot install a signal handler").because(e))?;
        let interrupts = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&interrupts);
        std::thread::spawn(move || {
            for _ in &mut signals {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        let (to, lines) = sync_channel(1);
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                if to.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            lines,
            interrupts,
            is_terminal: std::io::stdin().is_terminal(),
        })
    }

    fn count_interrupts(&self) -> u32 {
        self.interrupts.load(Ordering::SeqCst)
    }

    fn print_prompt(&self, shell: &GuestShell) {
        if self.is_terminal {
            eprint!("{}", shell.prompt());
            let _ = std::io::stderr().flush();
        }
    }

    /// Returns the next line, or `None` at the end of input or after a second Ctrl-C.
    fn read_line(&self, shell: &GuestShell, running: &RunningBuild) -> Result<Option<String>> {
        self.print_prompt(shell);
        let before = self.count_interrupts();
        let mut last = before;
        loop {
            match self.lines.recv_timeout(GLANCE) {
                Ok(line) => return Ok(Some(line)),
                Err(RecvTimeoutError::Disconnected) => {
                    if self.is_terminal {
                        eprintln!();
                    }
                    return Ok(None);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = self.count_interrupts();
            if now > last && last == before {
                last = now;
                eprintln!("\npress Ctrl-C again to leave; the build stays paused");
                self.print_prompt(shell);
            } else if now > last {
                eprintln!();
                return Ok(None);
            }
            if !running.is_connected() {
                if self.is_terminal {
                    eprintln!();
                }
                return Err(Error::new(Kind::Machine, "the build has ended"));
            }
        }
    }
}
