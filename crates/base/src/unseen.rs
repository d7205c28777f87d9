//! Foreign text before it is shown: words of servers, names in archives and certificates, output of guests.
//!
//! One table says which characters a reader does not see: those that steer a terminal, and those that hide, turn or join what
//! stands beside them (Unicode TR 36; UAX #9). Whatever writes to a terminal, a page or a message asks here.

use std::borrow::Cow;

/// What stands where something was not shown.
const INSTEAD: char = '\u{fffd}';

/// Control characters, marks and overrides of direction, separators of lines, joiners and blanks without width, tags.
pub fn is_unseen(c: char) -> bool {
    c.is_control() || is_invisible(c)
}

/// The same without control characters.
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

/// Text of several lines: line ends and tabs stay. A lone carriage return, which would let what follows overwrite the line, does not.
pub fn lines(text: &str) -> Cow<'_, str> {
    replaced(text, |c| is_unseen(c) && !matches!(c, '\n' | '\t'))
}

/// Text that is styled already: escape sequences stay.
pub fn styled(text: &str) -> Cow<'_, str> {
    replaced(text, is_invisible)
}

/// Text for one line: line ends and tabs are blanks.
pub fn line(text: &str) -> String {
    lines(text).replace(['\n', '\t'], " ")
}

/// JSON as it was serialized, in the same value: what is unseen in its texts is escaped (RFC 8259, 7).
pub fn json(text: &str) -> Cow<'_, str> {
    let hidden = |c: char| is_unseen(c) && c != '\n';
    if !text.contains(hidden) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match hidden(c) {
            true => {
                let mut units = [0; 2];
                let units = c.encode_utf16(&mut units).iter();
                units.for_each(|unit| out += &format!("\\u{unit:04x}"));
            }
            false => out.push(c),
        }
    }
    out.into()
}

fn replaced(text: &str, is_hidden: impl Fn(char) -> bool) -> Cow<'_, str> {
    let text: Cow<'_, str> = match text.contains("\r\n") {
        true => text.replace("\r\n", "\n").into(),
        false => text.into(),
    };
    match text.contains(&is_hidden) {
        true => text
            .replace(is_hidden, INSTEAD.encode_utf8(&mut [0; 4]))
            .into(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_words_neither_steer_nor_hide() {
        let text = "kubelet\u{202e}exe.\u{2066}a\u{1b}[2J\n\tb\u{2029}";
        let shown = "kubelet\u{fffd}exe.\u{fffd}a\u{fffd}[2J\n\tb\u{fffd}";
        assert_eq!(lines(text), shown);
        assert_eq!(line(text), shown.replace("\n\t", "  "));
        assert_eq!(
            styled("\u{1b}[31mred\u{1b}[0m\u{202e}"),
            "\u{1b}[31mred\u{1b}[0m\u{fffd}"
        );
        let overwritten = "one\r\ntwo\r error: none\r\n";
        assert_eq!(lines(overwritten), "one\ntwo\u{fffd} error: none\n");
        for plain in ["déjà vu – “x”", "größer\n\tals", "日本語 עברית"] {
            assert_eq!(lines(plain), plain);
        }
        for hidden in ['\u{7f}', '\u{9b}', '\u{200d}', '\u{feff}', '\u{e0041}'] {
            assert_eq!(lines(&format!("a{hidden}b")), "a\u{fffd}b");
        }
    }

    #[test]
    fn json_holds_the_same_text_in_characters_that_are_seen() {
        let value = serde_json::json!({ "a\u{202e}": ["\u{e0041}\u{7f}\n", "\u{9b}ü"] });
        for written in [value.to_string(), format!("{value:#}\n")] {
            let seen = json(&written);
            assert!(!seen.contains(|c| is_unseen(c) && c != '\n'), "{seen}");
            assert!(seen.contains("a\\u202e") && seen.contains("\\udb40\\udc41\\u007f\\n"));
            assert_eq!(
                serde_json::from_str::<serde_json::Value>(&seen).unwrap(),
                value
            );
        }
    }
}
