//! Numbers in the structures of files.
//!
//! What lies beyond the end of a structure reads as zero, so that a short one fails its own check instead of the program.

pub(crate) fn u16_le(bytes: &[u8], at: usize) -> u16 {
    field(bytes, at).map_or(0, u16::from_le_bytes)
}

pub(crate) fn u32_le(bytes: &[u8], at: usize) -> u32 {
    field(bytes, at).map_or(0, u32::from_le_bytes)
}

pub(crate) fn u64_le(bytes: &[u8], at: usize) -> u64 {
    field(bytes, at).map_or(0, u64::from_le_bytes)
}

pub(crate) fn u16_be(bytes: &[u8], at: usize) -> u16 {
    field(bytes, at).map_or(0, u16::from_be_bytes)
}

pub(crate) fn u32_be(bytes: &[u8], at: usize) -> u32 {
    field(bytes, at).map_or(0, u32::from_be_bytes)
}

pub(crate) fn u64_be(bytes: &[u8], at: usize) -> u64 {
    field(bytes, at).map_or(0, u64::from_be_bytes)
}

/// All whole 32-bit numbers.
pub(crate) fn words_le(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks_exact(4).map(|word| u32_le(word, 0))
}

/// All whole UTF-16 units.
pub(crate) fn utf16_le(bytes: &[u8]) -> Vec<u16> {
    bytes.chunks_exact(2).map(|unit| u16_le(unit, 0)).collect()
}

/// Big-endian UTF-16 as text; what is no text becomes U+FFFD.
pub(crate) fn text_be(bytes: &[u8]) -> String {
    let units = bytes.chunks_exact(2);
    let units: Vec<u16> = units.map(|u| u16::from_be_bytes([u[0], u[1]])).collect();
    String::from_utf16_lossy(&units)
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}
