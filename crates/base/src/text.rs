//! Source spans, secret redaction and text formatting.
//!
//! Does not parse.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use url::Url;

/// A named input text: a recipe file, a var file, or the text given to a flag.
#[derive(Clone, Debug, Default)]
pub struct SourceText {
    /// The name to show, such as `recipe.toml`, `packs/containerd.toml` or `--set`.
    pub name: String,
    /// The whole text; places index its bytes.
    pub text: String,
    /// True if messages may show its lines.
    is_quotable: bool,
    /// Built when the first place in it is shown.
    index: OnceLock<LineIndex>,
}

impl SourceText {
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
            is_quotable: true,
            index: OnceLock::new(),
        }
    }

    /// Prevents messages from showing its lines, for a file of the host named in an untrusted
    /// recipe.
    #[must_use]
    pub fn into_unquotable(self) -> Self {
        Self {
            is_quotable: false,
            ..self
        }
    }

    pub fn is_quotable(&self) -> bool {
        self.is_quotable
    }

    fn index(&self) -> &LineIndex {
        self.index.get_or_init(|| LineIndex::build(&self.text))
    }
}

impl PartialEq for SourceText {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.is_quotable, &self.text) == (&other.name, other.is_quotable, &other.text)
    }
}

impl Eq for SourceText {}

/// Line offsets and character counts, for looking up a position without rescanning the text.
#[derive(Clone, Debug, Default)]
struct LineIndex {
    /// Offsets of the first byte of each line.
    lines: Vec<usize>,
    /// Characters that start before each block of [`BLOCK`] bytes.
    characters: Vec<usize>,
}

/// Bytes per block.
const BLOCK: usize = 1024;

impl LineIndex {
    fn build(text: &str) -> Self {
        let mut characters = Vec::with_capacity(text.len() / BLOCK + 1);
        let mut before = 0;
        for block in text.as_bytes().chunks(BLOCK) {
            characters.push(before);
            before += count_character_starts(block);
        }
        characters.push(before);
        Self {
            lines: std::iter::once(0)
                .chain(text.match_indices('\n').map(|(end, _)| end + 1))
                .collect(),
            characters,
        }
    }

    /// Counts the characters that start before the byte at `offset`.
    fn characters_before(&self, text: &str, offset: usize) -> usize {
        let block = offset / BLOCK;
        self.characters[block] + count_character_starts(&text.as_bytes()[block * BLOCK..offset])
    }
}

/// Counts the bytes that start a UTF-8 character.
fn count_character_starts(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

/// A byte range of a source. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Place {
    pub source: Arc<SourceText>,
    /// Bytes of `source.text`.
    pub span: Range<usize>,
}

impl Place {
    pub fn new(source: &Arc<SourceText>, span: Range<usize>) -> Self {
        Self {
            source: Arc::clone(source),
            span,
        }
    }

    /// Returns line and column, both counted from 1, the column in characters.
    pub fn line_column(&self) -> (usize, usize) {
        let (text, index) = (&self.source.text, self.source.index());
        let offset = self.span.start.min(text.len());
        let line = index.lines.partition_point(|start| *start <= offset);
        let before = index.characters_before(text, index.lines[line - 1]);
        (line, index.characters_before(text, offset) - before + 1)
    }

    /// Returns the bytes of its first line, without the line end.
    pub fn line_range(&self) -> Range<usize> {
        let (text, index) = (&self.source.text, self.source.index());
        let offset = self.span.start.min(text.len());
        let line = index.lines.partition_point(|start| *start <= offset);
        let start = index.lines[line - 1];
        let end = index.lines.get(line).map_or(text.len(), |next| next - 1);
        let end = if text[start..end].ends_with('\r') {
            end - 1
        } else {
            end
        };
        start..end
    }
}

/// `recipe.toml:12:3`
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.line_column();
        write!(f, "{}:{line}:{column}", self.source.name)
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A value and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located<T> {
    pub value: T,
    pub place: Place,
}

impl<T> Located<T> {
    pub fn new(value: T, place: Place) -> Self {
        Self { value, place }
    }

    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Located<U> {
        Located {
            value: f(self.value),
            place: self.place,
        }
    }
}

/// Maximum width of a table column, in characters. A longer text only shifts the rest of its line:
/// names may be untrusted, and a format string accepts no width above 65,535.
const MAX_COLUMN_WIDTH: usize = 100;

/// Computes the width of a column with texts of these lengths.
pub fn column_width(lengths: impl IntoIterator<Item = usize>) -> usize {
    lengths.into_iter().max().unwrap_or(0).min(MAX_COLUMN_WIDTH)
}

/// Converts line ends to `\r\n`: cmd fails to find labels in a file with bare `\n`.
pub fn to_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

/// A secret that `{}`, `{:?}` and serde cannot print.
///
/// ```compile_fail,E0277
/// println!("{}", winimg_base::text::Secret::new("Open-Sesame-42!"));
/// ```
///
/// ```compile_fail,E0277
/// serde_json::to_string(&winimg_base::text::Secret::new("Open-Sesame-42!"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// Returns the secret itself. Review every caller.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Redacts a URL for display and records: removes user name, password, query string and fragment.
///
/// A query becomes `?…`: signed URLs carry their signature in the query. Plain paths are returned
/// unchanged.
pub fn redact(url: &str) -> String {
    let Some((scheme, _)) = url.split_once(':') else {
        return url.to_string();
    };
    // `C:\…` is a path, not a scheme.
    let is_scheme = scheme.len() > 1
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    if !is_scheme || scheme.eq_ignore_ascii_case("file") {
        return url.to_string();
    }
    let has_query = url.contains('?');
    let shown = match Url::parse(url) {
        Ok(mut parsed) if parsed.has_host() => {
            let is_bare = parsed.username().is_empty() && parsed.password().is_none();
            if is_bare && !has_query && parsed.fragment().is_none() {
                // Nothing to redact: keep the original spelling.
                return url.to_string();
            }
            parsed.set_query(None);
            parsed.set_fragment(None);
            // Both fail only for URLs without a host.
            let _ = parsed.set_username("");
            let _ = parsed.set_password(None);
            parsed.to_string()
        }
        // Not a valid URL: keep only the parts that cannot contain a secret.
        _ => {
            let head = url.split(['?', '#']).next().unwrap_or_default();
            let rest = &head[scheme.len() + 1..];
            format!("{scheme}:{}", rest.rsplit('@').next().unwrap_or_default())
        }
    };
    if has_query {
        format!("{shown}?…")
    } else {
        shown
    }
}

/// Redacts a value if it is an HTTP(S) URL; other text is returned unchanged.
pub fn redact_if_url(text: &str) -> String {
    let lower = text.trim_start().to_ascii_lowercase();
    if lower.starts_with("http://") || lower.starts_with("https://") {
        redact(text.trim())
    } else {
        text.to_string()
    }
}

/// Masks a source for display in diagnostics: credentials and queries of http(s) URLs and product
/// keys are overwritten byte by byte, so that all places stay valid.
pub fn mask_secrets(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    mask_urls(text, &mut bytes);
    mask_product_keys(text, &mut bytes);
    // Only whole characters were replaced, so this is still UTF-8.
    String::from_utf8(bytes).unwrap_or_default()
}

fn mask_urls(text: &str, bytes: &mut [u8]) {
    for (at, _) in text.match_indices("://") {
        let scheme = text.as_bytes()[at.saturating_sub(5)..at].to_ascii_lowercase();
        if !scheme.ends_with(b"http") && !scheme.ends_with(b"https") {
            continue;
        }
        let start = at + 3;
        let end = text[start..]
            .find(|c: char| c.is_whitespace() || c.is_control() || "\"'`<>".contains(c))
            .map_or(text.len(), |n| start + n);
        let url = &text[start..end];
        let host = url.find(['/', '?', '#']).unwrap_or(url.len());
        if let Some(user) = url[..host].rfind('@') {
            bytes[start..start + user].fill(b'*');
        }
        if let Some(query) = url.find('?') {
            bytes[start + query + 1..end].fill(b'*');
        }
    }
}

/// Masks five groups of five characters anywhere, and any value of `product_key`, since a mistyped
/// key still reveals most of the real one.
fn mask_product_keys(text: &str, bytes: &mut [u8]) {
    let mut at = 0;
    for run in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-') {
        let groups: Vec<bool> = run.split('-').map(|g| g.len() == 5).collect();
        if groups.windows(5).any(|five| five.iter().all(|is| *is)) {
            bytes[at..at + run.len()].fill(b'*');
        }
        let rest = &text[at + run.len()..];
        at += run.len() + rest.chars().next().map_or(0, char::len_utf8);
    }
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if let Some((key, value)) = line.split_once('=')
            && key
                .trim()
                .trim_matches(['"', '\''])
                .ends_with("product_key")
        {
            let from = start + line.len() - value.len();
            let secret = value.trim().trim_matches(['"', '\'']);
            if !secret.eq_ignore_ascii_case("kms") && !secret.starts_with("{{") {
                for byte in &mut bytes[from..start + line.len()] {
                    if !byte.is_ascii_whitespace() && !matches!(byte, b'"' | b'\'') {
                        *byte = b'*';
                    }
                }
            }
        }
        start += line.len();
    }
}

/// Formats a count with its noun: `1 step`, `2 steps`.
pub fn count(number: usize, noun: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{s}")
}

/// Formats a number of bytes: `512 B`, `12 KiB`, `1.2 MiB`.
pub fn format_size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
        _ => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
    }
}

/// `+1.2 GiB`, `−3.0 MiB`
pub fn format_difference(before: u64, after: u64) -> String {
    let sign = if after < before { '−' } else { '+' };
    format!("{sign}{}", format_size(after.abs_diff(before)))
}

/// Formats a duration: `41.0 s`, `3 min 5 s`.
pub fn format_duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::{Secret, mask_secrets, redact};

    #[test]
    fn a_secret_is_not_printed() {
        let secret = Secret::new("Open-Sesame-42!");
        assert_eq!(format!("{secret:?}"), "[secret]");
        assert_eq!(format!("{:#?}", Some(secret)), "Some(\n    [secret],\n)");
    }

    #[test]
    fn a_source_is_shown_without_what_signs_and_without_keys() {
        for (text, shown) in [
            (
                "url = \"https://h.example/a?sig=S\u{e4}\" # x",
                "url = \"https://h.example/a?*******\" # x",
            ),
            (
                "url = 'HTTP://u:p@h.example/a@b' oops",
                "url = 'HTTP://***@h.example/a@b' oops",
            ),
            ("url = \"ftp://u@h/?a\"", "url = \"ftp://u@h/?a\""),
            (
                "x = [\"AAAAA-BBBBB-CCCCC-DDDDD-EEEEE\"]",
                "x = [\"*****************************\"]",
            ),
            (
                "product_key = \"AAAAA-BBBB\" # mine\nname = \"x\"",
                "product_key = \"**********\" * ****\nname = \"x\"",
            ),
            ("media.product_key = 'kms'", "media.product_key = 'kms'"),
            ("product_key = \"{{key}}\"", "product_key = \"{{key}}\""),
            (
                "id = \"11111111-2222-3333-4444-555555555555\"",
                "id = \"11111111-2222-3333-4444-555555555555\"",
            ),
        ] {
            assert_eq!(mask_secrets(text), shown);
            assert_eq!(mask_secrets(text).len(), text.len());
        }
    }

    #[test]
    fn what_a_url_hides_is_not_shown() {
        for (url, shown) in [
            ("https://h.example/a.zip", "https://h.example/a.zip"),
            (
                "https://u:p@h.example:8443/a.zip?sig=S#f",
                "https://h.example:8443/a.zip?…",
            ),
            ("https:/u:p@h.example/a", "https://h.example/a"),
            ("https:\\\\u:p@h.example\\a", "https://h.example/a"),
            ("https://u:p@[bad/a?sig=S", "https:[bad/a?…"),
            ("https://u:p@ss@h.example/a", "https://h.example/a"),
            ("./files/a?b.zip", "./files/a?b.zip"),
            ("C:\\files\\a.zip", "C:\\files\\a.zip"),
            ("file:///srv/a.zip", "file:///srv/a.zip"),
        ] {
            assert_eq!(redact(url), shown, "{url}");
        }
    }
}
