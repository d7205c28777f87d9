//! Sanitizes untrusted text for display: server messages, names in archives and certificates, guest
//! output.
//!
//! One table has the characters that a reader does not see: those that control a terminal, and
//! those that hide, reorder or join their neighbors (Unicode TR 36; UAX #9). It applies to
//! terminals, pages and messages.

use std::borrow::Cow;

/// Replacement for a hidden character.
const INSTEAD: char = '\u{fffd}';

/// Returns true for control characters, directional marks and overrides, line separators, joiners,
/// zero-width spaces and tags.
pub fn is_unprintable(c: char) -> bool {
    c.is_control() || is_invisible(c)
}

/// Returns true for the characters of [`is_unprintable`], except control characters.
pub fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// Sanitizes text of several lines: line ends and tabs are kept, but not a lone carriage return,
/// after which text would overwrite the line.
pub fn sanitize_lines(text: &str) -> Cow<'_, str> {
    replace_hidden(text, |c| is_unprintable(c) && !matches!(c, '\n' | '\t'))
}

/// Sanitizes styled text: escape sequences are kept.
pub fn sanitize_styled(text: &str) -> Cow<'_, str> {
    replace_hidden(text, is_invisible)
}

/// Sanitizes text for one line: line ends and tabs become spaces.
pub fn sanitize_line(text: &str) -> String {
    sanitize_lines(text).replace(['\n', '\t'], " ")
}

/// Removes escape sequences and control characters, for output that is not markup.
pub fn strip_controls(text: &str) -> String {
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

/// Does the same for one line: line ends and tabs become spaces.
pub fn strip_line(text: &str) -> String {
    strip_controls(text).replace(['\n', '\t'], " ")
}

/// Skips the rest of an escape sequence (ECMA-48): CSI up to its final byte, OSC up to BEL or ST,
/// others one character.
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

/// Escapes hidden characters in the texts of serialized JSON, which keeps its value (RFC 8259, 7).
pub fn escape_json(text: &str) -> Cow<'_, str> {
    if !text.contains(|c: char| is_unprintable(c) && c != '\n') {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unprintable(c) && c != '\n' {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out += &format!("\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out.into()
}

fn replace_hidden(text: &str, is_hidden: impl Fn(char) -> bool) -> Cow<'_, str> {
    let text: Cow<'_, str> = if text.contains("\r\n") {
        text.replace("\r\n", "\n").into()
    } else {
        text.into()
    };
    if text.contains(&is_hidden) {
        text.replace(is_hidden, INSTEAD.encode_utf8(&mut [0; 4]))
            .into()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_words_neither_steer_nor_hide() {
        let text = "kubelet\u{202e}exe.\u{2066}a\u{1b}[2J\n\tb\u{2029}";
        let shown = "kubelet\u{fffd}exe.\u{fffd}a\u{fffd}[2J\n\tb\u{fffd}";
        assert_eq!(sanitize_lines(text), shown);
        assert_eq!(sanitize_line(text), shown.replace("\n\t", "  "));
        assert_eq!(
            sanitize_styled("\u{1b}[31mred\u{1b}[0m\u{202e}"),
            "\u{1b}[31mred\u{1b}[0m\u{fffd}"
        );
        let overwritten = "one\r\ntwo\r error: none\r\n";
        assert_eq!(
            sanitize_lines(overwritten),
            "one\ntwo\u{fffd} error: none\n"
        );
        for plain in ["déjà vu – “x”", "größer\n\tals", "日本語 עברית"] {
            assert_eq!(sanitize_lines(plain), plain);
        }
        for hidden in ['\u{7f}', '\u{9b}', '\u{200d}', '\u{feff}', '\u{e0041}'] {
            assert_eq!(sanitize_lines(&format!("a{hidden}b")), "a\u{fffd}b");
        }
    }

    #[test]
    fn json_holds_the_same_text_in_characters_that_are_seen() {
        let value = serde_json::json!({ "a\u{202e}": ["\u{e0041}\u{7f}\n", "\u{9b}ü"] });
        for written in [value.to_string(), format!("{value:#}\n")] {
            let seen = escape_json(&written);
            assert!(!seen.contains(|c| is_unprintable(c) && c != '\n'), "{seen}");
            assert!(seen.contains("a\\u202e") && seen.contains("\\udb40\\udc41\\u007f\\n"));
            assert_eq!(
                serde_json::from_str::<serde_json::Value>(&seen).unwrap(),
                value
            );
        }
    }
}
