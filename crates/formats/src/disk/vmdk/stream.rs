//! Stream-optimized VMDKs: the header, the markers, and a reader that walks them like a stream
//! reader.
//!
//! Source: VMware, "Virtual Disk Format 5.0" technical note, and vmware/open-vmdk, the maintained
//! reference writer. All numbers are little-endian, all offsets sectors of 512 bytes. Grains are
//! zlib streams (RFC 1950), though the note says 1951. The end-of-stream marker has to be the last
//! sector: a stream reader stops at the first one, so a digest over a file with a tail never
//! matches. Other VMDK kinds are refused.

use std::ops::Range;
use std::sync::Mutex;

use libdeflater::Decompressor;

use super::{MAGIC, TABLE_GRAINS, is_stream};
use crate::bytes::{u32_le, u64_le, words_le};
use crate::disk::{
    Disk, FormatMark, ImageFormat, OpenedImage, RawDisk, SECTOR, check_bounds, conversion_cure,
    join,
};
use winimg_base::error::{Error, Result};

pub(in crate::disk) const FORMAT: ImageFormat = ImageFormat {
    name: "stream-optimised VMDK",
    family: "VMDK",
    mark: FormatMark::Beginning(|ends| ends.has(0, MAGIC) && is_stream(&ends.head)),
    open: |image, _| {
        let opened = StreamVmdk::open(RawDisk::open(image.file)?);
        let disk = opened.map_err(|e| e.or_cure(conversion_cure(image.file)))?;
        Ok(OpenedImage::from_disk(disk))
    },
    to_qemu: |_, _| Ok(None),
    to_node: Some(super::build_node),
};

/// Bytes of a grain, the unit of compression.
pub const GRAIN: u64 = 128 * SECTOR;
/// Sectors of a grain table.
pub const TABLE_SECTORS: u64 = TABLE_GRAINS * 4 / SECTOR;
/// Sectors before the first grain: header, descriptor, padding.
pub const OVERHEAD: u64 = 128;
/// Sectors of the descriptor.
pub const DESCRIPTOR_SECTORS: u64 = 20;
/// Grain directory offset in the header that refers to the footer.
pub const GD_AT_END: u64 = u64::MAX;

/// Type of a marker, with the value of its type field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum VmdkMarker {
    EndOfStream = 0,
    GrainTable = 1,
    GrainDirectory = 2,
    Footer = 3,
}

/// Encodes a marker's sector; `sectors` follow it.
pub fn encode_marker(marker: VmdkMarker, sectors: u64) -> [u8; 512] {
    let mut bytes = [0; 512];
    bytes[..8].copy_from_slice(&sectors.to_le_bytes());
    bytes[12..16].copy_from_slice(&(marker as u32).to_le_bytes());
    bytes
}

/// Encodes the header, or the footer with `gd_offset` set.
pub fn encode_header(capacity_sectors: u64, gd_offset: u64) -> [u8; 512] {
    let mut h = [0; 512];
    h[..4].copy_from_slice(MAGIC);
    h[4..8].copy_from_slice(&3u32.to_le_bytes()); // newer ESXi refuse version 1
    h[8..12].copy_from_slice(&0x0003_0001u32.to_le_bytes()); // newline test, compressed, markers
    h[12..20].copy_from_slice(&capacity_sectors.to_le_bytes());
    h[20..28].copy_from_slice(&(GRAIN / SECTOR).to_le_bytes());
    h[28..36].copy_from_slice(&1u64.to_le_bytes());
    h[36..44].copy_from_slice(&DESCRIPTOR_SECTORS.to_le_bytes());
    h[44..48].copy_from_slice(&(TABLE_GRAINS as u32).to_le_bytes());
    h[56..64].copy_from_slice(&gd_offset.to_le_bytes());
    h[64..72].copy_from_slice(&OVERHEAD.to_le_bytes());
    h[73..77].copy_from_slice(b"\n \r\n");
    h[77..79].copy_from_slice(&1u16.to_le_bytes()); // deflate
    h
}

/// An open stream-optimized VMDK with checked markers.
pub struct StreamVmdk {
    file: RawDisk,
    len: u64,
    /// The sector of each grain's record; 0: the grain is all zeros.
    grains: Vec<u32>,
    last: Mutex<(Option<u64>, Vec<u8>)>,
}

impl StreamVmdk {
    /// Walks `file` (the whole file, or a member of an OVA) from the header to the end-of-stream
    /// marker.
    pub fn open(file: RawDisk) -> Result<Self> {
        let mut walk = VmdkWalk::new(&file)?;
        while walk.read_next()? {}
        Ok(Self {
            len: walk.capacity * SECTOR,
            grains: walk.grains,
            file,
            last: Mutex::new((None, Vec::new())),
        })
    }

    /// Counts the stored grains.
    pub fn stored_grains(&self) -> u64 {
        self.grains.iter().filter(|s| **s != 0).count() as u64
    }

    /// Inflates grain `index` into `buffer` (`GRAIN` bytes). Returns false, without writing to
    /// `buffer`, if the grain is absent. A wrong length or Adler-32 is an error.
    pub fn read_grain(
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
        let why = match inflater.zlib_decompress(record, buffer) {
            Ok(n) if n == buffer.len() => return Ok(true),
            Ok(n) => format!("{n} bytes of {}", buffer.len()),
            Err(e) => e.to_string(),
        };
        let why = format!("grain {index} does not inflate: {why}");
        Err(report_invalid(&self.file, at, why))
    }
}

fn report_invalid(file: &RawDisk, at: u64, why: impl Into<String>) -> Error {
    let path = file.path().display();
    Error::failed(format!("{path} is not a valid stream-optimized VMDK"))
        .at(format!("offset {at} of the VMDK"))
        .found(why.into())
}

/// State of the walk over the markers.
struct VmdkWalk<'f> {
    file: &'f RawDisk,
    header: [u8; 512],
    capacity: u64,
    /// Current sector of the walk.
    sector: u64,
    grains: Vec<u32>,
    /// The lowest grain that may come next.
    next_grain: u64,
    /// Sector of each grain table seen, in order.
    tables: Vec<u32>,
    directory: Option<u64>,
    footer: bool,
}

impl<'f> VmdkWalk<'f> {
    fn new(file: &'f RawDisk) -> Result<Self> {
        let mut header = [0; 512];
        file.read_at(0, &mut header)?;
        let flags = u64::from(u32_le(&header, 8));
        let fields: [(&str, u64, u64); 6] = [
            ("magic", u32_le(&header, 0).into(), 0x564d_444b),
            ("version", u32_le(&header, 4).into(), 3),
            ("flags", flags & 0x0003_0001, 0x0003_0001),
            ("grain size", u64_le(&header, 20), GRAIN / SECTOR),
            ("table entries", u32_le(&header, 44).into(), TABLE_GRAINS),
            ("compression", header[77].into(), 1),
        ];
        for (name, found, expected) in fields {
            if found != expected {
                return Err(
                    report_invalid(file, 0, format!("{name} {found:#x} in the header"))
                        .expected(format!("{expected:#x}")),
                );
            }
        }
        let capacity = u64_le(&header, 12);
        // 2 TiB: sector numbers have 32 bits.
        if !capacity.is_multiple_of(GRAIN / SECTOR) || capacity > 1 << 32 {
            return Err(report_invalid(
                file,
                12,
                format!("a capacity of {capacity} sectors"),
            ));
        }
        let overhead = u64_le(&header, 64);
        if overhead > 1 << 32 {
            let why = format!("an overhead of {overhead} sectors");
            return Err(report_invalid(file, 64, why));
        }
        if !file.len().is_multiple_of(SECTOR) {
            return Err(report_invalid(
                file,
                file.len(),
                "a partial sector at the end",
            ));
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

    fn report_invalid(&self, why: impl Into<String>) -> Error {
        report_invalid(self.file, self.sector * SECTOR, why)
    }

    /// Reads one record or marker. Returns false at the end of the stream.
    fn read_next(&mut self) -> Result<bool> {
        let mut head = [0; 512];
        if (self.sector + 1) * SECTOR > self.file.len() {
            return Err(self.report_invalid("the file ends without an end-of-stream marker"));
        }
        self.file.read_at(self.sector * SECTOR, &mut head)?;
        let (value, size) = (u64_le(&head, 0), u64::from(u32_le(&head, 8)));
        if size > 0 {
            self.add_grain(value, size)?;
            return Ok(true);
        }
        self.sector += 1;
        match u32_le(&head, 12) {
            0 => return self.end().map(|()| false),
            1 => self.check_table(value)?,
            2 => self.check_directory(value)?,
            3 => self.check_footer(value)?,
            kind => return Err(self.report_invalid(format!("a marker of the unknown type {kind}"))),
        }
        self.sector += value;
        Ok(true)
    }

    fn add_grain(&mut self, lba: u64, size: u64) -> Result<()> {
        let grain = lba / (GRAIN / SECTOR);
        if !lba.is_multiple_of(GRAIN / SECTOR) || grain >= self.grains.len() as u64 {
            return Err(self.report_invalid(format!("a grain at sector {lba} of the disk")));
        }
        if grain < self.next_grain {
            return Err(
                self.report_invalid(format!("grain {grain} after grain {}", self.next_grain - 1))
            );
        }
        if size > 2 * GRAIN {
            return Err(self.report_invalid(format!("a grain record of {size} bytes")));
        }
        self.grains[grain as usize] = u32::try_from(self.sector)
            .map_err(|_| self.report_invalid("a grain beyond 2 TiB of the file"))?;
        self.next_grain = grain + 1;
        self.sector += (12 + size).div_ceil(SECTOR);
        Ok(())
    }

    fn read_numbers(&self, count: u64) -> Result<Vec<u32>> {
        let mut bytes = vec![0; (count * 4) as usize];
        self.file.read_at(self.sector * SECTOR, &mut bytes)?;
        Ok(words_le(&bytes).collect())
    }

    fn check_table(&mut self, sectors: u64) -> Result<()> {
        if sectors != TABLE_SECTORS {
            return Err(self.report_invalid(format!("a grain table of {sectors} sectors")));
        }
        let found = self.read_numbers(TABLE_GRAINS)?;
        let first = (self.tables.len() as u64 * TABLE_GRAINS) as usize;
        let last = (first + TABLE_GRAINS as usize).min(self.grains.len());
        let seen = self.grains.get(first..last).unwrap_or_default();
        if found[..seen.len()] != *seen || found[seen.len()..].iter().any(|s| *s != 0) {
            return Err(
                self.report_invalid("a grain table that does not list the grains before it")
            );
        }
        self.tables.push(self.sector as u32);
        Ok(())
    }

    fn check_directory(&mut self, sectors: u64) -> Result<()> {
        let count = (self.grains.len() as u64).div_ceil(TABLE_GRAINS);
        if sectors != (count * 4).div_ceil(SECTOR) || self.read_numbers(count)? != self.tables {
            return Err(
                self.report_invalid("a grain directory that does not list the grain tables")
            );
        }
        self.directory = Some(self.sector);
        Ok(())
    }

    fn check_footer(&mut self, sectors: u64) -> Result<()> {
        let mut footer = [0; 512];
        self.file.read_at(self.sector * SECTOR, &mut footer)?;
        let gd = u64_le(&footer, 56);
        let mut expected = self.header;
        expected[56..64].copy_from_slice(&gd.to_le_bytes());
        if sectors != 1 || footer != expected || Some(gd) != self.directory {
            return Err(
                self.report_invalid("a footer that is not the header with the grain directory")
            );
        }
        self.footer = true;
        Ok(())
    }

    fn end(&self) -> Result<()> {
        let tail = self.file.len() - self.sector * SECTOR;
        if tail > 0 {
            return Err(self.report_invalid(format!("{tail} bytes after the end-of-stream marker")));
        }
        if u64_le(&self.header, 56) == GD_AT_END && !self.footer {
            return Err(self.report_invalid("no footer, and no grain directory in the header"));
        }
        Ok(())
    }
}

impl Disk for StreamVmdk {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_bounds(self.file.path(), offset, buffer.len() as u64, self.len)?;
        // A thread that panicked with the lock left at worst a stale copy, which is dropped here.
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
                if !self.read_grain(grain, &mut Decompressor::new(), &mut Vec::new(), bytes)? {
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
