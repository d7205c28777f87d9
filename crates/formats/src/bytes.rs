//! Reads integers and UTF-16 from byte slices.
//!
//! Bytes beyond the end of a structure read as zero, so a truncated structure fails
//! validation instead of panicking.

pub(crate) fn u16_le(bytes: &[u8], at: usize) -> u16 {
    read_array(bytes, at).map_or(0, u16::from_le_bytes)
}

pub(crate) fn u32_le(bytes: &[u8], at: usize) -> u32 {
    read_array(bytes, at).map_or(0, u32::from_le_bytes)
}

pub(crate) fn u64_le(bytes: &[u8], at: usize) -> u64 {
    read_array(bytes, at).map_or(0, u64::from_le_bytes)
}

pub(crate) fn u16_be(bytes: &[u8], at: usize) -> u16 {
    read_array(bytes, at).map_or(0, u16::from_be_bytes)
}

pub(crate) fn u32_be(bytes: &[u8], at: usize) -> u32 {
    read_array(bytes, at).map_or(0, u32::from_be_bytes)
}

pub(crate) fn u64_be(bytes: &[u8], at: usize) -> u64 {
    read_array(bytes, at).map_or(0, u64::from_be_bytes)
}

/// Iterates over all whole 32-bit numbers.
pub(crate) fn words_le(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks_exact(4).map(|word| u32_le(word, 0))
}

/// Returns all whole UTF-16 units.
pub(crate) fn utf16_le(bytes: &[u8]) -> Vec<u16> {
    bytes.chunks_exact(2).map(|unit| u16_le(unit, 0)).collect()
}

/// Decodes big-endian UTF-16; invalid units become U+FFFD.
pub(crate) fn text_be(bytes: &[u8]) -> String {
    let units = bytes.chunks_exact(2);
    let units: Vec<u16> = units.map(|u| u16::from_be_bytes([u[0], u[1]])).collect();
    String::from_utf16_lossy(&units)
}

fn read_array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}
