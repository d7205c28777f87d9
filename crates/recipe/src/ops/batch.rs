//! Writes batch text for `cmd.exe`, and escapes values in it.
//!
//! Every value is in double quotes, where `& | < > ^ ( )` have no meaning; `%` is doubled. Refuses
//! what cannot be escaped safely: a double quote, control characters, and anything outside ASCII,
//! because cmd reads a batch file in the console's code page, which differs between installations.

/// Quotes a value. The error names the character that cannot be escaped.
pub(crate) fn quote(text: &str) -> Result<String, String> {
    escape(text).map(|text| format!("\"{text}\""))
}

/// Quotes a value in a command that a second cmd parses again: in a pipe, or in `for /f`. A percent
/// sign cannot be escaped for both.
pub(crate) fn quoted_twice(text: &str) -> Result<String, String> {
    if text.contains('%') {
        return Err(format!(
            "`{text}` contains a percent sign, which cannot be escaped here"
        ));
    }
    quote(text)
}

/// Escapes a value for a place that is already inside double quotes.
pub(crate) fn escape(text: &str) -> Result<String, String> {
    for c in text.chars() {
        let fault = match c {
            '"' => "a double quote".to_owned(),
            c if c.is_control() => format!("the control character U+{:04X}", c as u32),
            c if !c.is_ascii() => format!("`{c}`, which is not ASCII"),
            _ => continue,
        };
        return Err(format!(
            "`{}` contains {fault}, which cannot be written safely in a batch file",
            text.escape_debug()
        ));
    }
    Ok(text.replace('%', "%%"))
}

/// The script of a step on the payload disc. It exits with 0 unless a line exits earlier.
#[derive(Default)]
pub(crate) struct BatchScript {
    lines: Vec<String>,
}

impl BatchScript {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn from_lines(lines: impl Into<String>) -> Self {
        Self {
            lines: vec![lines.into()],
        }
    }

    /// Appends a line, or several separated by `\n`.
    pub(crate) fn add_line(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    /// Creates a folder and its parents. `folder` is quoted for batch, without a trailing
    /// backslash.
    pub(crate) fn make_folder(&mut self, folder: &str) {
        let slashed = format!("{}\\\"", folder.trim_end_matches('"'));
        let line = format!("if not exist {slashed} mkdir {folder} || exit /b 1");
        if !self.lines.contains(&line) {
            self.add_line(line);
        }
    }

    /// Copies a file of the disc; both paths are quoted for batch. Files on a CD are read-only, and
    /// so are copies of them, so the attribute is removed.
    pub(crate) fn copy(&mut self, from: &str, to: &str) {
        self.add_line(format!("copy /b /y {from} {to} || exit /b 1"));
        self.add_line(format!(r"C:\Windows\System32\attrib.exe -r {to}"));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns the text, with lines terminated by `\n`.
    pub(crate) fn finish(self) -> String {
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
