//! What cloudbase-init's log says of the user data: scripts that ran, with their exit codes and words, and what it could not use.
//!
//! Pure. Sources: cloudbase-init 1.1.9 `plugins/common/userdata.py`, `userdatautils.py` and `userdataplugins`. A script's exit code is
//! logged and fails nothing; so is user data of no known kind. What a script wrote is there where `debug` is on, as Python shows bytes.

use super::line::Line;
use super::{ScriptEnd, UserDataRun};

/// Lines of each of a script's outputs that are kept, the last ones.
const MOST_LINES: usize = 10;
/// Of scripts in user data. Local scripts are logged with the same words by another module.
const SCRIPTS: &str = "plugins.common.userdatautils";
/// Of a cloud-config's commands.
const COMMANDS: &str = "plugins.common.userdataplugins.cloudconfigplugins.runcmd";

/// What was said of scripts that have not ended yet.
#[derive(Default)]
pub struct Reading {
    said: Vec<String>,
}

impl Reading {
    /// Takes one line, with the one that follows it.
    pub fn note(&mut self, line: &Line<'_>, next: Option<&str>, run: &mut UserDataRun) {
        // These two warn of what they did not run; `write_files` also warns of a file without `permissions`, which is well.
        if line.level == "WARNING" && [SCRIPTS, COMMANDS].contains(&line.module) {
            run.refused.push(line.message.to_owned());
        }
        if line.module != SCRIPTS {
            return;
        }
        if matches!(line.message, "User_data stdout:" | "User_data stderr:") {
            let text = shown_bytes(next.unwrap_or_default());
            let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
            let last = &lines[lines.len().saturating_sub(MOST_LINES)..];
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

/// `b'one\r\ntwo'` as text, without the place in cloudbase-init that oslo.log writes behind it; anything else as it is.
fn shown_bytes(shown: &str) -> String {
    let mut letters = shown.strip_prefix('b').unwrap_or_default().chars();
    let Some(quote @ ('\'' | '"')) = letters.next() else {
        return shown.trim_end().to_owned();
    };
    let mut bytes: Vec<u8> = Vec::new();
    while let Some(letter) = letters.next().filter(|letter| *letter != quote) {
        let escaped = if letter == '\\' { letters.next() } else { None };
        match escaped {
            None => bytes.extend(letter.encode_utf8(&mut [0; 4]).as_bytes()),
            Some('n') => bytes.push(b'\n'),
            Some('r') => bytes.push(b'\r'),
            Some('t') => bytes.push(b'\t'),
            Some('x') => {
                let digits: String = letters.by_ref().take(2).collect();
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
