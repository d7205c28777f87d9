//! Setup information files (`.inf`) as far as they say which files a driver package has.
//!
//! Reads UTF-16 and UTF-8; anything else is taken for a code page of one byte a letter. Knows
//! comments, quoted strings, lines that go on after a backslash, and `%strings%`. Executes nothing.
//! (Microsoft: General Syntax Rules for INF Files)

use std::collections::HashMap;

/// A line of a section: `key = field, field`, or fields alone. Strings are filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) key: Option<String>,
    pub(super) fields: Vec<String>,
}

impl Line {
    /// Returns a field; an absent one is empty, as Windows takes it.
    pub(super) fn field(&self, number: usize) -> &str {
        self.fields.get(number).map_or("", String::as_str)
    }

    fn has_key(&self, key: &str) -> bool {
        let own = self.key.as_deref();
        own.is_some_and(|own| own.eq_ignore_ascii_case(key))
    }
}

/// The lines of a setup information file by section. Sections of one name are one section.
#[derive(Clone, Debug, Default)]
pub(super) struct Inf {
    sections: Vec<(String, Vec<Line>)>,
}

impl Inf {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let mut inf = Self::default();
        let text = decoded(bytes);
        let mut rest = text.as_str();
        let mut section = None;
        while !rest.is_empty() {
            let (parsed, after) = logical_line(rest);
            rest = after;
            match (parsed, section) {
                (Parsed::Section(name), _) => section = Some(inf.section_number(&name)),
                (Parsed::Line(line), Some(number)) => inf.add(number, line),
                (Parsed::Nothing, _) | (Parsed::Line(_), None) => {}
            }
        }
        inf.fill_in();
        inf
    }

    /// Returns the lines of a section; its name is compared without case.
    pub(super) fn lines(&self, section: &str) -> &[Line] {
        let mut sections = self.sections.iter();
        let found = sections.find(|(name, _)| name.eq_ignore_ascii_case(section));
        found.map_or(&[], |(_, lines)| lines)
    }

    /// Returns the first value of a key.
    pub(super) fn value(&self, section: &str, key: &str) -> Option<&str> {
        let line = self.lines(section).iter().find(|line| line.has_key(key))?;
        Some(line.field(0))
    }

    /// Returns each line of this key, with the name of its section.
    pub(super) fn lines_of_key<'i>(
        &'i self,
        key: &'i str,
    ) -> impl Iterator<Item = (&'i str, &'i Line)> {
        let sections = self.sections.iter();
        let all = sections.flat_map(|(name, lines)| lines.iter().map(move |l| (name.as_str(), l)));
        all.filter(move |(_, line)| line.has_key(key))
    }

    fn section_number(&mut self, name: &str) -> usize {
        let same = |(known, _): &(String, Vec<Line>)| known.eq_ignore_ascii_case(name);
        match self.sections.iter().position(same) {
            Some(number) => number,
            None => {
                self.sections.push((name.to_owned(), Vec::new()));
                self.sections.len() - 1
            }
        }
    }

    fn add(&mut self, section: usize, line: Line) {
        if let Some((_, lines)) = self.sections.get_mut(section) {
            lines.push(line);
        }
    }

    /// Replaces each `%name%` by its string. A string that only a section for a language has is
    /// taken from there.
    fn fill_in(&mut self) {
        let mut strings = HashMap::new();
        let is_localized = |name: &str| name.to_lowercase().starts_with("strings.");
        let plain = self.lines("Strings").iter();
        let localized = self.sections.iter().filter(|(name, _)| is_localized(name));
        for line in plain.chain(localized.flat_map(|(_, lines)| lines)) {
            if let Some(key) = &line.key {
                let value = || line.field(0).to_owned();
                strings.entry(key.to_lowercase()).or_insert_with(value);
            }
        }
        for line in self.sections.iter_mut().flat_map(|(_, lines)| lines) {
            for text in line.key.iter_mut().chain(&mut line.fields) {
                if text.contains('%') {
                    *text = filled_in(text, &strings);
                }
            }
        }
    }
}

/// `%%` is a percent sign; a name that no string has is left as it is, such as `%13%`.
fn filled_in(text: &str, strings: &HashMap<String, String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let Some((name, after)) = after.split_once('%') else {
            out.push('%');
            rest = after;
            continue;
        };
        match strings.get(&name.to_lowercase()) {
            Some(value) => out.push_str(value),
            None if name.is_empty() => out.push('%'),
            None => out.extend(["%", name, "%"]),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

fn decoded(bytes: &[u8]) -> String {
    let utf16 = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let pairs = bytes.chunks_exact(2);
        let units: Vec<u16> = pairs.map(|pair| unit([pair[0], pair[1]])).collect();
        String::from_utf16_lossy(&units)
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
        // Text that begins with an ASCII letter, without a mark.
        [first, 0, ..] if *first != 0 => utf16(bytes, u16::from_le_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        _ => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => bytes.iter().map(|&byte| char::from(byte)).collect(),
        },
    }
}

enum Parsed {
    Section(String),
    Line(Line),
    Nothing,
}

/// Reads one line, with those that it goes on in, and returns the text after it.
fn logical_line(text: &str) -> (Parsed, &str) {
    let mut words = Words::default();
    let mut chars = text.char_indices().peekable();
    let mut quoted = false;
    while let Some((at, c)) = chars.next() {
        let after = &text[at + c.len_utf8()..];
        match c {
            '\n' | '\r' => return (words.finish(), after),
            '"' if quoted && after.starts_with('"') => {
                words.push('"', true);
                chars.next();
            }
            '"' => {
                quoted = !quoted;
                words.protect();
            }
            _ if quoted => words.push(c, true),
            '[' if words.is_empty() => {
                let line = after.split(['\n', '\r']).next().unwrap_or_default();
                let name = line.split(']').next().unwrap_or_default();
                let name = name.trim().trim_matches('"').to_owned();
                return (Parsed::Section(name), &after[line.len()..]);
            }
            ';' => {
                let end = after.find(['\n', '\r']).unwrap_or(after.len());
                return (words.finish(), &after[end..]);
            }
            '\\' => match goes_on(after) {
                Some(next) => {
                    let skipped = text.len() - next.len();
                    while chars.next_if(|(at, _)| *at < skipped).is_some() {}
                }
                None => words.push(c, false),
            },
            '=' if words.may_end_key() => words.end_key(),
            ',' => words.end_field(),
            _ => words.push(c, false),
        }
    }
    (words.finish(), "")
}

/// Returns the text of the next line if nothing but blanks and a comment is on this one.
fn goes_on(after: &str) -> Option<&str> {
    let end = after.find(['\n', '\r'])?;
    let (line, next) = after.split_at(end);
    let line = line.trim_start();
    let is_over = line.is_empty() || line.starts_with(';');
    let next = next.strip_prefix("\r\n").unwrap_or(next.get(1..)?);
    is_over.then_some(next)
}

/// The words of a line. Blanks around a word do not belong to it unless they are quoted.
#[derive(Default)]
struct Words {
    key: Option<String>,
    fields: Vec<String>,
    current: String,
    /// Bytes of `current` that blanks at its end are not taken from.
    protected: usize,
    /// Whether there was a word, which may be an empty quoted one.
    is_begun: bool,
}

impl Words {
    fn is_empty(&self) -> bool {
        self.key.is_none() && self.fields.is_empty() && !self.is_begun
    }

    fn may_end_key(&self) -> bool {
        self.key.is_none() && self.fields.is_empty()
    }

    fn push(&mut self, c: char, is_quoted: bool) {
        if c.is_whitespace() && !is_quoted && !self.is_begun {
            return;
        }
        self.is_begun = true;
        self.current.push(c);
        if is_quoted {
            self.protect();
        }
    }

    fn protect(&mut self) {
        self.is_begun = true;
        self.protected = self.current.len();
    }

    fn end_word(&mut self) -> String {
        let kept = self.current.trim_end().len().max(self.protected);
        self.current.truncate(kept);
        (self.protected, self.is_begun) = (0, false);
        std::mem::take(&mut self.current)
    }

    fn end_key(&mut self) {
        self.key = Some(self.end_word());
    }

    fn end_field(&mut self) {
        let word = self.end_word();
        self.fields.push(word);
    }

    fn finish(mut self) -> Parsed {
        if self.is_empty() {
            return Parsed::Nothing;
        }
        self.end_field();
        Parsed::Line(Line {
            key: self.key,
            fields: self.fields,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(inf: &Inf, section: &str) -> Vec<String> {
        let line = |line: &Line| {
            let key = line.key.as_ref().map(|key| format!("{key}="));
            key.unwrap_or_default() + &line.fields.join("|")
        };
        inf.lines(section).iter().map(line).collect()
    }

    const TEXT: &str = "; a comment\r\n\
        line = \"before any section\"\r\n\
        [ Files ] ; another\r\n\
        a.sys = 1,, ; \"a third\"\r\n\
        \"b; c.sys\"=\"2\" , \"sub, folder\" ,\r\n\
        \t d.sys  =  1 , \\ ; goes on\r\n\
        \t sub\r\n\
        %Dll% = 1, %Sub%\\x, %13%, 100%%\r\n\
        say \"\"\"yes\"\"\"\r\n\
        ends\\here = C:\\\r\n\
        \r\n\
        [files]\r\n\
        f.sys=1\r\n\
        [Strings]\r\n\
        dll = \"e.dll\"\r\n\
        [Strings.0407]\r\n\
        SUB = ordner\r\n\
        dll = \"nicht.dll\"";

    #[test]
    fn lines_are_read_as_windows_reads_them() {
        let inf = Inf::parse(TEXT.as_bytes());
        let expected = [
            "a.sys=1||",
            "b; c.sys=2|sub, folder|",
            "d.sys=1|sub",
            "e.dll=1|ordner\\x|%13%|100%",
            "say \"yes\"",
            // A backslash at the end of a line is never a part of it.
            "ends\\here=C:",
            "f.sys=1",
        ];
        assert_eq!(shown(&inf, "FILES"), expected);
        assert_eq!(inf.value("strings", "DLL"), Some("e.dll"));
        assert_eq!(inf.value("strings", "none"), None);
        assert_eq!(shown(&inf, "nothing"), [""; 0]);
    }

    #[test]
    fn each_encoding_gives_the_same_text() {
        let text = "[Version]\r\nProvider = \"Zażółć\"\r\nCatalogFile = a.cat\r\n";
        let units: Vec<u16> = text.encode_utf16().collect();
        let little = units.iter().flat_map(|unit| unit.to_le_bytes());
        let big = units.iter().flat_map(|unit| unit.to_be_bytes());
        let cases = [
            text.as_bytes().to_vec(),
            [b"\xef\xbb\xbf", text.as_bytes()].concat(),
            [0xff, 0xfe].into_iter().chain(little.clone()).collect(),
            [0xfe, 0xff].into_iter().chain(big).collect(),
            little.collect(),
        ];
        for bytes in cases {
            let inf = Inf::parse(&bytes);
            let found = (
                inf.value("version", "provider"),
                inf.value("VERSION", "catalogfile"),
            );
            assert_eq!(found, (Some("Zażółć"), Some("a.cat")), "{bytes:x?}");
        }
        let code_page = Inf::parse(b"[Version]\nProvider = \"Gr\xfc\xdfe\"\nCatalogFile = a.cat");
        assert_eq!(code_page.value("Version", "CatalogFile"), Some("a.cat"));
    }

    #[test]
    fn what_is_cut_or_no_text_gives_what_can_be_read() {
        let cases: [&[u8]; 8] = [
            b"",
            b"[",
            b"[Version",
            b"\xff\xfe[",
            b"[a]\n\"unclosed = 1",
            b"[a]\nb = 1, \\",
            b"\0\0\0\0",
            b"[a]\n%",
        ];
        for bytes in cases {
            Inf::parse(bytes);
        }
        let inf = Inf::parse(b"[a]\nb = 1, \\\nc = 2\n\"unclosed\nd = 3");
        assert_eq!(shown(&inf, "a"), ["b=1|c = 2", "unclosed", "d=3"]);
    }
}
