//! Compares two versions, if their order follows from how they are written.

use std::cmp::Ordering;

/// Compares two versions. `None` if one does not begin with a number, such as `latest`.
///
/// A pre-release comes before its release (Semantic Versioning 2.0.0, 11). Build metadata after a
/// `+` is compared only if nothing else differs and both differ in numbers alone:
/// `v1.36.4+rke2r2` comes after `v1.36.4+rke2r1`.
pub fn order(one: &str, other: &str) -> Option<Ordering> {
    let order = ParsedVersion::read(one)?.cmp(&ParsedVersion::read(other)?);
    Some(order.then_with(|| order_of_builds(one, other)))
}

/// Compares the numbers in the build metadata of both versions.
fn order_of_builds(one: &str, other: &str) -> Ordering {
    let (Some((_, one)), Some((_, other))) = (one.split_once('+'), other.split_once('+')) else {
        return Ordering::Equal;
    };
    let (one, other) = (split_runs(one.trim()), split_runs(other.trim()));
    if one
        .iter()
        .map(VersionPart::get_word)
        .eq(other.iter().map(VersionPart::get_word))
    {
        one.cmp(&other)
    } else {
        Ordering::Equal
    }
}

/// Splits a text into numbers and the words between them.
fn split_runs(text: &str) -> Vec<VersionPart<'_>> {
    let (mut rest, mut runs) = (text, Vec::new());
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c: char| c.is_ascii_digit() != first.is_ascii_digit());
        let (run, after) = rest.split_at(end.unwrap_or(rest.len()));
        runs.push(parse_part(run));
        rest = after;
    }
    runs
}

/// Returns true unless the version is a pre-release.
pub fn is_release(text: &str) -> bool {
    ParsedVersion::read(text).is_some_and(|version| version.is_release)
}

/// Returns true if both versions have the same first two numbers.
pub fn same_series(one: &str, other: &str) -> bool {
    let series = series_of(one);
    series.is_some() && series == series_of(other)
}

fn series_of(version: &str) -> Option<Vec<VersionPart<'_>>> {
    let mut release = ParsedVersion::read(version)?.release;
    release.truncate(2);
    Some(without_zeros(release))
}

/// Ordered by its fields, one after the other.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct ParsedVersion<'a> {
    release: Vec<VersionPart<'a>>,
    is_release: bool,
    pre_release: Vec<VersionPart<'a>>,
}

/// A number comes before a word.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum VersionPart<'a> {
    /// Number of digits without leading zeros, and the digits: a number of any length.
    Number(usize, &'a str),
    Word(&'a str),
}

impl<'a> VersionPart<'a> {
    fn get_word(&self) -> Option<&'a str> {
        match self {
            Self::Word(word) => Some(word),
            Self::Number(..) => None,
        }
    }
}

impl<'a> ParsedVersion<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
        if !text.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let text = text.split('+').next().unwrap_or(text);
        let (release, pre_release) = text.split_once('-').unwrap_or((text, ""));
        Some(Self {
            release: parse_parts(release),
            is_release: pre_release.chars().all(|c| "._-".contains(c)),
            pre_release: parse_parts(pre_release),
        })
    }
}

/// Splits a version into its parts, without trailing zeros: a missing number is zero.
fn parse_parts(text: &str) -> Vec<VersionPart<'_>> {
    let parts = text.split(['.', '-', '_']).filter(|part| !part.is_empty());
    without_zeros(parts.map(parse_part).collect())
}

fn without_zeros(mut parts: Vec<VersionPart<'_>>) -> Vec<VersionPart<'_>> {
    while parts.last() == Some(&VersionPart::Number(0, "")) {
        parts.pop();
    }
    parts
}

fn parse_part(text: &str) -> VersionPart<'_> {
    if text.bytes().all(|b| b.is_ascii_digit()) {
        let digits = text.trim_start_matches('0');
        VersionPart::Number(digits.len(), digits)
    } else {
        VersionPart::Word(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_their_publishers_mean_them() {
        for (low, high) in [
            ("1.36.0", "1.36.1"),
            ("1.9.0", "1.10"),
            ("v1.36.1", "1.36.2"),
            ("1.36.1-rc.1", "1.36.1"),
            ("1.36.1-rc.2", "1.36.1-rc.10"),
            ("0.1.271-1", "0.1.285-1"),
            ("10.0.0.0p1-Preview", "10.0.0.0p2-Preview"),
            ("v1.36.4+rke2r1", "v1.36.4+rke2r2"),
            ("v1.36.4+k3s9", "v1.36.4+k3s10"),
            ("v1.36.4+rke2r2", "v1.36.5+rke2r1"),
            ("1.0+20260102.1", "1.0+20260102.2"),
        ] {
            assert_eq!(order(low, high), Some(Ordering::Less), "{low} {high}");
            assert_eq!(order(high, low), Some(Ordering::Greater), "{high} {low}");
        }
        assert_eq!(order("1.36", "v1.36.0+build5"), Some(Ordering::Equal));
        // Whose builds they are says nothing of their order.
        for (one, other) in [
            ("1.36.4+rke2r1", "1.36.4+k3s2"),
            ("1.0+5", "1.0"),
            ("1.0+a1", "1.0+a1b"),
        ] {
            assert_eq!(order(one, other), Some(Ordering::Equal), "{one} {other}");
        }
        assert_eq!(order("1.0-0", "1.0"), Some(Ordering::Less));
        assert_eq!(order("latest", "1.0"), None);
    }

    #[test]
    fn a_series_is_the_first_two_numbers_zeros_too() {
        for (one, other) in [("1.36.0", "v1.36.4"), ("2.0.0", "2.0.3"), ("2", "2.0.1")] {
            assert!(same_series(one, other), "{one} {other}");
        }
        for (one, other) in [("2.0.0", "2.1.0"), ("2.0.0", "3.0.0"), ("latest", "latest")] {
            assert!(!same_series(one, other), "{one} {other}");
        }
    }
}
