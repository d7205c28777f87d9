//! Checks that a zip starts at the first byte of its file and ends at the last.
//!
//! Readers search for a zip's directory from the end, so a zip may be embedded in something else,
//! such as a signed program. Refuses bytes before the first entry, after the directory and after
//! the end. (PKWARE APPNOTE 4.3.6, 4.3.14 to 4.3.16)

use std::io::{self, Read, Seek, SeekFrom};

use crate::bytes::{u16_le, u32_le, u64_le};

/// Bytes of an end of central directory record without its comment.
const END: u64 = 22;
/// Bytes of a zip64 end of central directory locator, which directly precedes that record.
const LOCATOR: u64 = 20;
/// Bytes of a zip64 end of central directory record that its own size does not count.
const UNCOUNTED: u64 = 12;
/// Marks a field whose value is in the zip64 record.
const ELSEWHERE: u64 = 0xffff_ffff;

const TRAILING: &str = "it has bytes after its end";

/// Offsets by which the archive was read.
pub(super) struct ZipBounds {
    /// Offset of the first entry.
    pub first: u64,
    /// Offset of the central directory.
    pub directory: u64,
    /// Bytes of the archive's comment.
    pub comment: u64,
}

/// Checks that the archive is the whole file. The error is a clause with the subject "it".
pub(super) fn check(file: &mut (impl Read + Seek), bounds: &ZipBounds) -> Result<(), String> {
    if bounds.first > 0 {
        return Err(format!(
            "it has {} bytes before its first entry",
            bounds.first
        ));
    }
    let length = file.seek(SeekFrom::End(0)).map_err(report_unreadable)?;
    let Some(at) = length.checked_sub(END + bounds.comment) else {
        return Err(TRAILING.into());
    };
    let end = read_bytes::<22>(file, at).map_err(report_unreadable)?;
    if !end.starts_with(b"PK\x05\x06") || u64::from(u16_le(&end, 20)) != bounds.comment {
        return Err(TRAILING.into());
    }
    let (mut size, mut offset, mut until): (u64, u64, u64) =
        (u32_le(&end, 12).into(), u32_le(&end, 16).into(), at);
    if let Some((record, from)) = find_zip64_record(file, at).map_err(report_unreadable)? {
        until = from;
        if size == ELSEWHERE {
            size = u64_le(&record, 40);
        }
        if offset == ELSEWHERE {
            offset = u64_le(&record, 48);
        }
    }
    if offset != bounds.directory || offset.checked_add(size) != Some(until) {
        return Err("it has bytes between its directory and its end".into());
    }
    Ok(())
}

/// Finds the zip64 record that ends at the locator before `end`, and its offset.
fn find_zip64_record(
    file: &mut (impl Read + Seek),
    end: u64,
) -> io::Result<Option<([u8; 56], u64)>> {
    let Some(at) = end.checked_sub(LOCATOR) else {
        return Ok(None);
    };
    let locator = read_bytes::<20>(file, at)?;
    let offset = u64_le(&locator, 8);
    if !locator.starts_with(b"PK\x06\x07") || offset >= at {
        return Ok(None);
    }
    let Ok(record) = read_bytes::<56>(file, offset) else {
        return Ok(None);
    };
    let ends = u64_le(&record, 4).checked_add(offset.saturating_add(UNCOUNTED));
    Ok((record.starts_with(b"PK\x06\x06") && ends == Some(at)).then_some((record, offset)))
}

fn report_unreadable(error: io::Error) -> String {
    format!("its end cannot be read: {error}")
}

fn read_bytes<const N: usize>(file: &mut (impl Read + Seek), at: u64) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}
