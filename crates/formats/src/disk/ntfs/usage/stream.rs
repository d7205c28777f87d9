//! What lies in clusters here and there, as one sequence of bytes.

use std::io::{Read as _, Seek as _, SeekFrom};

use super::record::Attribute;
use super::{damaged, offset};
use crate::disk::DiskReader;
use winimg_base::error::{Error, Result};

/// A part of it that lies in one piece.
struct Piece {
    /// Where it begins in the sequence.
    start: u64,
    /// Where it begins in the volume.
    place: u64,
    len: u64,
}

pub(super) struct Stream {
    pieces: Vec<Piece>,
    len: u64,
}

impl Stream {
    /// `len` bytes at one place.
    pub fn plain(place: u64, len: u64) -> Self {
        let start = 0;
        let pieces = vec![Piece { start, place, len }];
        Self { pieces, len }
    }

    /// An attribute's bytes as far as they were ever written. `None`: it has holes, or fewer clusters than bytes.
    pub fn of(attribute: &Attribute, cluster: u64) -> Option<Self> {
        let mut pieces = Vec::new();
        let mut start = 0;
        for run in &attribute.runs {
            let len = (run.end - run.start) * cluster;
            let place = run.start * cluster;
            pieces.push(Piece { start, place, len });
            start += len;
        }
        let len = attribute.written;
        (!attribute.has_holes && len <= start).then_some(Self { pieces, len })
    }

    pub fn cut(self, len: u64) -> Self {
        let len = self.len.min(len);
        Self { len, ..self }
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    /// Where a byte lies in the volume.
    pub fn place(&self, at: u64) -> u64 {
        self.piece(at)
            .map_or(0, |piece| piece.place + (at - piece.start))
    }

    /// Fills the buffer with the bytes at `at`.
    pub fn read(&self, volume: &DiskReader<'_>, at: u64, buffer: &mut [u8]) -> Result<()> {
        let mut reader = volume.clone();
        let mut done = 0;
        while done < buffer.len() {
            let from = at + done as u64;
            let Some(piece) = self.piece(from) else {
                return Err(damaged(self.place(at), "what should lie here has no place"));
            };
            let left = piece.start + piece.len - from;
            let n = left.min((buffer.len() - done) as u64) as usize;
            let place = self.place(from);
            reader
                .seek(SeekFrom::Start(place))
                .and_then(|_| reader.read_exact(&mut buffer[done..done + n]))
                .map_err(|e| {
                    Error::failed("the NTFS volume can't be read")
                        .at(offset(place))
                        .because(e)
                })?;
            done += n;
        }
        Ok(())
    }

    fn piece(&self, at: u64) -> Option<&Piece> {
        let after = self.pieces.partition_point(|piece| piece.start <= at);
        let piece = self.pieces.get(after.checked_sub(1)?)?;
        (at - piece.start < piece.len).then_some(piece)
    }
}
