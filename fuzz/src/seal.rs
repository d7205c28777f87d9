//! Makes checksums right again after a change, so that a change gets past them. Whoever writes a hostile file does the same.

use crc::{CRC_16_XMODEM, CRC_32_ISCSI, Crc};

static CRC_16: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);
static CRC_32C: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(four.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let eight = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(eight.try_into().ok()?))
}

fn put(bytes: &mut [u8], at: usize, new: &[u8]) {
    if let Some(to) = bytes.get_mut(at..at + new.len()) {
        to.copy_from_slice(new);
    }
}

/// The headers of a tar, one after the other.
pub fn tar(bytes: &mut [u8]) {
    let mut at = 0;
    while let Some(header) = bytes.get_mut(at..at + 512) {
        if header.iter().all(|b| *b == 0) {
            return;
        }
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|b| u32::from(*b)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let size = std::str::from_utf8(&header[124..136]).unwrap_or_default();
        let size = size.trim_matches(|c: char| c == '\0' || c == ' ');
        let size = usize::from_str_radix(size, 8).unwrap_or(0);
        let Some(next) = size.checked_next_multiple_of(512) else {
            return;
        };
        at = at.saturating_add(512).saturating_add(next);
    }
}

/// UDF's tags, wherever one can be (ECMA-167 3/7.2): descriptors begin at a sector, file identifiers at 4 bytes.
pub fn udf(bytes: &mut [u8]) {
    for at in (0..bytes.len().saturating_sub(16)).step_by(4) {
        let id = u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let known = matches!(id, 1 | 2 | 5..=9 | 256..=266);
        if !known || ![2, 3].contains(&bytes[at + 2]) || bytes[at + 3] != 0 || bytes[at + 5] != 0 {
            continue;
        }
        if id != 257 && at % 2048 != 0 {
            continue;
        }
        let length = usize::from(u16::from_le_bytes([bytes[at + 10], bytes[at + 11]]));
        let Some(body) = bytes.get(at + 16..at + 16 + length) else {
            continue;
        };
        let sum = CRC_16.checksum(body);
        put(bytes, at + 8, &sum.to_le_bytes());
        bytes[at + 4] = 0;
        bytes[at + 4] = bytes[at..at + 16].iter().fold(0, |s, b| s.wrapping_add(*b));
    }
}

/// A GPT's headers, first and backup, over the tables that they name (UEFI 2.10, 5.3.2).
pub fn gpt(bytes: &mut [u8]) {
    let last = (bytes.len() / 512).saturating_sub(1) * 512;
    for at in [512, last] {
        seal_gpt(bytes, at);
    }
}

fn seal_gpt(bytes: &mut [u8], at: usize) -> Option<()> {
    if !bytes.get(at..)?.starts_with(b"EFI PART") {
        return None;
    }
    let table = usize::try_from(u64_at(bytes, at + 72)?)
        .ok()?
        .checked_mul(512)?;
    let (count, each) = (u32_at(bytes, at + 80)?, u32_at(bytes, at + 84)?);
    let length = (count as usize).checked_mul(each as usize)?;
    if let Some(entries) = bytes.get(table..table.checked_add(length)?) {
        let sum = crc32fast::hash(entries);
        put(bytes, at + 88, &sum.to_le_bytes());
    }
    put(bytes, at + 16, &[0; 4]);
    let size = u32_at(bytes, at + 12)? as usize;
    let sum = crc32fast::hash(bytes.get(at..at.checked_add(size)?)?);
    put(bytes, at + 16, &sum.to_le_bytes());
    Some(())
}

/// A hive's header.
pub fn hive(bytes: &mut [u8]) {
    let Some(header) = bytes.get(..508) else {
        return;
    };
    let words = header.chunks_exact(4);
    let sum = words.fold(0, |sum, w| {
        sum ^ u32::from_le_bytes([w[0], w[1], w[2], w[3]])
    });
    let sum = match sum {
        u32::MAX => u32::MAX - 1,
        0 => 1,
        sum => sum,
    };
    put(bytes, 508, &sum.to_le_bytes());
}

/// A VHDX's headers and region tables ([MS-VHDX] 2.2.2, 2.2.3).
pub fn vhdx(bytes: &mut [u8]) {
    const KIB64: usize = 64 << 10;
    for (at, length) in [
        (KIB64, 4096),
        (2 * KIB64, 4096),
        (3 * KIB64, KIB64),
        (4 * KIB64, KIB64),
    ] {
        put(bytes, at + 4, &[0; 4]);
        if let Some(part) = bytes.get(at..at + length) {
            let sum = CRC_32C.checksum(part);
            put(bytes, at + 4, &sum.to_le_bytes());
        }
    }
}

/// A VHD's footer, its copy, and the header of a dynamic disk: the ones' complement of the sum of their bytes.
pub fn vhd(bytes: &mut [u8]) {
    let footer = bytes.len().saturating_sub(512);
    for (at, length, place) in [(0, 512, 64), (footer, 512, 64), (512, 1024, 36)] {
        put(bytes, at + place, &[0; 4]);
        if let Some(part) = bytes.get(at..at + length) {
            let sum: u32 = part.iter().map(|b| u32::from(*b)).sum();
            put(bytes, at + place, &(!sum).to_be_bytes());
        }
    }
}
