//! Stream-optimised VMDKs: the header, the markers, and a reader that walks them as a stream reader does.
//!
//! Source: VMware, "Virtual Disk Format 5.0" technical note, and vmware/open-vmdk, the living reference writer. All
//! numbers are little-endian, all offsets sectors of 512 bytes. Grains are zlib streams (RFC 1950), though the note says
//! 1951. The end-of-stream marker has to be the last sector: a reader that takes the file as a stream stops at the first
//! one, so a digest over a file with a tail never matches. Other VMDK kinds are refused.

use std::ops::Range;
use std::sync::Mutex;

use libdeflater::Decompressor;

use super::{Disk, RawDisk, SECTOR, join, within};
use crate::bytes::{u32_le, u64_le, words_le};
use winimg_base::error::{Error, Result};

/// Bytes of a grain, the unit of compression.
pub const GRAIN: u64 = 128 * SECTOR;
/// Grains that one grain table covers; VMware's library knows no other number.
pub const TABLE_GRAINS: u64 = 512;
/// Sectors of a grain table.
pub const TABLE_SECTORS: u64 = TABLE_GRAINS * 4 / SECTOR;
/// Sectors before the first grain: header, descriptor, padding.
pub const OVERHEAD: u64 = 128;
/// Sectors of the descriptor.
pub const DESCRIPTOR_SECTORS: u64 = 20;
/// Says "see the footer" in the header's grain directory offset.
pub const GD_AT_END: u64 = u64::MAX;

/// What follows a marker. The number is the type field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Marker {
    EndOfStream = 0,
    GrainTable = 1,
    GrainDirectory = 2,
    Footer = 3,
}

/// A marker's sector; `sectors` follow it.
pub fn marker(marker: Marker, sectors: u64) -> [u8; 512] {
    let mut bytes = [0; 512];
    bytes[..8].copy_from_slice(&sectors.to_le_bytes());
    bytes[12..16].copy_from_slice(&(marker as u32).to_le_bytes());
    bytes
}

/// The header, and with `gd_offset` filled in the footer.
pub fn header(capacity_sectors: u64, gd_offset: u64) -> [u8; 512] {
    let mut h = [0; 512];
    let mut put = |at: usize, bytes: &[u8]| h[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"KDMV");
    put(4, &3u32.to_le_bytes()); // newer ESXi refuse version 1
    put(8, &0x0003_0001u32.to_le_bytes()); // newline test, compressed, markers
    put(12, &capacity_sectors.to_le_bytes());
    put(20, &(GRAIN / SECTOR).to_le_bytes());
    put(28, &1u64.to_le_bytes());
    put(36, &DESCRIPTOR_SECTORS.to_le_bytes());
    put(44, &(TABLE_GRAINS as u32).to_le_bytes());
    put(56, &gd_offset.to_le_bytes());
    put(64, &OVERHEAD.to_le_bytes());
    put(73, b"\n \r\n");
    put(77, &1u16.to_le_bytes()); // deflate
    h
}

/// An open stream-optimised VMDK whose markers were all walked.
pub struct StreamVmdk {
    file: RawDisk,
    len: u64,
    /// The sector of each grain's record; 0: the grain is all zeros.
    grains: Vec<u32>,
    last: Mutex<(Option<u64>, Vec<u8>)>,
}

impl StreamVmdk {
    /// Walks `file` (the whole file, or a member of an OVA) from the header to the end-of-stream marker.
    pub fn open(file: RawDisk) -> Result<Self> {
        let mut walk = Walk::new(&file)?;
        while walk.step()? {}
        Ok(Self {
            len: walk.capacity * SECTOR,
            grains: walk.grains,
            file,
            last: Mutex::new((None, Vec::new())),
        })
    }

    /// Grains that are stored.
    pub fn stored_grains(&self) -> u64 {
        self.grains.iter().filter(|s| **s != 0).count() as u64
    }

    /// Inflates grain `index` into `buffer` (`GRAIN` bytes). `false`: the grain is absent, and `buffer` is untouched.
    /// A wrong length or Adler-32 is an error.
    pub fn grain(
        &self,
        index: u64,
        inflater: &mut Decompressor,
        record: &mut Vec<u8>,
        buffer: &mut [u8],
    ) -> Result<bool> {
        let sector = u64::from(self.grains[index as usize]);
        if sector == 0 {
            return Ok(false);
        }
        let at = sector * SECTOR;
        let mut head = [0; 12];
        self.file.read_at(at, &mut head)?;
        record.resize(u32_le(&head, 8) as usize, 0);
        self.file.read_at(at + 12, record)?;
        let wrong = |why: String| {
            let why = format!("grain {index} does not inflate: {why}");
            wrong(&self.file, at, why)
        };
        match inflater.zlib_decompress(record, buffer) {
            Ok(n) if n == buffer.len() => Ok(true),
            Ok(n) => Err(wrong(format!("{n} bytes of {}", buffer.len()))),
            Err(e) => Err(wrong(e.to_string())),
        }
    }
}

fn wrong(file: &RawDisk, at: u64, why: impl Into<String>) -> Error {
    let path = file.path().display();
    Error::failed(format!(
        "{path} is not a stream-optimised VMDK that a stream reader accepts"
    ))
    .at(format!("offset {at} of the VMDK"))
    .found(why.into())
}

/// The walk over the markers, and what it has seen.
struct Walk<'f> {
    file: &'f RawDisk,
    header: [u8; 512],
    capacity: u64,
    /// Where the walk stands.
    sector: u64,
    grains: Vec<u32>,
    /// The lowest grain that may come next.
    next_grain: u64,
    /// Sector of each grain table seen, in order.
    tables: Vec<u32>,
    directory: Option<u64>,
    footer: bool,
}

impl<'f> Walk<'f> {
    fn new(file: &'f RawDisk) -> Result<Self> {
        let mut header = [0; 512];
        file.read_at(0, &mut header)?;
        let half = |at: usize| u64::from(u32_le(&header, at));
        let fields = [
            ("magic", half(0), 0x564d_444b),
            ("version", half(4), 3),
            ("flags", half(8) & 0x0003_0001, 0x0003_0001),
            ("grain size", u64_le(&header, 20), GRAIN / SECTOR),
            ("table entries", half(44), TABLE_GRAINS),
            ("compression", header[77].into(), 1),
        ];
        for (name, found, expected) in fields {
            if found != expected {
                return Err(wrong(file, 0, format!("{name} {found:#x} in the header"))
                    .expected(format!("{expected:#x}")));
            }
        }
        let capacity = u64_le(&header, 12);
        // 2 TiB: sector numbers have 32 bits.
        if !capacity.is_multiple_of(GRAIN / SECTOR) || capacity > 1 << 32 {
            return Err(wrong(file, 12, format!("a capacity of {capacity} sectors")));
        }
        let overhead = u64_le(&header, 64);
        if overhead > 1 << 32 {
            let why = format!("an overhead of {overhead} sectors");
            return Err(wrong(file, 64, why));
        }
        if !file.len().is_multiple_of(SECTOR) {
            return Err(wrong(file, file.len(), "a piece of a sector at the end"));
        }
        Ok(Self {
            file,
            capacity,
            sector: overhead,
            header,
            grains: vec![0; (capacity * SECTOR / GRAIN) as usize],
            next_grain: 0,
            tables: Vec::new(),
            directory: None,
            footer: false,
        })
    }

    fn wrong(&self, why: impl Into<String>) -> Error {
        wrong(self.file, self.sector * SECTOR, why)
    }

    /// One record or marker. `false` at the end of the stream.
    fn step(&mut self) -> Result<bool> {
        let mut head = [0; 512];
        if (self.sector + 1) * SECTOR > self.file.len() {
            return Err(self.wrong("the file ends without an end-of-stream marker"));
        }
        self.file.read_at(self.sector * SECTOR, &mut head)?;
        let (value, size) = (u64_le(&head, 0), u64::from(u32_le(&head, 8)));
        if size > 0 {
            self.grain(value, size)?;
            return Ok(true);
        }
        self.sector += 1;
        match u32_le(&head, 12) {
            0 => return self.end().map(|()| false),
            1 => self.table(value)?,
            2 => self.directory(value)?,
            3 => self.footer(value)?,
            kind => return Err(self.wrong(format!("a marker of the unknown type {kind}"))),
        }
        self.sector += value;
        Ok(true)
    }

    fn grain(&mut self, lba: u64, size: u64) -> Result<()> {
        let grain = lba / (GRAIN / SECTOR);
        if !lba.is_multiple_of(GRAIN / SECTOR) || grain >= self.grains.len() as u64 {
            return Err(self.wrong(format!("a grain at sector {lba} of the disk")));
        }
        if grain < self.next_grain {
            return Err(self.wrong(format!("grain {grain} after grain {}", self.next_grain - 1)));
        }
        if size > 2 * GRAIN {
            return Err(self.wrong(format!("a grain record of {size} bytes")));
        }
        self.grains[grain as usize] = u32::try_from(self.sector)
            .map_err(|_| self.wrong("a grain beyond 2 TiB of the file"))?;
        self.next_grain = grain + 1;
        self.sector += (12 + size).div_ceil(SECTOR);
        Ok(())
    }

    fn numbers(&self, count: u64) -> Result<Vec<u32>> {
        let mut bytes = vec![0; (count * 4) as usize];
        self.file.read_at(self.sector * SECTOR, &mut bytes)?;
        Ok(words_le(&bytes).collect())
    }

    fn table(&mut self, sectors: u64) -> Result<()> {
        if sectors != TABLE_SECTORS {
            return Err(self.wrong(format!("a grain table of {sectors} sectors")));
        }
        let found = self.numbers(TABLE_GRAINS)?;
        let first = (self.tables.len() as u64 * TABLE_GRAINS) as usize;
        let last = (first + TABLE_GRAINS as usize).min(self.grains.len());
        let seen = self.grains.get(first..last).unwrap_or_default();
        if found[..seen.len()] != *seen || found[seen.len()..].iter().any(|s| *s != 0) {
            return Err(self.wrong("a grain table that does not list the grains before it"));
        }
        self.tables.push(self.sector as u32);
        Ok(())
    }

    fn directory(&mut self, sectors: u64) -> Result<()> {
        let count = (self.grains.len() as u64).div_ceil(TABLE_GRAINS);
        if sectors != (count * 4).div_ceil(SECTOR) || self.numbers(count)? != self.tables {
            return Err(self.wrong("a grain directory that does not list the grain tables"));
        }
        self.directory = Some(self.sector);
        Ok(())
    }

    fn footer(&mut self, sectors: u64) -> Result<()> {
        let mut footer = [0; 512];
        self.file.read_at(self.sector * SECTOR, &mut footer)?;
        let gd = u64_le(&footer, 56);
        let mut expected = self.header;
        expected[56..64].copy_from_slice(&gd.to_le_bytes());
        if sectors != 1 || footer != expected || Some(gd) != self.directory {
            return Err(self.wrong("a footer that is not the header with the grain directory"));
        }
        self.footer = true;
        Ok(())
    }

    fn end(&self) -> Result<()> {
        let tail = self.file.len() - self.sector * SECTOR;
        if tail > 0 {
            return Err(self.wrong(format!("{tail} bytes after the end-of-stream marker")));
        }
        if u64_le(&self.header, 56) == GD_AT_END && !self.footer {
            return Err(self.wrong("no footer, and no grain directory in the header"));
        }
        Ok(())
    }
}

impl Disk for StreamVmdk {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        within(self.file.path(), offset, buffer.len() as u64, self.len)?;
        // A thread that panicked while holding this left at worst a stale copy, which is dropped here.
        let mut last = self.last.lock().unwrap_or_else(|poisoned| {
            let mut guard = poisoned.into_inner();
            guard.0 = None;
            guard
        });
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let (grain, within) = (at / GRAIN, (at % GRAIN) as usize);
            let n = (GRAIN as usize - within).min(buffer.len() - done);
            let (held, bytes) = &mut *last;
            if *held != Some(grain) {
                *held = None;
                bytes.resize(GRAIN as usize, 0);
                if !self.grain(grain, &mut Decompressor::new(), &mut Vec::new(), bytes)? {
                    bytes.fill(0);
                }
                *held = Some(grain);
            }
            buffer[done..done + n].copy_from_slice(&bytes[within..within + n]);
            done += n;
        }
        Ok(())
    }

    fn data(&self) -> Result<Vec<Range<u64>>> {
        let mut ranges = Vec::new();
        for (i, _) in self.grains.iter().enumerate().filter(|(_, s)| **s != 0) {
            let start = i as u64 * GRAIN;
            join(&mut ranges, start..start + GRAIN);
        }
        Ok(ranges)
    }
}
