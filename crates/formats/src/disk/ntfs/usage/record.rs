//! One record of the `$MFT`, as needed to measure space: its names, and the clusters of its
//! attributes.
//!
//! Every number is checked against the record and the volume before it is used.

use std::ops::Range;

use super::report_damage;
use crate::bytes::{u16_le, u32_le, u64_le, utf16_le};
use winimg_base::error::{Error, Result};

/// A record's sectors all end in the same two bytes; the original bytes are in the record's header.
const SECTOR: usize = 512;
/// Files with a lower number are NTFS's own, except the root.
pub(super) const FIRST_OF_USERS: u64 = 24;
pub(super) const ROOT: u64 = 5;
pub(super) const EXTEND: u64 = 11;
/// Namespace of 8.3 names, which exist beside the real ones.
const DOS: u8 = 2;
const IN_USE: u16 = 1;
const FOLDER: u16 = 2;
const END: u32 = u32::MAX;

/// A record's number, and its sequence, which counts reuses of the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MftReference {
    pub number: u64,
    pub sequence: u16,
}

impl MftReference {
    fn parse(bytes: &[u8], at: usize) -> Self {
        let all = u64_le(bytes, at);
        Self {
            number: all & 0xffff_ffff_ffff,
            sequence: (all >> 48) as u16,
        }
    }

    /// Returns true if it refers to the record with this sequence; 0 refers to any.
    pub fn fits(self, sequence: u16) -> bool {
        self.sequence == 0 || self.sequence == sequence
    }
}

pub(super) struct MftRecord {
    pub number: u64,
    /// Bytes from the volume's start.
    pub place: u64,
    pub sequence: u16,
    pub is_folder: bool,
    /// The file's first record, if this is another one.
    pub base: Option<MftReference>,
    /// Other records belong to it.
    pub is_continued: bool,
    /// The folders with a name of this file.
    pub parents: Vec<MftReference>,
    /// One of its names; empty for users' files, whose names are not needed.
    pub name: String,
    pub attributes: Vec<MftAttribute>,
    /// Size in whole clusters, once they are claimed.
    pub bytes: u64,
}

pub(super) struct MftAttribute {
    pub kind: u32,
    pub is_named: bool,
    /// Clusters of the volume, without holes.
    pub runs: Vec<Range<u64>>,
    pub has_holes: bool,
    /// Bytes that were ever written.
    pub written: u64,
    /// Content in the record itself; only kept for bitmaps.
    pub content: Option<Vec<u8>>,
}

impl MftAttribute {
    const LIST: u32 = 0x20;
    const NAME: u32 = 0x30;
    pub const DATA: u32 = 0x80;
    pub const BITMAP: u32 = 0xb0;
}

impl MftRecord {
    /// Parses a record; `None` if it is not in use. `clusters` is the number of clusters of the
    /// volume.
    pub fn parse(number: u64, place: u64, bytes: &mut [u8], clusters: u64) -> Result<Option<Self>> {
        if !bytes.starts_with(b"FILE") {
            return Err(bad_record(number, place, "is not a FILE record"));
        }
        apply_fixups(bytes)
            .ok_or_else(|| bad_record(number, place, "was not written completely"))?;
        let flags = u16_le(bytes, 22);
        if flags & IN_USE == 0 {
            return Ok(None);
        }
        let base = MftReference::parse(bytes, 32);
        let mut record = Self {
            number,
            place,
            sequence: u16_le(bytes, 16),
            is_folder: flags & FOLDER != 0,
            base: (u64_le(bytes, 32) != 0).then_some(base),
            is_continued: false,
            parents: Vec::new(),
            name: String::new(),
            attributes: Vec::new(),
            bytes: 0,
        };
        let mut at = usize::from(u16_le(bytes, 20));
        while bytes.len() >= at + 4 && u32_le(bytes, at) != END {
            let len = u32_le(bytes, at + 4) as usize;
            at.checked_add(len)
                .and_then(|end| bytes.get(at..end))
                .filter(|_| len >= 24)
                .and_then(|a| record.take(a, clusters))
                .ok_or_else(|| record.bad_attribute(at))?;
            at += len;
        }
        if bytes.len() >= at + 4 {
            Ok(Some(record))
        } else {
            Err(bad_record(number, place, "has no end"))
        }
    }

    /// Finds the unnamed attribute of a kind.
    pub fn find_attribute(&self, kind: u32) -> Option<&MftAttribute> {
        self.attributes
            .iter()
            .find(|a| a.kind == kind && !a.is_named)
    }

    fn bad_attribute(&self, at: usize) -> Error {
        let what = format!("an attribute of record {} of the $MFT", self.number);
        report_damage(self.place + at as u64, format_args!("{what} is invalid"))
    }

    /// Takes the names and clusters of an attribute. `None`: its numbers contradict each other or
    /// the volume.
    fn take(&mut self, bytes: &[u8], clusters: u64) -> Option<()> {
        let kind = u32_le(bytes, 0);
        self.is_continued |= kind == MftAttribute::LIST;
        if bytes[8] != 0 {
            self.attributes
                .push(parse_nonresident(kind, bytes, clusters)?);
            return Some(());
        }
        let start = usize::from(u16_le(bytes, 20));
        let content = bytes.get(start..start.checked_add(u32_le(bytes, 16) as usize)?)?;
        match kind {
            MftAttribute::NAME => self.take_name(content)?,
            MftAttribute::BITMAP => self.attributes.push(MftAttribute {
                kind,
                is_named: bytes[9] != 0,
                runs: Vec::new(),
                has_holes: false,
                written: content.len() as u64,
                content: Some(content.to_vec()),
            }),
            _ => {}
        }
        Some(())
    }

    fn take_name(&mut self, content: &[u8]) -> Option<()> {
        let (len, namespace) = (*content.get(64)?, *content.get(65)?);
        let name = content.get(66..66 + usize::from(len) * 2)?;
        if namespace == DOS {
            return Some(());
        }
        self.parents.push(MftReference::parse(content, 0));
        if self.is_folder || self.base.is_some() || self.number < FIRST_OF_USERS {
            self.name = String::from_utf16_lossy(&utf16_le(name));
        }
        Some(())
    }
}

fn bad_record(number: u64, place: u64, what: &str) -> Error {
    report_damage(place, format_args!("record {number} of the $MFT {what}"))
}

/// Restores the bytes replaced at the ends of the sectors. `None`: the sectors are not from one
/// write.
fn apply_fixups(bytes: &mut [u8]) -> Option<()> {
    let array = usize::from(u16_le(bytes, 4));
    let count = usize::from(u16_le(bytes, 6));
    if !bytes.len().is_multiple_of(SECTOR) || count != bytes.len() / SECTOR + 1 {
        return None;
    }
    let array = bytes.get(array..array + count * 2)?.to_vec();
    let (mark, real) = array.split_at(2);
    for (sector, real) in bytes.chunks_exact_mut(SECTOR).zip(real.chunks_exact(2)) {
        let end = &mut sector[SECTOR - 2..];
        if end != mark {
            return None;
        }
        end.copy_from_slice(real);
    }
    Some(())
}

/// Parses an attribute with its content in clusters of its own.
fn parse_nonresident(kind: u32, bytes: &[u8], clusters: u64) -> Option<MftAttribute> {
    let (first, last) = (u64_le(bytes, 16), u64_le(bytes, 24));
    let mut attribute = MftAttribute {
        kind,
        is_named: bytes[9] != 0,
        runs: Vec::new(),
        has_holes: false,
        written: u64_le(bytes, 48).min(u64_le(bytes, 56)),
        content: None,
    };
    let mut rest = bytes.get(usize::from(u16_le(bytes, 32))..)?;
    let (mut cluster, mut counted) = (0_i64, 0_u64);
    while let [head, tail @ ..] = rest
        && *head != 0
    {
        let (of_len, of_place) = (usize::from(head & 15), usize::from(head >> 4));
        if of_len == 0 || of_len > 8 || of_place > 8 {
            return None;
        }
        let len = read_signed(tail.get(..of_len)?);
        let len = u64::try_from(len).ok().filter(|len| *len > 0)?;
        let step = tail.get(of_len..of_len + of_place)?;
        counted = counted.checked_add(len)?;
        match of_place {
            0 => attribute.has_holes = true,
            _ => {
                cluster = cluster.checked_add(read_signed(step))?;
                let start = u64::try_from(cluster).ok()?;
                let end = start.checked_add(len).filter(|end| *end <= clusters)?;
                attribute.runs.push(start..end);
            }
        }
        rest = &tail[of_len + of_place..];
    }
    // An attribute without clusters has -1 as its last one.
    let expected = last.wrapping_sub(first).wrapping_add(1);
    (expected == counted).then_some(attribute)
}

/// Reads a signed little-endian number of up to 8 bytes.
fn read_signed(bytes: &[u8]) -> i64 {
    let is_negative = bytes.last().is_some_and(|b| b & 0x80 != 0);
    let mut all = [if is_negative { 0xff } else { 0 }; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    i64::from_le_bytes(all)
}

#[cfg(test)]
mod tests {
    use super::parse_nonresident;

    /// An attribute of clusters 0 to `last` with these runs, on a volume of 1000 clusters.
    fn runs(last: i64, runs: &[u8]) -> Option<(Vec<std::ops::Range<u64>>, bool)> {
        let mut bytes = vec![0; 64];
        bytes[24..32].copy_from_slice(&last.to_le_bytes());
        bytes[32] = 64;
        bytes.extend(runs);
        parse_nonresident(0x80, &bytes, 1000).map(|found| (found.runs, found.has_holes))
    }

    #[test]
    fn runs_are_steps_from_one_to_the_next() {
        let all = [0x21, 2, 100, 0, 0x11, 3, 0xf6, 0x01, 5, 0x11, 1, 10, 0];
        assert_eq!(
            runs(10, &all),
            Some((vec![100..102, 90..93, 100..101], true))
        );
        assert_eq!(runs(-1, &[0]), Some((vec![], false)));
    }

    #[test]
    fn runs_that_cannot_be_are_refused() {
        for (why, last, bytes) in [
            ("fewer clusters than named", 4, &[0x11, 4, 10, 0][..]),
            ("beyond the volume", 1, &[0x21, 2, 0xe7, 3, 0]),
            ("before the volume", 1, &[0x11, 2, 0xff, 0]),
            ("a length of nothing", -1, &[0x11, 0, 10, 0]),
            ("a length that is negative", 3, &[0x11, 0x80, 10, 0]),
            ("cut short", 3, &[0x41, 4, 10]),
            ("no length", 3, &[0x10, 4, 0]),
        ] {
            assert_eq!(runs(last, bytes), None, "{why}");
        }
    }
}
