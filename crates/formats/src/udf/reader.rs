//! `Read + Seek` over a file's extents.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use super::MediumData;
use crate::disk::Disk;

/// An open file of a medium.
#[derive(Clone)]
pub struct MediumFileReader {
    bytes: Arc<dyn Disk>,
    data: MediumData,
    size: u64,
    position: u64,
}

impl MediumFileReader {
    pub(super) fn new(bytes: Arc<dyn Disk>, data: MediumData, size: u64) -> Self {
        Self {
            bytes,
            data,
            size,
            position: 0,
        }
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl Read for MediumFileReader {
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

/// Reads at least one byte from `position`, which is inside the file.
pub(super) fn read_some(
    bytes: &dyn Disk,
    data: &MediumData,
    position: u64,
    buffer: &mut [u8],
) -> io::Result<usize> {
    let extents = match data {
        MediumData::Embedded(all) => {
            let rest = usize::try_from(position)
                .ok()
                .and_then(|p| all.get(p..))
                .unwrap_or_default();
            let n = rest.len().min(buffer.len());
            if n == 0 {
                return Err(report_short(position));
            }
            buffer[..n].copy_from_slice(&rest[..n]);
            return Ok(n);
        }
        MediumData::Extents(extents) => extents,
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
                let place = at
                    .checked_add(position - start)
                    .ok_or_else(|| report_short(position))?;
                bytes
                    .read_at(place, &mut buffer[..n])
                    .map_err(io::Error::other)?;
            }
            None => buffer[..n].fill(0),
        }
        return Ok(n);
    }
    Err(report_short(position))
}

fn report_short(position: u64) -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        format!("the file's extents end at or before its byte {position}"),
    )
}

impl Seek for MediumFileReader {
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
