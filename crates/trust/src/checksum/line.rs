//! Parses the lines of a checksum file: bare, GNU, BSD, OpenSSL, PowerShell, certutil, and digest
//! and name with a separator.
//!
//! Other lines are returned separately: their relevance depends on the wanted file.

use std::borrow::Cow;

use winimg_base::display_text::{self, is_unprintable};
use winimg_base::problem::Problem;

/// A parsed line.
pub struct ChecksumLine<'a> {
    pub number: usize,
    /// The text in the file.
    pub text: &'a str,
    pub hex: Cow<'a, str>,
    /// File name with `/`, without leading `./`. `None`: a bare digest.
    pub name: Option<String>,
    /// The line above a bare digest, as certutil writes it: `SHA256 hash of tool.exe:`.
    pub heading: Option<&'a str>,
    /// An algorithm that the line names and that the digest's length does not determine.
    pub other_algorithm: Option<String>,
}

/// The lines of a file.
#[derive(Default)]
pub struct ChecksumLines<'a> {
    pub checksums: Vec<ChecksumLine<'a>>,
    /// Number and text of the lines that are not checksums.
    pub others: Vec<(usize, &'a str)>,
}

/// Digest, name and algorithm of one line.
struct ChecksumParts<'a> {
    hex: Cow<'a, str>,
    name: Option<&'a str>,
    other_algorithm: Option<String>,
}

impl<'a> ChecksumParts<'a> {
    fn new(hex: impl Into<Cow<'a, str>>, name: Option<&'a str>) -> Self {
        Self {
            hex: hex.into(),
            name,
            other_algorithm: None,
        }
    }
}

pub fn read(text: &str) -> Result<ChecksumLines<'_>, Problem> {
    let mut lines = ChecksumLines::default();
    let relevant: Vec<(usize, &str)> = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .collect();
    let mut rest = relevant.as_slice();
    let mut heading = None;
    while let [(number, line), after @ ..] = rest {
        rest = after;
        if is_heading(line) {
            continue;
        }
        let listed = parse_list(line, after);
        if listed.is_some() {
            rest = after.get(2..).unwrap_or_default();
        }
        let Some(parts) = listed.or_else(|| parse_line(line)) else {
            heading = line.strip_suffix(':');
            lines.others.push((*number, line));
            continue;
        };
        if parts.name.is_some_and(|n| n.ends_with("...")) {
            return Err(report_truncated(*number, line));
        }
        lines.checksums.push(ChecksumLine {
            number: *number,
            text: line,
            hex: parts.hex,
            name: parts.name.map(normalize_name),
            heading: heading.take().filter(|_| parts.name.is_none()),
            other_algorithm: parts.other_algorithm,
        });
    }
    match (lines.checksums.as_slice(), lines.others.first()) {
        ([], Some((number, line))) => Err(no_checksum(*number, line)),
        ([], None) if relevant.is_empty() => Err(Problem::new("contains only comments")),
        ([], None) => Err(Problem::new("contains no digest")),
        _ => Ok(lines),
    }
}

pub fn no_checksum(number: usize, line: &str) -> Problem {
    let shown: String = line
        .chars()
        .filter(|c| !is_unprintable(*c))
        .take(80)
        .collect();
    Problem::new(format!("has a line {number} that is not a checksum")).lines([shown])
}

/// Returns the error for a line that PowerShell truncated to the console's width, which it also
/// does in files.
fn report_truncated(number: usize, line: &str) -> Problem {
    Problem::new(format!(
        "has a line {number} whose path was truncated by PowerShell"
    ))
    .lines([display_text::sanitize_line(line)
        .chars()
        .take(160)
        .collect::<String>()])
    .cure("write only the digest: (Get-FileHash FILE).Hash > FILE.sha256")
}

/// Returns true for the two lines above PowerShell's table.
fn is_heading(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    words == ["Algorithm", "Hash", "Path"]
        || words.len() == 3 && words.iter().all(|w| w.bytes().all(|b| b == b'-'))
}

/// Parses PowerShell's list: `Algorithm : SHA256`, `Hash : …`, `Path : …`, in this order.
fn parse_list<'a>(line: &'a str, after: &[(usize, &'a str)]) -> Option<ChecksumParts<'a>> {
    let algorithm = value_of(line, "Algorithm")?;
    let hex = value_of(after.first()?.1, "Hash")?;
    let name = value_of(after.get(1)?.1, "Path")?;
    check_algorithm(algorithm, hex, name)
}

fn value_of<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let (name, value) = line.split_once(':')?;
    (name.trim_end() == key).then_some(value.trim())
}

fn parse_line(line: &str) -> Option<ChecksumParts<'_>> {
    parse_tagged(line)
        .or_else(|| parse_table_row(line))
        .or_else(|| parse_gnu(line))
        .or_else(|| parse_labelled(line))
        .or_else(|| parse_separated(line))
        .or_else(|| parse_pairs(line))
}

/// Parses `hex  name`, `hex *name`, `hex`.
fn parse_gnu(line: &str) -> Option<ChecksumParts<'_>> {
    // GNU marks escaped names with a backslash. No file of a release needs that, so such a name
    // will not match.
    let line = line.strip_prefix('\\').unwrap_or(line);
    let Some((hex, rest)) = line.split_once([' ', '\t']) else {
        return is_hex(line).then(|| ChecksumParts::new(line, None));
    };
    let name = rest.trim_start();
    let name = name.strip_prefix('*').unwrap_or(name);
    (is_hex(hex) && !name.is_empty()).then(|| ChecksumParts::new(hex, Some(name)))
}

/// Prefixes of algorithm names.
const ALGORITHMS: [&str; 8] = [
    "MD",
    "SHA",
    "BLAKE",
    "RIPEMD",
    "WHIRLPOOL",
    "SM3",
    "CRC",
    "TIGER",
];

/// Labels before a digest that are not file names.
const LABELS: [&str; 4] = ["HASH", "CHECKSUM", "DIGEST", "FINGERPRINT"];

/// Returns true for the name of an algorithm, as opposed to that of a file.
fn is_algorithm(tag: &str) -> bool {
    let upper = tag.to_ascii_uppercase();
    ALGORITHMS.iter().any(|start| upper.starts_with(start)) && !tag.contains(['.', ' '])
}

/// Parses `sha256:hex`, `SHA256: hex`, `sha256=hex  name`: an algorithm before a complete line.
fn parse_labelled(line: &str) -> Option<ChecksumParts<'_>> {
    let (tag, rest) = line.split_once([':', '='])?;
    let tag = tag.trim_end();
    let parts = parse_gnu(rest.trim_start())?;
    if LABELS.iter().any(|label| tag.eq_ignore_ascii_case(label)) {
        return Some(parts);
    }
    if !is_algorithm(tag) {
        return None;
    }
    let other_algorithm =
        check_algorithm(tag, &parts.hex, parts.name.unwrap_or("-"))?.other_algorithm;
    Some(ChecksumParts {
        other_algorithm,
        ..parts
    })
}

/// Parses digest and name with a separator: `hex;name`, `hex,name`, `name: hex`, `name  hex`.
fn parse_separated(line: &str) -> Option<ChecksumParts<'_>> {
    let first = line.split_once([';', ',', '|']);
    let last = line.rsplit_once([';', ',', '|', ':', ' ', '\t']);
    let (hex, name) = match (first, last) {
        (Some((hex, name)), _) if is_hex(strip_quotes(hex)) => (hex, name),
        (_, Some((name, hex))) if is_hex(strip_quotes(hex)) => {
            (hex, name.trim_end_matches([':', ' ', '\t']))
        }
        _ => return None,
    };
    let (hex, name) = (strip_quotes(hex), strip_quotes(name));
    // Excludes `SHA512 (name) = hex` with a digest of the wrong length, and headings before a
    // digest.
    let is_name =
        !name.is_empty() && !name.contains(['(', ')', '=']) && !is_hex(name) && !is_algorithm(name);
    is_name.then(|| ChecksumParts::new(hex, Some(name)))
}

fn strip_quotes(text: &str) -> &str {
    text.trim().trim_matches(['"', '\'', '*']).trim()
}

/// Parses `ba 78 16 …`, as written by certutil before Windows 10.
fn parse_pairs(line: &str) -> Option<ChecksumParts<'_>> {
    let pairs: Vec<&str> = line.split(' ').collect();
    let is_digest = [16, 20, 32, 64].contains(&pairs.len())
        && pairs
            .iter()
            .all(|pair| pair.len() == 2 && pair.bytes().all(|b| b.is_ascii_hexdigit()));
    is_digest.then(|| ChecksumParts::new(pairs.concat(), None))
}

/// Parses `SHA256 (name) = hex` (BSD), `SHA2-256(name)= hex` (OpenSSL).
fn parse_tagged(line: &str) -> Option<ChecksumParts<'_>> {
    let (tag, rest) = line.split_once('(')?;
    let (name, hex) = rest.rsplit_once('=')?;
    check_algorithm(
        tag.trim_end(),
        hex.trim(),
        name.trim_end().strip_suffix(')')?,
    )
}

/// Parses a row of PowerShell's table: `SHA256  HEX  C:\path`.
fn parse_table_row(line: &str) -> Option<ChecksumParts<'_>> {
    let (tag, rest) = line.split_once(char::is_whitespace)?;
    let (hex, name) = rest.trim_start().split_once(char::is_whitespace)?;
    check_algorithm(tag, hex, name.trim())
}

/// Returns a line with an algorithm; `None` if the digest does not have that algorithm's length.
fn check_algorithm<'a>(tag: &str, hex: &'a str, name: &'a str) -> Option<ChecksumParts<'a>> {
    let is_tag = !tag.is_empty()
        && tag
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-/".contains(c));
    // A long hexadecimal word is a digest, not the name of an algorithm.
    if !is_tag || is_hex(tag) || !is_hex(hex) || name.is_empty() {
        return None;
    }
    let plain = tag.to_ascii_uppercase().replace("SHA2-", "SHA");
    let length = match plain.as_str() {
        "MD5" | "MD5SUM" => Some(32),
        "SHA1" | "SHA-1" => Some(40),
        "SHA256" | "SHA-256" => Some(64),
        "SHA512" | "SHA-512" => Some(128),
        _ => None,
    };
    length
        .is_none_or(|n| n == hex.len())
        .then(|| ChecksumParts {
            other_algorithm: length.is_none().then(|| format!("a {tag}")),
            ..ChecksumParts::new(hex, Some(name))
        })
}

/// Returns true if a text contains a digest anywhere.
pub fn contains_digest(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_hexdigit())
        .any(|run| run.len() >= 32)
}

/// Returns true for hexadecimal text with at least the length of an MD5: `cafe` is not a digest.
fn is_hex(text: &str) -> bool {
    text.len() >= 32 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

pub fn normalize_name(name: &str) -> String {
    let name = name.trim().replace('\\', "/");
    let mut rest = name.as_str();
    while let Some(shorter) = rest.strip_prefix("./") {
        rest = shorter;
    }
    rest.to_string()
}
