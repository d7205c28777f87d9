//! The disk in parts of one MiB, as the pass hands them around, and which of them hold nothing.

use std::ops::{Deref, DerefMut, Range};
use std::sync::{Arc, Mutex};

/// Bytes of a chunk, and of all that is handed around.
pub const CHUNK: u64 = 1 << 20;

/// One MiB of the disk.
pub struct Chunk {
    pub index: u64,
    /// `None`: all zeros.
    pub data: Option<Buffer>,
}

impl Chunk {
    /// Where it lies on the disk, in bytes.
    pub fn offset(&self) -> u64 {
        self.index * CHUNK
    }
}

/// Memory of chunks that are done with, for those to come: what the system gives anew, it clears and maps page by page.
#[derive(Clone, Default)]
pub struct Buffers(Arc<Mutex<Vec<Vec<u8>>>>);

impl Buffers {
    /// One chunk's memory, with whatever the last one left there.
    pub fn take(&self) -> Buffer {
        let spare = self.0.lock().unwrap_or_else(|p| p.into_inner()).pop();
        Buffer {
            bytes: spare.unwrap_or_else(|| vec![0; CHUNK as usize]),
            home: self.clone(),
        }
    }
}

/// One chunk's memory, which is given back when it is dropped.
pub struct Buffer {
    bytes: Vec<u8>,
    home: Buffers,
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut spare = self.home.0.lock().unwrap_or_else(|p| p.into_inner());
        spare.push(bytes);
    }
}

/// Whether all bytes are zero.
pub fn is_zero(bytes: &[u8]) -> bool {
    static ZEROS: [u8; 4096] = [0; 4096];
    bytes.chunks(ZEROS.len()).all(|c| c == &ZEROS[..c.len()])
}

/// Whether any of `ranges` (ascending) touches the chunk.
pub fn touches(ranges: &[Range<u64>], index: u64) -> bool {
    let (start, end) = (index * CHUNK, (index + 1) * CHUNK);
    let first = ranges.partition_point(|r| r.end <= start);
    ranges.get(first).is_some_and(|r| r.start < end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_read_only_where_a_range_touches_it() {
        let ranges = [CHUNK - 1..CHUNK, 3 * CHUNK..5 * CHUNK];
        let touched: Vec<u64> = (0..7).filter(|i| touches(&ranges, *i)).collect();
        assert_eq!(touched, [0, 3, 4]);
    }

    #[test]
    fn the_memory_of_a_chunk_that_is_done_with_is_taken_again() {
        let buffers = Buffers::default();
        let (first, second) = (buffers.take(), buffers.take());
        let place = first.as_ptr();
        drop(first);
        assert_eq!(buffers.take().as_ptr(), place);
        drop(second);
    }

    #[test]
    fn one_set_bit_anywhere_is_not_zero() {
        let mut bytes = vec![0; 10_000];
        assert!(is_zero(&bytes));
        bytes[9_999] = 1;
        assert!(!is_zero(&bytes));
    }
}
