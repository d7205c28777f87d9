//! Scattered clusters as one sequence of bytes.

use std::io::{Read as _, Seek as _, SeekFrom};

use super::record::MftAttribute;
use super::{format_offset, report_damage};
use crate::disk::DiskReader;
use winimg_base::error::{Error, Result};

/// A contiguous part of the sequence.
struct ClusterExtent {
    /// Its start in the sequence.
    start: u64,
    /// Its start in the volume.
    place: u64,
    len: u64,
}

pub(super) struct ClusterStream {
    pieces: Vec<ClusterExtent>,
    len: u64,
}

impl ClusterStream {
    /// Creates a stream of `len` bytes at one place.
    pub fn from_range(place: u64, len: u64) -> Self {
        Self {
            pieces: vec![ClusterExtent {
                start: 0,
                place,
                len,
            }],
            len,
        }
    }

    /// Creates a stream of the written bytes of an attribute. `None`: it has holes or too few
    /// clusters.
    pub fn from_attribute(attribute: &MftAttribute, cluster: u64) -> Option<Self> {
        let mut pieces = Vec::new();
        let mut start = 0;
        for run in &attribute.runs {
            let len = (run.end - run.start) * cluster;
            let place = run.start * cluster;
            pieces.push(ClusterExtent { start, place, len });
            start += len;
        }
        let len = attribute.written;
        (!attribute.has_holes && len <= start).then_some(Self { pieces, len })
    }

    pub fn truncate(self, len: u64) -> Self {
        let len = self.len.min(len);
        Self { len, ..self }
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns the place of a byte in the volume.
    pub fn find_place(&self, at: u64) -> u64 {
        self.find_extent(at)
            .map_or(0, |piece| piece.place + (at - piece.start))
    }

    /// Fills the buffer with the bytes at `at`.
    pub fn read(&self, volume: &DiskReader<'_>, at: u64, buffer: &mut [u8]) -> Result<()> {
        let mut reader = volume.clone();
        let mut done = 0;
        while done < buffer.len() {
            let from = at + done as u64;
            let Some(piece) = self.find_extent(from) else {
                return Err(report_damage(
                    self.find_place(at),
                    "the referenced cluster is out of range",
                ));
            };
            let left = piece.start + piece.len - from;
            let n = left.min((buffer.len() - done) as u64) as usize;
            let place = self.find_place(from);
            reader
                .seek(SeekFrom::Start(place))
                .and_then(|_| reader.read_exact(&mut buffer[done..done + n]))
                .map_err(|e| {
                    Error::failed("cannot read the NTFS volume")
                        .at(format_offset(place))
                        .because(e)
                })?;
            done += n;
        }
        Ok(())
    }

    fn find_extent(&self, at: u64) -> Option<&ClusterExtent> {
        let after = self.pieces.partition_point(|piece| piece.start <= at);
        let piece = self.pieces.get(after.checked_sub(1)?)?;
        (at - piece.start < piece.len).then_some(piece)
    }
}
