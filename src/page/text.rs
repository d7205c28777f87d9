//! Formats foreign text and times for pages.
//!
//! Accepts any input: markup and terminal escape sequences are made harmless.

use std::fmt::Write as _;

use jiff::Timestamp;

use winimg_base::display_text::strip_controls;
use winimg_base::markup::escape_xml;

/// Escapes text for a page; removes escape sequences, control and bidirectional formatting
/// characters.
pub fn escape_html(text: &str) -> String {
    escape_xml(&strip_controls(text))
}

/// Escapes a sentence for a page and renders text between backticks as code.
pub fn render_prose(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    // An odd number of backticks cannot be paired.
    if parts.len().is_multiple_of(2) {
        return escape_html(text);
    }
    parts
        .iter()
        .enumerate()
        .map(|(at, part)| match at % 2 {
            0 => escape_html(part),
            _ => format!("<code>{}</code>", escape_html(part)),
        })
        .collect()
}

/// Percent-encodes a relative link (RFC 3986).
pub fn encode_link(file: &str) -> String {
    let mut out = String::new();
    for byte in file.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/' => {
                out.push(char::from(byte));
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// Capitalizes the text and adds a full stop.
pub fn to_sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), chars.as_str())
}

/// `2026-01-02 03:04:05 UTC`
pub fn format_second(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// `0:07`, `1:02:03`
pub fn format_clock(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    match whole {
        0..3600 => format!("{}:{:02}", whole / 60, whole % 60),
        _ => format!("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_harmless() {
        for (text, safe) in [
            (
                "</pre><script>alert(1)</script>",
                "&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;",
            ),
            ("\x1b[31mred\x1b[0m \x1b]0;title\x07x", "red x"),
            ("a\0b\x08c\r\nd\te", "abc\nd\te"),
            ("\x1b[12\nnext\x1b", "\nnext"),
            ("user\u{202e}exe.txt", "user\u{fffd}exe.txt"),
            ("a\u{61c}b", "a\u{fffd}b"),
            ("\"'&", "&quot;&apos;&amp;"),
        ] {
            assert_eq!(escape_html(text), safe);
        }
        for (text, marked) in [
            (
                "after step `<a>`, again",
                "after step <code>&lt;a&gt;</code>, again",
            ),
            ("`a` and `b`", "<code>a</code> and <code>b</code>"),
            ("one ` alone", "one ` alone"),
        ] {
            assert_eq!(render_prose(text), marked);
        }
        assert_eq!(encode_link("a b/\"<ä>.log"), "a%20b/%22%3C%C3%A4%3E.log");
    }
}
