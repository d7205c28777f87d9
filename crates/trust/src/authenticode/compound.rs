//! The sectors of a compound file: whether every byte of it belongs to something.
//!
//! A package's digest walks its streams, so what stands outside of them is in nobody's digest: an archive appended to an
//! MSI, bytes in sectors that are free or that no stream has, streams that stand in no storage, two in one sector. Refuses
//! them by name. What the streams hold is the `cfb` crate's to read; its strict mode cannot be used, as osslsigncode writes
//! one entry too many into the table of small sectors, so the rules of that mode which a signature depends on stand here.
//! (Microsoft: MS-CFB 2.2 to 2.6)

mod directory;

use std::fmt;
use std::ops::Range;

use super::super::place::{Open, Place};
use super::super::{Reason, Refusal};
use super::source::Source;
use directory::{blank, is_signature, name_alone, not_zero, reachable, signed_alone};

const MAGIC: [u8; 8] = [0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1];
const HEADER: usize = 512;
/// A directory entry, and where in it stand its kind, its first sector and its length.
const ENTRY: usize = 128;
const KIND: usize = 66;
const START: usize = 116;
const LENGTH: usize = 120;
const FREE: u32 = 0xffff_ffff;
const LAST_REGULAR: u32 = 0xffff_fffa;
/// Streams shorter than this are within the root's.
const SMALL: u64 = 4096;
const SMALL_SECTOR: u64 = 64;
const STREAM: u8 = 2;
/// Bytes of the directory, or of the table of small sectors: a quarter of a million streams.
const LARGEST_TABLE: u64 = 32 << 20;

/// Readers who go by the counts would find other streams than those who go by the tables.
const MISCOUNTED: &str = "its header counts other tables than it has";
/// Bytes that may be left in small sectors, in entries that are free and behind the ends of streams.
const MOST_LEFT: u64 = 64 << 10;

/// What a file has besides what its streams are.
#[derive(Debug, Default)]
pub(super) struct Slack {
    /// Bytes that are not zero in small sectors and entries that are free, and behind the ends of streams: a writer need not
    /// clear those, so a few are reported and not refused.
    pub(super) left: u64,
    /// Where streams are, with their numbers in the directory: ranges of the file in no order.
    streams: Vec<(usize, Range<u64>)>,
    /// The number of the signature's.
    signature: Option<usize>,
}

/// The places of a file that no stream is, and the parts of the signature's stream.
pub(super) fn open(file: &mut Source) -> Result<Vec<Open>, Refusal> {
    let mut slack = slack(file)?;
    slack.streams.sort_by_key(|(_, range)| range.start);
    let mut open = Vec::new();
    let mut from = 0;
    for (number, range) in slack.streams {
        open.push(Open::new(Place::PackageTables, from..range.start));
        from = range.end;
        if slack.signature == Some(number) {
            open.push(Open::new(Place::Signature, range));
        }
    }
    open.push(Open::new(Place::PackageTables, from..file.length()));
    open.retain(|open| !open.range.is_empty());
    Ok(open)
}

/// Refuses a file that has bytes outside of what its tables give to a stream.
pub(super) fn slack(file: &mut Source) -> Result<Slack, Refusal> {
    let layout = Layout::read(file)?;
    let Some(last) = layout.fat.iter().rposition(|&next| next != FREE) else {
        return Err(malformed("its allocation table is empty"));
    };
    // The header takes one sector, so sector n begins at (n + 1) sectors.
    let end = (last as u64 + 2) * layout.sector;
    let length = file.length();
    if length < end {
        return Err(malformed("the file is cut off")
            .expected(format_args!("{end} bytes, by its allocation table"))
            .found(format_args!("{length} bytes")));
    }
    if length > end {
        let more = length - end;
        return Err(uncovered(format!(
            "bytes follow the package that its signature does not cover: {more} from offset {end}"
        )));
    }
    let mut taken = Taken::of(layout.fat.len());
    let slack = layout.walk(file, &mut taken)?;
    if slack.left > MOST_LEFT {
        return Err(uncovered(
            "bytes stand where no stream of the package is, so no signature covers them",
        )
        .expected(format_args!("{MOST_LEFT} at most, as writers leave them"))
        .found(slack.left));
    }
    let numbers = taken.0.get(..=last).unwrap_or_default().iter().enumerate();
    for (number, _) in numbers.filter(|(_, taken)| !**taken) {
        let offset = (number as u64 + 1) * layout.sector;
        refuse_bytes_in(file, offset, layout.sector)?;
    }
    Ok(slack)
}

impl Slack {
    /// Takes a stream's sectors, each an offset and a size, and counts what stands in the last one behind its end.
    fn stream(
        &mut self,
        file: &mut Source,
        number: usize,
        length: u64,
        places: Vec<(u64, u64)>,
    ) -> Result<(), Refusal> {
        let mut rest = length;
        for (at, size) in places {
            let used = rest.min(size);
            rest -= used;
            self.streams.push((number, at..at + used));
            if used < size {
                let bytes = file.bytes(at + used, (size - used) as usize)?;
                self.left += not_zero(&bytes.ok_or_else(|| malformed("the file is cut off"))?);
            }
        }
        Ok(())
    }
}

/// Which sectors hold something that is read. None may hold two things.
struct Taken(Vec<bool>);

impl Taken {
    fn of(count: usize) -> Self {
        Self(vec![false; count])
    }

    fn take(&mut self, number: u32) -> Result<(), Refusal> {
        match self.0.get_mut(number as usize) {
            None => Err(malformed("a stream goes on outside of the file")),
            Some(true) => Err(malformed(
                "two of its streams stand in one sector, or one runs in a circle",
            )),
            Some(taken) => {
                *taken = true;
                Ok(())
            }
        }
    }

    /// The sectors from `start` on, at most so many. What a chain has beyond its stream's length is nobody's.
    fn chain(&mut self, table: &[u32], start: u32, most: u64) -> Result<Vec<u32>, Refusal> {
        let mut chain = Vec::new();
        let mut next = start;
        while next <= LAST_REGULAR && (chain.len() as u64) < most {
            self.take(next)?;
            chain.push(next);
            next = table.get(next as usize).copied().unwrap_or(FREE);
        }
        Ok(chain)
    }
}

/// What holds the streams that are shorter than a sector of their own is worth.
struct Small {
    /// The sectors of the file that hold all small ones.
    sectors: Vec<u32>,
    table: Vec<u32>,
    taken: Taken,
}

/// What the header and the allocation table say.
struct Layout {
    sector: u64,
    fat: Vec<u32>,
    /// The sectors that hold the allocation table and its list.
    tables: Vec<u32>,
    directory: u32,
    small: u32,
    /// How many sectors the header says that the directory and the table of small sectors have.
    counted: [u32; 2],
}

impl Layout {
    fn read(file: &mut Source) -> Result<Self, Refusal> {
        let header = file
            .bytes(0, HEADER)?
            .ok_or_else(|| malformed("the file is cut off"))?;
        if header[..8] != MAGIC {
            return Err(malformed("it is no compound file"));
        }
        let sector: u64 = match (u16_at(&header, 26), u16_at(&header, 30)) {
            (3, 9) => 512,
            (4, 12) => 4096,
            _ => return Err(malformed("its version and sector size do not go together")),
        };
        let mut reserved = header[8..24].iter().chain(&header[34..40]);
        if reserved.any(|&byte| byte != 0) {
            return Err(uncovered(
                "the package's header has bytes in its reserved fields, which no signature covers",
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

    /// Takes the sectors of everything that the storages lead to.
    fn walk(&self, file: &mut Source, taken: &mut Taken) -> Result<Slack, Refusal> {
        for &number in &self.tables {
            taken.take(number)?;
        }
        let directory = taken.chain(&self.fat, self.directory, u64::MAX)?;
        let table = taken.chain(&self.fat, self.small, u64::MAX)?;
        // Sectors of 512 bytes leave the directory's uncounted.
        let is_counted = self.sector > HEADER as u64;
        let counted = if is_counted { directory.len() } else { 0 };
        if self.counted.map(|count| count as usize) != [counted, table.len()] {
            return Err(malformed(MISCOUNTED));
        }
        let sectors = directory;
        let directory = self.content(file, &sectors)?;
        let table = entries(&self.content(file, &table)?);
        let (all, _) = directory.as_chunks::<ENTRY>();
        let Some(root) = all.first() else {
            return Err(malformed("its directory is empty"));
        };
        let count = self.length(root).div_ceil(self.sector);
        let small_ones = taken.chain(&self.fat, u32_at(root, START), count)?;
        let known = self.length(root).div_ceil(SMALL_SECTOR);
        let beyond = table
            .iter()
            .skip(usize::try_from(known).unwrap_or(usize::MAX));
        if beyond.into_iter().any(|&next| next <= LAST_REGULAR) {
            return Err(uncovered(
                "bytes stand in the package's table of small sectors behind those that it has",
            ));
        }
        let room = small_ones.len() as u64 * self.sector / SMALL_SECTOR;
        let mut small = Small {
            sectors: small_ones,
            table,
            taken: Taken::of(usize::try_from(room).unwrap_or(usize::MAX)),
        };
        let mut slack = Slack::default();
        for (number, (entry, is_there)) in all.iter().zip(reachable(all)?).enumerate() {
            let at = self.at(&sectors, (number * ENTRY) as u64);
            if !is_there {
                slack.left += blank(entry, at)?;
                continue;
            }
            name_alone(entry, at)?;
            if entry[KIND] != STREAM {
                continue;
            }
            signed_alone(entry, at)?;
            if is_signature(entry) {
                slack.signature = Some(number);
            }
            let places = self.places(entry, taken, &mut small)?;
            slack.stream(file, number, self.length(entry), places)?;
        }
        slack.left += self.left_in_small(file, &small.sectors, &small.taken)?;
        Ok(slack)
    }

    /// The sectors of a stream, each an offset in the file and a size. Takes them.
    fn places(
        &self,
        entry: &[u8; ENTRY],
        taken: &mut Taken,
        small: &mut Small,
    ) -> Result<Vec<(u64, u64)>, Refusal> {
        let (length, start) = (self.length(entry), u32_at(entry, START));
        if length >= SMALL {
            let chain = taken.chain(&self.fat, start, length.div_ceil(self.sector))?;
            let at = |sector: u32| ((u64::from(sector) + 1) * self.sector, self.sector);
            return Ok(chain.into_iter().map(at).collect());
        }
        let count = length.div_ceil(SMALL_SECTOR);
        let chain = small.taken.chain(&small.table, start, count)?;
        let at = |sector: u32| self.at(&small.sectors, u64::from(sector) * SMALL_SECTOR);
        let places = chain.into_iter().map(|sector| (at(sector), SMALL_SECTOR));
        Ok(places.collect())
    }

    /// Where in the file a byte of what these sectors hold is. That they reach so far was looked at before.
    fn at(&self, sectors: &[u32], offset: u64) -> u64 {
        let holder = usize::try_from(offset / self.sector).unwrap_or(usize::MAX);
        let holder = sectors.get(holder).copied().unwrap_or_default();
        (u64::from(holder) + 1) * self.sector + offset % self.sector
    }

    fn length(&self, entry: &[u8; ENTRY]) -> u64 {
        let low = u64::from(u32_at(entry, LENGTH));
        match self.sector > HEADER as u64 {
            true => low | u64::from(u32_at(entry, LENGTH + 4)) << 32,
            false => low,
        }
    }

    /// The bytes of the directory or of a table.
    fn content(&self, file: &mut Source, chain: &[u32]) -> Result<Vec<u8>, Refusal> {
        if chain.len() as u64 * self.sector > LARGEST_TABLE {
            return Err(malformed("it has more streams than any package has"));
        }
        let mut content = Vec::new();
        for &number in chain {
            let bytes = sector(file, number, self.sector)?;
            content
                .extend(bytes.ok_or_else(|| malformed("the file is cut off within its tables"))?);
        }
        Ok(content)
    }

    /// How many bytes that are not zero stand in small sectors that no stream has.
    fn left_in_small(
        &self,
        file: &mut Source,
        sectors: &[u32],
        taken: &Taken,
    ) -> Result<u64, Refusal> {
        let each = (self.sector / SMALL_SECTOR) as usize;
        let mut left = 0;
        for (&number, taken) in sectors.iter().zip(taken.0.chunks(each)) {
            if taken.iter().all(|&taken| taken) {
                continue;
            }
            let bytes = sector(file, number, self.sector)?;
            let bytes = bytes.ok_or_else(|| malformed("the file is cut off"))?;
            let parts = bytes.chunks(SMALL_SECTOR as usize).zip(taken);
            left += parts
                .filter(|(_, taken)| !**taken)
                .map(|(part, _)| not_zero(part))
                .sum::<u64>();
        }
        Ok(left)
    }
}

/// The sectors that hold the allocation table, of which the first 109 are in the header, and those that list the others.
fn table_sectors(
    file: &mut Source,
    header: &[u8],
    sector: u64,
    sectors: u64,
) -> Result<(Vec<u32>, Vec<u32>), Refusal> {
    let mut parts = entries(&header[76..]);
    let mut lists = Vec::new();
    let mut next = u32_at(header, 68);
    while next <= LAST_REGULAR {
        if lists.len() as u64 >= sectors {
            return Err(malformed("its list of allocation tables runs in a circle"));
        }
        lists.push(next);
        let mut list = sector_entries(file, next, sector)?;
        next = list.pop().unwrap_or(FREE);
        parts.extend(list);
    }
    parts.retain(|&number| number != FREE);
    if parts.len() as u64 > sectors {
        return Err(malformed(
            "it names more allocation tables than it has sectors",
        ));
    }
    Ok((parts, lists))
}

/// The bytes of a sector of `size`; `None` beyond the file's end.
fn sector(file: &mut Source, number: u32, size: u64) -> Result<Option<Vec<u8>>, Refusal> {
    file.bytes((u64::from(number) + 1) * size, size as usize)
}

fn sector_entries(file: &mut Source, number: u32, size: u64) -> Result<Vec<u32>, Refusal> {
    let bytes = sector(file, number, size)?;
    let cut = || malformed("the file is cut off within its allocation table");
    Ok(entries(&bytes.ok_or_else(cut)?))
}

fn refuse_bytes_in(file: &mut Source, offset: u64, length: u64) -> Result<(), Refusal> {
    let bytes = file
        .bytes(offset, length as usize)?
        .ok_or_else(|| malformed("the file is cut off"))?;
    match bytes.iter().position(|&byte| byte != 0) {
        None => Ok(()),
        Some(at) => Err(uncovered(format!(
            "bytes stand in a sector that no stream of the package has, so no signature covers them: at offset {}",
            offset + at as u64
        ))),
    }
}

fn entries(bytes: &[u8]) -> Vec<u32> {
    let (entries, _) = bytes.as_chunks::<4>();
    entries.iter().copied().map(u32::from_le_bytes).collect()
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(super) fn malformed(fact: impl fmt::Display) -> Refusal {
    Reason::Malformed.refusal(format!("the package cannot be read: {fact}"))
}

pub(super) fn uncovered(fact: impl Into<String>) -> Refusal {
    Reason::Uncovered
        .refusal(fact)
        .cure("fetch the package from its publisher again")
}
