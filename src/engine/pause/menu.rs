//! What the build's own terminal is asked, what may be typed, and the thread that reads it.
//!
//! Only words and keys; `pause` carries out.

use std::io::BufRead as _;
use std::sync::Arc;

use crate::engine::console::Console;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Choice;
use winimg_base::unseen;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Menu {
    Step,
    /// A step failed; the guest answers.
    Failure,
    /// No guest answers, but the machine runs.
    Setup,
    /// The machine is gone as well.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Choose(Choice),
    Shell,
    Picture,
    Keep,
}

impl Menu {
    pub fn question(self) -> &'static str {
        match self {
            Self::Step => "Enter runs it, [s]hell, [q]uit: ",
            Self::Failure => "[r]etry the step, [s]hell, [k]eep the machine, [c]lean up: ",
            Self::Setup => "[p]icture of the screen, [k]eep the machine, [c]lean up: ",
            Self::Gone => "[k]eep the disk, [c]lean up: ",
        }
    }

    /// What was typed; `None`: none of its keys.
    pub fn key(self, typed: &str) -> Option<Key> {
        let typed = typed.to_ascii_lowercase();
        Some(match (self, typed.as_str()) {
            (Self::Step, "") => Key::Choose(Choice::GoOn),
            (Self::Step, "q" | "quit") => Key::Choose(Choice::Stop),
            (Self::Step | Self::Failure, "s" | "shell") => Key::Shell,
            (Self::Failure, "r" | "retry") => Key::Choose(Choice::Retry),
            (Self::Setup, "p" | "picture") => Key::Picture,
            (Self::Failure | Self::Setup | Self::Gone, "k" | "keep") => Key::Keep,
            (Self::Failure | Self::Setup | Self::Gone, "c" | "clean up") => {
                Key::Choose(Choice::Stop)
            }
            _ => return None,
        })
    }
}

/// Reads standard input from here on. What is typed while the build is not paused is for nobody: a key pressed too early
/// must not run a step.
pub fn read_terminal(console: Arc<Console>) -> Result<()> {
    let console = Arc::downgrade(&console);
    let read = move || {
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
    };
    let spawned = std::thread::Builder::new()
        .name("terminal".into())
        .spawn(read);
    spawned
        .map(|_| ())
        .map_err(|e| Error::new(Kind::Host, "cannot start a thread").because(e))
}

/// The guest's output for a terminal: nothing in it may command the terminal.
pub fn printable(text: &str) -> String {
    // A line end may be cut in two.
    unseen::lines(&text.replace('\r', "")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_question_takes_the_keys_that_it_names() {
        let key = |menu: Menu, typed: &str| match menu.key(typed) {
            None => "-".to_string(),
            Some(key) => format!("{key:?}"),
        };
        let mut said = String::new();
        for menu in [Menu::Step, Menu::Failure, Menu::Setup, Menu::Gone] {
            let keys = ["", "r", "s", "P", "k", "c", "q", "g"].map(|typed| key(menu, typed));
            said += &format!("{}\n  {}\n", menu.question(), keys.join(" "));
        }
        assert_eq!(
            said,
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
            printable("a\r\n\u{1b}[31mred\u{7}\tend"),
            "a\n\u{fffd}[31mred\u{fffd}\tend"
        );
    }
}
