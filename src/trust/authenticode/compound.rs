//! The sectors of a compound file: whether every byte of it belongs to something.
//!
//! A package's digest walks its streams, so what stands outside of them is in nobody's digest: an archive appended to an
//! MSI, bytes in sectors that the allocation table calls free, bytes behind a stream's end. Refuses them by name. Knows
//! nothing of streams; what they hold is the `cfb` crate's to read. (Microsoft: MS-CFB 2.2 to 2.6)

use super::super::{Reason, Refusal};
use super::source::Source;

const MAGIC: [u8; 8] = [0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1];
const HEADER: usize = 512;
const FREE: u32 = 0xffff_ffff;
const LAST_REGULAR: u32 = 0xffff_fffa;

/// The header and the allocation table.
struct Table {
    sector: u64,
    fat: Vec<u32>,
}

/// Refuses a file that has bytes outside of what its allocation table gives to a stream.
pub(super) fn refuse_slack(file: &mut Source) -> Result<(), Refusal> {
    let table = Table::read(file)?;
    let Some(last) = table.fat.iter().rposition(|&next| next != FREE) else {
        return Err(malformed("its allocation table is empty"));
    };
    // The header takes one sector, so sector n begins at (n + 1) sectors.
    let end = (last as u64 + 2) * table.sector;
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
    for (number, _) in table.fat[..last]
        .iter()
        .enumerate()
        .filter(|&(_, &next)| next == FREE)
    {
        refuse_bytes_in(file, (number as u64 + 1) * table.sector, table.sector)?;
    }
    Ok(())
}

impl Table {
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
        let reserved_is_zero = header[8..24]
            .iter()
            .chain(&header[34..40])
            .all(|&byte| byte == 0);
        if !reserved_is_zero {
            return Err(uncovered(
                "the package's header has bytes in its reserved fields, which no signature covers"
                    .into(),
            ));
        }
        if sector > HEADER as u64 {
            refuse_bytes_in(file, HEADER as u64, sector - HEADER as u64)?;
        }
        let sectors = file.length() / sector;
        let mut fat = Vec::new();
        for number in fat_sectors(file, &header, sector, sectors)? {
            fat.extend(sector_entries(file, number, sector)?);
        }
        Ok(Self { sector, fat })
    }
}

/// The numbers of the sectors that hold the allocation table: 109 in the header, the others in a chain of sectors.
fn fat_sectors(
    file: &mut Source,
    header: &[u8],
    sector: u64,
    sectors: u64,
) -> Result<Vec<u32>, Refusal> {
    let mut numbers = entries(&header[76..]);
    let mut next = u32_at(header, 68);
    let mut seen = 0;
    while next <= LAST_REGULAR {
        seen += 1;
        if seen > sectors {
            return Err(malformed("its list of allocation tables runs in a circle"));
        }
        let mut list = sector_entries(file, next, sector)?;
        next = list.pop().unwrap_or(FREE);
        numbers.extend(list);
    }
    numbers.retain(|&number| number != FREE);
    if numbers.len() as u64 > sectors {
        return Err(malformed(
            "it names more allocation tables than it has sectors",
        ));
    }
    Ok(numbers)
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
            "bytes stand in a free sector of the package, which no signature covers: at offset {}",
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
