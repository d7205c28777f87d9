//! Stray keys: Enter or Escape while Setup works opens "Are you sure you want to quit?", and Setup waits until Enter
//! is pressed there. Other keys (the arrows among them) do nothing.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::screen::Screen;
use crate::dialog;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Working,
    Asking,
    /// Another dialog stays: keys do nothing any more.
    Ended,
}

/// Whether Setup waits behind the quit dialog.
pub struct Quit {
    state: Mutex<State>,
    changed: Condvar,
}

/// A key press that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Enter,
    Escape,
    Other,
}

impl Quit {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks while the dialog is open.
    pub fn wait(&self) {
        let mut state = self.state();
        while *state == State::Asking {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub fn end(&self) {
        *self.state() = State::Ended;
        self.changed.notify_all();
    }

    fn press(&self, key: Key, screen: &mut Screen) {
        let mut state = self.state();
        match (*state, key) {
            (State::Working, Key::Enter | Key::Escape) => {
                *state = State::Asking;
                screen.dialog(&dialog::quit());
            }
            (State::Asking, Key::Enter) => {
                *state = State::Working;
                screen.progress(&["Installing Windows"]);
                self.changed.notify_all();
            }
            _ => {}
        }
    }
}

/// What one read of a raw console holds: the console sends a key's bytes together.
pub fn decode(bytes: &[u8]) -> Key {
    match bytes {
        [b'\r' | b'\n', ..] => Key::Enter,
        [0x1B] => Key::Escape,
        _ => Key::Other,
    }
}

/// Follows the keyboard of the first console; `screen` is used for the dialog.
pub fn watch(mut screen: Screen) -> Arc<Quit> {
    let quit = Arc::new(Quit {
        state: Mutex::new(State::Working),
        changed: Condvar::new(),
    });
    let shared = quit.clone();
    std::thread::spawn(move || {
        let Ok(mut console) = File::options().read(true).write(true).open("/dev/tty1") else {
            return;
        };
        raw(&console);
        let mut bytes = [0; 32];
        while let Ok(count) = console.read(&mut bytes) {
            shared.press(decode(&bytes[..count]), &mut screen);
        }
    });
    quit
}

fn raw(console: &File) {
    // SAFETY: termios is plain data that tcgetattr fills in before it is used.
    unsafe {
        let mut settings: libc::termios = std::mem::zeroed();
        if libc::tcgetattr(console.as_raw_fd(), &mut settings) == 0 {
            libc::cfmakeraw(&mut settings);
            settings.c_oflag |= libc::OPOST;
            libc::tcsetattr(console.as_raw_fd(), libc::TCSANOW, &settings);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_are_harmless() {
        for (bytes, key) in [
            (&b"\r"[..], Key::Enter),
            (b"\x1b", Key::Escape),
            (b"\x1b[A", Key::Other),
            (b" ", Key::Other),
            (b"", Key::Other),
        ] {
            assert_eq!(decode(bytes), key, "{bytes:?}");
        }
    }
}
