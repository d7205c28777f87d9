//! The catalogue of symptoms: texts of screens, stop errors, logs and refusals, with their likely
//! causes and cures.
//!
//! Pure. The rows are data (`catalogue.toml`); this module has a type for each kind of row and
//! finds the row that matches.

mod fuzzy_text;
mod log;
mod screen;
mod stop_error;
mod stuck;

use std::sync::LazyLock;

use serde::Deserialize;

use winimg_base::error::Kind;

pub use log::{LogFamily, LogSymptom, find_code_cause, find_in_line};
pub use screen::{KnownScreen, ScreenSymptom, find_on_screen};
pub use stop_error::{StopError, find_stop_code, find_stop_error};
pub use stuck::{StuckMachine, StuckSymptom, find_stuck};

/// All rows, by kind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    stop_error: Vec<StopError>,
    screen: Vec<ScreenSymptom>,
    log: Vec<LogSymptom>,
    stuck: Vec<StuckSymptom>,
    hyperv: Vec<HypervSymptom>,
}

static CATALOGUE: LazyLock<Catalogue> =
    LazyLock::new(|| toml::from_str(include_str!("catalogue.toml")).expect("catalogue.toml"));

/// A refusal of Hyper-V or PowerShell.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HypervSymptom {
    pub id: String,
    /// Codes in the message or its id, which are not localized.
    #[serde(default)]
    codes: Vec<String>,
    /// English words in the message.
    #[serde(rename = "match")]
    words: Vec<String>,
    /// Kind of the error.
    pub kind: Kind,
    pub cure: String,
    pub source: String,
}

/// Returns the first row whose code or words occur in a refusal's message or id.
pub fn find_hyperv_refusal(message: &str, id: &str) -> Option<&'static HypervSymptom> {
    CATALOGUE.hyperv.iter().find(|row| {
        row.codes
            .iter()
            .any(|code| message.contains(code) || id.contains(code))
            || row.words.iter().any(|words| message.contains(words))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use support::golden;

    use super::*;

    #[test]
    fn each_row_has_its_own_id_and_a_source() {
        let rows = &*CATALOGUE;
        let stops = rows.stop_error.iter().map(|row| (&row.id, &row.source));
        let screens = rows.screen.iter().map(|row| (&row.id, &row.source));
        let logs = rows.log.iter().map(|row| (&row.id, &row.source));
        let stuck = rows.stuck.iter().map(|row| (&row.id, &row.source));
        let refusals = rows.hyperv.iter().map(|row| (&row.id, &row.source));
        for kind in [
            stops.collect::<Vec<_>>(),
            screens.collect(),
            logs.collect(),
            stuck.collect(),
            refusals.collect(),
        ] {
            let ids: BTreeSet<&String> = kind.iter().map(|(id, _)| *id).collect();
            assert_eq!(ids.len(), kind.len(), "{ids:?}");
            assert!(kind.iter().all(|(_, source)| !source.is_empty()));
        }
    }

    /// docs/troubleshooting.md, between its markers.
    #[test]
    fn the_page_of_messages_has_every_stop_error() {
        let rows = CATALOGUE.stop_error.iter();
        let text: String = rows
            .map(|row| format!("### {}\n\n{}.\n\n", row.describe(), row.cause))
            .collect();
        golden::section("docs/troubleshooting.md", "stop errors", &text);
    }

    #[test]
    fn the_page_of_messages_has_every_box() {
        let mut text = String::new();
        for row in &CATALOGUE.screen {
            let phrases: Vec<String> = row.phrases.iter().map(|p| format!("`{p}`")).collect();
            let [name, cause, cure] = [&row.name, &row.cause, &row.cure].map(|t| golden::plain(t));
            let seen = phrases.join(", ");
            text += &format!(
                "### {name}\n\nOn the screen: {seen}\n\n- Cause: {cause}.\n- Cure: {cure}.\n\n"
            );
        }
        golden::section("docs/troubleshooting.md", "boxes", &text);
    }

    #[test]
    fn the_page_of_messages_has_every_pattern() {
        let mut text = String::new();
        for row in &CATALOGUE.log {
            let lines = row.lines.iter().map(|words| {
                let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                words.join(" … ")
            });
            let (seen, families) = (
                lines.collect::<Vec<_>>().join(", "),
                describe_families(&row.families),
            );
            let [cause, cure] = [&row.cause, &row.cure].map(|t| golden::plain(t));
            text += &format!("### {seen}\n\nIn {families}: {cause}.\n\n- Cure: {cure}.\n\n");
        }
        golden::section("docs/troubleshooting.md", "logs", &text);
    }

    fn describe_families(families: &[LogFamily]) -> String {
        let words: Vec<&str> = families
            .iter()
            .map(|family| match family {
                LogFamily::Setup => "Setup's logs",
                LogFamily::Sysprep => "Sysprep's logs",
                LogFamily::Servicing => "the logs of servicing",
                LogFamily::Devices => "the logs of device installation",
                LogFamily::Bootstrap => "the logs of winimg's first commands",
                LogFamily::Step => "a step's output",
            })
            .collect();
        if words.is_empty() {
            "any log or output".into()
        } else {
            words.join(", ")
        }
    }
}
