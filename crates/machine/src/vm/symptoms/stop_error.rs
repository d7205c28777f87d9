//! Stop errors of Windows (bug checks), by code and by their text on a screen.

use serde::Deserialize;

use super::CATALOGUE;
use super::fuzzy_text::{contains_fuzzy, normalize_text};

/// A stop error and its likely cause during an image build.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopError {
    /// Microsoft's name for it, such as `INACCESSIBLE_BOOT_DEVICE`.
    pub id: String,
    pub code: u64,
    pub cause: String,
    pub source: String,
}

impl StopError {
    /// Returns for example `INACCESSIBLE_BOOT_DEVICE (0x7B)`.
    pub fn describe(&self) -> String {
        format!("{} (0x{:X})", self.id, self.code)
    }
}

pub fn find_stop_code(code: u64) -> Option<&'static StopError> {
    // Some codes are shown with 0x10000000 set (SYSTEM_THREAD_EXCEPTION_NOT_HANDLED_M is
    // 0x1000007E).
    let plain = if code >> 28 == 1 {
        code & 0x0fff_ffff
    } else {
        code
    };
    CATALOGUE.stop_error.iter().find(|row| row.code == plain)
}

/// Finds the stop code in a screen's text: `Stop code: CRITICAL PROCESS DIED`, `*** STOP:
/// 0x0000007B`.
pub fn find_stop_error(text: &str) -> Option<&'static StopError> {
    find_normalized(&normalize_text(text))
}

pub(super) fn find_normalized(text: &str) -> Option<&'static StopError> {
    if let Some((_, after)) = text.split_once("st0p0x") {
        let digits = after
            .bytes()
            .take_while(u8::is_ascii_hexdigit)
            .count()
            .min(8);
        let code = u64::from_str_radix(&after[..digits], 16).ok();
        if let Some(known) = code.and_then(find_stop_code) {
            return Some(known);
        }
    }
    // The longest match wins: one name may contain another.
    CATALOGUE
        .stop_error
        .iter()
        .filter(|row| contains_fuzzy(text, &normalize_text(&row.id)))
        .max_by_key(|row| row.id.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_one_row_and_is_read_from_a_screen() {
        let mut last = 0;
        for row in &CATALOGUE.stop_error {
            assert!(row.code > last, "{} in its place", row.id);
            last = row.code;
            let shown = format!("Stop code: {}", row.id.replace('_', " "));
            assert_eq!(find_stop_error(&shown), Some(row));
        }
        let old = find_stop_error("*** STOP: 0x1000007E (0xFFFFFFFFC0000005)");
        assert_eq!(old.map(|row| row.code), Some(0x7e));
        assert_eq!(find_stop_error("Server Manager"), None);
    }
}
