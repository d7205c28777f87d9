//! Finds the versions of a publisher that come after the one in a recipe.
//!
//! Pure: takes the bytes of the list. Ignores versions that do not begin with a number, and
//! pre-releases unless the recipe has one.

use std::cmp::Ordering;

use url::Url;

use super::version;
use crate::{FileAddress, VersionList, VersionListFormat};

/// Parses a publisher's list of versions. The error is worded to follow "the list of
/// versions".
pub fn parse_published(list: &VersionList, bytes: &[u8]) -> Result<Vec<String>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "is not text in UTF-8".to_string())?;
    let found = match list.form {
        VersionListFormat::Text => text.split_whitespace().map(str::to_string).collect(),
        VersionListFormat::Atom => parse_atom(text)?,
    };
    let versions: Vec<String> = found
        .iter()
        .filter_map(|tag| tag.strip_prefix(&list.prefix))
        .filter(|v| is_plain(v) && version::order(v, v).is_some())
        .map(str::to_string)
        .collect();
    if versions.is_empty() {
        Err("names no version".into())
    } else {
        Ok(versions)
    }
}

/// Maximum length of a version in bytes; no publisher uses longer ones.
const MAX_VERSION_LEN: usize = 64;

/// Returns true if a version has no special meaning in a recipe or an address: a slash would name a
/// different file, a question mark a query. Other versions are ignored.
fn is_plain(version: &str) -> bool {
    (1..=MAX_VERSION_LEN).contains(&version.len())
        && version
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || ".-_+".contains(c))
}

fn parse_atom(text: &str) -> Result<Vec<String>, String> {
    let feed = roxmltree::Document::parse(text).map_err(|e| format!("is not XML: {e}"))?;
    if feed.root_element().tag_name().name() != "feed" {
        return Err("is not an Atom feed".into());
    }
    Ok(feed
        .root_element()
        .children()
        .filter(|node| node.tag_name().name() == "entry")
        .filter_map(last_link_segment)
        .collect())
}

/// Returns the last path segment of the first link of an Atom entry.
fn last_link_segment(entry: roxmltree::Node<'_, '_>) -> Option<String> {
    let url: Url = entry
        .children()
        .filter(|node| node.tag_name().name() == "link")
        .find_map(|link| link.attribute("href"))?
        .parse()
        .ok()?;
    Some(FileAddress::Remote(url).file_name())
}

/// The versions after a recipe's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionSuccessors {
    /// The highest with the same first two numbers.
    pub in_series: Option<String>,
    /// The highest of all.
    pub newest: Option<String>,
}

/// Finds the versions in `published` that come after `own`. The error is worded to follow
/// "the version".
pub fn find_successors(own: &str, published: &[String]) -> Result<VersionSuccessors, String> {
    if version::order(own, own).is_none() {
        return Err("does not begin with a number, so none comes after it".into());
    }
    let later: Vec<&String> = published
        .iter()
        .filter(|v| version::order(v, own) == Some(Ordering::Greater))
        .filter(|v| version::is_release(v) || !version::is_release(own))
        .collect();
    let candidates = later.iter().copied();
    Ok(VersionSuccessors {
        in_series: find_highest(candidates.filter(|v| version::same_series(v, own))),
        newest: find_highest(later.iter().copied()),
    })
}

fn find_highest<'a>(versions: impl Iterator<Item = &'a String>) -> Option<String> {
    versions
        .max_by(|a, b| version::order(a, b).unwrap_or(Ordering::Equal))
        .cloned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use winimg_base::text::{Located, Place, SourceText};

    fn list(form: VersionListFormat, prefix: &str) -> VersionList {
        let source = SourceText::new(String::new(), String::new());
        VersionList {
            url: Located::new(
                "https://example.com/".parse().unwrap(),
                Place::new(&Arc::new(source), 0..0),
            ),
            form,
            prefix: prefix.into(),
        }
    }

    #[test]
    fn lists_are_read_as_their_publishers_write_them() {
        let text = parse_published(&list(VersionListFormat::Text, ""), b"v1.36.4\n");
        assert_eq!(text, Ok(vec!["v1.36.4".to_string()]));
        let feed = r#"<feed xmlns="http://www.w3.org/2005/Atom"><title>Release notes</title>
          <entry><link rel="alternate" href="https://github.com/a/b/releases/tag/v1.2.0"/><title>b 1.2</title></entry>
          <entry><link rel="alternate" href="https://github.com/a/b/releases/tag/api%2Fv9.0.0"/></entry>
          <entry><link rel="alternate" href="https://github.com/a/b/releases/tag/v1.3.0-rc.1"/></entry></feed>"#;
        let found = parse_published(&list(VersionListFormat::Atom, ""), feed.as_bytes());
        assert_eq!(found, Ok(vec!["v1.2.0".into(), "v1.3.0-rc.1".into()]));
        let api = parse_published(&list(VersionListFormat::Atom, "api/"), feed.as_bytes());
        assert_eq!(api, Ok(vec!["v9.0.0".to_string()]));
        for (bytes, why) in [
            (
                &b"<html><body>Sign in</body></html>"[..],
                "is not an Atom feed",
            ),
            (b"<feed/>", "names no version"),
            (b"\xff", "is not text in UTF-8"),
        ] {
            assert_eq!(
                parse_published(&list(VersionListFormat::Atom, ""), bytes),
                Err(why.to_string())
            );
        }
    }

    #[test]
    fn the_series_and_the_newest_are_said_and_pre_releases_are_not() {
        let published: Vec<String> = ["v1.36.4", "v1.36.10", "v1.37.0", "v1.38.0-rc.1", "v1.35.9"]
            .map(str::to_string)
            .to_vec();
        let after = |own: &str| {
            let found = find_successors(own, &published).unwrap();
            (found.in_series, found.newest)
        };
        let some = |text: &str| Some(text.to_string());
        assert_eq!(after("1.36.4"), (some("v1.36.10"), some("v1.37.0")));
        assert_eq!(after("v1.37.0"), (None, None));
        assert_eq!(
            after("1.38.0-alpha.1"),
            (some("v1.38.0-rc.1"), some("v1.38.0-rc.1"))
        );
        assert!(find_successors("latest", &published).is_err());
    }

    #[test]
    fn a_version_is_letters_digits_and_four_signs() {
        let long = format!("1.{}", "0".repeat(62));
        let longer = format!("{long}0");
        let good = [
            "1.2.9",
            "v1.2.9",
            "1.30.0-rc.1",
            "1.29.1+k3s1",
            "2024_05-LTS",
            long.as_str(),
        ];
        let bad = [
            "1.2.9/../../../../attacker/x/releases/download/y",
            "1.2.9?x=1",
            "1.2.9#x",
            "1.2.9%2F..",
            "1.2.9\\x",
            "1.2.9\"x",
            "1.2.9{{name}}",
            "1.2.9\u{202e}gpj",
            "1.2.9\u{1b}[31m",
            "1.2.٩",
            longer.as_str(),
        ];
        let text = good.iter().chain(&bad).map(|v| format!("{v}\n"));
        let found = parse_published(
            &list(VersionListFormat::Text, ""),
            text.collect::<String>().as_bytes(),
        );
        assert_eq!(found.unwrap(), good);
        // A list of nothing else names no version.
        let found = parse_published(
            &list(VersionListFormat::Text, ""),
            bad.join("\n").as_bytes(),
        );
        assert_eq!(found.unwrap_err(), "names no version");
        let feed = |version: &str| {
            format!(
                "<feed><entry><link href=\"https://h.example/tag/{version}\"/></entry>\
                 <entry><link href=\"https://h.example/tag/1.0.0\"/></entry></feed>"
            )
        };
        for bad in ["1.2.9%2F..%2Fevil", "1.2.9%E2%80%AEgpj", "1.2.9%3Fx"] {
            let found = parse_published(&list(VersionListFormat::Atom, ""), feed(bad).as_bytes());
            assert_eq!(found.unwrap(), ["1.0.0"], "{bad}");
        }
    }
}
