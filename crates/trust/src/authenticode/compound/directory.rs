//! The entries of a package's directory: which of them are there, and that nobody's bytes stand in them.
//!
//! Refuses streams that stand in no storage, and bytes behind a name or in fields of a stream that nobody reads, and so nobody
//! signs. (Microsoft: MS-CFB 2.6)

use super::super::super::Refusal;
use super::super::msi::SIGNATURE;
use super::{ENTRY, FREE, KIND, LAST_REGULAR, STREAM, malformed, u16_at, u32_at, uncovered};

/// Bytes of the name's field, behind which its length stands.
const NAME: usize = 64;

/// Which entries of the directory the root leads to: others are in nobody's digest.
pub(super) fn reachable(all: &[[u8; ENTRY]]) -> Result<Vec<bool>, Refusal> {
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

/// An entry's name ends where the entry says, and zeros fill what is left of its field: readers stop at the end, and what
/// stands behind it is no part of what was signed.
pub(super) fn name_alone(entry: &[u8; ENTRY], at: u64) -> Result<(), Refusal> {
    let length = usize::from(u16_at(entry, NAME));
    let (name, rest) = match length {
        2..=NAME if length % 2 == 0 => entry[..NAME].split_at(length - 2),
        _ => {
            return Err(malformed(
                "a name in its directory has a length that none has",
            ));
        }
    };
    let (units, _) = name.as_chunks::<2>();
    if rest.iter().any(|&byte| byte != 0) || units.contains(&[0, 0]) {
        return Err(uncovered(
            "bytes stand behind a name in the package's directory, which no signature covers",
        )
        .found(format_args!("an entry of its directory at offset {at:#x}")));
    }
    Ok(())
}

pub(super) fn is_signature(entry: &[u8; ENTRY]) -> bool {
    let name: Vec<u8> = SIGNATURE
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    usize::from(u16_at(entry, NAME)) == name.len() + 2 && entry.starts_with(&name)
}

/// Of a stream, the class identifier and the times are not read by anybody, and so not signed.
pub(super) fn signed_alone(entry: &[u8; ENTRY], at: u64) -> Result<(), Refusal> {
    let mut unread = entry[80..96].iter().chain(&entry[100..116]);
    match unread.any(|&byte| byte != 0) {
        true => Err(uncovered(
            "a stream of the package has a class or times, which no signature covers",
        )
        .found(format_args!("an entry of its directory at offset {at:#x}"))),
        false => Ok(()),
    }
}

/// An entry that nothing leads to has to be a free one. How many bytes stand in it, but for its kind, its colour and
/// the length of its name, and for links, which may be all ones.
pub(super) fn blank(entry: &[u8; ENTRY], at: u64) -> Result<u64, Refusal> {
    if entry[KIND] != 0 {
        return Err(uncovered(
            "the package has a stream that stands in none of its storages, so no signature covers it",
        ).found(format_args!("an entry of its directory at offset {at:#x}")));
    }
    let links = entry[68..80].chunks(4);
    let linked = links.filter(|link| **link != FREE.to_le_bytes());
    let linked: u64 = linked.map(not_zero).sum();
    Ok(not_zero(&entry[..64]) + linked + not_zero(&entry[80..]))
}

pub(super) fn not_zero(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte != 0).count() as u64
}
