//! Checks that every byte of a compound file belongs to a stream or a table.
//!
//! A package's digest covers its streams, so other bytes are unsigned: an archive appended to an
//! MSI, bytes in free or unused sectors, streams outside all storages, two streams in one sector.
//! These are refused with a specific message. The `cfb` crate reads the streams; its strict mode
//! cannot be used, because osslsigncode writes one entry too many into the mini FAT, so this module
//! implements the rules of that mode that a signature depends on. (Microsoft: MS-CFB 2.2 to 2.6)

mod directory;
mod used_sectors;

use std::fmt;
use std::ops::Range;

use super::super::uncovered::{UncoveredPlace, UncoveredRange};
use super::super::{RefusalReason, SignatureRefusal};
use super::source::{SignedSource, u16_at, u32_at};
use directory::{
    check_free_entry, find_reachable, is_signature, name_alone, not_zero, signed_alone,
};
use used_sectors::UsedSectors;

/// Stream of the root that contains the signature. (Windows Installer: MsiDigitalSignature table)
pub(super) const SIGNATURE: &str = "\u{5}DigitalSignature";

const MAGIC: [u8; 8] = [0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1];
const HEADER: usize = 512;
/// Size of a directory entry, and the offsets in it of its kind, its first sector and its length.
const ENTRY_SIZE: usize = 128;
const TYPE_OFFSET: usize = 66;
const START_OFFSET: usize = 116;
const SIZE_OFFSET: usize = 120;
const FREESECT: u32 = 0xffff_ffff;
const MAXREGSECT: u32 = 0xffff_fffa;
/// Streams shorter than this are stored in the mini stream, which is that of the root.
const MINI_STREAM_CUTOFF: u64 = 4096;
const MINI_SECTOR_SIZE: u64 = 64;
const STREAM: u8 = 2;
/// Maximum size of the directory, or of the mini FAT: a quarter of a million streams.
const MAX_TABLE_SIZE: u64 = 32 << 20;

/// Message for header counts that disagree with the tables: readers that trust the counts would
/// find other streams.
const MISCOUNTED: &str = "its header has a wrong number of tables";
/// Maximum number of bytes in unused mini sectors, in free entries and after the ends of streams.
const MAX_SLACK: u64 = 64 << 10;

/// The bytes of a file outside its streams.
#[derive(Debug, Default)]
pub(super) struct CompoundSlack {
    /// Number of bytes that are not zero in free mini sectors and entries, and after the ends of
    /// streams. Writers need not clear those, so a few are reported but not refused.
    pub(super) left: u64,
    /// Unordered ranges of the streams, each with its directory index.
    streams: Vec<(usize, Range<u64>)>,
    /// Number of the signature's stream.
    signature: Option<usize>,
}

/// Returns the ranges of a file outside its streams, and those of the signature's stream.
pub(super) fn list_uncovered(
    file: &mut SignedSource,
) -> Result<Vec<UncoveredRange>, SignatureRefusal> {
    let mut slack = find_slack(file)?;
    slack.streams.sort_by_key(|(_, range)| range.start);
    let mut open = Vec::new();
    let mut from = 0;
    for (number, range) in slack.streams {
        open.push(UncoveredRange::new(
            UncoveredPlace::PackageTables,
            from..range.start,
        ));
        from = range.end;
        if slack.signature == Some(number) {
            open.push(UncoveredRange::new(UncoveredPlace::Signature, range));
        }
    }
    open.push(UncoveredRange::new(
        UncoveredPlace::PackageTables,
        from..file.length(),
    ));
    open.retain(|open| !open.range.is_empty());
    Ok(open)
}

/// Finds the bytes outside all streams, and refuses a file with too many of them.
pub(super) fn find_slack(file: &mut SignedSource) -> Result<CompoundSlack, SignatureRefusal> {
    let layout = CompoundLayout::read(file)?;
    let Some(last) = layout.fat.iter().rposition(|&next| next != FREESECT) else {
        return Err(malformed("its FAT is empty"));
    };
    // The header occupies one sector, so sector n starts at (n + 1) sectors.
    let end = (last as u64 + 2) * layout.sector;
    let length = file.length();
    if length < end {
        return Err(malformed("the file is cut off")
            .expected(format_args!("{end} bytes, by its FAT"))
            .found(format_args!("{length} bytes")));
    }
    if length > end {
        let more = length - end;
        return Err(refuse_uncovered(format!(
            "unsigned bytes after the end of the package: {more} from offset {end}"
        )));
    }
    let mut taken = UsedSectors::new(layout.fat.len());
    let slack = layout.walk(file, &mut taken)?;
    if slack.left > MAX_SLACK {
        return Err(
            refuse_uncovered("the package contains unsigned bytes outside its streams")
                .expected(format_args!("at most {MAX_SLACK}, as left by writers"))
                .found(slack.left),
        );
    }
    let numbers = taken
        .as_slice()
        .get(..=last)
        .unwrap_or_default()
        .iter()
        .enumerate();
    for (number, _) in numbers.filter(|(_, taken)| !**taken) {
        let offset = (number as u64 + 1) * layout.sector;
        refuse_bytes_in(file, offset, layout.sector)?;
    }
    Ok(slack)
}

impl CompoundSlack {
    /// Adds a stream's sectors, each an offset and a size, and counts the bytes behind its end.
    fn add_stream(
        &mut self,
        file: &mut SignedSource,
        number: usize,
        length: u64,
        places: Vec<(u64, u64)>,
    ) -> Result<(), SignatureRefusal> {
        let mut rest = length;
        for (at, size) in places {
            let used = rest.min(size);
            rest -= used;
            self.streams.push((number, at..at + used));
            if used < size {
                let bytes = file.read_bytes(at + used, (size - used) as usize)?;
                self.left += not_zero(&bytes.ok_or_else(|| malformed("the file is cut off"))?);
            }
        }
        Ok(())
    }
}

/// Storage of streams that are too short for their own sectors.
struct SmallSectors {
    /// Sectors of the file that contain the mini sectors.
    sectors: Vec<u32>,
    table: Vec<u32>,
    taken: UsedSectors,
}

/// Contents of the header and the FAT.
struct CompoundLayout {
    sector: u64,
    fat: Vec<u32>,
    /// Sectors of the FAT and the DIFAT.
    tables: Vec<u32>,
    directory: u32,
    small: u32,
    /// Number of sectors of the directory and of the mini FAT, according to the header.
    counted: [u32; 2],
}

impl CompoundLayout {
    fn read(file: &mut SignedSource) -> Result<Self, SignatureRefusal> {
        let header = file
            .read_bytes(0, HEADER)?
            .ok_or_else(|| malformed("the file is cut off"))?;
        if header[..8] != MAGIC {
            return Err(malformed("it is not a compound file"));
        }
        let sector: u64 = match (u16_at(&header, 26), u16_at(&header, 30)) {
            (3, 9) => 512,
            (4, 12) => 4096,
            _ => return Err(malformed("its version and sector size do not match")),
        };
        let mut reserved = header[8..24].iter().chain(&header[34..40]);
        if reserved.any(|&byte| byte != 0) {
            return Err(refuse_uncovered(
                "the reserved fields of the package's header contain unsigned bytes",
            ));
        }
        if sector > HEADER as u64 {
            refuse_bytes_in(file, HEADER as u64, sector - HEADER as u64)?;
        }
        let sectors = file.length() / sector;
        let (parts, mut tables) = table_sectors(file, &header, sector, sectors)?;
        let mut fat = Vec::new();
        for &number in &parts {
            fat.extend(sector_entries(file, number, sector)?);
        }
        let counted = [(44, parts.len()), (72, tables.len())];
        if counted
            .iter()
            .any(|(at, count)| u32_at(&header, *at) as usize != *count)
        {
            return Err(malformed(MISCOUNTED));
        }
        tables.extend(parts);
        Ok(Self {
            sector,
            fat,
            tables,
            directory: u32_at(&header, 48),
            small: u32_at(&header, 60),
            counted: [40, 64].map(|at| u32_at(&header, at)),
        })
    }

    /// Marks the sectors of everything reachable from the storages.
    fn walk(
        &self,
        file: &mut SignedSource,
        taken: &mut UsedSectors,
    ) -> Result<CompoundSlack, SignatureRefusal> {
        for &number in &self.tables {
            taken.take(number)?;
        }
        let directory = taken.mark_chain(&self.fat, self.directory, u64::MAX)?;
        let table = taken.mark_chain(&self.fat, self.small, u64::MAX)?;
        // Headers of version 3 (512-byte sectors) do not count the directory's sectors.
        let is_counted = self.sector > HEADER as u64;
        let counted = if is_counted { directory.len() } else { 0 };
        if self.counted.map(|count| count as usize) != [counted, table.len()] {
            return Err(malformed(MISCOUNTED));
        }
        let sectors = directory;
        let directory = self.read_content(file, &sectors)?;
        let table = read_entries(&self.read_content(file, &table)?);
        let (all, _) = directory.as_chunks::<ENTRY_SIZE>();
        let Some(root) = all.first() else {
            return Err(malformed("its directory is empty"));
        };
        let count = self.read_length(root).div_ceil(self.sector);
        let mini_stream_sectors = taken.mark_chain(&self.fat, u32_at(root, START_OFFSET), count)?;
        let known = self.read_length(root).div_ceil(MINI_SECTOR_SIZE);
        let beyond = table
            .iter()
            .skip(usize::try_from(known).unwrap_or(usize::MAX));
        if beyond.into_iter().any(|&next| next <= MAXREGSECT) {
            return Err(refuse_uncovered(
                "the package's mini FAT has entries beyond its end",
            ));
        }
        let room = mini_stream_sectors.len() as u64 * self.sector / MINI_SECTOR_SIZE;
        let mut small = SmallSectors {
            sectors: mini_stream_sectors,
            table,
            taken: UsedSectors::new(usize::try_from(room).unwrap_or(usize::MAX)),
        };
        let mut slack = CompoundSlack::default();
        for (number, (entry, is_there)) in all.iter().zip(find_reachable(all)?).enumerate() {
            let at = self.find_offset(&sectors, (number * ENTRY_SIZE) as u64);
            if !is_there {
                slack.left += check_free_entry(entry, at)?;
                continue;
            }
            name_alone(entry, at)?;
            if entry[TYPE_OFFSET] != STREAM {
                continue;
            }
            signed_alone(entry, at)?;
            if is_signature(entry) {
                slack.signature = Some(number);
            }
            let places = self.mark_stream(entry, taken, &mut small)?;
            slack.add_stream(file, number, self.read_length(entry), places)?;
        }
        slack.left += self.left_in_small(file, &small.sectors, &small.taken)?;
        Ok(slack)
    }

    /// Returns the sectors of a stream, each an offset in the file and a size, and marks them.
    fn mark_stream(
        &self,
        entry: &[u8; ENTRY_SIZE],
        taken: &mut UsedSectors,
        small: &mut SmallSectors,
    ) -> Result<Vec<(u64, u64)>, SignatureRefusal> {
        let (length, start) = (self.read_length(entry), u32_at(entry, START_OFFSET));
        if length >= MINI_STREAM_CUTOFF {
            let chain = taken.mark_chain(&self.fat, start, length.div_ceil(self.sector))?;
            return Ok(chain
                .into_iter()
                .map(|sector| ((u64::from(sector) + 1) * self.sector, self.sector))
                .collect());
        }
        let count = length.div_ceil(MINI_SECTOR_SIZE);
        let chain = small.taken.mark_chain(&small.table, start, count)?;
        Ok(chain
            .into_iter()
            .map(|sector| self.find_offset(&small.sectors, u64::from(sector) * MINI_SECTOR_SIZE))
            .map(|offset| (offset, MINI_SECTOR_SIZE))
            .collect())
    }

    /// Returns the file offset of a byte in these sectors. The caller has checked the length.
    fn find_offset(&self, sectors: &[u32], offset: u64) -> u64 {
        let index = usize::try_from(offset / self.sector).unwrap_or(usize::MAX);
        let sector = sectors.get(index).copied().unwrap_or_default();
        (u64::from(sector) + 1) * self.sector + offset % self.sector
    }

    fn read_length(&self, entry: &[u8; ENTRY_SIZE]) -> u64 {
        let low = u64::from(u32_at(entry, SIZE_OFFSET));
        if self.sector > HEADER as u64 {
            low | u64::from(u32_at(entry, SIZE_OFFSET + 4)) << 32
        } else {
            low
        }
    }

    /// Reads the bytes of the directory or of a table.
    fn read_content(
        &self,
        file: &mut SignedSource,
        chain: &[u32],
    ) -> Result<Vec<u8>, SignatureRefusal> {
        if chain.len() as u64 * self.sector > MAX_TABLE_SIZE {
            return Err(malformed("it has too many streams"));
        }
        let mut content = Vec::new();
        for &number in chain {
            let bytes = read_sector(file, number, self.sector)?;
            content
                .extend(bytes.ok_or_else(|| malformed("the file is cut off within its tables"))?);
        }
        Ok(content)
    }

    /// Counts the bytes that are not zero in unused mini sectors.
    fn left_in_small(
        &self,
        file: &mut SignedSource,
        sectors: &[u32],
        taken: &UsedSectors,
    ) -> Result<u64, SignatureRefusal> {
        let each = (self.sector / MINI_SECTOR_SIZE) as usize;
        let mut left = 0;
        for (&number, taken) in sectors.iter().zip(taken.as_slice().chunks(each)) {
            if taken.iter().all(|&taken| taken) {
                continue;
            }
            let bytes = read_sector(file, number, self.sector)?;
            let bytes = bytes.ok_or_else(|| malformed("the file is cut off"))?;
            let parts = bytes.chunks(MINI_SECTOR_SIZE as usize).zip(taken);
            left += parts
                .filter(|(_, taken)| !**taken)
                .map(|(part, _)| not_zero(part))
                .sum::<u64>();
        }
        Ok(left)
    }
}

/// Finds the sectors of the FAT, the first 109 of which are listed in the header, and those of the
/// DIFAT, which list the others.
fn table_sectors(
    file: &mut SignedSource,
    header: &[u8],
    sector: u64,
    sectors: u64,
) -> Result<(Vec<u32>, Vec<u32>), SignatureRefusal> {
    let mut parts = read_entries(&header[76..]);
    let mut lists = Vec::new();
    let mut next = u32_at(header, 68);
    while next <= MAXREGSECT {
        if lists.len() as u64 >= sectors {
            return Err(malformed("its DIFAT is circular"));
        }
        lists.push(next);
        let mut list = sector_entries(file, next, sector)?;
        next = list.pop().unwrap_or(FREESECT);
        parts.extend(list);
    }
    parts.retain(|&number| number != FREESECT);
    if parts.len() as u64 > sectors {
        return Err(malformed(
            "it lists more FAT sectors than the file contains",
        ));
    }
    Ok((parts, lists))
}

/// Reads a sector of `size` bytes; `None` beyond the file's end.
fn read_sector(
    file: &mut SignedSource,
    number: u32,
    size: u64,
) -> Result<Option<Vec<u8>>, SignatureRefusal> {
    file.read_bytes((u64::from(number) + 1) * size, size as usize)
}

fn sector_entries(
    file: &mut SignedSource,
    number: u32,
    size: u64,
) -> Result<Vec<u32>, SignatureRefusal> {
    let bytes = read_sector(file, number, size)?
        .ok_or_else(|| malformed("the file is cut off within its FAT"))?;
    Ok(read_entries(&bytes))
}

fn refuse_bytes_in(
    file: &mut SignedSource,
    offset: u64,
    length: u64,
) -> Result<(), SignatureRefusal> {
    let bytes = file
        .read_bytes(offset, length as usize)?
        .ok_or_else(|| malformed("the file is cut off"))?;
    match bytes.iter().position(|&byte| byte != 0) {
        None => Ok(()),
        Some(at) => Err(refuse_uncovered(format!(
            "an unused sector of the package contains unsigned bytes at offset {}",
            offset + at as u64
        ))),
    }
}

fn read_entries(bytes: &[u8]) -> Vec<u32> {
    let (entries, _) = bytes.as_chunks::<4>();
    entries.iter().copied().map(u32::from_le_bytes).collect()
}

pub(super) fn malformed(fact: impl fmt::Display) -> SignatureRefusal {
    RefusalReason::Malformed.refusal(format!("the package cannot be read: {fact}"))
}

pub(super) fn refuse_uncovered(fact: impl Into<String>) -> SignatureRefusal {
    RefusalReason::Uncovered
        .refusal(fact)
        .cure("download the package from its publisher again")
}
