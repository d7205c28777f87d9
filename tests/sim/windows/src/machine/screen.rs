//! The screen: text on the first console, still when it waits, so that a screenshot shows what stopped Setup.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use super::keys::{self, Quit};
use super::sys;
use crate::dialog::Dialog;

const LABEL: &str = "winimg stand-in (not Windows)";
const BLUE: &str = "\x1b[0;37;44m";
const BOX: &str = "\x1b[0;30;47m";
const WIDTH: usize = 70;

pub struct Screen {
    console: Option<File>,
    size: (usize, usize),
    /// Setup waits behind "Are you sure you want to quit?".
    quit: Option<Arc<Quit>>,
}

impl Screen {
    pub fn open() -> Screen {
        let console = File::options()
            .read(true)
            .write(true)
            .open("/dev/tty1")
            .ok();
        let (columns, rows) = console
            .as_ref()
            .and_then(sys::console_size)
            .unwrap_or((80, 25));
        Screen {
            console,
            size: (usize::from(columns), usize::from(rows)),
            quit: None,
        }
    }

    /// Lets stray keys open the quit dialog, as in Windows Setup.
    pub fn heed_keys(&mut self) {
        self.quit = Some(keys::watch(Screen::open()));
    }

    fn write(&mut self, text: &str) {
        if let Some(console) = &mut self.console {
            let _ = console.write_all(text.as_bytes());
        }
    }

    /// A plain page: what goes on. Waits while the quit dialog is open.
    pub fn progress(&mut self, lines: &[&str]) {
        if let Some(quit) = &self.quit {
            quit.wait();
        }
        super::debug(&lines.join(" / "));
        let mut text = format!("{BLUE}\x1b[2J\x1b[H\x1b[?25l {LABEL}");
        for (index, line) in lines.iter().enumerate() {
            text += &format!("\x1b[{};6H{line}", self.size.1 / 3 + index);
        }
        self.write(&text);
    }

    /// A dialog, to stay.
    pub fn dialog(&mut self, dialog: &Dialog) {
        if let Some(quit) = &self.quit {
            quit.end();
        }
        super::debug(&format!(
            "dialog: {} | {}",
            dialog.text.replace('\n', " / "),
            dialog.why
        ));
        let width = WIDTH.min(self.size.0.saturating_sub(6));
        let mut lines = vec![dialog.title.to_owned(), "-".repeat(width)];
        lines.extend(wrap(&dialog.text, width));
        lines.extend([String::new(), "[ OK ]".to_owned(), "-".repeat(width)]);
        lines.extend(wrap(&format!("Stand-in's reason: {}", dialog.why), width));
        let top = (self.size.1.saturating_sub(lines.len()) / 2).max(3);
        let left = (self.size.0.saturating_sub(width + 4) / 2).max(1);
        let mut text = format!("{BLUE}\x1b[2J\x1b[H\x1b[?25l {LABEL}{BOX}");
        for (index, line) in lines.iter().enumerate() {
            text += &format!("\x1b[{};{left}H  {line:width$}  ", top + index);
        }
        self.write(&text);
    }
}

/// Lines of at most `width` characters, cut at spaces; line feeds are kept.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.split('\n') {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            let mut word = word.to_owned();
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
                lines.push(std::mem::take(&mut line));
            }
            while word.chars().count() > width {
                let rest: String = word.chars().skip(width).collect();
                lines.push(word.chars().take(width).collect());
                word = rest;
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(&word);
        }
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_wraps_at_spaces() {
        assert_eq!(wrap("one two three\nfour", 8), ["one two", "three", "four"]);
        assert_eq!(wrap("abcdefghij", 4), ["abcd", "efgh", "ij"]);
    }
}
