//! Bounds-checked reading of a medium's bytes: every offset and length comes from input and is believed by nobody.
//!
//! Refuses to read beyond the end; knows no format.

use std::fs::File;
use std::io;
use std::path::Path;

use winimg_base::io::Positioned as _;

/// The bytes of a medium, readable from several threads at once.
#[derive(Debug)]
pub enum Bytes {
    File { file: File, len: u64 },
    Memory(Vec<u8>),
}

impl Bytes {
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self::File { file, len })
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        match self {
            Self::File { len, .. } => *len,
            Self::Memory(bytes) => bytes.len() as u64,
        }
    }

    /// Fills the buffer, or fails with `UnexpectedEof`.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset
            .checked_add(buffer.len() as u64)
            .filter(|end| *end <= self.size());
        if end.is_none() {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!(
                    "{} bytes at offset {offset} lie beyond the end at {}",
                    buffer.len(),
                    self.size()
                ),
            ));
        }
        match self {
            Self::File { file, .. } => file.read_exact_at(buffer, offset),
            Self::Memory(bytes) => {
                let start = offset as usize;
                buffer.copy_from_slice(&bytes[start..start + buffer.len()]);
                Ok(())
            }
        }
    }

    /// `length` bytes as a new vector; the caller has limited `length`.
    pub fn take(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        if length as u64 > self.size() {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("{length} bytes are more than the whole file"),
            ));
        }
        let mut buffer = vec![0; length];
        self.read_at(&mut buffer, offset)?;
        Ok(buffer)
    }
}

/// Little-endian field of a structure; zero beyond its end, so that a short structure fails its own check instead of
/// the program.
pub fn u16_le(bytes: &[u8], at: usize) -> u16 {
    field::<2>(bytes, at).map_or(0, u16::from_le_bytes)
}

pub fn u32_le(bytes: &[u8], at: usize) -> u32 {
    field::<4>(bytes, at).map_or(0, u32::from_le_bytes)
}

pub fn u64_le(bytes: &[u8], at: usize) -> u64 {
    field::<8>(bytes, at).map_or(0, u64::from_le_bytes)
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}
