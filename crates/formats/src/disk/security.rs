//! Security descriptors: the owner and permissions of a file.
//!
//! Reads only the self-relative form, which files have. The SACL (auditing) is not read.
//!
//! Source: Microsoft, [MS-DTYP] 2.4.2 (SID), 2.4.4 (ACE), 2.4.5 (ACL), 2.4.6 (SECURITY_DESCRIPTOR),
//! 2.5.1 (SDDL).

use std::fmt;
use std::str::FromStr;

use crate::bytes::{u16_le, u32_le, words_le};
use winimg_base::error::{Error, Result};

/// The owner of an object, and its discretionary access control list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityDescriptor {
    pub owner: Option<Sid>,
    pub group: Option<Sid>,
    /// The object does not inherit entries from its parent (`SE_DACL_PROTECTED`).
    pub protected: bool,
    /// `None`: there is no list, so everything is allowed. An empty list denies everything.
    pub dacl: Option<Vec<Ace>>,
}

/// One entry of a list. For each right the first entry about it applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ace {
    pub kind: AceKind,
    /// 1: inherited by files, 2: by directories, 4: one level only, 8: not for this object, 0x10:
    /// inherited.
    pub flags: u8,
    pub mask: u32,
    pub sid: Sid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AceKind {
    Allow,
    Deny,
    /// Conditional, for one kind of child, or not about access: [MS-DTYP] 2.4.4.1.
    Other(u8),
}

/// A security identifier: `S-1-5-18` is SYSTEM, `S-1-5-32-544` Administrators.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sid {
    authority: u64,
    parts: Vec<u32>,
}

const INHERITED: u8 = 0x10;
const DACL_PRESENT: u16 = 0x0004;
const DACL_PROTECTED: u16 = 0x1000;
const SELF_RELATIVE: u16 = 0x8000;
const MAX_SUB_AUTHORITIES: usize = 15;

impl Ace {
    /// Returns true if the entry is inherited from the parent directory.
    pub fn is_inherited(&self) -> bool {
        self.flags & INHERITED != 0
    }
}

impl SecurityDescriptor {
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let head = take_bytes(bytes, 0, 20, "a header")?;
        let control = u16_le(head, 2);
        if head[0] != 1 || control & SELF_RELATIVE == 0 {
            return Err(
                report_fault(0, "the security descriptor has an unsupported form")
                    .expected("revision 1, self-relative")
                    .found(format!("revision {}, control {control:#06x}", head[0])),
            );
        }
        let dacl = match u32_le(head, 16) as usize {
            0 => None,
            _ if control & DACL_PRESENT == 0 => None,
            at => Some(parse_acl(bytes, at)?),
        };
        Ok(Self {
            owner: parse_optional_sid(bytes, u32_le(head, 4) as usize)?,
            group: parse_optional_sid(bytes, u32_le(head, 8) as usize)?,
            protected: control & DACL_PROTECTED != 0,
            dacl,
        })
    }
}

/// Parses the SID at an offset; 0 means that there is none.
fn parse_optional_sid(bytes: &[u8], at: usize) -> Result<Option<Sid>> {
    match at {
        0 => Ok(None),
        at => Sid::parse(bytes, at).map(Some),
    }
}

fn parse_acl(bytes: &[u8], at: usize) -> Result<Vec<Ace>> {
    let head = take_bytes(bytes, at, 8, "an access list")?;
    let list = take_bytes(bytes, at, u16_le(head, 2).into(), "an access list")?;
    let count = u16_le(head, 4);
    let mut aces = Vec::new();
    let mut next = 8;
    for _ in 0..count {
        let head = take_bytes(list, next, 4, "an entry of the access list")?;
        let len = usize::from(u16_le(head, 2));
        let entry = take_bytes(list, next, len, "an entry of the access list")?;
        aces.push(
            parse_ace(entry).map_err(|e| e.at(format!("entry {} at {}", aces.len(), at + next)))?,
        );
        next += len;
    }
    Ok(aces)
}

fn parse_ace(entry: &[u8]) -> Result<Ace> {
    let head = take_bytes(entry, 0, 8, "an entry of the access list")?;
    let sid = match head[0] {
        // GUIDs of the object type and the inheriting object type precede the SID if their flags
        // are set.
        5..=8 | 0x0b | 0x0c | 0x0f | 0x10 => {
            let flags = take_bytes(entry, 8, 4, "an entry for objects")?[0];
            12 + 16 * (flags & 3).count_ones() as usize
        }
        0..=3 | 9 | 0x0a | 0x0d | 0x0e | 0x11..=0x13 => 8,
        kind => {
            return Err(
                report_fault(0, format!("an access entry has the type {kind:#04x}"))
                    .expected("a type in [MS-DTYP] 2.4.4.1"),
            );
        }
    };
    Ok(Ace {
        kind: match head[0] {
            0 => AceKind::Allow,
            1 => AceKind::Deny,
            kind => AceKind::Other(kind),
        },
        flags: head[1],
        mask: u32_le(head, 4),
        sid: Sid::parse(entry, sid)?,
    })
}

fn take_bytes<'b>(bytes: &'b [u8], at: usize, len: usize, what: &str) -> Result<&'b [u8]> {
    at.checked_add(len)
        .and_then(|end| bytes.get(at..end))
        .ok_or_else(|| {
            report_fault(at, "a security descriptor is truncated")
                .expected(format!("{what} of {len} bytes"))
                .found(format!("{} bytes in total", bytes.len()))
        })
}

fn report_fault(at: usize, fact: impl Into<String>) -> Error {
    Error::failed(fact).at(format!("offset {at} of the security descriptor"))
}

impl Sid {
    fn parse(bytes: &[u8], at: usize) -> Result<Self> {
        let head = take_bytes(bytes, at, 8, "a security identifier")?;
        let count = usize::from(head[1]);
        if head[0] != 1 || count > MAX_SUB_AUTHORITIES {
            return Err(report_fault(at, "a security identifier is damaged")
                .expected(format!("revision 1, at most {MAX_SUB_AUTHORITIES} parts"))
                .found(format!("revision {}, {count} parts", head[0])));
        }
        let parts = take_bytes(bytes, at + 8, 4 * count, "a security identifier")?;
        let authority = head[2..8].iter().fold(0, |sum, b| sum << 8 | u64::from(*b));
        let parts = words_le(parts).collect();
        Ok(Self { authority, parts })
    }
}

/// An authority beyond 32 bits is written in hexadecimal.
impl fmt::Display for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.authority > u32::MAX.into() {
            write!(f, "S-1-{:#014x}", self.authority)?;
        } else {
            write!(f, "S-1-{}", self.authority)?;
        }
        for part in &self.parts {
            write!(f, "-{part}")?;
        }
        Ok(())
    }
}

impl FromStr for Sid {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse_sid(text).ok_or_else(|| {
            Error::failed(format!("{text:?} is not a security identifier"))
                .expected("S-1-, an authority, and up to 15 numbers, such as S-1-5-32-544")
        })
    }
}

fn parse_sid(text: &str) -> Option<Sid> {
    let upper = text.to_ascii_uppercase();
    let mut words = upper.strip_prefix("S-1-")?.split('-');
    let first = words.next().unwrap_or_default();
    let authority = match first.strip_prefix("0X") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => first.parse().ok().filter(|_| is_decimal(first))?,
    };
    let parts = words
        .map(|w| w.parse().ok().filter(|_| is_decimal(w)))
        .collect::<Option<Vec<u32>>>()?;
    (authority >> 48 == 0 && parts.len() <= MAX_SUB_AUTHORITIES).then_some(Sid { authority, parts })
}

fn is_decimal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Formats an entry as SDDL, without its short names: `(A;OICI;0x1f01ff;;;S-1-5-18)`.
impl fmt::Display for Ace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            AceKind::Allow => f.write_str("(A;")?,
            AceKind::Deny => f.write_str("(D;")?,
            AceKind::Other(9) => f.write_str("(XA;")?,
            AceKind::Other(10) => f.write_str("(XD;")?,
            AceKind::Other(kind) => write!(f, "({kind:#04x};")?,
        }
        let names = ["OI", "CI", "NP", "IO", "ID"];
        for (_, name) in (0..)
            .zip(names)
            .filter(|(bit, _)| self.flags & 1 << bit != 0)
        {
            f.write_str(name)?;
        }
        write!(f, ";{:#x};;;{})", self.mask, self.sid)
    }
}

/// Formats a descriptor as SDDL, with full SIDs: `O:S-1-5-18G:S-1-5-18D:P(A;;0x1f01ff;;;S-1-5-18)`.
impl fmt::Display for SecurityDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (letter, sid) in [("O", &self.owner), ("G", &self.group)] {
            if let Some(sid) = sid {
                write!(f, "{letter}:{sid}")?;
            }
        }
        f.write_str(if self.protected { "D:P" } else { "D:" })?;
        match &self.dacl {
            None => f.write_str("NO_ACCESS_CONTROL"),
            Some(aces) => aces.iter().try_for_each(|ace| write!(f, "{ace}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYSTEM: [u8; 12] = [1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0];

    /// SYSTEM owns; `entries` are the list.
    fn descriptor(control: u16, entries: &[&[u8]]) -> Vec<u8> {
        let list = entries.concat();
        let mut bytes = vec![1, 0];
        bytes.extend(control.to_le_bytes());
        let owner = 28 + list.len() as u32;
        for at in [owner, 0, 0, 20] {
            bytes.extend(at.to_le_bytes());
        }
        bytes.extend([4, 0]);
        bytes.extend((8 + list.len() as u16).to_le_bytes());
        bytes.extend((entries.len() as u32).to_le_bytes());
        bytes.extend(list);
        bytes.extend(SYSTEM);
        bytes
    }

    fn entry(kind: u8, flags: u8, before: &[u8]) -> Vec<u8> {
        let len = 20 + before.len() as u16;
        let mut bytes = vec![kind, flags];
        bytes.extend(len.to_le_bytes());
        bytes.extend(0x1f_01ff_u32.to_le_bytes());
        bytes.extend(before);
        bytes.extend(SYSTEM);
        bytes
    }

    #[test]
    fn descriptors_as_sddl() {
        let rendered = |bytes: &[u8]| SecurityDescriptor::parse(bytes).unwrap().to_string();
        let entries = [
            entry(0, 0x13, &[]),
            entry(1, 0, &[]),
            entry(5, 0, &[[1, 0, 0, 0].as_slice(), &[9; 16]].concat()),
            entry(9, 0, &[]),
        ];
        let entries: Vec<&[u8]> = entries.iter().map(Vec::as_slice).collect();
        assert_eq!(
            rendered(&descriptor(0x9004, &entries)),
            "O:S-1-5-18D:P(A;OICIID;0x1f01ff;;;S-1-5-18)(D;;0x1f01ff;;;S-1-5-18)\
             (0x05;;0x1f01ff;;;S-1-5-18)(XA;;0x1f01ff;;;S-1-5-18)"
        );
        assert_eq!(rendered(&descriptor(0x8004, &[])), "O:S-1-5-18D:");
        assert_eq!(
            rendered(&descriptor(0x8000, &entries)),
            "O:S-1-5-18D:NO_ACCESS_CONTROL"
        );
        let whole = descriptor(0x9004, &entries);
        for len in 0..whole.len() {
            assert!(
                SecurityDescriptor::parse(&whole[..len]).is_err(),
                "{len} bytes"
            );
        }
        let unknown = entry(0x40, 0, &[]);
        assert!(SecurityDescriptor::parse(&descriptor(0x8004, &[&unknown])).is_err());
        assert!(SecurityDescriptor::parse(&descriptor(0x0004, &entries)).is_err());
    }

    #[test]
    fn identifiers_are_written_as_they_are_read() {
        for text in [
            "S-1-0",
            "S-1-5-18",
            "S-1-5-32-544",
            "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464",
            "S-1-0x1000000000ab-7",
        ] {
            assert_eq!(text.parse::<Sid>().unwrap().to_string(), text);
        }
        assert_eq!("s-1-5-18".parse::<Sid>().unwrap().to_string(), "S-1-5-18");
        let many = format!("S-1-5{}", "-1".repeat(16));
        for text in [
            "",
            "S-1-",
            "S-2-5-18",
            "S-1-5-",
            "S-1-5-+1",
            "S-1-5-18 ",
            "SYSTEM",
            &many,
        ] {
            assert!(text.parse::<Sid>().is_err(), "{text:?}");
        }
    }
}
