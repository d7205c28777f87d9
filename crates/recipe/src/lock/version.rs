//! Which of two versions is the higher one, where that follows from how they are written.

use std::cmp::Ordering;

/// `None` where a version does not begin with a number, as `latest` does. A pre-release comes before its release
/// (Semantic Versioning 2.0.0, 11). What follows a `+` only counts where nothing else differs and both say the same there
/// but for its numbers: `v1.36.4+rke2r2` comes after `v1.36.4+rke2r1`.
pub fn order(one: &str, other: &str) -> Option<Ordering> {
    let order = Version::read(one)?.cmp(&Version::read(other)?);
    Some(order.then_with(|| order_of_builds(one, other)))
}

/// Of the numbers behind the `+` of both versions.
fn order_of_builds(one: &str, other: &str) -> Ordering {
    let (Some((_, one)), Some((_, other))) = (one.split_once('+'), other.split_once('+')) else {
        return Ordering::Equal;
    };
    let (one, other) = (runs(one.trim()), runs(other.trim()));
    let words = |runs: &[Part<'_>]| -> Vec<Option<String>> {
        let word = |run: &Part<'_>| match run {
            Part::Word(word) => Some((*word).to_owned()),
            Part::Number(..) => None,
        };
        runs.iter().map(word).collect()
    };
    if words(&one) == words(&other) {
        one.cmp(&other)
    } else {
        Ordering::Equal
    }
}

/// The numbers of a text, and the words between them.
fn runs(text: &str) -> Vec<Part<'_>> {
    let is_digit = |c: char| c.is_ascii_digit();
    let (mut rest, mut runs) = (text, Vec::new());
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_digit(c) != is_digit(first));
        let (run, after) = rest.split_at(end.unwrap_or(rest.len()));
        runs.push(part(run));
        rest = after;
    }
    runs
}

/// Whether it is no pre-release.
pub fn is_release(text: &str) -> bool {
    Version::read(text).is_some_and(|version| version.is_release)
}

/// Whether the first two numbers of both are the same.
pub fn same_series(one: &str, other: &str) -> bool {
    let series = |text| {
        let mut release = Version::read(text)?.release;
        release.truncate(2);
        Some(without_zeros(release))
    };
    series(one).is_some() && series(one) == series(other)
}

/// Ordered by its fields, one after the other.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Version<'a> {
    release: Vec<Part<'a>>,
    is_release: bool,
    pre_release: Vec<Part<'a>>,
}

/// A number comes before a word.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Part<'a> {
    /// How many digits, without zeros before them, and the digits: numbers of any length.
    Number(usize, &'a str),
    Word(&'a str),
}

impl<'a> Version<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
        if !text.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let text = text.split('+').next().unwrap_or(text);
        let (release, pre_release) = text.split_once('-').unwrap_or((text, ""));
        Some(Self {
            release: parts(release),
            is_release: pre_release.chars().all(|c| "._-".contains(c)),
            pre_release: parts(pre_release),
        })
    }
}

/// Without zeros at the end: a missing number is zero.
fn parts(text: &str) -> Vec<Part<'_>> {
    let parts = text.split(['.', '-', '_']).filter(|part| !part.is_empty());
    without_zeros(parts.map(part).collect())
}

fn without_zeros(mut parts: Vec<Part<'_>>) -> Vec<Part<'_>> {
    while parts.last() == Some(&Part::Number(0, "")) {
        parts.pop();
    }
    parts
}

fn part(text: &str) -> Part<'_> {
    match text.bytes().all(|b| b.is_ascii_digit()) {
        true => {
            let digits = text.trim_start_matches('0');
            Part::Number(digits.len(), digits)
        }
        false => Part::Word(text),
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
