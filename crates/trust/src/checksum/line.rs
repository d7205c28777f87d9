//! The lines of a checksum file: bare, GNU, BSD, OpenSSL, PowerShell, certutil, and digest and name with a sign between them.
//!
//! Lines that are none of these are kept apart: whether they matter depends on the file that is looked for.

use std::borrow::Cow;

use winimg_base::problem::Problem;
use winimg_base::unseen::{self, is_unseen};

/// A line that was understood.
pub struct Line<'a> {
    pub number: usize,
    /// As it stood in the file.
    pub text: &'a str,
    pub hex: Cow<'a, str>,
    /// With `/`, without leading `./`. `None`: a bare digest.
    pub name: Option<String>,
    /// The line above a bare digest, as certutil writes it: `SHA256 hash of tool.exe:`.
    pub heading: Option<&'a str>,
    /// An algorithm that the line names and that the digest's length does not show.
    pub foreign: Option<String>,
}

/// What a file says, line by line.
#[derive(Default)]
pub struct Lines<'a> {
    pub checksums: Vec<Line<'a>>,
    /// Number and text of the lines that are no checksums.
    pub others: Vec<(usize, &'a str)>,
}

/// Digest, name and algorithm of one line.
struct Parts<'a> {
    hex: Cow<'a, str>,
    name: Option<&'a str>,
    foreign: Option<String>,
}

pub fn read(text: &str) -> Result<Lines<'_>, Problem> {
    let mut lines = Lines::default();
    let numbered = text.lines().enumerate().map(|(i, l)| (i + 1, l.trim()));
    let said: Vec<(usize, &str)> = numbered
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .collect();
    let mut rest = said.as_slice();
    let mut heading = None;
    while let [(number, line), after @ ..] = rest {
        rest = after;
        if is_heading(line) {
            continue;
        }
        let listed = listed(line, after);
        if listed.is_some() {
            rest = after.get(2..).unwrap_or_default();
        }
        let Some(parts) = listed.or_else(|| parts(line)) else {
            heading = line.strip_suffix(':');
            lines.others.push((*number, line));
            continue;
        };
        if parts.name.is_some_and(|n| n.ends_with("...")) {
            return Err(cut_off(*number, line));
        }
        lines.checksums.push(Line {
            number: *number,
            text: line,
            hex: parts.hex,
            name: parts.name.map(plain),
            heading: heading.take().filter(|_| parts.name.is_none()),
            foreign: parts.foreign,
        });
    }
    match (lines.checksums.as_slice(), lines.others.first()) {
        ([], Some((number, line))) => Err(no_checksum(*number, line)),
        ([], None) if said.is_empty() => Err(Problem::new("holds only comments")),
        ([], None) => Err(Problem::new("holds no digest")),
        _ => Ok(lines),
    }
}

pub fn no_checksum(number: usize, line: &str) -> Problem {
    let shown: String = line.chars().filter(|c| !is_unseen(*c)).take(80).collect();
    Problem::new(format!("has a line {number} that is no checksum")).lines([shown])
}

/// PowerShell cuts what does not fit into the console's width, also into a file.
fn cut_off(number: usize, line: &str) -> Problem {
    Problem::new(format!(
        "has a line {number} whose path PowerShell has cut off"
    ))
    .lines([unseen::line(line).chars().take(160).collect::<String>()])
    .cure("write the digest alone: (Get-FileHash FILE).Hash > FILE.sha256")
}

/// The two lines above PowerShell's table.
fn is_heading(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    words == ["Algorithm", "Hash", "Path"]
        || words.len() == 3 && words.iter().all(|w| w.bytes().all(|b| b == b'-'))
}

/// PowerShell's list: `Algorithm : SHA256`, `Hash : …`, `Path : …`, in this order.
fn listed<'a>(line: &'a str, after: &[(usize, &'a str)]) -> Option<Parts<'a>> {
    let value = |line: &'a str, key: &str| {
        let (name, value) = line.split_once(':')?;
        (name.trim_end() == key).then_some(value.trim())
    };
    let algorithm = value(line, "Algorithm")?;
    let hex = value(after.first()?.1, "Hash")?;
    let name = value(after.get(1)?.1, "Path")?;
    named(algorithm, hex, name)
}

fn parts(line: &str) -> Option<Parts<'_>> {
    tagged(line)
        .or_else(|| tabled(line))
        .or_else(|| gnu(line))
        .or_else(|| labelled(line))
        .or_else(|| separated(line))
        .or_else(|| in_pairs(line))
}

/// `hex  name`, `hex *name`, `hex`.
fn gnu(line: &str) -> Option<Parts<'_>> {
    // GNU marks escaped names so; no file of a release is named like that, and such a name will not match.
    let line = line.strip_prefix('\\').unwrap_or(line);
    let Some((hex, rest)) = line.split_once([' ', '\t']) else {
        return is_hex(line).then(|| bare(line));
    };
    let name = rest.trim_start();
    let name = name.strip_prefix('*').unwrap_or(name);
    (is_hex(hex) && !name.is_empty()).then(|| Parts {
        hex: hex.into(),
        name: Some(name),
        foreign: None,
    })
}

fn bare(hex: &str) -> Parts<'_> {
    Parts {
        hex: hex.into(),
        name: None,
        foreign: None,
    }
}

/// How the names of algorithms begin.
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

/// What stands before a digest and is no file's name.
const LABELS: [&str; 4] = ["HASH", "CHECKSUM", "DIGEST", "FINGERPRINT"];

/// Whether it is the name of an algorithm, and not of a file.
fn is_algorithm(tag: &str) -> bool {
    let upper = tag.to_ascii_uppercase();
    ALGORITHMS.iter().any(|start| upper.starts_with(start)) && !tag.contains(['.', ' '])
}

/// `sha256:hex`, `SHA256: hex`, `sha256=hex  name`: an algorithm before what would be a line without it.
fn labelled(line: &str) -> Option<Parts<'_>> {
    let (tag, rest) = line.split_once([':', '='])?;
    let tag = tag.trim_end();
    let parts = gnu(rest.trim_start())?;
    if LABELS.iter().any(|label| tag.eq_ignore_ascii_case(label)) {
        return Some(parts);
    }
    if !is_algorithm(tag) {
        return None;
    }
    let foreign = named(tag, &parts.hex, parts.name.unwrap_or("-"))?.foreign;
    Some(Parts { foreign, ..parts })
}

/// Digest and name with a sign between them: `hex;name`, `hex,name`, `name: hex`, `name  hex`.
fn separated(line: &str) -> Option<Parts<'_>> {
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
    // `SHA512 (name) = hex` with a digest of another length, and headings with the digest behind them.
    let is_name =
        !name.is_empty() && !name.contains(['(', ')', '=']) && !is_hex(name) && !is_algorithm(name);
    is_name.then(|| Parts {
        hex: hex.into(),
        name: Some(name),
        foreign: None,
    })
}

fn strip_quotes(text: &str) -> &str {
    text.trim().trim_matches(['"', '\'', '*']).trim()
}

/// `ba 78 16 …`: certutil before Windows 10.
fn in_pairs(line: &str) -> Option<Parts<'_>> {
    let pairs: Vec<&str> = line.split(' ').collect();
    let is_pair = |pair: &&str| pair.len() == 2 && pair.bytes().all(|b| b.is_ascii_hexdigit());
    let is_digest = [16, 20, 32, 64].contains(&pairs.len()) && pairs.iter().all(is_pair);
    is_digest.then(|| Parts {
        hex: pairs.concat().into(),
        name: None,
        foreign: None,
    })
}

/// `SHA256 (name) = hex` (BSD), `SHA2-256(name)= hex` (OpenSSL).
fn tagged(line: &str) -> Option<Parts<'_>> {
    let (tag, rest) = line.split_once('(')?;
    let (name, hex) = rest.rsplit_once('=')?;
    named(
        tag.trim_end(),
        hex.trim(),
        name.trim_end().strip_suffix(')')?,
    )
}

/// A row of PowerShell's table: `SHA256  HEX  C:\path`.
fn tabled(line: &str) -> Option<Parts<'_>> {
    let (tag, rest) = line.split_once(char::is_whitespace)?;
    let (hex, name) = rest.trim_start().split_once(char::is_whitespace)?;
    named(tag, hex, name.trim())
}

/// A line that names its algorithm. One whose digest has another length is damaged.
fn named<'a>(tag: &str, hex: &'a str, name: &'a str) -> Option<Parts<'a>> {
    let is_tag = |c: char| c.is_ascii_alphanumeric() || "-/".contains(c);
    // What is long and hexadecimal is a digest, not the name of an algorithm.
    if tag.is_empty() || !tag.chars().all(is_tag) || is_hex(tag) || !is_hex(hex) || name.is_empty()
    {
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
    length.is_none_or(|n| n == hex.len()).then(|| Parts {
        hex: hex.into(),
        name: Some(name),
        foreign: length.is_none().then(|| format!("a {tag}")),
    })
}

/// Whether a text holds a digest anywhere.
pub fn holds_hex(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_hexdigit())
        .any(|run| run.len() >= 32)
}

/// At least an MD5's length: words such as `cafe` are no digests.
fn is_hex(text: &str) -> bool {
    text.len() >= 32 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

pub fn plain(name: &str) -> String {
    let name = name.trim().replace('\\', "/");
    let mut rest = name.as_str();
    while let Some(shorter) = rest.strip_prefix("./") {
        rest = shorter;
    }
    rest.to_string()
}
