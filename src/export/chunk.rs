//! Chunks of one MiB of the disk, as the pass processes them, and the detection of zeros.

use std::ops::{Deref, DerefMut, Range};
use std::sync::{Arc, Mutex};

/// Size of a chunk in bytes.
pub const CHUNK: u64 = 1 << 20;

/// One MiB of the disk.
pub struct DiskChunk {
    pub index: u64,
    /// `None`: all zeros.
    pub data: Option<ChunkBuffer>,
}

impl DiskChunk {
    /// Returns the offset on the disk in bytes.
    pub fn offset(&self) -> u64 {
        self.index * CHUNK
    }
}

/// A pool of chunk buffers: the system clears and maps fresh memory page by page.
#[derive(Clone, Default)]
pub struct ChunkBuffers(Arc<Mutex<Vec<Vec<u8>>>>);

impl ChunkBuffers {
    /// Returns a buffer with arbitrary content.
    pub fn take(&self) -> ChunkBuffer {
        let spare = self.0.lock().unwrap_or_else(|p| p.into_inner()).pop();
        ChunkBuffer {
            bytes: spare.unwrap_or_else(|| vec![0; CHUNK as usize]),
            home: self.clone(),
        }
    }
}

/// A chunk's buffer, returned to the pool on drop.
pub struct ChunkBuffer {
    bytes: Vec<u8>,
    home: ChunkBuffers,
}

impl Deref for ChunkBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for ChunkBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for ChunkBuffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut spare = self.home.0.lock().unwrap_or_else(|p| p.into_inner());
        spare.push(bytes);
    }
}

/// Returns true if all bytes are zero.
pub fn is_zero(bytes: &[u8]) -> bool {
    static ZEROS: [u8; 4096] = [0; 4096];
    bytes.chunks(ZEROS.len()).all(|c| c == &ZEROS[..c.len()])
}

/// Returns true if any of `ranges` (ascending) overlaps the chunk.
pub fn has_overlap(ranges: &[Range<u64>], index: u64) -> bool {
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
        let touched: Vec<u64> = (0..7).filter(|i| has_overlap(&ranges, *i)).collect();
        assert_eq!(touched, [0, 3, 4]);
    }

    #[test]
    fn the_memory_of_a_chunk_that_is_done_with_is_taken_again() {
        let buffers = ChunkBuffers::default();
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
