//! Registry hives read as files: keys and values of a Windows that is not running.
//!
//! A hive comes from an untrusted disk, so every offset, length and count is checked before it is
//! used, and errors name the offset in the file. Nothing is repaired and nothing is written.
//! Transaction logs (`.LOG1`, `.LOG2`) are not replayed: if [`Hive::is_dirty`] returns true, they
//! have newer values and the hive may be stale. Symbolic links between keys (`REG_LINK`) are
//! returned, not followed.
//!
//! Sources: M. Suhanov, "Windows registry file format specification"; Microsoft, "Registry Value
//! Types" and "Registry Element Size Limits".

mod cell;
mod data;
mod key;

pub use data::HiveValueData;
pub use key::HiveKey;

use crate::bytes::{u32_le, words_le};
use winimg_base::error::{Error, Result};

/// Bytes before the first bin. Offsets inside a hive count from there.
const BASE: usize = 4096;

/// The file's kind in its header: only a primary file has keys.
const PRIMARY: u32 = 0;

/// A whole hive.
pub struct Hive {
    bytes: Vec<u8>,
    /// Starts of the bins, relative to the first one, ascending, and the end of the last.
    bins: Vec<u32>,
    root: u32,
    minor: u32,
    dirty: bool,
}

impl Hive {
    /// Checks the header and the bins. Keys and values are checked when they are read.
    pub fn parse(bytes: Vec<u8>) -> Result<Self> {
        if bytes.len() < BASE || !bytes.starts_with(b"regf") {
            return Err(report_fault(0, "the file is not a registry hive")
                .expected(format!("\"regf\" and a header of {BASE} bytes"))
                .found(format!(
                    "{} in {} bytes",
                    describe_bytes(&bytes[..bytes.len().min(4)]),
                    bytes.len()
                ))
                .cure("extract the hive from the disk again"));
        }
        check_header(&bytes)?;
        Ok(Self {
            root: u32_le(&bytes, 36),
            minor: u32_le(&bytes, 24),
            dirty: u32_le(&bytes, 4) != u32_le(&bytes, 8),
            bins: read_bins(&bytes, u32_le(&bytes, 40))?,
            bytes,
        })
    }

    /// Returns true if the last write was not finished: the latest changes are only in the
    /// transaction logs. A Windows that was shut down cleanly leaves clean hives.
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    pub fn open_root(&self) -> Result<HiveKey<'_>> {
        HiveKey::open_root(self, self.root)
    }

    /// Finds the key at a path below the root, such as `ControlSet001\Services\kubelet`, ignoring
    /// case.
    ///
    /// A file has no `CurrentControlSet`: Windows creates it from `Select\Current` when it starts.
    pub fn find_key(&self, path: &str) -> Result<Option<HiveKey<'_>>> {
        self.open_root()?.find_key(path)
    }
}

fn check_header(bytes: &[u8]) -> Result<()> {
    let sum = compute_checksum(&bytes[..508]);
    let found = u32_le(bytes, 508);
    if found != sum {
        return Err(report_fault(508, "the header of the hive is damaged")
            .expected(format!("checksum {sum:#010x}"))
            .found(format!("{found:#010x}"))
            .cure(
                "start and shut down that Windows once, so that it restores its hive from the log",
            ));
    }
    let (file_type, format) = (u32_le(bytes, 28), u32_le(bytes, 32));
    if (file_type, format) != (PRIMARY, 1) {
        return Err(
            report_fault(28, "the file is not a hive but its transaction log")
                .expected("file type 0, format 1")
                .found(format!("file type {file_type}, format {format}"))
                .cure("read the file without .LOG1 or .LOG2 at its end"),
        );
    }
    let (major, minor) = (u32_le(bytes, 20), u32_le(bytes, 24));
    if major != 1 || !(2..=6).contains(&minor) {
        return Err(report_fault(20, "the hive has an unsupported version")
            .expected("1.2 to 1.6")
            .found(format!("{major}.{minor}")));
    }
    Ok(())
}

/// Reads the starts of the bins, and the end of the last.
fn read_bins(bytes: &[u8], len: u32) -> Result<Vec<u32>> {
    let there = bytes.len() - BASE;
    if len == 0 || !len.is_multiple_of(4096) || len as usize > there || len > i32::MAX as u32 {
        return Err(
            report_fault(40, "the hive is truncated or its length is wrong")
                .expected(format!("bins of {len} bytes, a multiple of 4096"))
                .found(format!("{there} bytes after the header")),
        );
    }
    let mut starts = Vec::new();
    let mut at = 0;
    while at < len {
        let start = BASE + at as usize;
        let head = &bytes[start..start + 12];
        let (own, size) = (u32_le(head, 4), u32_le(head, 8));
        let is_valid = head.starts_with(b"hbin") && own == at;
        if !is_valid || size == 0 || !size.is_multiple_of(4096) || size > len - at {
            return Err(report_fault(start, "a bin of the hive is damaged")
                .expected(format!(
                    "\"hbin\", its own offset {at:#x}, a size up to {}",
                    len - at
                ))
                .found(format!(
                    "{}, offset {own:#x}, size {size}",
                    describe_bytes(&head[..4])
                )));
        }
        starts.push(at);
        at += size;
    }
    starts.push(len);
    Ok(starts)
}

/// Computes the XOR of all words of the header before the checksum; two results are reserved.
fn compute_checksum(header: &[u8]) -> u32 {
    match words_le(header).fold(0, |sum, word| sum ^ word) {
        u32::MAX => u32::MAX - 1,
        0 => 1,
        sum => sum,
    }
}

/// Reports a fault at byte `at` of the file.
fn report_fault(at: usize, fact: impl Into<String>) -> Error {
    Error::failed(fact).at(format!("offset {at:#x} of the hive"))
}

/// Describes bytes found in place of a signature.
fn describe_bytes(bytes: &[u8]) -> String {
    if bytes.iter().all(u8::is_ascii_graphic) && !bytes.is_empty() {
        format!("{:?}", String::from_utf8_lossy(bytes))
    } else {
        format!("bytes {:?}", hex::encode(bytes))
    }
}

/// Compares names ignoring case. Windows folds each UTF-16 unit alone, so lengths never change (`ß`
/// is not `SS`).
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
        let sum = compute_checksum(&log[..508]).to_le_bytes();
        log[508..512].copy_from_slice(&sum);
        assert_eq!(
            rendered(log),
            "the file is not a hive but its transaction log\n  at: offset 0x1c of the hive\n  expected: file type 0, \
             format 1\n  found: file type 6, format 1\n  cure: read the file without .LOG1 or .LOG2 at its end"
        );
    }
}
