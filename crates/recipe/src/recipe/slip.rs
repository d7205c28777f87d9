//! What a mistake in the syntax of TOML most likely is, and the words that cure it.
//!
//! Looks at the text where the reading stopped: the reader's own words name what a number or an escape would have needed.
//! Never repeats a value that may be more than a plain word.

use winimg_base::diag::Diagnostic;
use winimg_base::text::Place;

const SINGLE_QUOTES: &str =
    "a Windows path goes into single quotes: 'C:\\k', where a backslash is a backslash";

enum Slip<'a> {
    /// A backslash in double quotes, and the character after it.
    Escape(Option<char>),
    /// `True`: the word as TOML writes it.
    Capital(&'static str),
    /// A text without quotes.
    Bare(&'a str),
    Duplicate,
    Other,
}

/// A complaint about the syntax at `place`; `message` is the reader's.
pub fn complaint(message: &str, place: &Place) -> Diagnostic {
    Diagnostic {
        is_syntax: true,
        ..described(message, place)
    }
}

fn described(message: &str, place: &Place) -> Diagnostic {
    let (fact, expected) = match message.split_once(", expected ") {
        Some((fact, expected)) => (fact, format!("expected {expected}")),
        None => (message, String::new()),
    };
    let plain = |label: &str| Diagnostic::error(format!("TOML: {fact}")).at(place, label);
    match slip(fact, place) {
        Slip::Escape(letter) => Diagnostic::error(escape(letter, fact))
            .at(place, "in double quotes a backslash begins an escape")
            .help(SINGLE_QUOTES),
        Slip::Capital(word) => plain("").help(format!("write it in lower case: {word}")),
        Slip::Bare(text) => {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || " ._+-".contains(c);
            let help = match text.chars().all(is_plain) {
                true => format!("quote it: \"{text}\""),
                false => {
                    "quote it: a text stands in double quotes, a Windows path in single quotes"
                        .into()
                }
            };
            Diagnostic::error("TOML: a text without quotes")
                .at(place, "")
                .help(help)
        }
        Slip::Duplicate => plain(&expected).help("the table or key was given above: write it once"),
        Slip::Other => plain(&expected),
    }
}

/// What is wrong with the character after a backslash.
fn escape(letter: Option<char>, fact: &str) -> String {
    let digits = match letter {
        Some('x') => 2,
        Some('u') => 4,
        Some('U') => 8,
        // The last backslash of a folder's path.
        Some('"') => return "TOML: the text does not end: `\\\"` is a quote inside of it".into(),
        Some(letter) => return format!("TOML: `\\{letter}` is not an escape"),
        None => return format!("TOML: {fact}"),
    };
    let letter = letter.unwrap_or_default();
    format!("TOML: `\\{letter}` takes {digits} hexadecimal digits that name a character")
}

fn slip<'a>(fact: &str, place: &'a Place) -> Slip<'a> {
    let text = place.source.text.as_str();
    let Some((before, after)) = text.split_at_checked(place.span.start) else {
        return Slip::Other;
    };
    if fact == "duplicate key" {
        return Slip::Duplicate;
    }
    // `\U` is passed over, and the digits that are there; after any other backslash the reading stops at once.
    let (digits, hex) = (
        before.trim_end_matches(|c: char| c.is_ascii_hexdigit()),
        before.strip_suffix(['x', 'u', 'U']),
    );
    let hex = hex.or_else(|| digits.strip_suffix(['x', 'u', 'U']));
    if let Some(start) = hex.filter(|start| start.ends_with('\\')) {
        return Slip::Escape(text[start.len()..].chars().next());
    }
    if before.ends_with('\\') {
        return Slip::Escape(after.chars().next().filter(|c| !c.is_control()));
    }
    let line = before.rsplit('\n').next().unwrap_or_default();
    if fact == "invalid basic string" && line.contains("\\\"") {
        return Slip::Escape(Some('"'));
    }
    // The reader stopped at these before any value.
    let others = [
        "invalid unquoted key",
        "invalid key",
        "invalid comment character",
    ];
    let is_value = !others.iter().any(|other| fact.starts_with(other))
        && (fact.starts_with("invalid ") || fact.ends_with("must be quoted"));
    match is_value.then(|| bare(text, place.span.start)).flatten() {
        Some(word) if word.eq_ignore_ascii_case("true") => Slip::Capital("true"),
        Some(word) if word.eq_ignore_ascii_case("false") => Slip::Capital("false"),
        Some(word) => Slip::Bare(word),
        None => Slip::Other,
    }
}

/// The value without quotes around the byte `at`: from its `=`, `[` or `,` to what ends it on its line.
fn bare(text: &str, at: usize) -> Option<&str> {
    let line = text[..at].rfind('\n').map_or(0, |n| n + 1);
    let begin = line + text[line..at].rfind(['=', '[', ','])? + 1;
    let value = text[begin..]
        .split(['\n', '\r', ',', ']', '}', '#'])
        .next()?;
    let value = value.trim();
    let quoted = value.starts_with(['"', '\'', '{']);
    (!value.is_empty() && !quoted).then_some(value)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::recipe::value;
    use winimg_base::text::Source;

    /// Fact and help of the one complaint about `name = …`.
    fn explained(value: &str) -> (String, String) {
        let source = Arc::new(Source::new(
            "recipe.toml",
            format!("schema = 1\nname = {value} # x\n"),
        ));
        let (_, problems) = value::parse(&source);
        let [problem] = &problems[..] else {
            panic!("{value}: {problems:?}")
        };
        (
            problem.problem.fact.clone(),
            problem.problem.cures.join("; "),
        )
    }

    #[test]
    fn a_backslash_in_double_quotes_leads_to_single_quotes() {
        let digits = |letter: char, n: u32| {
            format!("TOML: `\\{letter}` takes {n} hexadecimal digits that name a character")
        };
        for (text, fact) in [
            (r#""C:\Users\me.iso""#, digits('U', 8)),
            (r#""C:\Udeadbeef""#, digits('U', 8)),
            (r#""C:\unattend""#, digits('u', 4)),
            (r#""C:\uade""#, digits('u', 4)),
            (r#""D:\xvms""#, digits('x', 2)),
            (r#"["""C:\Users"""]"#, digits('U', 8)),
            (
                r#""C:\""#,
                r#"TOML: the text does not end: `\"` is a quote inside of it"#.into(),
            ),
            (r#""C:\k""#, r"TOML: `\k` is not an escape".into()),
        ] {
            let expected = (fact, super::SINGLE_QUOTES.to_owned());
            assert_eq!(explained(text), expected, "{text}");
        }
    }

    #[test]
    fn what_stands_in_no_value_is_not_called_a_text() {
        for text in [
            "[components.foo/bar]\n",
            "a/b = 1\n",
            "a = [1, 2] # \u{1}\n",
        ] {
            let source = Arc::new(Source::new("recipe.toml", text));
            let (_, problems) = value::parse(&source);
            assert!(!problems.is_empty(), "{text}");
            let wrong = "TOML: a text without quotes";
            assert!(
                problems.iter().all(|p| p.problem.fact != wrong),
                "{problems:?}"
            );
        }
    }

    #[test]
    fn a_text_without_quotes_is_to_be_quoted() {
        for (text, help) in [
            ("node", "quote it: \"node\""),
            ("web node", "quote it: \"web node\""),
            ("1.36.1", "quote it: \"1.36.1\""),
            ("2022-datacenter", "quote it: \"2022-datacenter\""),
            ("64 GiB", "quote it: \"64 GiB\""),
            ("[ a, \"b\"]", "quote it: \"a\""),
            ("{ a = b }", "quote it: \"b\""),
            (
                "https://me:secret@h.example/",
                "quote it: a text stands in double quotes, a Windows path in single quotes",
            ),
        ] {
            let expected = ("TOML: a text without quotes".to_owned(), help.to_owned());
            assert_eq!(explained(text), expected, "{text}");
        }
        assert_eq!(explained("True").1, "write it in lower case: true");
    }
}
