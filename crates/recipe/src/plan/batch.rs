//! Batch text for `cmd.exe`: lines, and values that cmd must take as they are.
//!
//! Every value stands in double quotes, where `& | < > ^ ( )` mean nothing; `%` is doubled. Refuses what has no safe
//! spelling there: a double quote, control characters, and anything outside ASCII, because cmd reads a batch file in
//! the console's code page, which differs from one Windows to another.

/// A value in double quotes. The error says what is in the way.
pub(super) fn quoted(text: &str) -> Result<String, String> {
    literal(text).map(|text| format!("\"{text}\""))
}

/// A value in double quotes in a command that a second cmd reads again: in a pipe, or in `for /f`. There is no spelling
/// of a percent sign that both leave alone.
pub(super) fn quoted_twice(text: &str) -> Result<String, String> {
    if text.contains('%') {
        return Err(format!(
            "`{text}` holds a percent sign, and cmd reads this command twice"
        ));
    }
    quoted(text)
}

/// The value itself, for a place that is inside double quotes already.
pub(super) fn literal(text: &str) -> Result<String, String> {
    for c in text.chars() {
        let fault = match c {
            '"' => "a double quote".to_owned(),
            c if c.is_control() => format!("the control character U+{:04X}", c as u32),
            c if !c.is_ascii() => format!("`{c}`, which is not ASCII"),
            _ => continue,
        };
        return Err(format!(
            "`{}` holds {fault}, and a batch file cannot carry that safely",
            text.escape_debug()
        ));
    }
    Ok(text.replace('%', "%%"))
}

/// The script of a step on the payload disc. It ends with 0 unless a line left it earlier.
#[derive(Default)]
pub(super) struct Script {
    lines: Vec<String>,
}

impl Script {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn of(lines: impl Into<String>) -> Self {
        Self {
            lines: vec![lines.into()],
        }
    }

    /// A line, or several with `\n` between them.
    pub(super) fn line(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    /// Makes a folder and those above it. `folder` is quoted for batch, without a trailing backslash.
    pub(super) fn make_folder(&mut self, folder: &str) {
        let slashed = format!("{}\\\"", folder.trim_end_matches('"'));
        let line = format!("if not exist {slashed} mkdir {folder} || exit /b 1");
        if !self.lines.contains(&line) {
            self.line(line);
        }
    }

    /// Copies a file of the disc; both are quoted for batch. Files of a CD are read-only, so are their copies.
    pub(super) fn copy(&mut self, from: &str, to: &str) {
        self.line(format!("copy /b /y {from} {to} || exit /b 1"));
        self.line(format!(r"C:\Windows\System32\attrib.exe -r {to}"));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The text, lines ended by `\n`.
    pub(super) fn finish(self) -> String {
        let mut text = String::from("@echo off\n");
        for line in self.lines {
            text.push_str(&line);
            text.push('\n');
        }
        let last = text.trim_end().rsplit('\n').next().unwrap_or_default();
        if !last.starts_with("exit /b ") {
            text.push_str("exit /b 0\n");
        }
        text
    }
}
