//! Which of two versions is the higher one, where their writing tells.

use std::cmp::Ordering;

/// `None` where a version does not begin with a number, as `latest` does. A pre-release comes before its release
/// (Semantic Versioning 2.0.0, 11); what follows a `+` says nothing.
pub fn order(one: &str, other: &str) -> Option<Ordering> {
    let (one, other) = (Version::read(one)?, Version::read(other)?);
    let release = compare(&one.release, &other.release);
    Some(
        release.then_with(|| match (&one.before[..], &other.before[..]) {
            ([], []) => Ordering::Equal,
            ([], _) => Ordering::Greater,
            (_, []) => Ordering::Less,
            (one, other) => compare(one, other),
        }),
    )
}

struct Version<'a> {
    release: Vec<&'a str>,
    before: Vec<&'a str>,
}

impl<'a> Version<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
        if !text.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let text = text.split('+').next().unwrap_or(text);
        let (release, before) = text.split_once('-').unwrap_or((text, ""));
        let parts = |text: &'a str| -> Vec<&'a str> {
            let parts = text.split(['.', '-', '_']);
            parts.filter(|p| !p.is_empty()).collect()
        };
        Some(Self {
            release: parts(release),
            before: parts(before),
        })
    }
}

/// Part by part; a missing number is nought.
fn compare(one: &[&str], other: &[&str]) -> Ordering {
    let longest = one.len().max(other.len());
    let part = |parts: &[&str], n: usize| parts.get(n).copied().unwrap_or("0").to_string();
    (0..longest)
        .map(|n| compare_part(&part(one, n), &part(other, n)))
        .find(|o| o.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Numbers by their value, whatever their length; a number comes before a word.
fn compare_part(one: &str, other: &str) -> Ordering {
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    match (number(one), number(other)) {
        (true, true) => {
            let plain = |text: &str| text.trim_start_matches('0').to_string();
            let (one, other) = (plain(one), plain(other));
            one.len().cmp(&other.len()).then_with(|| one.cmp(&other))
        }
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => one.cmp(other),
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
        ] {
            assert_eq!(order(low, high), Some(Ordering::Less), "{low} {high}");
            assert_eq!(order(high, low), Some(Ordering::Greater), "{high} {low}");
        }
        assert_eq!(order("1.36", "v1.36.0+build5"), Some(Ordering::Equal));
        assert_eq!(order("latest", "1.0"), None);
    }
}
