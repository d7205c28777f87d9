//! Hides user data in quotations of a clone's logs: a shell that echoes its commands writes them
//! into the agent's log.
//!
//! Pure. Hides every sequence of six or more bytes that occurs in the user data, including
//! base64-decoded parts. If a part of the user data is compressed, it cannot be compared, and
//! everything is hidden. Shorter secrets are not hidden.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::state::{AgentLog, CloneState, KnownFact};
use super::user_data::UserData;

/// Minimum length of a match, too long for a coincidence.
const ROW: usize = 6;
/// The replacement for hidden bytes.
const MARK: &str = "***";
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Minimum length of base64.
const ENCODED: usize = 16;
/// Minimum length of a base64 line that continues in the next one (RFC 2045: 76, PEM: 64).
const WHOLE_LINE: usize = 60;
/// Maximum nesting: a base64 file inside a base64 part.
const MAX_DEPTH: u32 = 2;

/// The byte sequences of the user data that must not be quoted.
#[derive(Default)]
pub struct UserDataRedactor {
    rows: HashSet<[u8; ROW]>,
    everything: bool,
}

impl UserDataRedactor {
    pub fn from_user_data(data: &UserData) -> Self {
        let mut hidden = Self::default();
        hidden.add(data.expose(), MAX_DEPTH);
        hidden
    }

    fn add(&mut self, data: &[u8], depth: u32) {
        self.everything |= data.starts_with(&GZIP);
        let rows = data.windows(ROW);
        let rows = rows.filter(|row| !row.iter().all(u8::is_ascii_whitespace));
        self.rows
            .extend(rows.filter_map(|row| <[u8; ROW]>::try_from(row).ok()));
        if depth > 0 {
            for inner in decode_parts(data) {
                self.add(&inner, depth - 1);
            }
        }
    }

    /// Replaces each sequence that occurs in the user data with a mark.
    fn hide(&self, text: &str) -> String {
        let bytes = text.as_bytes();
        let mut hidden = vec![self.everything; bytes.len()];
        for (at, row) in bytes.windows(ROW).enumerate() {
            if <[u8; ROW]>::try_from(row).is_ok_and(|row| self.rows.contains(&row)) {
                hidden[at..at + ROW].fill(true);
            }
        }
        let mut shown = String::with_capacity(text.len());
        let mut was_hidden = false;
        for (at, letter) in text.char_indices() {
            if hidden[at] {
                if !was_hidden {
                    shown.push_str(MARK)
                }
            } else {
                shown.push(letter)
            }
            was_hidden = hidden[at];
        }
        shown
    }

    fn hide_all(&self, lines: &mut [String]) {
        for line in lines {
            *line = self.hide(line);
        }
    }

    /// Hides user data in the agent's logs. The other parts of a clone's state never contain any.
    pub fn hide_in(&self, state: &mut CloneState) {
        let KnownFact::Is(Some(agent)) = &mut state.cloudbase_init else {
            return;
        };
        let logs = [&mut agent.first_pass, &mut agent.service];
        for AgentLog { runs, last, .. } in logs.into_iter().flatten() {
            self.hide_all(last);
            for run in runs {
                self.hide_all(&mut run.errors);
                self.hide_all(&mut run.user_data.refused);
                for script in &mut run.user_data.scripts {
                    self.hide_all(&mut script.said);
                }
            }
        }
    }
}

/// Decodes the base64 parts of the data, on one or several lines.
fn decode_parts(data: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut open: Vec<u8> = Vec::new();
    for run in data.split(|b| !b.is_ascii_alphanumeric() && !b"+/".contains(b)) {
        if run.is_empty() {
            continue;
        }
        open.extend(run);
        if run.len() < WHOLE_LINE {
            found.extend(decode_base64(&open));
            open.clear();
        }
    }
    found.extend(decode_base64(&open));
    found
}

/// Decodes base64 letters. An incomplete group may be an unrelated word at the end.
fn decode_base64(letters: &[u8]) -> Option<Vec<u8>> {
    if letters.len() < ENCODED {
        return None;
    }
    let groups = &letters[..letters.len() / 4 * 4];
    let whole = STANDARD_NO_PAD.decode(letters);
    whole.or_else(|_| STANDARD_NO_PAD.decode(groups)).ok()
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    const DATA: &str =
        "#cloud-config\nruncmd:\n- kubeadm join --token abcdef.0123456789abcdef\n      \n";

    fn hidden(data: &[u8], line: &str) -> String {
        UserDataRedactor::from_user_data(&UserData::from(data)).hide(line)
    }

    #[test]
    fn what_the_data_have_is_hidden_and_the_rest_is_quoted() {
        let said = r"C:\>kubeadm join --token abcdef.0123456789abcdef && echo success";
        assert_eq!(hidden(DATA.as_bytes(), said), r"C:\>*** && echo success");
        let error = "error execution phase preflight: no route to host      ü";
        assert_eq!(hidden(DATA.as_bytes(), error), error);
        let error = "the JWS with ID \"abcdef\" is unknown";
        let shown = "the JWS with ID \"***\" is unknown";
        assert_eq!(hidden(DATA.as_bytes(), error), shown);
        assert_eq!(hidden(DATA.as_bytes(), "23456789abc 2345 ü"), "*** 2345 ü");
    }

    #[test]
    fn what_the_data_have_in_base64_is_hidden_too() {
        let config = format!("kind: JoinConfiguration\n{}\ntoken: {DATA}", "x".repeat(90));
        let encoded = STANDARD.encode(&config);
        let lines: Vec<&str> = (0..encoded.len())
            .step_by(76)
            .map(|at| &encoded[at..encoded.len().min(at + 76)])
            .collect();
        for text in [encoded.clone(), lines.join("\r\n"), lines.join("\n    ")] {
            let data = format!("write_files:\n- content: {text}\n  encoding: b64\n");
            let said = hidden(data.as_bytes(), "token abcdef.0123456789abcdef");
            assert_eq!(said, "***", "{data}");
        }
    }

    #[test]
    fn of_compressed_data_nothing_is_quoted() {
        assert_eq!(hidden(&[0x1f, 0x8b, 8], "any word"), "***");
        let data = format!(
            "content: {}",
            STANDARD.encode([0x1f, 0x8b, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8])
        );
        assert_eq!(hidden(data.as_bytes(), "any word"), "***");
    }
}
