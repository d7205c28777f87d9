//! Parses setup information files (`.inf`), as far as they list the files of a driver package.
//!
//! Reads UTF-16 and UTF-8; anything else is read as a single-byte code page. Supports
//! comments, quoted strings, lines continued after a backslash, and `%strings%`. Executes nothing.
//! (Microsoft: General Syntax Rules for INF Files)

use std::collections::HashMap;

/// A line of a section: `key = field, field`, or fields alone. Strings are expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InfLine {
    pub(super) key: Option<String>,
    pub(super) fields: Vec<String>,
}

impl InfLine {
    /// Returns a field; a missing one is empty, as in Windows.
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
pub(super) struct InfFile {
    sections: Vec<(String, Vec<InfLine>)>,
}

impl InfFile {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let mut inf = Self::default();
        let text = decode_text(bytes);
        let mut rest = text.as_str();
        let mut section = None;
        while !rest.is_empty() {
            let (parsed, after) = logical_line(rest);
            rest = after;
            match (parsed, section) {
                (ParsedInfLine::Section(name), _) => section = Some(inf.section_number(&name)),
                (ParsedInfLine::Line(line), Some(number)) => inf.add(number, line),
                (ParsedInfLine::Nothing, _) | (ParsedInfLine::Line(_), None) => {}
            }
        }
        inf.fill_in();
        inf
    }

    /// Returns the lines of a section; its name is compared without case.
    pub(super) fn lines(&self, section: &str) -> &[InfLine] {
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
    ) -> impl Iterator<Item = (&'i str, &'i InfLine)> {
        let sections = self.sections.iter();
        let all = sections.flat_map(|(name, lines)| lines.iter().map(move |l| (name.as_str(), l)));
        all.filter(move |(_, line)| line.has_key(key))
    }

    fn section_number(&mut self, name: &str) -> usize {
        let position = self
            .sections
            .iter()
            .position(|(known, _)| known.eq_ignore_ascii_case(name));
        match position {
            Some(number) => number,
            None => {
                self.sections.push((name.to_owned(), Vec::new()));
                self.sections.len() - 1
            }
        }
    }

    fn add(&mut self, section: usize, line: InfLine) {
        if let Some((_, lines)) = self.sections.get_mut(section) {
            lines.push(line);
        }
    }

    /// Expands each `%name%`. A string that is only in a language's section is
    /// taken from there.
    fn fill_in(&mut self) {
        let mut strings = HashMap::new();
        let localized = self
            .sections
            .iter()
            .filter(|(name, _)| name.to_lowercase().starts_with("strings."))
            .flat_map(|(_, lines)| lines);
        for line in self.lines("Strings").iter().chain(localized) {
            if let Some(key) = &line.key {
                strings
                    .entry(key.to_lowercase())
                    .or_insert_with(|| line.field(0).to_owned());
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

/// Expands strings: `%%` is a percent sign, and an unknown name such as `%13%` is kept as it is.
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

fn decode_text(bytes: &[u8]) -> String {
    match bytes {
        [0xff, 0xfe, rest @ ..] => decode_utf16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => decode_utf16(rest, u16::from_be_bytes),
        // UTF-16 without a byte order mark that starts with an ASCII character.
        [first, 0, ..] if *first != 0 => decode_utf16(bytes, u16::from_le_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        _ => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => bytes.iter().map(|&byte| char::from(byte)).collect(),
        },
    }
}

fn decode_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let units: Vec<u16> = bytes
        .chunks_exact(2)
        .map(|pair| unit([pair[0], pair[1]]))
        .collect();
    String::from_utf16_lossy(&units)
}

enum ParsedInfLine {
    Section(String),
    Line(InfLine),
    Nothing,
}

/// Reads one line with its continuation lines, and returns the text after it.
fn logical_line(text: &str) -> (ParsedInfLine, &str) {
    let mut words = InfLineBuilder::default();
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
                return (ParsedInfLine::Section(name), &after[line.len()..]);
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

/// Returns the text of the next line if this one has only blanks and a comment left.
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
struct InfLineBuilder {
    key: Option<String>,
    fields: Vec<String>,
    current: String,
    /// Bytes at the start of `current` that are not trimmed.
    protected: usize,
    /// True once a word has started, which may be an empty quoted one.
    is_begun: bool,
}

impl InfLineBuilder {
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

    fn finish(mut self) -> ParsedInfLine {
        if self.is_empty() {
            return ParsedInfLine::Nothing;
        }
        self.end_field();
        ParsedInfLine::Line(InfLine {
            key: self.key,
            fields: self.fields,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(inf: &InfFile, section: &str) -> Vec<String> {
        let line = |line: &InfLine| {
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
        let inf = InfFile::parse(TEXT.as_bytes());
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
            let inf = InfFile::parse(&bytes);
            let found = (
                inf.value("version", "provider"),
                inf.value("VERSION", "catalogfile"),
            );
            assert_eq!(found, (Some("Zażółć"), Some("a.cat")), "{bytes:x?}");
        }
        let code_page =
            InfFile::parse(b"[Version]\nProvider = \"Gr\xfc\xdfe\"\nCatalogFile = a.cat");
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
            InfFile::parse(bytes);
        }
        let inf = InfFile::parse(b"[a]\nb = 1, \\\nc = 2\n\"unclosed\nd = 3");
        assert_eq!(shown(&inf, "a"), ["b=1|c = 2", "unclosed", "d=3"]);
    }
}
