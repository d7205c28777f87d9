//! Distinguished names: as text for people, and whether one holds every attribute that a recipe pins. (RFC 4514)
//!
//! A pin may be written as Windows prints a name (`CN="Example, Inc.", S=California`, CertNameToStr), as OpenSSL does on one
//! line (`/C=US/O=Example, Inc.`), or with an attribute on each line, as certutil does.
//!
//! Refuses to match a part of an attribute: `CN=Example` is not `CN=Example Corp`.

use std::fmt;

use der::asn1::ObjectIdentifier;

use super::Refusal;
use super::tlv::{self, SEQUENCE, SET, Tlv, Walk};
use winimg_base::unseen::is_unseen;

/// The keywords of RFC 4514 section 3 first, then those that publishers' certificates carry besides.
const KEYWORDS: [(&str, &str); 17] = [
    ("CN", "2.5.4.3"),
    ("L", "2.5.4.7"),
    ("ST", "2.5.4.8"),
    ("O", "2.5.4.10"),
    ("OU", "2.5.4.11"),
    ("C", "2.5.4.6"),
    ("STREET", "2.5.4.9"),
    ("DC", "0.9.2342.19200300.100.1.25"),
    ("UID", "0.9.2342.19200300.100.1.1"),
    ("serialNumber", "2.5.4.5"),
    ("postalCode", "2.5.4.17"),
    ("businessCategory", "2.5.4.15"),
    ("organizationIdentifier", "2.5.4.97"),
    ("emailAddress", "1.2.840.113549.1.9.1"),
    ("jurisdictionL", "1.3.6.1.4.1.311.60.2.1.1"),
    ("jurisdictionST", "1.3.6.1.4.1.311.60.2.1.2"),
    ("jurisdictionC", "1.3.6.1.4.1.311.60.2.1.3"),
];

/// Other names of attributes: those of CertStrToName and OpenSSL. They are read and never written.
const ALIASES: [(&str, &str); 20] = [
    ("S", "2.5.4.8"),
    ("SP", "2.5.4.8"),
    ("E", "1.2.840.113549.1.9.1"),
    ("Email", "1.2.840.113549.1.9.1"),
    ("T", "2.5.4.12"),
    ("title", "2.5.4.12"),
    ("G", "2.5.4.42"),
    ("GN", "2.5.4.42"),
    ("givenName", "2.5.4.42"),
    ("SN", "2.5.4.4"),
    ("surname", "2.5.4.4"),
    ("I", "2.5.4.43"),
    ("initials", "2.5.4.43"),
    ("description", "2.5.4.13"),
    ("POBox", "2.5.4.18"),
    ("phone", "2.5.4.20"),
    ("dnQualifier", "2.5.4.46"),
    ("jurisdictionLocalityName", "1.3.6.1.4.1.311.60.2.1.1"),
    (
        "jurisdictionStateOrProvinceName",
        "1.3.6.1.4.1.311.60.2.1.2",
    ),
    ("jurisdictionCountryName", "1.3.6.1.4.1.311.60.2.1.3"),
];

/// Those that say who it is; a place, a kind of business or a unit is what thousands have.
const IDENTIFYING: [&str; 7] = [
    "CN",
    "O",
    "DC",
    "UID",
    "serialNumber",
    "organizationIdentifier",
    "emailAddress",
];

#[derive(Clone, Debug, PartialEq, Eq)]
struct Attribute {
    oid: String,
    value: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Text(String),
    /// The DER of what is no text.
    Der(Vec<u8>),
}

/// A name, its attributes in the order that RFC 4514 shows them: the last of the DER first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name(Vec<Vec<Attribute>>);

impl Name {
    /// From the DER of a Name.
    pub(super) fn read(der: &[u8]) -> Result<Self, Refusal> {
        const WHAT: &str = "a name";
        let mut walk = tlv::only(der, SEQUENCE, WHAT)?.walk(WHAT)?;
        let mut rdns = Vec::new();
        while let Some(rdn) = walk.next()? {
            let mut members = tlv::only(rdn.raw, SET, WHAT)?.walk(WHAT)?;
            let mut attributes = Vec::new();
            while let Some(member) = members.next()? {
                let mut pair = Walk::new(member.value, WHAT)?;
                let oid = pair.oid()?;
                let value = pair
                    .next()?
                    .ok_or_else(|| tlv::malformed(WHAT, "ends early"))?;
                pair.finish()?;
                let value =
                    text(&value).map_or_else(|| Value::Der(value.raw.to_vec()), Value::Text);
                attributes.push(Attribute {
                    oid: oid.to_string(),
                    value,
                });
            }
            rdns.push(attributes);
        }
        rdns.reverse();
        Ok(Self(rdns))
    }

    /// From what a recipe says. The error fits after "subject".
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim_start();
        let of_openssl = text.strip_prefix('/').map(slashed);
        let parts = of_openssl.unwrap_or_else(|| {
            // Attributes on lines of their own have no sign between them.
            let lines = text.lines().filter(|line| !line.trim().is_empty());
            let lines = lines.map(|line| line.trim_end_matches(['\r', ',', ';']));
            if text.contains('\n') {
                lines.flat_map(|line| split(line, &[',', ';'])).collect()
            } else {
                split(text, &[',', ';'])
            }
        });
        let mut rdns = Vec::new();
        for rdn in parts {
            let attributes = split(rdn, &['+']).into_iter().map(attribute);
            rdns.push(attributes.collect::<Result<Vec<_>, String>>()?);
        }
        Ok(Self(rdns))
    }

    /// Whether it says more than where somebody is.
    pub(super) fn identifies(&self) -> bool {
        let says = |attribute: &Attribute| {
            let keyword = KEYWORDS.iter().find(|(_, oid)| *oid == attribute.oid);
            let is_empty = matches!(&attribute.value, Value::Text(text) if text.is_empty());
            keyword.is_some_and(|(word, _)| IDENTIFYING.contains(word)) && !is_empty
        };
        self.0.iter().flatten().any(says)
    }

    /// Every attribute of `pin` stands here, as often as there.
    pub(super) fn holds(&self, pin: &Self) -> bool {
        let mut left: Vec<&Attribute> = self.0.iter().flatten().collect();
        pin.0.iter().flatten().all(|wanted| {
            let at = left.iter().position(|a| *a == wanted);
            at.map(|at| left.swap_remove(at)).is_some()
        })
    }
}

/// The name in that DER as text; its hexadecimal when it is none.
pub(super) fn shown(der: &[u8]) -> String {
    Name::read(der).map_or_else(
        |_| format!("#{}", hex::encode(der)),
        |name| name.to_string(),
    )
}

fn text(value: &Tlv<'_>) -> Option<String> {
    match value.tag {
        // UTF8String, NumericString, PrintableString, IA5String, VisibleString
        0x0c | 0x12 | 0x13 | 0x16 | 0x1a => String::from_utf8(value.value.to_vec()).ok(),
        // TeletexString, which everyone fills with Latin-1
        0x14 => Some(value.value.iter().copied().map(char::from).collect()),
        // BMPString
        0x1e => {
            let (pairs, rest) = value.value.as_chunks::<2>();
            let units: Vec<u16> = pairs.iter().copied().map(u16::from_be_bytes).collect();
            rest.is_empty().then(|| String::from_utf16(&units).ok())?
        }
        _ => None,
    }
}

/// At separators that no backslash precedes and that are not between quotation marks.
fn split<'t>(text: &'t str, separators: &[char]) -> Vec<&'t str> {
    let (mut parts, mut start, mut escaped) = (Vec::new(), 0, false);
    let mut rest_of_quoted = 0;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        if at < rest_of_quoted {
            continue;
        }
        if !escaped && separators.contains(&c) {
            parts.push(&text[start..at]);
            start = at + c.len_utf8();
        }
        // Only a whole value is quoted: a mark behind `=` and blanks.
        if c == '"' && before == '=' {
            rest_of_quoted = at + quoted(&text[at..]).map_or(1, |(_, length)| length);
        }
        escaped = c == '\\' && !escaped;
        if c != ' ' {
            before = c;
        }
    }
    parts.push(&text[start..]);
    parts
}

/// The value between quotation marks that a text begins with, and the bytes that it takes. A mark inside is doubled (Windows) or
/// has a backslash before it (RFC 1779).
fn quoted(text: &str) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut signs = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = signs.next() {
        let next = signs.peek().map(|(_, next)| *next);
        match (c, next) {
            ('"', Some('"')) | ('\\', Some('"' | '\\')) => {
                value.extend(next);
                signs.next();
            }
            ('"', _) => return Some((value, at + 1)),
            _ => value.push(c),
        }
    }
    None
}

/// `C=US/O=Example, Inc./CN=a`: at each `/` that a keyword and `=` follow.
fn slashed(text: &str) -> Vec<&str> {
    let (mut parts, mut start) = (Vec::new(), 0);
    for (at, _) in text.match_indices('/') {
        let key = text[at + 1..].split_once('=').map(|(key, _)| key);
        if key.is_some_and(|key| oid_of(key).is_some()) {
            parts.push(&text[start..at]);
            start = at + 1;
        }
    }
    parts.push(&text[start..]);
    parts
}

/// The attribute's OID, by a keyword or by itself: `2.5.4.15`, `OID.2.5.4.15`.
fn oid_of(key: &str) -> Option<String> {
    let mut known = KEYWORDS.iter().chain(&ALIASES);
    if let Some((_, oid)) = known.find(|(word, _)| word.eq_ignore_ascii_case(key)) {
        return Some((*oid).to_string());
    }
    let digits = match key.get(..4) {
        Some(prefix) if prefix.eq_ignore_ascii_case("OID.") => &key[4..],
        _ => key,
    };
    ObjectIdentifier::new(digits)
        .ok()
        .map(|oid| oid.to_string())
}

fn attribute(text: &str) -> Result<Attribute, String> {
    let (key, value) = text.split_once('=').ok_or_else(|| {
        format!(
            "has {:?} where an attribute such as CN=Example Corp was expected",
            text.trim()
        )
    })?;
    let key = key.trim();
    let oid = oid_of(key).ok_or_else(|| {
        format!("has the attribute {key}, which is neither a known keyword nor an OID")
    })?;
    let value = value.trim_start();
    if let Some(digits) = value.strip_prefix('#') {
        let bad = |_| format!("has {key}=#… that is not the hexadecimal of a DER value");
        let der = hex::decode(digits.trim_end()).map_err(bad)?;
        let tlv = Walk::new(&der, "a name")
            .and_then(|mut w| w.next())
            .ok()
            .flatten();
        let value = tlv
            .and_then(|t| self::text(&t))
            .map_or(Value::Der(der.clone()), Value::Text);
        return Ok(Attribute { oid, value });
    }
    let value = match value.strip_prefix('"') {
        None => unescaped(value)?,
        Some(_) => {
            let closed = quoted(value).filter(|(_, end)| value[*end..].trim().is_empty());
            let bad = || format!("has a quotation mark without its other one in {value:?}");
            closed.ok_or_else(bad)?.0
        }
    };
    Ok(Attribute {
        oid,
        value: Value::Text(value),
    })
}

/// Blanks at the end go, unless escaped; `\,` and `\2C` are a comma.
fn unescaped(text: &str) -> Result<String, String> {
    let (mut bytes, mut kept) = (Vec::new(), 0);
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            if byte != b' ' {
                kept = bytes.len();
            }
            continue;
        }
        let bad = || format!("has a backslash with nothing to escape in {text:?}");
        let next = rest.next().ok_or_else(bad)?;
        if next.is_ascii_hexdigit() {
            let pair = [next, rest.next().ok_or_else(bad)?];
            bytes.extend(hex::decode(pair).map_err(|_| bad())?);
        } else {
            bytes.push(next);
        }
        kept = bytes.len();
    }
    bytes.truncate(kept);
    String::from_utf8(bytes).map_err(|_| format!("has bytes that are not UTF-8 in {text:?}"))
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |rdn: &Vec<Attribute>| {
            let attributes: Vec<String> = rdn.iter().map(Attribute::to_string).collect();
            attributes.join("+")
        };
        let rdns: Vec<String> = self.0.iter().map(joined).collect();
        f.write_str(&rdns.join(","))
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keyword = KEYWORDS.iter().find(|(_, oid)| *oid == self.oid);
        write!(
            f,
            "{}=",
            keyword.map_or(self.oid.as_str(), |(word, _)| word)
        )?;
        let text = match &self.value {
            Value::Der(der) => return write!(f, "#{}", hex::encode(der)),
            Value::Text(text) => text,
        };
        let last = text.chars().count().saturating_sub(1);
        for (i, c) in text.chars().enumerate() {
            match c {
                '"' | '+' | ',' | ';' | '<' | '>' | '\\' => write!(f, "\\{c}")?,
                '#' if i == 0 => write!(f, "\\#")?,
                ' ' if i == 0 || i == last => write!(f, "\\ ")?,
                c if is_unseen(c) => {
                    for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                        write!(f, "\\{byte:02X}")?;
                    }
                }
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
