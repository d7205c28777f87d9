//! Dialogs and pages at which Windows waits for input, recognized by their English texts.
//!
//! Other languages are not recognized.

use serde::Deserialize;

use super::CATALOGUE;
use super::fuzzy_text::{contains_fuzzy, normalize_text};
use super::stop_error::{self, StopError};

/// A dialog or page with its cause and cure.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScreenSymptom {
    pub id: String,
    /// End of a sentence that begins with "Windows stopped: ".
    pub name: String,
    /// One of these is on the screen.
    #[serde(rename = "match")]
    pub(super) phrases: Vec<String>,
    pub cause: String,
    pub cure: String,
    /// Windows never continues, even if its guest agent answers.
    #[serde(default)]
    pub hopeless: bool,
    pub source: String,
}

/// Recognized content of a screen.
#[derive(Debug, PartialEq, Eq)]
pub enum KnownScreen {
    Dialog(&'static ScreenSymptom),
    StopError(&'static StopError),
}

/// Recognizes a screen by its text; `None` if it is unknown.
pub fn find_on_screen(text: &str) -> Option<KnownScreen> {
    let text = normalize_text(text);
    let stopped = ["stop code", "STOP: 0x", "ran into a problem"];
    if stopped
        .iter()
        .any(|p| contains_fuzzy(&text, &normalize_text(p)))
        && let Some(known) = stop_error::find_normalized(&text)
    {
        return Some(KnownScreen::StopError(known));
    }
    CATALOGUE
        .screen
        .iter()
        .find(|row| {
            row.phrases
                .iter()
                .any(|p| contains_fuzzy(&text, &normalize_text(p)))
        })
        .map(KnownScreen::Dialog)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phrase_leads_to_its_own_row() {
        for row in &CATALOGUE.screen {
            for phrase in &row.phrases {
                let text = format!("Install Windows\n{}\nOK", phrase.to_uppercase());
                let found = find_on_screen(&text);
                assert_eq!(found, Some(KnownScreen::Dialog(row)), "{phrase}");
            }
        }
    }

    #[test]
    fn a_desktop_a_log_on_screen_and_rubbish_are_no_box() {
        for text in [
            "",
            "Press Ctrl+Alt+Del to unlock.\n10:42\nSaturday, November 21",
            "Microsoft Windows [Version 10.0.20348.587]\n(c) Microsoft Corporation. All rights reserved.\nC:\\Users\\Administrator>",
            "Welcome to Server Core\n1) Domain/workgroup:\n15) Exit to command line (PowerShell)\nEnter number to select an option:",
            "Getting ready\nInstalling Windows\nCopying Windows files\nGetting files ready for installation (42%)",
            "||| ___ 0x00000000 |||",
        ] {
            assert_eq!(find_on_screen(text), None, "{text}");
        }
    }

    #[test]
    fn a_stop_error_is_one_whatever_else_the_screen_says() {
        let text = "Your device ran into a problem and needs to restart. We're just collecting some error info.\n\
            For more information visit https://www.windows.com/stopcode\nStop code: INACCESSIBLE BOOT DEVICE";
        let found = find_on_screen(text);
        assert!(
            matches!(found, Some(KnownScreen::StopError(code)) if code.code == 0x7b),
            "{found:?}"
        );
    }
}
