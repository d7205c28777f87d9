//! The sectors of a compound file: whether every byte of it belongs to something.
//!
//! A package's digest walks its streams, so what stands outside of them is in nobody's digest: an archive appended to an
//! MSI, bytes in sectors that are free or that no stream has. Refuses them by name. What the streams hold is the `cfb`
//! crate's to read; its strict mode cannot be used, as osslsigncode writes one entry too many into the table of small
//! sectors, so the rules of that mode which a signature depends on stand here. (Microsoft: MS-CFB 2.2 to 2.6)

use super::super::{Reason, Refusal};
use super::source::Source;

const MAGIC: [u8; 8] = [0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1];
const HEADER: usize = 512;
const ENTRY: usize = 128;
const FREE: u32 = 0xffff_ffff;
const LAST_REGULAR: u32 = 0xffff_fffa;
/// Streams shorter than this are within the root's.
const SMALL: u64 = 4096;
const STREAM: u8 = 2;
const ROOT: u8 = 5;

/// Refuses a file that has bytes outside of what its tables give to a stream.
pub(super) fn refuse_slack(file: &mut Source) -> Result<(), Refusal> {
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
    let used = layout.used(file)?;
    for (number, _) in used[..=last].iter().enumerate().filter(|(_, used)| !**used) {
        let offset = (number as u64 + 1) * layout.sector;
        refuse_bytes_in(file, offset, layout.sector)?;
    }
    Ok(())
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
                "the package's header has bytes in its reserved fields, which no signature covers"
                    .into(),
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

    /// Which sectors hold something that is read.
    fn used(&self, file: &mut Source) -> Result<Vec<bool>, Refusal> {
        let mut used = vec![false; self.fat.len()];
        let directory = self.chain(self.directory)?;
        let mut owned = self.tables.clone();
        owned.extend(self.chain(self.small)?);
        for &number in &directory {
            let offset = (u64::from(number) + 1) * self.sector;
            let bytes = file
                .bytes(offset, self.sector as usize)?
                .ok_or_else(|| malformed("the file is cut off within its directory"))?;
            for entry in bytes.chunks_exact(ENTRY) {
                owned.extend(self.stream(entry)?);
            }
        }
        for number in owned.into_iter().chain(directory) {
            if let Some(used) = used.get_mut(number as usize) {
                *used = true;
            }
        }
        Ok(used)
    }

    /// The sectors of a directory entry's stream.
    fn stream(&self, entry: &[u8]) -> Result<Vec<u32>, Refusal> {
        let kind = entry[66];
        // Of a stream, the class identifier and the times are not read by anybody, and so not signed.
        let mut unread = entry[80..96].iter().chain(&entry[100..116]);
        if kind == STREAM && unread.any(|&byte| byte != 0) {
            return Err(uncovered(
                "a stream of the package has a class or times, which no signature covers".into(),
            ));
        }
        let mut length = u64::from(u32_at(entry, 120));
        if self.sector > HEADER as u64 {
            length |= u64::from(u32_at(entry, 124)) << 32;
        }
        if kind == ROOT || (kind == STREAM && length >= SMALL) {
            let mut chain = self.chain(u32_at(entry, 116))?;
            let count = usize::try_from(length.div_ceil(self.sector)).unwrap_or(usize::MAX);
            chain.truncate(count);
            Ok(chain)
        } else {
            Ok(Vec::new())
        }
    }

    fn chain(&self, start: u32) -> Result<Vec<u32>, Refusal> {
        let mut chain = Vec::new();
        let mut next = start;
        while next <= LAST_REGULAR {
            let after = self.fat.get(next as usize).copied();
            let after = after.ok_or_else(|| malformed("a stream goes on outside of the file"))?;
            if chain.len() >= self.fat.len() {
                return Err(malformed("a stream runs in a circle"));
            }
            chain.push(next);
            next = after;
        }
        Ok(chain)
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

fn sector_entries(file: &mut Source, number: u32, sector: u64) -> Result<Vec<u32>, Refusal> {
    let offset = (u64::from(number) + 1) * sector;
    let bytes = file
        .bytes(offset, sector as usize)?
        .ok_or_else(|| malformed("the file is cut off within its allocation table"))?;
    Ok(entries(&bytes))
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
    bytes
        .chunks_exact(4)
        .map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
        .collect()
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn malformed(fact: &str) -> Refusal {
    Refusal::new(
        Reason::Malformed,
        format!("the package cannot be read: {fact}"),
    )
}

fn uncovered(fact: String) -> Refusal {
    Refusal::new(Reason::Uncovered, fact).cure("fetch the package from its publisher again")
}
