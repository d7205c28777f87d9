//! Finds known causes in logs, in a step's output and in the error.
//!
//! Pure. A cause is only likely, so it is always shown with the line that it was found in.

use std::fmt;

use serde::{Deserialize, Serialize};

use winimg_machine::vm::symptoms::{self, LogFamily};

use super::logs::{WindowsLog, collect_errors};

/// Maximum number of causes.
const MAX_CAUSES: usize = 5;
/// Number of newest error lines to search: earlier errors are not the cause.
const MAX_ERROR_LINES: usize = 40;

/// A known cause, with the line that shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureCause {
    pub cause: String,
    pub cure: String,
    pub source: CauseSource,
    pub line: String,
}

/// The text in which a cause was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CauseSource {
    Error,
    /// The step's output.
    Output,
    /// A log, by its path in the guest.
    Log(String),
}

impl fmt::Display for CauseSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "the error",
            Self::Output => "the step's output",
            Self::Log(path) => path,
        })
    }
}

/// Finds the causes in logs, a step's output and the error itself: newest first, without repeats.
///
/// `installing`: Windows was still being installed. Later, old errors of Setup are no cause.
pub fn find_causes(
    logs: &[WindowsLog],
    texts: &[(CauseSource, String)],
    installing: bool,
) -> Vec<FailureCause> {
    let mut found: Vec<(usize, FailureCause)> = Vec::new();
    for (source, text) in texts {
        for line in text.lines().rev() {
            add_cause(&mut found, LogFamily::Step, source, line);
        }
    }
    let errors = collect_errors(logs);
    let newest = errors
        .iter()
        .rev()
        .filter(|error| installing || error.log.family != LogFamily::Setup);
    for error in newest.take(MAX_ERROR_LINES) {
        let source = CauseSource::Log(error.log.path.clone());
        add_cause(&mut found, error.log.family, &source, error.line);
    }
    // The only relevant line that Windows writes with the level of an information.
    for log in logs {
        if !installing && log.family == LogFamily::Setup {
            continue;
        }
        let line = log
            .text
            .lines()
            .find(|line| line.contains("will not run SetupComplete.cmd"));
        if let Some(line) = line {
            add_cause(
                &mut found,
                log.family,
                &CauseSource::Log(log.path.clone()),
                line,
            );
        }
    }
    sort_causes(found)
}

/// Adds the cause that the line shows, unless it is known already or there are enough.
fn add_cause(
    found: &mut Vec<(usize, FailureCause)>,
    family: LogFamily,
    source: &CauseSource,
    line: &str,
) {
    let Some((rank, symptom)) = symptoms::find_in_line(family, line) else {
        return;
    };
    if found.len() < MAX_CAUSES && found.iter().all(|(_, c)| c.cause != symptom.cause) {
        let line = line.trim().trim_start_matches("| ");
        let cause = FailureCause {
            cause: symptom.cause.clone(),
            cure: symptom.cure.clone(),
            source: source.clone(),
            line: line.chars().take(500).collect(),
        };
        found.push((rank, cause));
    }
}

/// Sorts the causes of each source by the catalogue, which lists the most specific first.
fn sort_causes(mut found: Vec<(usize, FailureCause)>) -> Vec<FailureCause> {
    let sources: Vec<CauseSource> = found.iter().map(|(_, c)| c.source.clone()).collect();
    found.sort_by_key(|(rank, cause)| {
        let source = sources.iter().position(|s| *s == cause.source);
        (source, *rank)
    });
    found.into_iter().map(|(_, cause)| cause).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signed_exit_code_is_the_code_that_is_known() {
        let texts = [(CauseSource::Error, "exit code -2146498529".to_owned())];
        let found = find_causes(&[], &texts, false);
        assert_eq!(
            found[0].cause,
            "the files of a feature are missing from the image and from the source"
        );
        assert_eq!(
            find_causes(
                &[],
                &[(CauseSource::Output, "exit code -5, 12-13".into())],
                false
            ),
            []
        );
    }
}
