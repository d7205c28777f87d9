//! Distinguished names: renders them as text, and matches the attributes that a recipe pins.
//! (RFC 4514)
//!
//! A pin may have the format of Windows (`CN="Example, Inc.", S=California`, CertNameToStr), of
//! OpenSSL on one line (`/C=US/O=Example, Inc.`), or of certutil with an attribute per line.
//!
//! Never matches a part of an attribute: `CN=Example` does not match `CN=Example Corp`.

use std::fmt;

use der::asn1::ObjectIdentifier;

use super::tlv::{self, SEQUENCE, SET, Tlv, TlvWalk};
use crate::SignatureRefusal;
use winimg_base::display_text::is_unprintable;

/// The keywords of RFC 4514 section 3, then other ones in publishers' certificates.
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

/// Other names of attributes from CertStrToName and OpenSSL. They are only parsed, never rendered.
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

/// Attributes that identify someone; thousands share a place, a kind of business or a unit.
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
struct NameAttribute {
    oid: String,
    value: AttributeValue,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum AttributeValue {
    Text(String),
    /// The DER of a value that is not text.
    Der(Vec<u8>),
}

/// A name, with its attributes in the order of RFC 4514: the last of the DER first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistinguishedName(Vec<Vec<NameAttribute>>);

impl DistinguishedName {
    /// Parses the DER of a Name.
    pub fn read(der: &[u8]) -> Result<Self, SignatureRefusal> {
        const WHAT: &str = "a name";
        let mut walk = tlv::parse_only(der, SEQUENCE, WHAT)?.walk(WHAT)?;
        let mut rdns = Vec::new();
        while let Some(rdn) = walk.next()? {
            let mut members = tlv::parse_only(rdn.raw, SET, WHAT)?.walk(WHAT)?;
            let mut attributes = Vec::new();
            while let Some(member) = members.next()? {
                let mut pair = TlvWalk::new(member.value, WHAT)?;
                let oid = pair.read_oid()?;
                let value = pair
                    .next()?
                    .ok_or_else(|| tlv::refuse_malformed(WHAT, "is cut off"))?;
                pair.finish()?;
                let value = decode_text(&value).map_or_else(
                    || AttributeValue::Der(value.raw.to_vec()),
                    AttributeValue::Text,
                );
                attributes.push(NameAttribute {
                    oid: oid.to_string(),
                    value,
                });
            }
            rdns.push(attributes);
        }
        rdns.reverse();
        Ok(Self(rdns))
    }

    /// Parses a pin of a recipe. The error fits after "subject".
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim_start();
        let of_openssl = text.strip_prefix('/').map(split_slashed);
        let parts = of_openssl.unwrap_or_else(|| {
            if !text.contains('\n') {
                return split(text, &[',', ';']);
            }
            // Attributes on separate lines need no separator.
            text.lines()
                .filter(|line| !line.trim().is_empty())
                .map(|line| line.trim_end_matches(['\r', ',', ';']))
                .flat_map(|line| split(line, &[',', ';']))
                .collect()
        });
        let mut rdns = Vec::new();
        for rdn in parts {
            let attributes = split(rdn, &['+']).into_iter().map(parse_attribute);
            rdns.push(attributes.collect::<Result<Vec<_>, String>>()?);
        }
        Ok(Self(rdns))
    }

    /// Returns true if it contains an attribute that identifies someone.
    pub fn is_identifying(&self) -> bool {
        self.0.iter().flatten().any(NameAttribute::is_identifying)
    }

    /// Returns true if it contains every attribute of `pin`, at least as often.
    pub fn contains(&self, pin: &Self) -> bool {
        let mut left: Vec<&NameAttribute> = self.0.iter().flatten().collect();
        pin.0.iter().flatten().all(|wanted| {
            let at = left.iter().position(|a| *a == wanted);
            at.map(|at| left.swap_remove(at)).is_some()
        })
    }
}

impl NameAttribute {
    fn is_identifying(&self) -> bool {
        let keyword = KEYWORDS.iter().find(|(_, oid)| *oid == self.oid);
        let is_empty = matches!(&self.value, AttributeValue::Text(text) if text.is_empty());
        keyword.is_some_and(|(word, _)| IDENTIFYING.contains(word)) && !is_empty
    }
}

/// Renders a name from DER; in hexadecimal if it is invalid.
pub fn render_name(der: &[u8]) -> String {
    DistinguishedName::read(der).map_or_else(
        |_| format!("#{}", hex::encode(der)),
        |name| name.to_string(),
    )
}

fn decode_text(value: &Tlv<'_>) -> Option<String> {
    match value.tag {
        // UTF8String, NumericString, PrintableString, IA5String, VisibleString
        0x0c | 0x12 | 0x13 | 0x16 | 0x1a => String::from_utf8(value.value.to_vec()).ok(),
        // TeletexString, which is Latin-1 in practice
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

/// Splits at separators that are neither escaped by a backslash nor between quotation marks.
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
        // Only a whole value can be quoted: a mark behind `=` and blanks.
        if c == '"' && before == '=' {
            rest_of_quoted = at + parse_quoted(&text[at..]).map_or(1, |(_, length)| length);
        }
        escaped = c == '\\' && !escaped;
        if c != ' ' {
            before = c;
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Parses a quoted value at the start of a text; returns it with its length in bytes. A mark inside
/// is doubled (Windows) or escaped by a backslash (RFC 1779).
fn parse_quoted(text: &str) -> Option<(String, usize)> {
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

/// Splits `C=US/O=Example, Inc./CN=a` at each `/` that a keyword and `=` follow.
fn split_slashed(text: &str) -> Vec<&str> {
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

/// Returns an attribute's OID by its keyword or its number: `2.5.4.15`, `OID.2.5.4.15`.
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

fn parse_attribute(text: &str) -> Result<NameAttribute, String> {
    let (key, value) = text.split_once('=').ok_or_else(|| {
        format!(
            "contains {:?}, but expected an attribute such as CN=Example Corp",
            text.trim()
        )
    })?;
    let key = key.trim();
    let oid = oid_of(key).ok_or_else(|| {
        format!("has the attribute {key}, which is neither a known keyword nor an OID")
    })?;
    let value = value.trim_start();
    if let Some(digits) = value.strip_prefix('#') {
        let der = hex::decode(digits.trim_end())
            .map_err(|_| format!("has {key}=#… that is not the hexadecimal of a DER value"))?;
        let tlv = TlvWalk::new(&der, "a name")
            .and_then(|mut w| w.next())
            .ok()
            .flatten();
        let value = tlv
            .and_then(|t| self::decode_text(&t))
            .map_or(AttributeValue::Der(der.clone()), AttributeValue::Text);
        return Ok(NameAttribute { oid, value });
    }
    let value = match value.strip_prefix('"') {
        None => unescape(value)?,
        Some(_) => {
            let (text, _) = parse_quoted(value)
                .filter(|(_, end)| value[*end..].trim().is_empty())
                .ok_or_else(|| format!("has an unbalanced quotation mark in {value:?}"))?;
            text
        }
    };
    Ok(NameAttribute {
        oid,
        value: AttributeValue::Text(value),
    })
}

/// Unescapes a value: `\,` and `\2C` are a comma. Removes trailing blanks that are not escaped.
fn unescape(text: &str) -> Result<String, String> {
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

impl fmt::Display for DistinguishedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, rdn) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str(",")?;
            }
            let attributes: Vec<String> = rdn.iter().map(NameAttribute::to_string).collect();
            f.write_str(&attributes.join("+"))?;
        }
        Ok(())
    }
}

impl fmt::Display for NameAttribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keyword = KEYWORDS.iter().find(|(_, oid)| *oid == self.oid);
        write!(
            f,
            "{}=",
            keyword.map_or(self.oid.as_str(), |(word, _)| word)
        )?;
        let text = match &self.value {
            AttributeValue::Der(der) => return write!(f, "#{}", hex::encode(der)),
            AttributeValue::Text(text) => text,
        };
        let last = text.chars().count().saturating_sub(1);
        for (i, c) in text.chars().enumerate() {
            match c {
                '"' | '+' | ',' | ';' | '<' | '>' | '\\' => write!(f, "\\{c}")?,
                '#' if i == 0 => write!(f, "\\#")?,
                ' ' if i == 0 || i == last => write!(f, "\\ ")?,
                c if is_unprintable(c) => {
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
