//! Checks the entries of a package's directory for unsigned bytes.
//!
//! Refuses streams outside all storages, and nonzero bytes after a name or in unread fields of a
//! stream, because they are not signed. (Microsoft: MS-CFB 2.6)

use super::super::source::{u16_at, u32_at};
use super::{
    ENTRY_SIZE, FREESECT, MAXREGSECT, SIGNATURE, STREAM, TYPE_OFFSET, malformed, refuse_uncovered,
};
use crate::SignatureRefusal;

/// Size of the name's field, followed by its length.
const NAME_SIZE: usize = 64;

/// Determines which entries are reachable from the root; the digest covers no others.
pub(super) fn find_reachable(all: &[[u8; ENTRY_SIZE]]) -> Result<Vec<bool>, SignatureRefusal> {
    let mut reachable = vec![false; all.len()];
    let mut pending = vec![0];
    while let Some(number) = pending.pop() {
        if number > MAXREGSECT {
            continue;
        }
        let index = number as usize;
        let (Some(entry), Some(seen)) = (all.get(index), reachable.get_mut(index)) else {
            return Err(malformed("its directory points outside itself"));
        };
        if *seen {
            return Err(malformed("its directory points to an entry twice"));
        }
        *seen = true;
        // Its siblings and, for a storage, its children.
        pending.extend([68, 72].map(|at| u32_at(entry, at)));
        if entry[TYPE_OFFSET] != STREAM {
            pending.push(u32_at(entry, 76));
        }
    }
    Ok(reachable)
}

/// Checks that an entry's name has its stated length and that zeros fill the rest of its field:
/// readers stop at the end, and the bytes after it are not signed.
pub(super) fn name_alone(entry: &[u8; ENTRY_SIZE], at: u64) -> Result<(), SignatureRefusal> {
    let length = usize::from(u16_at(entry, NAME_SIZE));
    let (name, rest) = match length {
        2..=NAME_SIZE if length % 2 == 0 => entry[..NAME_SIZE].split_at(length - 2),
        _ => {
            return Err(malformed("a name in its directory has an invalid length"));
        }
    };
    let (units, _) = name.as_chunks::<2>();
    if rest.iter().any(|&byte| byte != 0) || units.contains(&[0, 0]) {
        return Err(refuse_uncovered(
            "the package's directory contains unsigned bytes after a name",
        )
        .found(format_args!("an entry of its directory at offset {at:#x}")));
    }
    Ok(())
}

pub(super) fn is_signature(entry: &[u8; ENTRY_SIZE]) -> bool {
    let name: Vec<u8> = SIGNATURE
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    usize::from(u16_at(entry, NAME_SIZE)) == name.len() + 2 && entry.starts_with(&name)
}

/// Checks that a stream has no CLSID and no timestamps, which are not read and so not signed.
pub(super) fn signed_alone(entry: &[u8; ENTRY_SIZE], at: u64) -> Result<(), SignatureRefusal> {
    let mut unread = entry[80..96].iter().chain(&entry[100..116]);
    if unread.any(|&byte| byte != 0) {
        Err(refuse_uncovered(
            "a stream of the package has a CLSID or timestamps, which are not signed",
        )
        .found(format_args!("an entry of its directory at offset {at:#x}")))
    } else {
        Ok(())
    }
}

/// Checks that an unreachable entry is free, and counts the bytes in it that are not zero, except
/// for its kind, its color, the length of its name, and links that are all ones.
pub(super) fn check_free_entry(entry: &[u8; ENTRY_SIZE], at: u64) -> Result<u64, SignatureRefusal> {
    if entry[TYPE_OFFSET] != 0 {
        return Err(
            refuse_uncovered("the package has an unsigned stream outside all storages")
                .found(format_args!("an entry of its directory at offset {at:#x}")),
        );
    }
    let linked: u64 = entry[68..80]
        .chunks(4)
        .filter(|link| **link != FREESECT.to_le_bytes())
        .map(not_zero)
        .sum();
    Ok(not_zero(&entry[..64]) + linked + not_zero(&entry[80..]))
}

pub(super) fn not_zero(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte != 0).count() as u64
}
