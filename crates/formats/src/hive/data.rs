//! Data of a value. Bytes that do not fit their type are kept unchanged: text that Windows would
//! cut, and numbers of the wrong length, must not look valid.

use std::fmt;

use crate::bytes::utf16_le;

/// Microsoft, "Registry Value Types".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HiveValueData {
    None(Vec<u8>),
    Sz(String),
    /// `%names%` are not expanded.
    ExpandSz(String),
    Binary(Vec<u8>),
    Dword(u32),
    DwordBigEndian(u32),
    Link(String),
    MultiSz(Vec<String>),
    Qword(u64),
    /// Another type, or bytes that are invalid for the type: a number of the wrong length, text
    /// with an odd byte, a lone surrogate or data after its end.
    Other {
        kind: u32,
        bytes: Vec<u8>,
    },
}

const NAMES: [&str; 12] = [
    "REG_NONE",
    "REG_SZ",
    "REG_EXPAND_SZ",
    "REG_BINARY",
    "REG_DWORD",
    "REG_DWORD_BIG_ENDIAN",
    "REG_LINK",
    "REG_MULTI_SZ",
    "REG_RESOURCE_LIST",
    "REG_FULL_RESOURCE_DESCRIPTOR",
    "REG_RESOURCE_REQUIREMENTS_LIST",
    "REG_QWORD",
];

impl HiveValueData {
    pub(super) fn decode(kind: u32, bytes: Vec<u8>) -> Self {
        let decoded = match (kind, bytes.as_slice()) {
            (1, _) => decode_single(&bytes).map(Self::Sz),
            (2, _) => decode_single(&bytes).map(Self::ExpandSz),
            (4, &[a, b, c, d]) => Some(Self::Dword(u32::from_le_bytes([a, b, c, d]))),
            (5, &[a, b, c, d]) => Some(Self::DwordBigEndian(u32::from_be_bytes([a, b, c, d]))),
            (6, _) => decode_single(&bytes).map(Self::Link),
            (7, _) => decode_multi(&bytes).map(Self::MultiSz),
            (11, eight) => eight
                .try_into()
                .ok()
                .map(|b| Self::Qword(u64::from_le_bytes(b))),
            _ => None,
        };
        match (decoded, kind) {
            (Some(data), _) => data,
            (None, 0) => Self::None(bytes),
            (None, 3) => Self::Binary(bytes),
            (None, kind) => Self::Other { kind, bytes },
        }
    }

    /// Returns the type's name in `regedit`; `None` for an unnamed type.
    fn type_name(&self) -> Option<&'static str> {
        let kind = match self {
            Self::None(_) => 0,
            Self::Sz(_) => 1,
            Self::ExpandSz(_) => 2,
            Self::Binary(_) => 3,
            Self::Dword(_) => 4,
            Self::DwordBigEndian(_) => 5,
            Self::Link(_) => 6,
            Self::MultiSz(_) => 7,
            Self::Qword(_) => 11,
            Self::Other { kind, .. } => *kind,
        };
        NAMES.get(kind as usize).copied()
    }
}

/// Decodes UTF-16LE text without its terminating zeros, which some programs omit.
fn decode_text(bytes: &[u8]) -> Option<String> {
    if !bytes.len().is_multiple_of(2) {
        return None;
    }
    let units = utf16_le(bytes);
    let end = units.iter().rposition(|u| *u != 0).map_or(0, |at| at + 1);
    String::from_utf16(&units[..end]).ok()
}

/// Decodes one text. Data after its end is refused, since readers of text would not see it.
fn decode_single(bytes: &[u8]) -> Option<String> {
    decode_text(bytes).filter(|t| !t.contains('\0'))
}

/// Decodes zero-terminated texts. An empty one ends the list, so nothing may follow it.
fn decode_multi(bytes: &[u8]) -> Option<Vec<String>> {
    let text = decode_text(bytes)?;
    if text.is_empty() {
        return Some(Vec::new());
    }
    let parts: Vec<String> = text.split('\0').map(str::to_owned).collect();
    parts.iter().all(|p| !p.is_empty()).then_some(parts)
}

/// `REG_SZ "gold"`, `REG_DWORD 2 (0x2)`, `REG_BINARY 01 02 (2 bytes)`, `REG_DWORD, malformed: 01 (1
/// byte)`.
impl fmt::Display for HiveValueData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.type_name();
        if let Some(name) = name {
            f.write_str(name)?;
        }
        match self {
            Self::Sz(text) | Self::ExpandSz(text) | Self::Link(text) => {
                f.write_str(" ")?;
                write_quoted(f, text)
            }
            Self::Dword(n) | Self::DwordBigEndian(n) => write!(f, " {n} ({n:#x})"),
            Self::Qword(n) => write!(f, " {n} ({n:#x})"),
            Self::MultiSz(texts) => {
                f.write_str(" [")?;
                for (i, text) in texts.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { ", " })?;
                    write_quoted(f, text)?;
                }
                f.write_str("]")
            }
            Self::None(bytes) | Self::Binary(bytes) => {
                f.write_str(" ")?;
                write_counted(f, bytes)
            }
            Self::Other { kind, bytes } => {
                match (name, kind) {
                    (Some(_), 8..=10) => f.write_str(" ")?,
                    (Some(_), _) => f.write_str(", malformed: ")?,
                    (None, _) => write!(f, "type {kind:#x} ")?,
                }
                write_counted(f, bytes)
            }
        }
    }
}

/// Writes quoted text. Backslashes are kept, for paths; control characters are escaped.
fn write_quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("\"")?;
    for c in text.chars() {
        match c {
            c if c.is_control() => write!(f, "{}", c.escape_unicode())?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("\"")
}

fn write_counted(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    const MAX_SHOWN: usize = 32;
    for byte in bytes.iter().take(MAX_SHOWN) {
        write!(f, "{byte:02x} ")?;
    }
    if bytes.len() > MAX_SHOWN {
        f.write_str("… ")?;
    }
    let s = if bytes.len() == 1 { "" } else { "s" };
    write!(f, "({} byte{s})", bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn values_as_people_read_them() {
        let rendered = |kind, bytes: &[u8]| HiveValueData::decode(kind, bytes.to_vec()).to_string();
        let text = |kind, text: &str| rendered(kind, &utf16(text));
        let lines = [
            text(1, "gold\0"),
            text(1, "no end"),
            text(1, ""),
            text(2, "%SystemRoot%\\x y\0"),
            text(1, "a\nb\0"),
            text(1, "seen\0hidden\0"),
            rendered(1, b"odd"),
            rendered(1, &[0x00, 0xd8]),
            rendered(4, &[2, 0, 0, 0]),
            rendered(4, &[2]),
            rendered(5, &[0, 0, 0, 2]),
            text(6, r"\Registry\Machine"),
            text(7, "a\0bc\0\0"),
            text(7, "\0"),
            text(7, "a\0\0hidden\0\0"),
            rendered(11, &[1, 0, 0, 0, 1, 0, 0, 0]),
            rendered(11, &[1, 0, 0, 0]),
            rendered(0, b""),
            rendered(3, &[7; 40]),
            rendered(8, &[1]),
            rendered(0xffff_0010, &[1, 2]),
        ];
        let expected = r#"REG_SZ "gold"
REG_SZ "no end"
REG_SZ ""
REG_EXPAND_SZ "%SystemRoot%\x y"
REG_SZ "a\u{a}b"
REG_SZ, malformed: 73 00 65 00 65 00 6e 00 00 00 68 00 69 00 64 00 64 00 65 00 6e 00 00 00 (24 bytes)
REG_SZ, malformed: 6f 64 64 (3 bytes)
REG_SZ, malformed: 00 d8 (2 bytes)
REG_DWORD 2 (0x2)
REG_DWORD, malformed: 02 (1 byte)
REG_DWORD_BIG_ENDIAN 2 (0x2)
REG_LINK "\Registry\Machine"
REG_MULTI_SZ ["a", "bc"]
REG_MULTI_SZ []
REG_MULTI_SZ, malformed: 61 00 00 00 00 00 68 00 69 00 64 00 64 00 65 00 6e 00 00 00 00 00 (22 bytes)
REG_QWORD 4294967297 (0x100000001)
REG_QWORD, malformed: 01 00 00 00 (4 bytes)
REG_NONE (0 bytes)
REG_BINARY 07 07 07 07 07 07 07 07 07 07 07 07 07 07 07 07 07 07 07 07 07 07 07 07 07 07 07 07 07 07 07 07 … (40 bytes)
REG_RESOURCE_LIST 01 (1 byte)
type 0xffff0010 01 02 (2 bytes)"#;
        assert_eq!(lines.join("\n"), expected);
    }
}
