//! Explains errors in the syntax of TOML and suggests fixes.
//!
//! Looks at the text at the error, because the parser's message only names what a number or an
//! escape would have needed. Never repeats a value that may be more than a plain word.

use winimg_base::diag::Diagnostic;
use winimg_base::text::Place;

const SINGLE_QUOTES: &str =
    "put Windows paths in single quotes: 'C:\\k', where a backslash is literal";

enum SyntaxSlip<'a> {
    /// An invalid escape in double quotes, with the character after the backslash.
    Escape(Option<char>),
    /// `True` instead of `true`.
    Capital(&'static str),
    /// A string without quotes.
    Bare(&'a str),
    Duplicate,
    Other,
}

/// Makes an error about the syntax at `place`; `message` is the parser's.
pub fn explain_error(message: &str, place: &Place) -> Diagnostic {
    Diagnostic {
        is_syntax: true,
        ..describe(message, place)
    }
}

fn describe(message: &str, place: &Place) -> Diagnostic {
    let (fact, expected) = match message.split_once(", expected ") {
        Some((fact, expected)) => (fact, format!("expected {expected}")),
        None => (message, String::new()),
    };
    let problem = Diagnostic::error(format!("TOML: {fact}"));
    match classify(fact, place) {
        SyntaxSlip::Escape(letter) => Diagnostic::error(escape(letter, fact))
            .at(place, "in double quotes a backslash starts an escape")
            .help(SINGLE_QUOTES),
        SyntaxSlip::Capital(word) => problem
            .at(place, "")
            .help(format!("write it in lower case: {word}")),
        SyntaxSlip::Bare(text) => {
            let is_plain = text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || " ._+-".contains(c));
            let help = if is_plain {
                format!("quote it: \"{text}\"")
            } else {
                "quote it: use double quotes for a string, single quotes for a Windows path".into()
            };
            Diagnostic::error("TOML: a string without quotes")
                .at(place, "")
                .help(help)
        }
        SyntaxSlip::Duplicate => problem
            .at(place, &expected)
            .help("the table or key exists above: write it only once"),
        SyntaxSlip::Other => problem.at(place, &expected),
    }
}

/// Explains the error in an escape.
fn escape(letter: Option<char>, fact: &str) -> String {
    let digits = match letter {
        Some('x') => 2,
        Some('u') => 4,
        Some('U') => 8,
        // The last backslash of a folder's path.
        Some('"') => return "TOML: the string does not end: `\\\"` is a quote inside it".into(),
        Some(letter) => return format!("TOML: `\\{letter}` is not an escape"),
        None => return format!("TOML: {fact}"),
    };
    let letter = letter.unwrap_or_default();
    format!("TOML: `\\{letter}` needs {digits} hexadecimal digits of a character")
}

fn classify<'a>(fact: &str, place: &'a Place) -> SyntaxSlip<'a> {
    let text = place.source.text.as_str();
    let Some((before, after)) = text.split_at_checked(place.span.start) else {
        return SyntaxSlip::Other;
    };
    if fact == "duplicate key" {
        return SyntaxSlip::Duplicate;
    }
    // The parser stops after `\U` and its digits; after any other backslash it stops at once.
    let (digits, hex) = (
        before.trim_end_matches(|c: char| c.is_ascii_hexdigit()),
        before.strip_suffix(['x', 'u', 'U']),
    );
    let hex = hex.or_else(|| digits.strip_suffix(['x', 'u', 'U']));
    if let Some(start) = hex.filter(|start| start.ends_with('\\')) {
        return SyntaxSlip::Escape(text[start.len()..].chars().next());
    }
    if before.ends_with('\\') {
        return SyntaxSlip::Escape(after.chars().next().filter(|c| !c.is_control()));
    }
    let line = before.rsplit('\n').next().unwrap_or_default();
    if fact == "invalid basic string" && line.contains("\\\"") {
        return SyntaxSlip::Escape(Some('"'));
    }
    // The parser stopped at these before any value.
    let others = [
        "invalid unquoted key",
        "invalid key",
        "invalid comment character",
    ];
    let is_value = !others.iter().any(|other| fact.starts_with(other))
        && (fact.starts_with("invalid ") || fact.ends_with("must be quoted"));
    match is_value
        .then(|| find_bare(text, place.span.start))
        .flatten()
    {
        Some(word) if word.eq_ignore_ascii_case("true") => SyntaxSlip::Capital("true"),
        Some(word) if word.eq_ignore_ascii_case("false") => SyntaxSlip::Capital("false"),
        Some(word) => SyntaxSlip::Bare(word),
        None => SyntaxSlip::Other,
    }
}

/// Finds the unquoted value around the byte `at`: from its `=`, `[` or `,` to its end on the line.
fn find_bare(text: &str, at: usize) -> Option<&str> {
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

    use crate::document::value;
    use winimg_base::text::SourceText;

    /// Fact and help of the one complaint about `name = …`.
    fn explained(value: &str) -> (String, String) {
        let source = Arc::new(SourceText::new(
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
            format!("TOML: `\\{letter}` needs {n} hexadecimal digits of a character")
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
                r#"TOML: the string does not end: `\"` is a quote inside it"#.into(),
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
            let source = Arc::new(SourceText::new("recipe.toml", text));
            let (_, problems) = value::parse(&source);
            assert!(!problems.is_empty(), "{text}");
            let wrong = "TOML: a string without quotes";
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
                "quote it: use double quotes for a string, single quotes for a Windows path",
            ),
        ] {
            let expected = ("TOML: a string without quotes".to_owned(), help.to_owned());
            assert_eq!(explained(text), expected, "{text}");
        }
        assert_eq!(explained("True").1, "write it in lower case: true");
    }
}
