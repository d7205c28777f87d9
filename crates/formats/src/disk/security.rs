//! Security descriptors: who owns a file and who may do what with it.
//!
//! Reads the self-relative form only, as files carry it. What is audited (the SACL) is not read.
//!
//! Source: Microsoft, [MS-DTYP] 2.4.2 (SID), 2.4.4 (ACE), 2.4.5 (ACL), 2.4.6 (SECURITY_DESCRIPTOR), 2.5.1 (SDDL).

use std::fmt;
use std::str::FromStr;

use crate::bytes::{u16_le, u32_le, words_le};
use winimg_base::error::{Error, Result};

/// Who owns an object, and its discretionary list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityDescriptor {
    pub owner: Option<Sid>,
    pub group: Option<Sid>,
    /// Entries of the parent do not come down to this object (`SE_DACL_PROTECTED`).
    pub protected: bool,
    /// `None`: there is no list, and everybody may do everything. An empty list lets nobody do anything.
    pub dacl: Option<Vec<Ace>>,
}

/// One entry of a list. The first that decides about a right wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ace {
    pub kind: AceKind,
    /// 1 goes down to files, 2 to directories, 4 one level only, 8 not for this object itself, 0x10 came from above.
    pub flags: u8,
    pub mask: u32,
    pub sid: Sid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AceKind {
    Allow,
    Deny,
    /// With a condition, for one kind of child, or not about access at all: [MS-DTYP] 2.4.4.1.
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
const MOST_PARTS: usize = 15;

impl Ace {
    /// Whether the entry came from the parent directory.
    pub fn inherited(&self) -> bool {
        self.flags & INHERITED != 0
    }
}

impl SecurityDescriptor {
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let head = part(bytes, 0, 20, "a header")?;
        let control = u16_le(head, 2);
        if head[0] != 1 || control & SELF_RELATIVE == 0 {
            return Err(fault(
                0,
                "the security descriptor has a form that files do not have",
            )
            .expected("revision 1, self-relative")
            .found(format!("revision {}, control {control:#06x}", head[0])));
        }
        let word = |at: usize| u32_le(head, at) as usize;
        let sid = |at: usize| match at {
            0 => Ok(None),
            at => Sid::parse(bytes, at).map(Some),
        };
        let dacl = match word(16) {
            0 => None,
            _ if control & DACL_PRESENT == 0 => None,
            at => Some(acl(bytes, at)?),
        };
        Ok(Self {
            owner: sid(word(4))?,
            group: sid(word(8))?,
            protected: control & DACL_PROTECTED != 0,
            dacl,
        })
    }
}

fn acl(bytes: &[u8], at: usize) -> Result<Vec<Ace>> {
    let head = part(bytes, at, 8, "an access list")?;
    let list = part(bytes, at, u16_le(head, 2).into(), "an access list")?;
    let count = u16_le(head, 4);
    let mut aces = Vec::new();
    let mut next = 8;
    for _ in 0..count {
        let head = part(list, next, 4, "an entry of the access list")?;
        let len = usize::from(u16_le(head, 2));
        let entry = part(list, next, len, "an entry of the access list")?;
        aces.push(ace(entry).map_err(|e| e.at(format!("entry {} at {}", aces.len(), at + next)))?);
        next += len;
    }
    Ok(aces)
}

fn ace(entry: &[u8]) -> Result<Ace> {
    let head = part(entry, 0, 8, "an entry of the access list")?;
    let sid = match head[0] {
        // An object's kind and that of the object it is inherited by stand before the SID, if the flags say so.
        5..=8 | 0x0b | 0x0c | 0x0f | 0x10 => {
            let flags = part(entry, 8, 4, "an entry for objects")?[0];
            12 + 16 * (flags & 3).count_ones() as usize
        }
        0..=3 | 9 | 0x0a | 0x0d | 0x0e | 0x11..=0x13 => 8,
        kind => {
            return Err(
                fault(0, format!("an access entry has the type {kind:#04x}"))
                    .expected("a type that [MS-DTYP] 2.4.4.1 describes"),
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

fn part<'b>(bytes: &'b [u8], at: usize, len: usize, what: &str) -> Result<&'b [u8]> {
    at.checked_add(len)
        .and_then(|end| bytes.get(at..end))
        .ok_or_else(|| {
            fault(at, "a security descriptor is cut short")
                .expected(format!("{what} of {len} bytes"))
                .found(format!("{} bytes in all", bytes.len()))
        })
}

fn fault(at: usize, fact: impl Into<String>) -> Error {
    Error::failed(fact).at(format!("offset {at} of the security descriptor"))
}

impl Sid {
    fn parse(bytes: &[u8], at: usize) -> Result<Self> {
        let head = part(bytes, at, 8, "a security identifier")?;
        let count = usize::from(head[1]);
        if head[0] != 1 || count > MOST_PARTS {
            return Err(fault(at, "a security identifier is damaged")
                .expected(format!("revision 1, at most {MOST_PARTS} parts"))
                .found(format!("revision {}, {count} parts", head[0])));
        }
        let parts = part(bytes, at + 8, 4 * count, "a security identifier")?;
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
        let bad = || {
            Error::failed(format!("{text:?} is not a security identifier"))
                .expected("S-1-, an authority, and up to 15 numbers, such as S-1-5-32-544")
        };
        let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
        let upper = text.to_ascii_uppercase();
        let mut words = upper.strip_prefix("S-1-").ok_or_else(bad)?.split('-');
        let first = words.next().unwrap_or_default();
        let authority = match first.strip_prefix("0X") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => first.parse().ok().filter(|_| digits(first)),
        };
        let parts: Option<Vec<u32>> = words
            .map(|w| w.parse().ok().filter(|_| digits(w)))
            .collect();
        match (authority, parts) {
            (Some(authority), Some(parts)) if authority >> 48 == 0 && parts.len() <= MOST_PARTS => {
                Ok(Self { authority, parts })
            }
            _ => Err(bad()),
        }
    }
}

/// As SDDL writes an entry, without its short names: `(A;OICI;0x1f01ff;;;S-1-5-18)`.
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

/// As SDDL, with whole SIDs: `O:S-1-5-18G:S-1-5-18D:P(A;;0x1f01ff;;;S-1-5-18)`.
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
