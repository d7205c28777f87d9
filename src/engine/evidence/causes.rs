//! Causes by name, found in logs, in a step's output and in the error.
//!
//! Pure. Refuses certainty: a cause is likely, and stands beside the line that it was read from.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::logs::{Family, Log, errors};
use super::patterns::{PATTERNS, Pattern};

/// Most causes that are named.
const MOST: usize = 5;
/// How many of the newest error lines are looked at: what went wrong long before is not the cause.
const NEWEST: usize = 40;

/// A named cause, with the line that shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    pub cause: Cow<'static, str>,
    pub cure: Cow<'static, str>,
    pub source: Source,
    pub line: String,
}

/// Where a cause was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Error,
    /// Of the step.
    Output,
    /// By its path in the guest.
    Log(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "the error",
            Self::Output => "the step's output",
            Self::Log(path) => path,
        })
    }
}

/// The causes that logs, a step's output and the error itself show; the newest first, each once.
///
/// `installing`: Windows was still being set up. Later, what Setup once complained about is no cause any more.
pub fn causes(logs: &[Log], said: &[(Source, String)], installing: bool) -> Vec<Cause> {
    let mut found: Vec<(usize, Cause)> = Vec::new();
    let mut add = |family, source: &Source, line: &str| {
        let Some((rank, pattern)) = named(family, line) else {
            return;
        };
        if found.len() < MOST && found.iter().all(|(_, c)| c.cause != pattern.cause) {
            let line = line.trim().trim_start_matches("| ");
            let cause = Cause {
                cause: pattern.cause.into(),
                cure: pattern.cure.into(),
                source: source.clone(),
                line: line.chars().take(500).collect(),
            };
            found.push((rank, cause));
        }
    };
    for (source, text) in said {
        text.lines()
            .rev()
            .for_each(|l| add(Family::Step, source, l));
    }
    let counts = |family| installing || family != Family::Setup;
    let all = errors(logs);
    let newest = all.iter().rev().filter(|e| counts(e.log.family));
    for error in newest.take(NEWEST) {
        let source = Source::Log(error.log.path.clone());
        add(error.log.family, &source, error.line);
    }
    // The one thing that matters and that Windows writes as mere information.
    for log in logs.iter().filter(|log| counts(log.family)) {
        let words = |l: &&str| l.contains("will not run SetupComplete.cmd");
        if let Some(line) = log.text.lines().find(words) {
            add(log.family, &Source::Log(log.path.clone()), line);
        }
    }
    ordered(found)
}

/// Of what one log shows, what says most comes first: the table is written in that order.
fn ordered(mut found: Vec<(usize, Cause)>) -> Vec<Cause> {
    let sources: Vec<Source> = found.iter().map(|(_, c)| c.source.clone()).collect();
    found.sort_by_key(|(rank, cause)| {
        let source = sources.iter().position(|s| *s == cause.source);
        (source, *rank)
    });
    found.into_iter().map(|(_, cause)| cause).collect()
}

fn named(family: Family, line: &str) -> Option<(usize, &'static Pattern)> {
    let line = with_codes(&line.to_ascii_lowercase());
    PATTERNS.iter().enumerate().find(|(_, pattern)| {
        let here = pattern.families.is_empty() || pattern.families.contains(&family);
        here && pattern.words.iter().all(|word| line.contains(word))
    })
}

/// What an exit code of the HRESULT kind means, where it is one that is known.
pub fn known_code(code: i64) -> Option<&'static str> {
    let (_, pattern) = named(Family::Step, &code.to_string())?;
    Some(pattern.cause)
}

/// Codes as they are looked for: a program's exit code is the same number with a sign.
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
    fn by_cause() -> Vec<(&'static str, Vec<&'static Pattern>)> {
        let mut found: Vec<(&str, Vec<&Pattern>)> = Vec::new();
        for pattern in PATTERNS {
            let same = |p: &Pattern| p.cure == pattern.cure && p.families == pattern.families;
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

    fn words_of(families: &[Family]) -> String {
        let word = |family: &Family| match family {
            Family::Setup => "Setup's logs",
            Family::Sysprep => "Sysprep's logs",
            Family::Servicing => "the logs of servicing",
            Family::Devices => "the logs of device installation",
            Family::Bootstrap => "the logs of winimg's first commands",
            Family::Step => "a step's output",
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
            let family = pattern.families.first().copied().unwrap_or(Family::Setup);
            let (_, found) = named(family, &line).expect("itself");
            assert_eq!(found.words, pattern.words, "{line}");
        }
    }

    #[test]
    fn a_signed_exit_code_is_the_code_that_is_known() {
        let said = [(Source::Error, "exit code -2146498529".to_owned())];
        let found = causes(&[], &said, false);
        assert_eq!(
            found[0].cause,
            "the files of a feature are missing from the image and from the source"
        );
        assert_eq!(
            causes(
                &[],
                &[(Source::Output, "exit code -5, 12-13".into())],
                false
            ),
            []
        );
    }
}
