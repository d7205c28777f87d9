//! How foreign text, times and sizes are shown on a page.
//!
//! Refuses nothing and trusts nothing: what could be taken for markup or steer a terminal is made harmless.

use std::fmt::Write as _;

use jiff::Timestamp;

use winimg_base::markup::escape_xml;
use winimg_base::unseen::is_invisible;

/// Text for a page, as it is: without escape sequences, control characters and what turns the direction of writing.
pub fn shown(text: &str) -> String {
    escape_xml(&plain(text))
}

/// A sentence for a page: what stands between two backticks is code.
pub fn prose(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    // With an odd number of them it is not known which belong together.
    if parts.len().is_multiple_of(2) {
        return shown(text);
    }
    let part = |(at, part): (usize, &&str)| match at % 2 {
        0 => shown(part),
        _ => format!("<code>{}</code>", shown(part)),
    };
    parts.iter().enumerate().map(part).collect()
}

/// As `shown`, where no markup is read.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\x1b' => skip_sequence(&mut chars),
            '\n' | '\t' => out.push(c),
            '\r' => {}
            c if is_invisible(c) => out.push('\u{fffd}'),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

/// A foreign name for one line of a terminal.
pub fn in_one_line(text: &str) -> String {
    plain(text).replace(['\n', '\t'], " ")
}

/// The rest of an escape sequence (ECMA-48): CSI up to its final byte, OSC up to BEL or ST, others one character.
fn skip_sequence(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    let ends: fn(char) -> bool = match chars.next() {
        Some('[') => |c| ('@'..='~').contains(&c),
        Some(']') => |c| c == '\x07',
        _ => return,
    };
    while let Some(c) = chars.next_if(|c| *c != '\n' && *c != '\x1b') {
        if ends(c) {
            return;
        }
    }
}

/// A relative link: each byte that is not plain is encoded (RFC 3986).
pub fn link(file: &str) -> String {
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

/// With a capital and a full stop.
pub fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), chars.as_str())
}

/// `2026-01-02 03:04:05 UTC`
pub fn second(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// `0:07`, `1:02:03`
pub fn clock(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    match whole {
        0..3600 => format!("{}:{:02}", whole / 60, whole % 60),
        _ => format!("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60),
    }
}

pub fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
        _ => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
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
            assert_eq!(shown(text), safe);
        }
        for (text, marked) in [
            (
                "after step `<a>`, again",
                "after step <code>&lt;a&gt;</code>, again",
            ),
            ("`a` and `b`", "<code>a</code> and <code>b</code>"),
            ("one ` alone", "one ` alone"),
        ] {
            assert_eq!(prose(text), marked);
        }
        assert_eq!(link("a b/\"<ä>.log"), "a%20b/%22%3C%C3%A4%3E.log");
    }
}
