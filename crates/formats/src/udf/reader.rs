//! `Read + Seek` over a file's extents.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use super::Data;
use crate::disk::Disk;

/// An open file of a medium.
#[derive(Clone)]
pub struct File {
    bytes: Arc<dyn Disk>,
    data: Data,
    size: u64,
    position: u64,
}

impl File {
    pub(super) fn new(bytes: Arc<dyn Disk>, data: Data, size: u64) -> Self {
        Self {
            bytes,
            data,
            size,
            position: 0,
        }
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.size.saturating_sub(self.position);
        let wanted = (buffer.len() as u64).min(left) as usize;
        if wanted == 0 {
            return Ok(0);
        }
        let n = read_some(
            &*self.bytes,
            &self.data,
            self.position,
            &mut buffer[..wanted],
        )?;
        self.position += n as u64;
        Ok(n)
    }
}

/// Reads at least one byte from `position`, which lies inside the file.
pub(super) fn read_some(
    bytes: &dyn Disk,
    data: &Data,
    position: u64,
    buffer: &mut [u8],
) -> io::Result<usize> {
    let extents = match data {
        Data::Embedded(all) => {
            let rest = usize::try_from(position)
                .ok()
                .and_then(|p| all.get(p..))
                .unwrap_or_default();
            let n = rest.len().min(buffer.len());
            if n == 0 {
                return Err(short(position));
            }
            buffer[..n].copy_from_slice(&rest[..n]);
            return Ok(n);
        }
        Data::Extents(extents) => extents,
    };
    let mut start = 0u64;
    for extent in extents {
        let end = start.saturating_add(extent.length);
        if position >= end {
            start = end;
            continue;
        }
        let n = (buffer.len() as u64).min(end - position) as usize;
        match extent.at {
            Some(at) => {
                let place = at.checked_add(position - start);
                let place = place.ok_or_else(|| short(position))?;
                bytes
                    .read_at(place, &mut buffer[..n])
                    .map_err(io::Error::other)?;
            }
            None => buffer[..n].fill(0),
        }
        return Ok(n);
    }
    Err(short(position))
}

fn short(position: u64) -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        format!("the file's extents end at or before its byte {position}"),
    )
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(n) => Some(n),
            SeekFrom::End(n) => self.size.checked_add_signed(n),
            SeekFrom::Current(n) => self.position.checked_add_signed(n),
        };
        self.position =
            target.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "seek before 0"))?;
        Ok(self.position)
    }
}
