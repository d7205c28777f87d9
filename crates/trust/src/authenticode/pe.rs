//! Portable executables: exe, dll, sys, efi.
//!
//! The digest omits exactly three ranges. Refuses bytes in the certificate table besides the one
//! signature, bytes after the table, and bytes outside all headers and sections. (Microsoft: PE
//! Format, "The Attribute Certificate Table"; Microsoft: Authenticode PE, "Calculating the PE Image
//! Hash"; MS13-098)

use super::super::uncovered::{UncoveredPlace, UncoveredRange};
use super::super::{RefusalReason, SignatureRefusal};
use super::source::SignedSource;
use crate::x509::hash::HashKind;
use crate::x509::tlv::{self, SEQUENCE};

/// A signature has a few kilobytes; a larger table is not read.
const MAX_TABLE_SIZE: u64 = 16 << 20;
const ENTRY_HEADER: usize = 8;
const REVISION_2: u16 = 0x0200;
const PKCS_SIGNED_DATA: u16 = 0x0002;

/// Offsets and numbers in the headers behind the DOS program.
pub(super) struct PeHeaders {
    optional: u64,
    /// The stated size of all headers.
    size: u64,
    directories: u64,
    /// Number of data directories, as far as the optional header has room for them.
    count: u64,
    /// The table of sections, with 40 bytes for each.
    pub(super) table: u64,
    pub(super) sections: u16,
}

/// File offsets of the relevant parts.
#[derive(Debug)]
struct PeLayout {
    checksum: u64,
    /// The data directory's entry of the certificate table; `None` if the directory is too short.
    entry: Option<u64>,
    /// The certificate table, checked to end with the file.
    table: Option<(u64, u64)>,
}

/// Returns the PKCS#7 DER; `None` if the file is not signed. Refuses bytes that no signature
/// covers.
pub(super) fn read_signature(file: &mut SignedSource) -> Result<Option<Vec<u8>>, SignatureRefusal> {
    let Some((offset, size)) = read_layout(file)?.table else {
        return Ok(None);
    };
    let table = file.read_bytes(offset, size as usize)?;
    let table = table.ok_or_else(|| file.cut_off(offset + size))?;
    let body = only_entry(&table, offset)?;
    let (der, rest) = tlv::parse_first(body, SEQUENCE, "the certificate table")?;
    let start = offset + (ENTRY_HEADER + der.raw.len()) as u64;
    let after = rest.len() + (table.len() - ENTRY_HEADER - body.len());
    let tail = table.get(table.len() - after..).unwrap_or_default();
    if after >= 8 || tail.iter().any(|b| *b != 0) {
        return Err(RefusalReason::Uncovered
            .refusal("the certificate table contains unsigned bytes after the signature")
            .expected("at most 7 zero bytes")
            .found(format_args!("{after} bytes at offset {start:#x}")));
    }
    Ok(Some(der.raw.to_vec()))
}

/// Computes the signed digest: the whole file without the checksum, the table's directory entry and
/// the table.
pub(super) fn compute_digest(
    file: &mut SignedSource,
    algorithm: HashKind,
) -> Result<Vec<u8>, SignatureRefusal> {
    let layout = read_layout(file)?;
    let mut hash = algorithm.start();
    let end = file.length();
    file.hash_but(&mut hash, &layout.list_uncovered(end), end)?;
    if layout.table.is_none() {
        // Signing pads the file to a multiple of eight first.
        let fill = end.next_multiple_of(8) - end;
        hash.update(&[0; 8][..usize::try_from(fill).unwrap_or(0)]);
    }
    Ok(hash.finish().as_ref().to_vec())
}

/// Returns the ranges that the digest omits.
pub(super) fn list_uncovered(
    file: &mut SignedSource,
) -> Result<Vec<UncoveredRange>, SignatureRefusal> {
    let layout = read_layout(file)?;
    let mut open = layout.list_uncovered(file.length());
    if let Some(signature) = read_signature(file)?
        && let Some((offset, _)) = layout.table
        && let Some(table) = open.pop()
    {
        let start = offset + ENTRY_HEADER as u64;
        let end = start + signature.len() as u64;
        open.extend([
            UncoveredRange::new(UncoveredPlace::PeTableHead, offset..start),
            UncoveredRange::new(UncoveredPlace::Signature, start..end),
            UncoveredRange::new(UncoveredPlace::Padding, end..table.range.end),
        ]);
    }
    Ok(open)
}

impl PeLayout {
    /// Returns the omitted ranges in the order of the file, with the certificate table as one.
    fn list_uncovered(&self, length: u64) -> Vec<UncoveredRange> {
        let mut open = vec![UncoveredRange::new(
            UncoveredPlace::PeChecksum,
            self.checksum..self.checksum + 4,
        )];
        open.extend(
            self.entry
                .map(|at| UncoveredRange::new(UncoveredPlace::PeTableEntry, at..at + 8)),
        );
        open.extend(
            self.table
                .map(|(offset, _)| UncoveredRange::new(UncoveredPlace::Signature, offset..length)),
        );
        open
    }
}

/// Returns the bytes of the only WIN_CERTIFICATE.
fn only_entry(table: &[u8], offset: u64) -> Result<&[u8], SignatureRefusal> {
    let head = table
        .first_chunk::<ENTRY_HEADER>()
        .ok_or_else(|| malformed_table("is cut off"))?;
    let [a, b, c, d, r0, r1, t0, t1] = *head;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    let (revision, kind) = (u16::from_le_bytes([r0, r1]), u16::from_le_bytes([t0, t1]));
    if (revision, kind) != (REVISION_2, PKCS_SIGNED_DATA) {
        return Err(RefusalReason::Unsupported
            .refusal("the certificate table contains something other than a signature")
            .expected(format_args!(
                "revision {REVISION_2:#06x}, type {PKCS_SIGNED_DATA:#06x}"
            ))
            .found(format_args!("revision {revision:#06x}, type {kind:#06x}")));
    }
    let body = table
        .get(ENTRY_HEADER..length)
        .ok_or_else(|| malformed_table("has an entry that extends beyond it"))?;
    if length.next_multiple_of(8) < table.len() {
        let next = offset + length.next_multiple_of(8) as u64;
        return Err(RefusalReason::Uncovered
            .refusal("the certificate table has a second entry, which is not signed")
            .expected("exactly one entry")
            .found(format_args!(
                "{} bytes more at offset {next:#x}",
                table.len() - length.next_multiple_of(8)
            )));
    }
    Ok(body)
}

impl PeHeaders {
    pub(super) fn read(file: &mut SignedSource) -> Result<Self, SignatureRefusal> {
        let start = u64::from(file.read_u32(0x3c)?);
        if file.read_array::<4>(start)? != *b"PE\0\0" {
            return Err(malformed("is a DOS program, not a PE file"));
        }
        let sections = file.read_u16(start + 6)?;
        let optional_size = u64::from(file.read_u16(start + 20)?);
        let optional = start + 24;
        let directories = match file.read_u16(optional)? {
            0x10b => 96,
            0x20b => 112,
            other => {
                return Err(malformed("has an unknown kind of optional header")
                    .expected("0x010b or 0x020b")
                    .found(format_args!("{other:#06x}")));
            }
        };
        // The ranges that the digest omits must be in the optional header, not behind it.
        if optional_size < directories {
            return Err(malformed("has an optional header that is cut off")
                .expected(format_args!("{directories} bytes or more"))
                .found(format_args!("{optional_size} bytes")));
        }
        let size = u64::from(file.read_u32(optional + 60)?);
        let count = u64::from(file.read_u32(optional + directories - 4)?);
        Ok(Self {
            optional,
            size,
            directories: optional + directories,
            count: count.min((optional_size - directories) / 8),
            table: optional + optional_size,
            sections,
        })
    }

    /// Returns the offset of a data directory's entry, by its number from 0.
    pub(super) fn find_directory(&self, number: u64) -> Option<u64> {
        (number < self.count).then_some(self.directories + number * 8)
    }
}

fn read_layout(file: &mut SignedSource) -> Result<PeLayout, SignatureRefusal> {
    let headers = PeHeaders::read(file)?;
    let entry = headers.find_directory(4);
    let end = sections_end(file, &headers)?;
    let table = match entry {
        Some(at) => {
            let (offset, size) = (file.read_u32(at)?, file.read_u32(at + 4)?);
            certificate_table(file, u64::from(offset), u64::from(size), end)?
        }
        None => None,
    };
    Ok(PeLayout {
        checksum: headers.optional + 64,
        entry,
        table,
    })
}

/// Returns the end of the last section. Headers and sections must be contiguous, because the digest
/// only covers their bytes.
fn sections_end(file: &mut SignedSource, pe: &PeHeaders) -> Result<u64, SignatureRefusal> {
    let (table, count) = (pe.table, u64::from(pe.sections));
    if pe.size < table + count * 40 {
        return Err(malformed("has headers that exceed their stated size"));
    }
    let mut parts = Vec::new();
    for number in 0..count {
        let (size, at) = (
            file.read_u32(table + number * 40 + 16)?,
            file.read_u32(table + number * 40 + 20)?,
        );
        if size > 0 {
            parts.push((u64::from(at), u64::from(size)));
        }
    }
    parts.sort_unstable();
    let mut end = pe.size;
    for (at, size) in parts {
        if at < end {
            return Err(malformed("has sections that overlap")
                .expected(format_args!("the next section at offset {end:#x} or later"))
                .found(format_args!("{at:#x}")));
        }
        if at > end {
            return Err(RefusalReason::Uncovered
                .refusal("the file contains bytes outside all sections")
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
    file: &SignedSource,
    offset: u64,
    size: u64,
    sections_end: u64,
) -> Result<Option<(u64, u64)>, SignatureRefusal> {
    if (offset, size) == (0, 0) {
        return Ok(None);
    }
    let end = offset + size;
    if end > file.length() {
        return Err(file.cut_off(end));
    }
    if offset < sections_end || !offset.is_multiple_of(8) {
        return Err(malformed("has its certificate table at an invalid offset")
            .expected(format_args!("a multiple of 8, at least {sections_end:#x}"))
            .found(format_args!("{offset:#x}")));
    }
    if end < file.length() {
        return Err(RefusalReason::Uncovered
            .refusal("the file has unsigned bytes after its certificate table")
            .expected(format_args!("the end at offset {end:#x}"))
            .found(format_args!("{} bytes more", file.length() - end)));
    }
    if size > MAX_TABLE_SIZE {
        return Err(malformed_table("exceeds the maximum signature size"));
    }
    Ok(Some((offset, size)))
}

fn malformed_table(fact: &str) -> SignatureRefusal {
    tlv::refuse_malformed("the certificate table", fact)
}

fn malformed(fact: &str) -> SignatureRefusal {
    tlv::refuse_malformed("the file", fact)
}
