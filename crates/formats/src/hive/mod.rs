//! Registry hives read as files: keys and values of a Windows that is not running.
//!
//! A hive comes from a disk that anybody may have written, so every offset, length and count is checked before it is
//! followed, and an error names the place in the file. Nothing is mended and nothing is written. Transaction logs
//! (`.LOG1`, `.LOG2`) are not replayed: where [`Hive::is_dirty`] says so, the newest values are in them and what is
//! read here may be stale. Symbolic links between keys (`REG_LINK`) are shown, not followed.
//!
//! Sources: M. Suhanov, "Windows registry file format specification"; Microsoft, "Registry Value Types" and
//! "Registry Element Size Limits".

mod cell;
mod data;
mod key;

pub use data::Data;
pub use key::Key;

use crate::bytes::{u32_le, words_le};
use winimg_base::error::{Error, Result};

/// Bytes before the first bin. Offsets inside a hive count from there.
const BASE: usize = 4096;

/// The file's kind in its header: only a primary file holds keys.
const PRIMARY: u32 = 0;

/// A whole hive.
pub struct Hive {
    bytes: Vec<u8>,
    /// Where each bin starts, from the first one, ascending; the end of the last one closes the list.
    bins: Vec<u32>,
    root: u32,
    minor: u32,
    dirty: bool,
}

impl Hive {
    /// Checks the header and the bins. Keys and values are checked when they are asked for.
    pub fn parse(bytes: Vec<u8>) -> Result<Self> {
        if bytes.len() < BASE || !bytes.starts_with(b"regf") {
            return Err(fault(0, "the file is not a registry hive")
                .expected(format!("\"regf\" and a header of {BASE} bytes"))
                .found(format!(
                    "{} in {} bytes",
                    shown(&bytes[..bytes.len().min(4)]),
                    bytes.len()
                ))
                .cure("extract the hive from the disk again"));
        }
        check_header(&bytes)?;
        Ok(Self {
            root: u32_le(&bytes, 36),
            minor: u32_le(&bytes, 24),
            dirty: u32_le(&bytes, 4) != u32_le(&bytes, 8),
            bins: bins(&bytes, u32_le(&bytes, 40))?,
            bytes,
        })
    }

    /// Whether the last write was not finished: what changed last is in the transaction logs beside the hive, not here.
    /// A Windows that was shut down in order leaves clean hives.
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    pub fn root(&self) -> Result<Key<'_>> {
        Key::root(self, self.root)
    }

    /// The key at a path below the root, such as `ControlSet001\Services\kubelet`, without regard to case.
    ///
    /// There is no `CurrentControlSet` in a file: Windows makes it from `Select\Current` when it starts.
    pub fn key(&self, path: &str) -> Result<Option<Key<'_>>> {
        self.root()?.key(path)
    }
}

fn check_header(bytes: &[u8]) -> Result<()> {
    let word = |at: usize| u32_le(bytes, at);
    let sum = checksum(&bytes[..508]);
    if word(508) != sum {
        return Err(fault(508, "the header of the hive is damaged")
            .expected(format!("checksum {sum:#010x}"))
            .found(format!("{:#010x}", word(508)))
            .cure(
                "start and shut down that Windows once, so that it restores its hive from the log",
            ));
    }
    if (word(28), word(32)) != (PRIMARY, 1) {
        return Err(fault(28, "the file is not a hive but its transaction log")
            .expected("file type 0, format 1")
            .found(format!("file type {}, format {}", word(28), word(32)))
            .cure("read the file without .LOG1 or .LOG2 at its end"));
    }
    if word(20) != 1 || !(2..=6).contains(&word(24)) {
        return Err(
            fault(20, "the hive has a version that winimg does not read")
                .expected("1.2 to 1.6")
                .found(format!("{}.{}", word(20), word(24))),
        );
    }
    Ok(())
}

/// The starts of the bins, and the end of the last.
fn bins(bytes: &[u8], len: u32) -> Result<Vec<u32>> {
    let there = bytes.len() - BASE;
    if len == 0 || !len.is_multiple_of(4096) || len as usize > there || len > i32::MAX as u32 {
        return Err(fault(40, "the hive is cut short or its length is wrong")
            .expected(format!("bins of {len} bytes, a multiple of 4096"))
            .found(format!("{there} bytes after the header")));
    }
    let mut starts = Vec::new();
    let mut at = 0;
    while at < len {
        let start = BASE + at as usize;
        let head = &bytes[start..start + 12];
        let (own, size) = (u32_le(head, 4), u32_le(head, 8));
        let sound = head.starts_with(b"hbin") && own == at;
        if !sound || size == 0 || !size.is_multiple_of(4096) || size > len - at {
            return Err(fault(start, "a bin of the hive is damaged")
                .expected(format!(
                    "\"hbin\", its own offset {at:#x}, a size up to {}",
                    len - at
                ))
                .found(format!(
                    "{}, offset {own:#x}, size {size}",
                    shown(&head[..4])
                )));
        }
        starts.push(at);
        at += size;
    }
    starts.push(len);
    Ok(starts)
}

/// All words of the header before the sum, exclusive-or; two results are kept for other uses.
fn checksum(header: &[u8]) -> u32 {
    match words_le(header).fold(0, |sum, word| sum ^ word) {
        u32::MAX => u32::MAX - 1,
        0 => 1,
        sum => sum,
    }
}

/// `at` is a byte of the file.
fn fault(at: usize, fact: impl Into<String>) -> Error {
    Error::failed(fact).at(format!("offset {at:#x} of the hive"))
}

/// Bytes that should have been a signature, for people.
fn shown(bytes: &[u8]) -> String {
    if bytes.iter().all(u8::is_ascii_graphic) && !bytes.is_empty() {
        format!("{:?}", String::from_utf8_lossy(bytes))
    } else {
        format!("bytes {:?}", hex::encode(bytes))
    }
}

/// Names are the same whatever their case: Windows folds each UTF-16 unit alone, so nothing grows (`ß` is not `SS`).
fn same_name(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b) || a.chars().map(fold).eq(b.chars().map(fold))
}

fn fold(c: char) -> char {
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(one), None) if (c as u32) < 0x1_0000 => one,
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_unit_by_unit() {
        assert!(same_name("kubelet", "KubeLet"));
        assert!(same_name("Żółć", "żÓŁĆ"));
        assert!(!same_name("ß", "SS"));
        assert!(!same_name("a", "ab"));
    }

    #[test]
    fn what_is_no_hive_is_reported_with_what_it_is() {
        let rendered = |bytes: Vec<u8>| Hive::parse(bytes).err().unwrap().to_string();
        assert_eq!(
            rendered(b"PK\x03\x04".to_vec()),
            "the file is not a registry hive\n  at: offset 0x0 of the hive\n  expected: \"regf\" and a header of 4096 \
             bytes\n  found: bytes \"504b0304\" in 4 bytes\n  cure: extract the hive from the disk again"
        );
        let mut log = vec![0; 8192];
        log[..4].copy_from_slice(b"regf");
        (log[20], log[24], log[28], log[32]) = (1, 5, 6, 1);
        let sum = checksum(&log[..508]).to_le_bytes();
        log[508..512].copy_from_slice(&sum);
        assert_eq!(
            rendered(log),
            "the file is not a hive but its transaction log\n  at: offset 0x1c of the hive\n  expected: file type 0, \
             format 1\n  found: file type 6, format 1\n  cure: read the file without .LOG1 or .LOG2 at its end"
        );
    }
}
