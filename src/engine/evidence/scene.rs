//! The parts of the record that are not about Windows: the error, and the recipe's lines.

use super::record::ErrorRecord;
use super::redact::Redactor;
use winimg_base::error::Error;
use winimg_base::text::{Place, mask_secrets};

/// Number of lines of the recipe before and after the error's own.
const BEFORE: usize = 3;
const AFTER: usize = 8;

/// Converts the error for the record.
pub fn to_error_record(error: &Error, redactor: &Redactor) -> ErrorRecord {
    let problem = error.problem();
    let cures = problem.cures.iter().map(|cure| ("cure", cure.clone()));
    let parts = problem.list_details().into_iter().chain(cures);
    ErrorRecord {
        fact: redactor.redact_text(&error.fact_with_causes()),
        around: problem
            .place
            .as_ref()
            .map(list_lines_around)
            .unwrap_or_default(),
        parts: parts
            .map(|(name, value)| (name.into(), redactor.redact_text(&value)))
            .collect(),
        lines: problem
            .lines
            .iter()
            .map(|line| redactor.redact_text(line))
            .collect(),
    }
}

/// Returns the lines around a place, with their numbers.
fn list_lines_around(place: &Place) -> Vec<(usize, String, bool)> {
    let (line, _) = place.line_column();
    let text = mask_secrets(&place.source.text);
    (1..)
        .zip(text.lines())
        .filter(|(number, _)| (line.saturating_sub(BEFORE)..=line + AFTER).contains(number))
        .map(|(number, text)| (number, text.to_owned(), number == line))
        .collect()
}
