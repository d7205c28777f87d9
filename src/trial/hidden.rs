//! Keeps user data out of what a clone's own words are quoted for: a shell that repeats its commands writes them into the agent's log.
//!
//! Pure. Six or more bytes in a row that the user data have are hidden wherever they stand, also those that the data hold in base64.
//! Where the data or a part of them are compressed nothing can be compared, and nothing is quoted. Shorter secrets are not hidden.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::state::{AgentLog, CloneState, Known};
use super::user_data::UserData;

/// Bytes in a row that are too many to be there by chance.
const ROW: usize = 6;
/// What a line has in their place.
const MARK: &str = "***";
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Letters in a row that may be base64; and of a line of it that goes on in the next one (RFC 2045: 76, PEM: 64).
const ENCODED: usize = 16;
const WHOLE_LINE: usize = 60;
/// A file of base64 within a part of base64.
const DEEPEST: u32 = 2;

/// What must not be quoted.
#[derive(Default)]
pub struct Hidden {
    rows: HashSet<[u8; ROW]>,
    everything: bool,
}

impl Hidden {
    pub fn of(data: &UserData) -> Self {
        let mut hidden = Self::default();
        hidden.add(data.expose(), DEEPEST);
        hidden
    }

    fn add(&mut self, data: &[u8], depth: u32) {
        self.everything |= data.starts_with(&GZIP);
        let rows = data.windows(ROW);
        let rows = rows.filter(|row| !row.iter().all(u8::is_ascii_whitespace));
        self.rows
            .extend(rows.filter_map(|row| <[u8; ROW]>::try_from(row).ok()));
        if depth > 0 {
            for inner in decoded(data) {
                self.add(&inner, depth - 1);
            }
        }
    }

    /// The text with a mark for each stretch of it that the user data have.
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
            match hidden[at] {
                false => shown.push(letter),
                true if !was_hidden => shown.push_str(MARK),
                true => {}
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

    /// All that is kept of the agent's logs. What else is read of a clone has nothing from its user data.
    pub fn hide_in(&self, state: &mut CloneState) {
        let Known::Is(Some(agent)) = &mut state.cloudbase_init else {
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

/// What stands in the data as base64, on one line or on several.
fn decoded(data: &[u8]) -> Vec<Vec<u8>> {
    let is_letter = |b: &u8| b.is_ascii_alphanumeric() || b"+/".contains(b);
    let mut found = Vec::new();
    let mut open: Vec<u8> = Vec::new();
    for run in data.split(|b| !is_letter(b)).filter(|run| !run.is_empty()) {
        open.extend(run);
        if run.len() < WHOLE_LINE {
            found.extend(plain(&open));
            open.clear();
        }
    }
    found.extend(plain(&open));
    found
}

/// The bytes of letters of base64. What does not fill a group may be a word behind it.
fn plain(letters: &[u8]) -> Option<Vec<u8>> {
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
        Hidden::of(&UserData::from(data)).hide(line)
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
