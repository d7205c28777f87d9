//! The sectors of a compound file: whether every byte of it belongs to something.
//!
//! A package's digest walks its streams, so what stands outside of them is in nobody's digest: an archive appended to an
//! MSI, bytes in sectors that are free or that no stream has, streams that stand in no storage, two in one sector. Refuses
//! them by name. What the streams hold is the `cfb` crate's to read; its strict mode cannot be used, as osslsigncode writes
//! one entry too many into the table of small sectors, so the rules of that mode which a signature depends on stand here.
//! (Microsoft: MS-CFB 2.2 to 2.6)

use std::fmt;

use super::super::{Reason, Refusal};
use super::source::Source;

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

/// Refuses a file that has bytes outside of what its tables give to a stream. Gives back how many stand in small sectors
/// and entries that are free: a writer need not clear those, so they are reported and not refused.
pub(super) fn refuse_slack(file: &mut Source) -> Result<u64, Refusal> {
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
    let left = layout.walk(file, &mut taken)?;
    let numbers = taken.0.get(..=last).unwrap_or_default().iter().enumerate();
    for (number, _) in numbers.filter(|(_, taken)| !**taken) {
        let offset = (number as u64 + 1) * layout.sector;
        refuse_bytes_in(file, offset, layout.sector)?;
    }
    Ok(left)
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

/// What the header and the allocation table say.
struct Layout {
    sector: u64,
    fat: Vec<u32>,
    /// The sectors that hold the allocation table and its list.
    tables: Vec<u32>,
    directory: u32,
    small: u32,
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
        tables.extend(parts);
        Ok(Self {
            sector,
            fat,
            tables,
            directory: u32_at(&header, 48),
            small: u32_at(&header, 60),
        })
    }

    /// Takes the sectors of everything that the storages lead to. Gives back how many bytes stand in what is free.
    fn walk(&self, file: &mut Source, taken: &mut Taken) -> Result<u64, Refusal> {
        for &number in &self.tables {
            taken.take(number)?;
        }
        let directory = taken.chain(&self.fat, self.directory, u64::MAX)?;
        let directory = self.content(file, &directory)?;
        let table = taken.chain(&self.fat, self.small, u64::MAX)?;
        let table = entries(&self.content(file, &table)?);
        let (all, _) = directory.as_chunks::<ENTRY>();
        let Some(root) = all.first() else {
            return Err(malformed("its directory is empty"));
        };
        let sectors = self.length(root).div_ceil(self.sector);
        let small_ones = taken.chain(&self.fat, u32_at(root, START), sectors)?;
        let small = self.length(root).div_ceil(SMALL_SECTOR);
        let beyond = table
            .iter()
            .skip(usize::try_from(small).unwrap_or(usize::MAX));
        if beyond.into_iter().any(|&next| next <= LAST_REGULAR) {
            return Err(uncovered(
                "bytes stand in the package's table of small sectors behind those that it has",
            ));
        }
        let room = small_ones.len() as u64 * self.sector / SMALL_SECTOR;
        let mut small_taken = Taken::of(usize::try_from(room).unwrap_or(usize::MAX));
        let mut left = 0;
        for (entry, is_there) in all.iter().zip(reachable(all)?) {
            if !is_there {
                left += blank(entry)?;
            } else if entry[KIND] == STREAM {
                signed_alone(entry)?;
                let length = self.length(entry);
                if length >= SMALL {
                    let sectors = length.div_ceil(self.sector);
                    taken.chain(&self.fat, u32_at(entry, START), sectors)?;
                } else {
                    let sectors = length.div_ceil(SMALL_SECTOR);
                    small_taken.chain(&table, u32_at(entry, START), sectors)?;
                }
            }
        }
        Ok(left + self.left_in_small(file, &small_ones, &small_taken)?)
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

/// Which entries of the directory the root leads to: others are in nobody's digest.
fn reachable(all: &[[u8; ENTRY]]) -> Result<Vec<bool>, Refusal> {
    let mut there = vec![false; all.len()];
    let mut waiting = vec![0];
    while let Some(number) = waiting.pop() {
        if number > LAST_REGULAR {
            continue;
        }
        let (Some(entry), Some(seen)) = (all.get(number as usize), there.get_mut(number as usize))
        else {
            return Err(malformed("its directory leads outside of itself"));
        };
        if *seen {
            return Err(malformed("its directory leads to one entry twice"));
        }
        *seen = true;
        // Its neighbours, and of a storage what is in it.
        waiting.extend([68, 72].map(|at| u32_at(entry, at)));
        if entry[KIND] != STREAM {
            waiting.push(u32_at(entry, 76));
        }
    }
    Ok(there)
}

/// Of a stream, the class identifier and the times are not read by anybody, and so not signed.
fn signed_alone(entry: &[u8; ENTRY]) -> Result<(), Refusal> {
    let mut unread = entry[80..96].iter().chain(&entry[100..116]);
    match unread.any(|&byte| byte != 0) {
        true => Err(uncovered(
            "a stream of the package has a class or times, which no signature covers",
        )),
        false => Ok(()),
    }
}

/// An entry that nothing leads to has to be a free one. How many bytes stand in it, but for its kind, its colour and
/// the length of its name, and for links, which may be all ones.
fn blank(entry: &[u8; ENTRY]) -> Result<u64, Refusal> {
    if entry[KIND] != 0 {
        return Err(uncovered(
            "the package has a stream that stands in none of its storages, so no signature covers it",
        ));
    }
    let links = entry[68..80].chunks(4);
    let linked = links.filter(|link| **link != FREE.to_le_bytes());
    let linked: u64 = linked.map(not_zero).sum();
    Ok(not_zero(&entry[..64]) + linked + not_zero(&entry[80..]))
}

fn not_zero(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte != 0).count() as u64
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
