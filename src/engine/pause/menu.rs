//! The prompts on the build's own terminal, their keys, and the thread that reads them.
//!
//! Only texts and keys; `pause` acts on them.

use std::io::BufRead as _;
use std::sync::{Arc, Weak};

use crate::engine::console::BuildConsole;
use winimg_base::display_text;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::PauseChoice;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseMenu {
    Step,
    /// A step failed; the guest responds.
    Failure,
    /// No guest responds, but the VM is running.
    Setup,
    /// The VM is gone as well.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MenuKey {
    Choose(PauseChoice),
    Shell,
    Picture,
    Keep,
}

impl PauseMenu {
    pub fn prompt(self) -> &'static str {
        match self {
            Self::Step => "Enter runs it, [s]hell, [q]uit: ",
            Self::Failure => "[r]etry the step, [s]hell, [k]eep the machine, [c]lean up: ",
            Self::Setup => "[p]icture of the screen, [k]eep the machine, [c]lean up: ",
            Self::Gone => "[k]eep the disk, [c]lean up: ",
        }
    }

    /// Parses the user's input; `None` if it is no key of the menu.
    pub fn parse_key(self, typed: &str) -> Option<MenuKey> {
        let typed = typed.to_ascii_lowercase();
        Some(match (self, typed.as_str()) {
            (Self::Step, "") => MenuKey::Choose(PauseChoice::GoOn),
            (Self::Step, "q" | "quit") => MenuKey::Choose(PauseChoice::Stop),
            (Self::Step | Self::Failure, "s" | "shell") => MenuKey::Shell,
            (Self::Failure, "r" | "retry") => MenuKey::Choose(PauseChoice::Retry),
            (Self::Setup, "p" | "picture") => MenuKey::Picture,
            (Self::Failure | Self::Setup | Self::Gone, "k" | "keep") => MenuKey::Keep,
            (Self::Failure | Self::Setup | Self::Gone, "c" | "clean up") => {
                MenuKey::Choose(PauseChoice::Stop)
            }
            _ => return None,
        })
    }
}

/// Starts a thread that reads standard input. Lines typed while the build is not paused are
/// dropped: a key pressed too early must not run a step.
pub fn read_terminal(console: Arc<BuildConsole>) -> Result<()> {
    let console = Arc::downgrade(&console);
    std::thread::Builder::new()
        .name("terminal".into())
        .spawn(move || send_lines(&console))
        .map(|_| ())
        .map_err(|e| Error::new(Kind::Host, "cannot start a thread").because(e))
}

fn send_lines(console: &Weak<BuildConsole>) {
    for line in std::io::stdin().lock().lines() {
        let Some(console) = console.upgrade() else {
            return;
        };
        match line {
            Ok(line) => console.type_in(Some(line)),
            Err(_) => break,
        }
    }
    if let Some(console) = console.upgrade() {
        console.type_in(None);
    }
}

/// Sanitizes the guest's output for a terminal, removing control sequences.
pub fn sanitize_output(text: &str) -> String {
    // A line end may be cut in two.
    display_text::sanitize_lines(&text.replace('\r', "")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_question_takes_the_keys_that_it_names() {
        let key = |menu: PauseMenu, typed: &str| match menu.parse_key(typed) {
            None => "-".to_string(),
            Some(key) => format!("{key:?}"),
        };
        let mut shown = String::new();
        for menu in [
            PauseMenu::Step,
            PauseMenu::Failure,
            PauseMenu::Setup,
            PauseMenu::Gone,
        ] {
            let keys = ["", "r", "s", "P", "k", "c", "q", "g"].map(|typed| key(menu, typed));
            shown += &format!("{}\n  {}\n", menu.prompt(), keys.join(" "));
        }
        assert_eq!(
            shown,
            "Enter runs it, [s]hell, [q]uit: \n  \
             Choose(GoOn) - Shell - - - Choose(Stop) -\n\
             [r]etry the step, [s]hell, [k]eep the machine, [c]lean up: \n  \
             - Choose(Retry) Shell - Keep Choose(Stop) - -\n\
             [p]icture of the screen, [k]eep the machine, [c]lean up: \n  \
             - - - Picture Keep Choose(Stop) - -\n\
             [k]eep the disk, [c]lean up: \n  \
             - - - - Keep Choose(Stop) - -\n"
        );
    }

    #[test]
    fn output_of_the_guest_does_not_command_the_terminal() {
        assert_eq!(
            sanitize_output("a\r\n\u{1b}[31mred\u{7}\tend"),
            "a\n\u{fffd}[31mred\u{fffd}\tend"
        );
    }
}
