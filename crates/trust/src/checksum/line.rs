//! The lines of a checksum file: bare, GNU, BSD, OpenSSL, PowerShell.
//!
//! Refuses a file with any line that is none of them: what else it says is then not known either.

use winimg_base::problem::Problem;
use winimg_base::unseen::{self, is_unseen};

/// A line that was understood.
pub struct Line<'a> {
    pub number: usize,
    /// As it stood in the file.
    pub text: &'a str,
    pub hex: &'a str,
    /// With `/`, without leading `./`. `None`: a bare digest.
    pub name: Option<String>,
    /// An algorithm that the line names and that the digest's length does not show.
    pub foreign: Option<String>,
}

/// Digest, name and algorithm of one line.
struct Parts<'a> {
    hex: &'a str,
    name: Option<&'a str>,
    foreign: Option<String>,
}

pub fn read(text: &str) -> Result<Vec<Line<'_>>, Problem> {
    let mut lines = Vec::new();
    let numbered = text.lines().enumerate().map(|(i, l)| (i + 1, l.trim()));
    let said: Vec<(usize, &str)> = numbered
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .collect();
    let mut rest = said.as_slice();
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
            return Err(no_checksum(*number, line));
        };
        if parts.name.is_some_and(|n| n.ends_with("...")) {
            return Err(cut_off(*number, line));
        }
        lines.push(Line {
            number: *number,
            text: line,
            hex: parts.hex,
            name: parts.name.map(plain),
            foreign: parts.foreign,
        });
    }
    if lines.is_empty() {
        return Err(Problem::new(match said.is_empty() {
            true => "holds only comments",
            false => "holds no digest",
        }));
    }
    Ok(lines)
}

fn no_checksum(number: usize, line: &str) -> Problem {
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
    tagged(line).or_else(|| tabled(line)).or_else(|| gnu(line))
}

/// `hex  name`, `hex *name`, `hex`.
fn gnu(line: &str) -> Option<Parts<'_>> {
    // GNU marks escaped names so; no file of a release is named like that, and such a name will not match.
    let line = line.strip_prefix('\\').unwrap_or(line);
    let Some((hex, rest)) = line.split_once([' ', '\t']) else {
        return is_hex(line).then_some(Parts {
            hex: line,
            name: None,
            foreign: None,
        });
    };
    let name = rest.trim_start();
    let name = name.strip_prefix('*').unwrap_or(name);
    (is_hex(hex) && !name.is_empty()).then_some(Parts {
        hex,
        name: Some(name),
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
        hex,
        name: Some(name),
        foreign: length.is_none().then(|| format!("a {tag}")),
    })
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
