//! Finds known causes in logs, in a step's output and in the error.
//!
//! Pure. A cause is only likely, so it is always shown with the line that it was found in.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::logs::{LogFamily, WindowsLog, collect_errors};
use super::patterns::{ErrorPattern, PATTERNS};

/// Maximum number of causes.
const MOST: usize = 5;
/// Number of newest error lines to search: earlier errors are not the cause.
const NEWEST: usize = 40;

/// A known cause, with the line that shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureCause {
    pub cause: Cow<'static, str>,
    pub cure: Cow<'static, str>,
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
    said: &[(CauseSource, String)],
    installing: bool,
) -> Vec<FailureCause> {
    let mut found: Vec<(usize, FailureCause)> = Vec::new();
    for (source, text) in said {
        for line in text.lines().rev() {
            add_cause(&mut found, LogFamily::Step, source, line);
        }
    }
    let errors = collect_errors(logs);
    let newest = errors
        .iter()
        .rev()
        .filter(|error| installing || error.log.family != LogFamily::Setup);
    for error in newest.take(NEWEST) {
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
    let Some((rank, pattern)) = find_pattern(family, line) else {
        return;
    };
    if found.len() < MOST && found.iter().all(|(_, c)| c.cause != pattern.cause) {
        let line = line.trim().trim_start_matches("| ");
        let cause = FailureCause {
            cause: pattern.cause.into(),
            cure: pattern.cure.into(),
            source: source.clone(),
            line: line.chars().take(500).collect(),
        };
        found.push((rank, cause));
    }
}

/// Sorts the causes of each source by the pattern table, which lists the most specific first.
fn sort_causes(mut found: Vec<(usize, FailureCause)>) -> Vec<FailureCause> {
    let sources: Vec<CauseSource> = found.iter().map(|(_, c)| c.source.clone()).collect();
    found.sort_by_key(|(rank, cause)| {
        let source = sources.iter().position(|s| *s == cause.source);
        (source, *rank)
    });
    found.into_iter().map(|(_, cause)| cause).collect()
}

fn find_pattern(family: LogFamily, line: &str) -> Option<(usize, &'static ErrorPattern)> {
    let line = with_codes(&line.to_ascii_lowercase());
    PATTERNS.iter().enumerate().find(|(_, pattern)| {
        let here = pattern.families.is_empty() || pattern.families.contains(&family);
        here && pattern.words.iter().all(|word| line.contains(word))
    })
}

/// Describes an exit code that is a known HRESULT.
pub fn known_code(code: i64) -> Option<&'static str> {
    let (_, pattern) = find_pattern(LogFamily::Step, &code.to_string())?;
    Some(pattern.cause)
}

/// Appends each number that can be an HRESULT in hexadecimal, as in the patterns: an exit code is
/// the same number, signed.
fn with_codes(line: &str) -> String {
    let mut all = line.to_owned();
    for word in line.split(|c: char| !c.is_ascii_digit() && c != '-') {
        if let Ok(code @ (-0x8000_0000..0 | 0x8000_0000..0x1_0000_0000)) = word.parse::<i64>() {
            all.push_str(&format!(" {:#010x}", code as u32));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use support::golden;

    use super::*;

    /// docs/troubleshooting.md, between its markers.
    #[test]
    fn the_page_of_messages_has_every_pattern() {
        let mut text = String::new();
        for (cause, patterns) in by_cause() {
            let words = patterns.iter().map(|p| {
                let words: Vec<String> = p.words.iter().map(|word| format!("`{word}`")).collect();
                words.join(" … ")
            });
            let words: Vec<String> = words.collect();
            let (seen, families) = (words.join(", "), words_of(patterns[0].families));
            let [cause, cure] = [cause, patterns[0].cure].map(golden::plain);
            text += &format!("### {seen}\n\nIn {families}: {cause}.\n\n- Cure: {cure}.\n\n");
        }
        golden::section("docs/troubleshooting.md", "logs", &text);
    }

    /// In the table's order, patterns with one cause, one cure and one place together.
    fn by_cause() -> Vec<(&'static str, Vec<&'static ErrorPattern>)> {
        let mut found: Vec<(&str, Vec<&ErrorPattern>)> = Vec::new();
        for pattern in PATTERNS {
            let same = |p: &ErrorPattern| p.cure == pattern.cure && p.families == pattern.families;
            let known = found
                .iter_mut()
                .find(|(cause, all)| *cause == pattern.cause && same(all[0]));
            match known {
                Some((_, all)) => all.push(pattern),
                None => found.push((pattern.cause, vec![pattern])),
            }
        }
        found
    }

    fn words_of(families: &[LogFamily]) -> String {
        let word = |family: &LogFamily| match family {
            LogFamily::Setup => "Setup's logs",
            LogFamily::Sysprep => "Sysprep's logs",
            LogFamily::Servicing => "the logs of servicing",
            LogFamily::Devices => "the logs of device installation",
            LogFamily::Bootstrap => "the logs of winimg's first commands",
            LogFamily::Step => "a step's output",
        };
        match families {
            [] => "any log or output".into(),
            some => some.iter().map(word).collect::<Vec<_>>().join(", "),
        }
    }

    #[test]
    fn no_pattern_hides_behind_an_earlier_one() {
        for pattern in PATTERNS {
            let line = pattern.words.join(" ... ");
            let family = pattern
                .families
                .first()
                .copied()
                .unwrap_or(LogFamily::Setup);
            let (_, found) = find_pattern(family, &line).expect("itself");
            assert_eq!(found.words, pattern.words, "{line}");
        }
    }

    #[test]
    fn a_signed_exit_code_is_the_code_that_is_known() {
        let said = [(CauseSource::Error, "exit code -2146498529".to_owned())];
        let found = find_causes(&[], &said, false);
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
