//! `winimg attach`: a shell into the guest of a paused build, on a terminal or in a pipe.
//!
//! Leaves the build as it is, whatever happens here. Ctrl-C never reaches the guest: its agent can't end a program.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use crate::cli;
use crate::engine::pause::printable;
use crate::engine::shell::{After, Said, Shell};
use winimg_base::error::{Error, Kind, Result};

use super::running::Running;

const GLANCE: Duration = Duration::from_millis(100);

/// The status is the last line's: its exit code, 1 where that is none that a process can have.
pub fn run(args: &cli::Attach) -> Result<ExitCode> {
    let mut running = Running::find(args.dir.as_deref())?;
    let typing = Typing::start()?;
    if typing.is_terminal {
        eprintln!("{}", banner(&running));
    }
    let mut shell = Shell::default();
    loop {
        let line = match typing.line(&shell, &running)? {
            Some(line) => line,
            None => break,
        };
        if converse(&mut shell, &line, &mut running, &typing)? != After::Prompt {
            break;
        }
    }
    Ok(ExitCode::from(match shell.code {
        0..=255 => shell.code as u8,
        _ => 1,
    }))
}

fn banner(running: &Running) -> String {
    let state = &running.state;
    let paused = match &state.paused {
        Some(halt) => halt.text.clone(),
        None => "the build is not paused: only .screen works".into(),
    };
    format!(
        "{}: {}, {}\n{paused}\n.help lists what can be typed; exit leaves",
        state.output.display(),
        state.name,
        state.place()
    )
}

fn converse(
    shell: &mut Shell,
    line: &str,
    running: &mut Running,
    typing: &Typing,
) -> Result<After> {
    let is_terminal = std::io::stdout().is_terminal();
    let mut printed = Ok(());
    let seen = typing.interrupts();
    let mut last = seen;
    let mut look = || {
        let now = typing.interrupts();
        if now > last && last == seen {
            last = now;
            eprintln!(
                "\nthe guest continues with it, and its output comes at its end; Ctrl-C once more leaves"
            );
        } else if now > last {
            return Err(Error::cancelled());
        }
        Ok(())
    };
    let after = shell.enter(
        line,
        &mut |ask, output| running.ask(&ask, output, &mut look),
        &mut |said| match said {
            Said::Output(text) if is_terminal => printed = super::print_as_is(&printable(text)),
            Said::Output(text) => printed = super::print_as_is(text),
            Said::Word(text) => eprintln!("{text}"),
        },
    )?;
    printed?;
    Ok(after)
}

/// Lines and interrupts of the person, or of a pipe.
struct Typing {
    lines: Receiver<String>,
    interrupts: Arc<AtomicU32>,
    is_terminal: bool,
}

impl Typing {
    fn start() -> Result<Self> {
        use signal_hook::consts::SIGINT;
        use signal_hook::iterator::Signals;

        let failed = |e| Error::new(Kind::Failed, "cannot watch for signals").because(e);
        let mut signals = Signals::new([SIGINT]).map_err(failed)?;
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

    fn interrupts(&self) -> u32 {
        self.interrupts.load(Ordering::SeqCst)
    }

    fn prompt(&self, shell: &Shell) {
        if self.is_terminal {
            eprint!("{}", shell.prompt());
            let _ = std::io::stderr().flush();
        }
    }

    /// The next line; `None` at the end of input, or after a second Ctrl-C.
    fn line(&self, shell: &Shell, running: &Running) -> Result<Option<String>> {
        self.prompt(shell);
        let before = self.interrupts();
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
            let now = self.interrupts();
            if now > last && last == before {
                last = now;
                eprintln!("\nCtrl-C once more leaves; the build stays as it is");
                self.prompt(shell);
            } else if now > last {
                eprintln!();
                return Ok(None);
            }
            if !running.is_there() {
                if self.is_terminal {
                    eprintln!();
                }
                return Err(Error::new(Kind::Machine, "the build has ended"));
            }
        }
    }
}
