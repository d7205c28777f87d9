//! What the record holds besides Windows: the error in its parts, and the recipe's lines.

use super::record::Fault;
use super::redact::Redactor;
use winimg_base::error::Error;
use winimg_base::text::{Place, masked};

/// Lines of the recipe before and after the one that asked for it.
const BEFORE: usize = 3;
const AFTER: usize = 8;

/// The error as the record has it.
pub fn fault(error: &Error, redactor: &Redactor) -> Fault {
    let problem = error.problem();
    let cures = problem.cures.iter().map(|cure| ("cure", cure.clone()));
    let parts = problem.details().into_iter().chain(cures);
    Fault {
        fact: redactor.text(&error.with_causes()),
        around: problem.place.as_ref().map(around).unwrap_or_default(),
        parts: parts
            .map(|(name, value)| (name.into(), redactor.text(&value)))
            .collect(),
        lines: problem
            .lines
            .iter()
            .map(|line| redactor.text(line))
            .collect(),
    }
}

/// The lines around a place, with their numbers.
fn around(place: &Place) -> Vec<(usize, String, bool)> {
    let (line, _) = place.line_column();
    let text = masked(&place.source.text);
    (1..)
        .zip(text.lines())
        .filter(|(number, _)| (line.saturating_sub(BEFORE)..=line + AFTER).contains(number))
        .map(|(number, text)| (number, text.to_owned(), number == line))
        .collect()
}
