//! One VHDX file: its structures checked, its blocks read and written. Knows nothing of what is in the parent.
//!
//! A file whose log holds entries is refused: Hyper-V closed it, and so did this writer, which makes no log entries.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::Fault;
use super::format::{
    BITMAP_PRESENT, FULLY, HEADER_BYTES, HEADERS, Header, MIB, Metadata, PARTIALLY, REGIONS,
    Region, Regions, SECTOR, SLOT, Table, file_identifier, offset, state,
};
use crate::at::At as _;

/// Log and metadata lie where Hyper-V puts them: right after the first MiB.
const LOG: u64 = MIB;
const METADATA: u64 = 2 * MIB;
const BAT: u64 = 3 * MIB;

pub struct Vhdx {
    pub path: PathBuf,
    pub header: Header,
    pub metadata: Metadata,
    pub table: Table,
    file: File,
    regions: Regions,
    bat: Vec<u64>,
    /// Entries of `bat` that are not written yet, as a range.
    dirty: Option<(usize, usize)>,
    /// Data were changed since it was opened.
    changed: bool,
    end: u64,
}

/// A new file with nothing in it; there must be none.
pub fn create(path: &Path, metadata: Metadata, data_write: Uuid) -> Result<Vhdx, Fault> {
    let table = Table::of(&metadata);
    let bytes = (table.entries(metadata.parent.is_some()) * 8).next_multiple_of(MIB);
    let region = |offset, length| Region { offset, length };
    let regions = Regions {
        bat: region(
            BAT,
            u32::try_from(bytes).map_err(|_| Fault::Broken("the disk is too large".into()))?,
        ),
        metadata: region(METADATA, MIB as u32),
    };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(|e| Fault::io(path, &e))?;
    let header = Header {
        sequence: 1,
        file_write: Uuid::new_v4(),
        data_write,
        log: Uuid::nil(),
        log_length: MIB as u32,
        log_offset: LOG,
    };
    let second = Header {
        sequence: 2,
        ..header
    };
    let write = || -> io::Result<()> {
        file.set_len(BAT + bytes)?;
        file.write_all_at(&file_identifier(), 0)?;
        for (at, header) in HEADERS.into_iter().zip([header, second]) {
            file.write_all_at(&header.bytes(), at)?;
        }
        for at in REGIONS {
            file.write_all_at(&regions.bytes(), at)?;
        }
        file.write_all_at(&metadata.bytes(), METADATA)?;
        file.sync_all()
    };
    write().map_err(|e| Fault::io(path, &e))?;
    Vhdx::open(path, true)
}

fn bytes_at(file: &File, at: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}

impl Vhdx {
    pub fn open(path: &Path, writable: bool) -> Result<Vhdx, Fault> {
        let io = |e: io::Error| Fault::io(path, &e);
        let broken = |what: &str| Fault::Broken(format!("{}: {what}", path.display()));
        let file = OpenOptions::new()
            .read(true)
            .write(writable)
            .open(path)
            .map_err(io)?;
        let end = file.metadata().map_err(io)?.len();
        if end < BAT || bytes_at(&file, 0, 8).map_err(io)? != b"vhdxfile" {
            return Err(broken("it is no VHDX file"));
        }
        let mut headers = Vec::new();
        for at in HEADERS {
            headers.extend(Header::read(
                &bytes_at(&file, at, HEADER_BYTES).map_err(io)?,
            ));
        }
        let header = headers
            .into_iter()
            .max_by_key(|header| header.sequence)
            .ok_or_else(|| broken("neither header is valid"))?;
        if !header.log.is_nil() {
            return Err(broken("its log holds entries: it was not closed"));
        }
        let mut regions = Vec::new();
        for at in REGIONS {
            regions.extend(Regions::read(&bytes_at(&file, at, SLOT).map_err(io)?));
        }
        let regions = *regions
            .first()
            .ok_or_else(|| broken("neither region table is valid"))?;
        let inside = |region: &Region| {
            region.offset >= MIB
                && region.offset.is_multiple_of(MIB)
                && region.length < 256 << 20
                && region.offset + u64::from(region.length) <= end
        };
        if !inside(&regions.bat) || !inside(&regions.metadata) {
            return Err(broken("a region lies outside of the file"));
        }
        let length = regions.metadata.length as usize;
        let metadata =
            Metadata::read(&bytes_at(&file, regions.metadata.offset, length).map_err(io)?)
                .map_err(|fault| broken(&fault.to_string()))?;
        let table = Table::of(&metadata);
        let entries = table.entries(metadata.parent.is_some()) as usize;
        if entries * 8 > regions.bat.length as usize {
            return Err(broken("its block allocation table is too short"));
        }
        let bat: Vec<u64> = bytes_at(&file, regions.bat.offset, entries * 8)
            .map_err(io)?
            .chunks_exact(8)
            .map(|entry| {
                entry
                    .iter()
                    .rev()
                    .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
            })
            .collect();
        let vhdx = Vhdx {
            path: path.to_owned(),
            header,
            metadata,
            table,
            file,
            regions,
            bat,
            dirty: None,
            changed: false,
            end,
        };
        vhdx.check_table()?;
        Ok(vhdx)
    }

    /// Every block lies in the file, and no two overlap.
    fn check_table(&self) -> Result<(), Fault> {
        let mut slots = vec![];
        let block = u64::from(self.metadata.block_size);
        for number in 0..self.table.blocks {
            let entry = self.entry(number);
            match state(entry) {
                FULLY => slots.push((offset(entry), block)),
                PARTIALLY if self.is_differencing() && self.bitmap_at(number).is_some() => {
                    slots.push((offset(entry), block));
                }
                0..=3 => {}
                other => {
                    let what = format!("block {number} has state {other}");
                    return Err(Fault::Broken(format!("{}: {what}", self.path.display())));
                }
            }
        }
        if self.is_differencing() {
            let chunks = (0..self.table.blocks).step_by(self.table.ratio as usize);
            slots.extend(chunks.filter_map(|first| Some((self.bitmap_at(first)?, MIB))));
        }
        slots.sort_unstable();
        let bat_end = self.regions.bat.offset + u64::from(self.regions.bat.length);
        let free = self.regions.metadata.offset + u64::from(self.regions.metadata.length);
        let mut last = bat_end.max(free);
        for (at, length) in slots {
            if at < last || at + length > self.end {
                let what = format!("a block at {at} overlaps or lies outside of the file");
                return Err(Fault::Broken(format!("{}: {what}", self.path.display())));
            }
            last = at + length;
        }
        Ok(())
    }

    pub fn is_differencing(&self) -> bool {
        self.metadata.parent.is_some()
    }

    pub fn block_size(&self) -> u64 {
        u64::from(self.metadata.block_size)
    }

    pub fn entry(&self, block: u64) -> u64 {
        self.bat[self.table.payload(block)]
    }

    fn bitmap_at(&self, block: u64) -> Option<u64> {
        let entry = self.bat[self.table.bitmap(block)];
        (state(entry) == BITMAP_PRESENT).then(|| offset(entry))
    }

    /// Where the bits of a block's sectors are, and how many bytes they take.
    fn bits_at(&self, block: u64) -> Option<(u64, usize)> {
        let bytes = self.block_size() / SECTOR / 8;
        let at = self.bitmap_at(block)? + block % self.table.ratio * bytes;
        Some((at, bytes as usize))
    }

    /// Which sectors of a partially present block this file holds, as bits: the lowest bit of the first byte comes first.
    pub fn bits(&self, block: u64) -> Result<Vec<u8>, Fault> {
        match self.bits_at(block) {
            Some((at, bytes)) => self.raw(at, bytes),
            None => Ok(vec![0; (self.block_size() / SECTOR / 8) as usize]),
        }
    }

    fn raw(&self, at: u64, length: usize) -> Result<Vec<u8>, Fault> {
        bytes_at(&self.file, at, length).map_err(|e| Fault::io(&self.path, &e))
    }

    /// Bytes of a present block, from `within` on.
    pub fn payload(&self, block: u64, within: u64, length: usize) -> Result<Vec<u8>, Fault> {
        self.raw(offset(self.entry(block)) + within, length)
    }

    fn put(&mut self, at: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.begin()?;
        self.file
            .write_all_at(bytes, at)
            .map_err(|e| Fault::io(&self.path, &e))
    }

    /// Before the first change both headers get new GUIDs, so that a child made of the old data notices.
    fn begin(&mut self) -> Result<(), Fault> {
        if std::mem::replace(&mut self.changed, true) {
            return Ok(());
        }
        self.header.data_write = Uuid::new_v4();
        self.write_headers()
    }

    /// [MS-VHDX] 2.2.2: the header that is not current is written and flushed, then the other.
    fn write_headers(&mut self) -> Result<(), Fault> {
        self.header.file_write = Uuid::new_v4();
        let io = |e: io::Error| Fault::io(&self.path, &e);
        for _ in 0..2 {
            let slots = HEADERS.map(|at| bytes_at(&self.file, at, HEADER_BYTES).ok());
            let sequence =
                |slot: &Option<Vec<u8>>| Header::read(slot.as_ref()?).map(|h| h.sequence);
            let older = usize::from(sequence(&slots[1]) < sequence(&slots[0]));
            self.header.sequence += 1;
            self.file
                .write_all_at(&self.header.bytes(), HEADERS[older])
                .and_then(|()| self.file.sync_data())
                .map_err(io)?;
        }
        Ok(())
    }

    fn set_entry(&mut self, index: usize, entry: u64) {
        self.bat[index] = entry;
        let (first, last) = self.dirty.unwrap_or((index, index));
        self.dirty = Some((first.min(index), last.max(index)));
    }

    pub fn set_state(&mut self, block: u64, entry: u64) -> Result<(), Fault> {
        self.begin()?;
        self.set_entry(self.table.payload(block), entry);
        Ok(())
    }

    /// Room at the end of the file, which reads as zeros.
    fn grow(&mut self, bytes: u64) -> Result<u64, Fault> {
        self.begin()?;
        let at = self.end.next_multiple_of(MIB);
        self.end = at + bytes;
        self.file
            .set_len(self.end)
            .map_err(|e| Fault::io(&self.path, &e))?;
        Ok(at)
    }

    /// Gives a block room and this state; what was in it before is not kept.
    pub fn allocate(&mut self, block: u64, becomes: u64) -> Result<(), Fault> {
        let at = self.grow(self.block_size())?;
        if becomes == PARTIALLY {
            if self.bitmap_at(block).is_none() {
                let bitmap = self.grow(MIB)?;
                self.set_entry(self.table.bitmap(block), bitmap | BITMAP_PRESENT);
            }
            // Bits of an earlier life of this block.
            self.set_bits(block, &vec![0; (self.block_size() / SECTOR / 8) as usize])?;
        }
        self.set_state(block, at | becomes)
    }

    pub fn set_bits(&mut self, block: u64, bits: &[u8]) -> Result<(), Fault> {
        match self.bits_at(block) {
            Some((at, _)) => self.put(at, bits),
            None => Err(Fault::Broken(format!("block {block} has no sector bitmap"))),
        }
    }

    pub fn write(&mut self, block: u64, within: u64, bytes: &[u8]) -> Result<(), Fault> {
        let at = offset(self.entry(block)) + within;
        self.put(at, bytes)
    }

    /// What refers to blocks is written after the blocks.
    pub fn close(mut self) -> Result<(), Fault> {
        let io = |e: io::Error| Fault::io(&self.path, &e);
        if self.changed {
            self.file.sync_data().map_err(io)?;
        }
        if let Some((first, last)) = self.dirty.take() {
            let bytes: Vec<u8> = self.bat[first..=last]
                .iter()
                .flat_map(|entry| entry.to_le_bytes())
                .collect();
            let at = self.regions.bat.offset + first as u64 * 8;
            self.file
                .write_all_at(&bytes, at)
                .and_then(|()| self.file.sync_all())
                .map_err(io)?;
        }
        Ok(())
    }

    /// Takes back the new data id that the first write gave: the data are the same as another file's.
    pub fn keep_data_id(&mut self, data_write: Uuid) -> Result<(), Fault> {
        self.changed = true;
        self.header.data_write = data_write;
        self.write_headers()
    }

    /// Names another parent. The disk's data stay what they were.
    pub fn set_metadata(&mut self, metadata: Metadata) -> Result<(), Fault> {
        self.write_headers()?;
        self.metadata = metadata;
        self.file
            .write_all_at(&self.metadata.bytes(), self.regions.metadata.offset)
            .and_then(|()| self.file.sync_all())
            .map_err(|e| Fault::io(&self.path, &e))
    }
}
