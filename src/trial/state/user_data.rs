//! Parses cloudbase-init's log about the user data: scripts with their exit codes and output, and
//! unsupported parts.
//!
//! Pure. Sources: cloudbase-init 1.1.9 `plugins/common/userdata.py`, `userdatautils.py` and
//! `userdataplugins`. Neither a script's exit code nor user data of an unknown format fails the
//! run; both are only logged. A script's output is in the log if `debug` is on, as Python's
//! representation of bytes.

use super::line::AgentLogLine;
use super::{ScriptEnd, UserDataRun};

/// Maximum number of lines kept of a script's stdout or stderr: the last ones.
const MAX_LINES: usize = 10;
/// The module that logs scripts in user data. Another module logs local scripts with the same
/// messages.
const SCRIPTS: &str = "plugins.common.userdatautils";
/// The module that logs a cloud-config's commands.
const COMMANDS: &str = "plugins.common.userdataplugins.cloudconfigplugins.runcmd";

/// Parses the log line by line. Buffers a script's output until its exit code is logged.
#[derive(Default)]
pub struct UserDataLogParser {
    said: Vec<String>,
}

impl UserDataLogParser {
    /// Parses one line. `next` is the line after it, which contains the output itself.
    pub fn note(&mut self, line: &AgentLogLine<'_>, next: Option<&str>, run: &mut UserDataRun) {
        // These two modules log a warning for each part that they did not run. Other warnings are
        // harmless, such as that of `write_files` about a file without `permissions`.
        if line.level == "WARNING" && [SCRIPTS, COMMANDS].contains(&line.module) {
            run.refused.push(line.message.to_owned());
        }
        if line.module != SCRIPTS {
            return;
        }
        if matches!(line.message, "User_data stdout:" | "User_data stderr:") {
            let text = shown_bytes(next.unwrap_or_default());
            let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
            let last = &lines[lines.len().saturating_sub(MAX_LINES)..];
            let last = last.iter().map(|line| line.trim_end().to_owned());
            self.said.extend(last);
        }
        let code = line
            .message
            .strip_prefix("User_data script ended with return code: ");
        if let Some(code) = code.and_then(|code| code.parse().ok()) {
            let said = std::mem::take(&mut self.said);
            run.scripts.push(ScriptEnd { code, said });
        }
    }
}

/// Decodes `b'one\r\ntwo'`, without the source location that oslo.log appends. Returns other text
/// unchanged.
fn shown_bytes(shown: &str) -> String {
    let mut chars = shown.strip_prefix('b').unwrap_or_default().chars();
    let Some(quote @ ('\'' | '"')) = chars.next() else {
        return shown.trim_end().to_owned();
    };
    let mut bytes: Vec<u8> = Vec::new();
    while let Some(letter) = chars.next().filter(|letter| *letter != quote) {
        let escaped = if letter == '\\' { chars.next() } else { None };
        match escaped {
            None => bytes.extend(letter.encode_utf8(&mut [0; 4]).as_bytes()),
            Some('n') => bytes.push(b'\n'),
            Some('r') => bytes.push(b'\r'),
            Some('t') => bytes.push(b'\t'),
            Some('x') => {
                let digits: String = chars.by_ref().take(2).collect();
                bytes.extend(u8::from_str_radix(&digits, 16).ok());
            }
            Some(other) => bytes.extend(other.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::shown_bytes;

    #[test]
    fn bytes_as_python_shows_them() {
        for (shown, text) in [
            (
                r"b'one\r\n\ttwo\\k \xc3\xbc \xff'",
                "one\r\n\ttwo\\k ü \u{fffd}",
            ),
            (r#"b"it's" execute_user_data_script x.py:93"#, "it's"),
            (r"b'it\'s'", "it's"),
            ("b''", ""),
            ("bare words", "bare words"),
            ("b", "b"),
            ("", ""),
        ] {
            assert_eq!(shown_bytes(shown), text, "{shown}");
        }
    }
}
