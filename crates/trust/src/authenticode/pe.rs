//! Portable executables: exe, dll, sys, efi.
//!
//! The digest leaves out three places, and nothing else may hide from it: refused are bytes in the certificate table beside
//! the one signature, bytes after the table, and bytes that no header or section owns. (Microsoft: PE Format, "The Attribute
//! Certificate Table"; Microsoft: Authenticode PE, "Calculating the PE Image Hash"; MS13-098)

use super::super::hash::HashKind;
use super::super::place::{Open, Place};
use super::super::tlv::{self, SEQUENCE};
use super::super::{Reason, Refusal};
use super::source::Source;

/// A signature is some kilobytes; a table beyond this is not read.
const LARGEST_TABLE: u64 = 16 << 20;
const ENTRY_HEADER: usize = 8;
const REVISION_2: u16 = 0x0200;
const PKCS_SIGNED_DATA: u16 = 0x0002;

/// Where the parts that matter lie, as file offsets.
#[derive(Debug)]
struct Layout {
    checksum: u64,
    /// The data directory's entry of the certificate table; `None` where the directory is too short to have one.
    entry: Option<u64>,
    /// The certificate table, checked to end with the file.
    table: Option<(u64, u64)>,
}

/// The PKCS#7 DER; `None` when the file is not signed. Refuses what no signature covers.
pub(super) fn signature(file: &mut Source) -> Result<Option<Vec<u8>>, Refusal> {
    let Some((offset, size)) = layout(file)?.table else {
        return Ok(None);
    };
    let table = file.bytes(offset, size as usize)?;
    let table = table.ok_or_else(|| file.cut_off(offset + size))?;
    let body = only_entry(&table, offset)?;
    let (der, rest) = tlv::first(body, SEQUENCE, "the certificate table")?;
    let start = offset + (ENTRY_HEADER + der.raw.len()) as u64;
    let after = rest.len() + (table.len() - ENTRY_HEADER - body.len());
    let tail = table.get(table.len() - after..).unwrap_or_default();
    if after >= 8 || tail.iter().any(|b| *b != 0) {
        return Err(Reason::Uncovered
            .refusal("the certificate table holds unsigned bytes after the signature")
            .expected("at most 7 zero bytes")
            .found(format_args!("{after} bytes at offset {start:#x}")));
    }
    Ok(Some(der.raw.to_vec()))
}

/// The digest that the signature is about: the whole file but for the checksum, the table's directory entry and the table.
pub(super) fn digest(file: &mut Source, algorithm: HashKind) -> Result<Vec<u8>, Refusal> {
    let layout = layout(file)?;
    let mut hash = algorithm.start();
    let end = file.length();
    file.hash_but(&mut hash, &layout.open(end), end)?;
    if layout.table.is_none() {
        // Signing fills the file up to a multiple of eight first.
        let fill = end.next_multiple_of(8) - end;
        hash.update(&[0; 8][..usize::try_from(fill).unwrap_or(0)]);
    }
    Ok(hash.finish().as_ref().to_vec())
}

/// The places that the digest leaves out.
pub(super) fn open(file: &mut Source) -> Result<Vec<Open>, Refusal> {
    let layout = layout(file)?;
    let mut open = layout.open(file.length());
    if let Some(signature) = signature(file)?
        && let Some((offset, _)) = layout.table
        && let Some(table) = open.pop()
    {
        let start = offset + ENTRY_HEADER as u64;
        let end = start + signature.len() as u64;
        open.extend([
            Open::new(Place::PeTableHead, offset..start),
            Open::new(Place::Signature, start..end),
            Open::new(Place::Padding, end..table.range.end),
        ]);
    }
    Ok(open)
}

impl Layout {
    /// In the order of the file; the certificate table as one.
    fn open(&self, length: u64) -> Vec<Open> {
        let mut open = vec![Open::new(
            Place::PeChecksum,
            self.checksum..self.checksum + 4,
        )];
        open.extend(
            self.entry
                .map(|at| Open::new(Place::PeTableEntry, at..at + 8)),
        );
        open.extend(
            self.table
                .map(|(offset, _)| Open::new(Place::Signature, offset..length)),
        );
        open
    }
}

/// The bytes of the only WIN_CERTIFICATE.
fn only_entry(table: &[u8], offset: u64) -> Result<&[u8], Refusal> {
    let bad = |fact: &str| tlv::malformed("the certificate table", fact);
    let head = table
        .first_chunk::<ENTRY_HEADER>()
        .ok_or_else(|| bad("is cut off"))?;
    let [a, b, c, d, r0, r1, t0, t1] = *head;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    let (revision, kind) = (u16::from_le_bytes([r0, r1]), u16::from_le_bytes([t0, t1]));
    if (revision, kind) != (REVISION_2, PKCS_SIGNED_DATA) {
        return Err(Reason::Unsupported
            .refusal("the certificate table holds something other than a signature")
            .expected(format_args!(
                "revision {REVISION_2:#06x}, type {PKCS_SIGNED_DATA:#06x}"
            ))
            .found(format_args!("revision {revision:#06x}, type {kind:#06x}")));
    }
    let body = table
        .get(ENTRY_HEADER..length)
        .ok_or_else(|| bad("has an entry that goes beyond it"))?;
    if length.next_multiple_of(8) < table.len() {
        let next = offset + length.next_multiple_of(8) as u64;
        return Err(Reason::Uncovered
            .refusal("the certificate table has a second entry, which is not signed")
            .expected("exactly one entry")
            .found(format_args!(
                "{} bytes more at offset {next:#x}",
                table.len() - length.next_multiple_of(8)
            )));
    }
    Ok(body)
}

fn layout(file: &mut Source) -> Result<Layout, Refusal> {
    let start = u64::from(file.u32(0x3c)?);
    if file.exactly::<4>(start)? != *b"PE\0\0" {
        return Err(malformed("is a DOS program, not a PE file"));
    }
    let sections = file.u16(start + 6)?;
    let optional_size = u64::from(file.u16(start + 20)?);
    let optional = start + 24;
    let (count, directory) = match file.u16(optional)? {
        0x10b => (92, 96),
        0x20b => (108, 112),
        other => {
            return Err(malformed("has an optional header of an unknown kind")
                .expected("0x010b or 0x020b")
                .found(format_args!("{other:#06x}")));
        }
    };
    // What is left out of the digest has to stand in the optional header, not in what follows it.
    if optional_size < directory {
        return Err(malformed("has an optional header that is cut off")
            .expected(format_args!("{directory} bytes at least"))
            .found(format_args!("{optional_size} bytes")));
    }
    let headers = u64::from(file.u32(optional + 60)?);
    let entries = u64::from(file.u32(optional + count)?);
    let room = optional_size.saturating_sub(directory) / 8;
    let entry = (entries.min(room) > 4).then_some(optional + directory + 4 * 8);
    let table_of_sections = optional + optional_size;
    let end = sections_end(file, table_of_sections, sections, headers)?;
    let table = match entry {
        Some(at) => {
            let (offset, size) = (file.u32(at)?, file.u32(at + 4)?);
            certificate_table(file, u64::from(offset), u64::from(size), end)?
        }
        None => None,
    };
    Ok(Layout {
        checksum: optional + 64,
        entry,
        table,
    })
}

/// Where the last section ends. Headers and sections have to follow each other without gap or overlap, for the digest is
/// taken over what they own.
fn sections_end(file: &mut Source, table: u64, count: u16, headers: u64) -> Result<u64, Refusal> {
    if headers < table + u64::from(count) * 40 {
        return Err(malformed("has headers longer than it says"));
    }
    let mut parts = Vec::new();
    for number in 0..u64::from(count) {
        let (size, at) = (
            file.u32(table + number * 40 + 16)?,
            file.u32(table + number * 40 + 20)?,
        );
        if size > 0 {
            parts.push((u64::from(at), u64::from(size)));
        }
    }
    parts.sort_unstable();
    let mut end = headers;
    for (at, size) in parts {
        if at < end {
            return Err(malformed("has sections that overlap")
                .expected(format_args!(
                    "the next section at offset {end:#x} or after it"
                ))
                .found(format_args!("{at:#x}")));
        }
        if at > end {
            return Err(Reason::Uncovered
                .refusal("the file holds bytes that no section owns")
                .expected(format_args!("the next section at offset {end:#x}"))
                .found(format_args!("{at:#x}")));
        }
        end = at + size;
    }
    if end > file.length() {
        return Err(file.cut_off(end));
    }
    Ok(end)
}

fn certificate_table(
    file: &Source,
    offset: u64,
    size: u64,
    sections_end: u64,
) -> Result<Option<(u64, u64)>, Refusal> {
    if (offset, size) == (0, 0) {
        return Ok(None);
    }
    let end = offset + size;
    if end > file.length() {
        return Err(file.cut_off(end));
    }
    if offset < sections_end || !offset.is_multiple_of(8) {
        return Err(
            malformed("has its certificate table in a place where none can be")
                .expected(format_args!(
                    "a multiple of 8 from offset {sections_end:#x} on"
                ))
                .found(format_args!("{offset:#x}")),
        );
    }
    if end < file.length() {
        return Err(Reason::Uncovered
            .refusal("the file has unsigned bytes after its certificate table")
            .expected(format_args!("the end at offset {end:#x}"))
            .found(format_args!("{} bytes more", file.length() - end)));
    }
    if size > LARGEST_TABLE {
        return Err(tlv::malformed(
            "the certificate table",
            "is larger than any signature is",
        ));
    }
    Ok(Some((offset, size)))
}

fn malformed(fact: &str) -> Refusal {
    tlv::malformed("the file", fact)
}
