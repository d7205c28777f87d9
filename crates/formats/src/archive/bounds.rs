//! Where a zip begins and ends: with the first and the last byte of its file.
//!
//! Readers look for a zip's directory from behind, so one may stand inside of something else, such as a signed program.
//! Refuses bytes before the first entry, behind the directory and behind the end. (PKWARE APPNOTE 4.3.6, 4.3.14 to 4.3.16)

use std::io::{self, Read, Seek, SeekFrom};

use crate::bytes::{u16_le, u32_le, u64_le};

/// Bytes of an end of central directory record without its comment.
const END: u64 = 22;
/// Bytes of a zip64 end of central directory locator, which stands right before that.
const LOCATOR: u64 = 20;
/// Bytes of a zip64 end of central directory record that its own size does not count.
const UNCOUNTED: u64 = 12;
/// A field whose value stands in the zip64 record.
const ELSEWHERE: u64 = 0xffff_ffff;

/// What the archive was read by.
pub(super) struct Bounds {
    /// Offset of the first entry.
    pub first: u64,
    /// Offset of the central directory.
    pub directory: u64,
    /// Bytes of the archive's comment.
    pub comment: u64,
}

/// Whether that is all of the file, else what else there is: `it …`.
pub(super) fn check(file: &mut (impl Read + Seek), bounds: &Bounds) -> Result<(), String> {
    let unreadable = |e: io::Error| format!("its end cannot be read: {e}");
    if bounds.first > 0 {
        let bytes = bounds.first;
        return Err(format!(
            "it begins after {bytes} other bytes, which its directory does not name"
        ));
    }
    let length = file.seek(SeekFrom::End(0)).map_err(unreadable)?;
    let behind = || "it has bytes behind its end".to_string();
    let at = length
        .checked_sub(END + bounds.comment)
        .ok_or_else(behind)?;
    let end = bytes::<22>(file, at).map_err(unreadable)?;
    if !end.starts_with(b"PK\x05\x06") || u64::from(u16_le(&end, 20)) != bounds.comment {
        return Err(behind());
    }
    let (mut size, mut offset, mut until): (u64, u64, u64) =
        (u32_le(&end, 12).into(), u32_le(&end, 16).into(), at);
    if let Some((record, from)) = zip64(file, at).map_err(unreadable)? {
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

/// The zip64 record that ends where the locator before `end` begins, and its offset.
fn zip64(file: &mut (impl Read + Seek), end: u64) -> io::Result<Option<([u8; 56], u64)>> {
    let Some(at) = end.checked_sub(LOCATOR) else {
        return Ok(None);
    };
    let locator = bytes::<20>(file, at)?;
    let offset = u64_le(&locator, 8);
    if !locator.starts_with(b"PK\x06\x07") || offset >= at {
        return Ok(None);
    }
    let Ok(record) = bytes::<56>(file, offset) else {
        return Ok(None);
    };
    let ends = u64_le(&record, 4).checked_add(offset.saturating_add(UNCOUNTED));
    Ok((record.starts_with(b"PK\x06\x06") && ends == Some(at)).then_some((record, offset)))
}

fn bytes<const N: usize>(file: &mut (impl Read + Seek), at: u64) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}
