//! Which of a publisher's versions come after the one that a recipe has.
//!
//! Pure: the list's bytes in. Versions that do not begin with a number say nothing, and pre-releases count only beside a
//! pre-release.

use std::cmp::Ordering;

use url::Url;

use super::version;
use crate::recipe::{Address, Form, Versions};

/// Every version of a publisher's list. The error fits after "the list of versions".
pub fn published(list: &Versions, bytes: &[u8]) -> Result<Vec<String>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "is not text in UTF-8".to_string())?;
    let found = match list.form {
        Form::Text => text.split_whitespace().map(str::to_string).collect(),
        Form::Atom => atom(text)?,
    };
    let of_it = found
        .iter()
        .filter_map(|tag| tag.strip_prefix(&list.prefix));
    let versions: Vec<String> = of_it
        .filter(|v| is_plain(v) && version::order(v, v).is_some())
        .map(str::to_string)
        .collect();
    match versions.is_empty() {
        true => Err("names no version".into()),
        false => Ok(versions),
    }
}

/// No publisher's version is longer.
const LONGEST: usize = 64;

/// Whether a version can be written into a recipe and an address without meaning anything else there: a slash would name another file,
/// a question mark a query. Others are passed over.
fn is_plain(version: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_+".contains(c);
    (1..=LONGEST).contains(&version.len()) && version.chars().all(plain)
}

fn atom(text: &str) -> Result<Vec<String>, String> {
    let feed = roxmltree::Document::parse(text).map_err(|e| format!("is not XML: {e}"))?;
    let is = |node: &roxmltree::Node<'_, '_>, name: &str| node.tag_name().name() == name;
    if !is(&feed.root_element(), "feed") {
        return Err("is not an Atom feed".into());
    }
    let entries = feed
        .root_element()
        .children()
        .filter(|node| is(node, "entry"));
    let address = |entry: roxmltree::Node<'_, '_>| {
        let mut links = entry.children().filter(|node| is(node, "link"));
        let url: Url = links
            .find_map(|link| link.attribute("href"))?
            .parse()
            .ok()?;
        Some(Address::Remote(url).file_name())
    };
    Ok(entries.filter_map(address).collect())
}

/// The versions after a recipe's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Successors {
    /// The highest with the same first two numbers.
    pub in_series: Option<String>,
    /// The highest of all.
    pub newest: Option<String>,
}

/// Those of `published` that come after `own`. The error fits after "the version".
pub fn successors(own: &str, published: &[String]) -> Result<Successors, String> {
    if version::order(own, own).is_none() {
        return Err("does not begin with a number, so none comes after it".into());
    }
    let counts = |v: &&String| {
        let later = version::order(v, own) == Some(Ordering::Greater);
        later && (version::is_release(v) || !version::is_release(own))
    };
    let highest = |all: Vec<&String>| {
        let order = |a: &&&String, b: &&&String| version::order(a, b).unwrap_or(Ordering::Equal);
        all.iter().max_by(order).map(|v| v.to_string())
    };
    let later: Vec<&String> = published.iter().filter(counts).collect();
    let near = later.iter().filter(|v| version::same_series(v, own));
    Ok(Successors {
        in_series: highest(near.copied().collect()),
        newest: highest(later),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use winimg_base::text::{Located, Place, Source};

    fn list(form: Form, prefix: &str) -> Versions {
        let source = Source::new(String::new(), String::new());
        Versions {
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
        let text = published(&list(Form::Text, ""), b"v1.36.4\n");
        assert_eq!(text, Ok(vec!["v1.36.4".to_string()]));
        let feed = r#"<feed xmlns="http://www.w3.org/2005/Atom"><title>Release notes</title>
          <entry><link rel="alternate" href="https://github.com/a/b/releases/tag/v1.2.0"/><title>b 1.2</title></entry>
          <entry><link rel="alternate" href="https://github.com/a/b/releases/tag/api%2Fv9.0.0"/></entry>
          <entry><link rel="alternate" href="https://github.com/a/b/releases/tag/v1.3.0-rc.1"/></entry></feed>"#;
        let found = published(&list(Form::Atom, ""), feed.as_bytes());
        assert_eq!(found, Ok(vec!["v1.2.0".into(), "v1.3.0-rc.1".into()]));
        let api = published(&list(Form::Atom, "api/"), feed.as_bytes());
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
                published(&list(Form::Atom, ""), bytes),
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
            let found = successors(own, &published).unwrap();
            (found.in_series, found.newest)
        };
        let some = |text: &str| Some(text.to_string());
        assert_eq!(after("1.36.4"), (some("v1.36.10"), some("v1.37.0")));
        assert_eq!(after("v1.37.0"), (None, None));
        assert_eq!(
            after("1.38.0-alpha.1"),
            (some("v1.38.0-rc.1"), some("v1.38.0-rc.1"))
        );
        assert!(successors("latest", &published).is_err());
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
        let found = published(&list(Form::Text, ""), text.collect::<String>().as_bytes());
        assert_eq!(found.unwrap(), good);
        // A list of nothing else names no version.
        let found = published(&list(Form::Text, ""), bad.join("\n").as_bytes());
        assert_eq!(found.unwrap_err(), "names no version");
        let feed = |version: &str| {
            format!(
                "<feed><entry><link href=\"https://h.example/tag/{version}\"/></entry>\
                 <entry><link href=\"https://h.example/tag/1.0.0\"/></entry></feed>"
            )
        };
        for bad in ["1.2.9%2F..%2Fevil", "1.2.9%E2%80%AEgpj", "1.2.9%3Fx"] {
            let found = published(&list(Form::Atom, ""), feed(bad).as_bytes());
            assert_eq!(found.unwrap(), ["1.0.0"], "{bad}");
        }
    }
}
