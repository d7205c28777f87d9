//! Checks that an index is valid before it is followed.
//!
//! The `ntfs` crate panics at an index entry that is shorter than its header, and loops forever at
//! one of length zero. Each record is checked before the crate gets it. Layout: the Linux-NTFS
//! project, "index record", "index root" and "index entry".

/// Bytes of an entry's header: file reference, length, key length, flags.
const ENTRY_HEADER: usize = 16;
const SUBNODE: usize = 8;
const HAS_SUBNODE: u16 = 1;
const IS_LAST: u16 = 2;
const INDEX_ROOT: u32 = 0x90;
const END_OF_ATTRIBUTES: u32 = u32::MAX;
/// Bytes of a sector whose last two bytes are replaced by a fix-up number.
const SECTOR: usize = 512;

/// Returns true if a record, as stored on disk, has an index that cannot be followed. Only file
/// records and index records have one.
pub(super) fn has_broken_index(record: &[u8]) -> bool {
    match record.get(..4) {
        Some(b"INDX") => {
            apply_fixups(record).is_some_and(|record| !is_node(&record, 24, record.len()))
        }
        Some(b"FILE") => apply_fixups(record).is_some_and(|record| !has_sound_roots(&record)),
        _ => false,
    }
}

/// Restores the bytes that fix-up numbers replace. `None`: the record has damage that the crate
/// reports.
fn apply_fixups(record: &[u8]) -> Option<Vec<u8>> {
    let (start, count) = (u16_at(record, 4)? as usize, u16_at(record, 6)? as usize);
    let mut record = record.to_vec();
    for number in 1..count {
        let end = number * SECTOR;
        let from = start + number * 2;
        let bytes: [u8; 2] = record.get(from..from + 2)?.try_into().ok()?;
        record.get_mut(end - 2..end)?.copy_from_slice(&bytes);
    }
    Some(record)
}

/// Checks the index roots among a file's attributes, which have the first entries of a folder.
fn has_sound_roots(record: &[u8]) -> bool {
    let Some(first) = u16_at(record, 20) else {
        return true;
    };
    let mut at = first as usize;
    while let (Some(kind), Some(len)) = (u32_at(record, at), u32_at(record, at + 4)) {
        if kind == END_OF_ATTRIBUTES || len == 0 {
            break;
        }
        let value = (u32_at(record, at + 16), u16_at(record, at + 20));
        let is_resident = record.get(at + 8) == Some(&0);
        if let (INDEX_ROOT, true, (Some(length), Some(offset))) = (kind, is_resident, value) {
            let start = at + offset as usize;
            let end = start.saturating_add(length as usize).min(record.len());
            if !is_node(record, start + 16, end) {
                return false;
            }
        }
        at = at.saturating_add(len as usize);
    }
    true
}

/// Returns true for a valid node with its header at `at`, in a record that ends at `end`.
fn is_node(record: &[u8], at: usize, end: usize) -> bool {
    let (Some(offset), Some(size)) = (u32_at(record, at), u32_at(record, at + 4)) else {
        return false;
    };
    let start = at.saturating_add(offset as usize);
    let stop = at.saturating_add(size as usize);
    stop <= end && start <= stop && are_entries(&record[start..stop])
}

fn are_entries(mut entries: &[u8]) -> bool {
    while !entries.is_empty() {
        let (Some(len), Some(flags)) = (u16_at(entries, 8), u16_at(entries, 12)) else {
            return false;
        };
        let least = match flags & HAS_SUBNODE {
            0 => ENTRY_HEADER,
            _ => ENTRY_HEADER + SUBNODE,
        };
        let len = len as usize;
        if len < least || len > entries.len() {
            return false;
        }
        if flags & IS_LAST != 0 {
            return true;
        }
        entries = &entries[len..];
    }
    true
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(record: &mut [u8], at: usize, bytes: &[u8]) {
        record[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// An index record of entries of these lengths and flags.
    fn index(entries: &[(u16, u16)]) -> Vec<u8> {
        let mut record = vec![0; 4096];
        put(&mut record, 0, b"INDX");
        // Numbers of eight sectors behind the header.
        put(&mut record, 4, &40_u16.to_le_bytes());
        put(&mut record, 6, &9_u16.to_le_bytes());
        put(&mut record, 24, &40_u32.to_le_bytes());
        let mut at = 64;
        for (len, flags) in entries {
            put(&mut record, at + 8, &len.to_le_bytes());
            put(&mut record, at + 12, &flags.to_le_bytes());
            at += (*len as usize).max(ENTRY_HEADER);
        }
        put(&mut record, 28, &((at - 24) as u32).to_le_bytes());
        record
    }

    /// A file's record with an index root of the same entries.
    fn file(entries: &[(u16, u16)]) -> Vec<u8> {
        let node = index(entries);
        let size = u32_at(&node, 28).unwrap() as usize;
        let mut record = vec![0; 1024];
        put(&mut record, 0, b"FILE");
        put(&mut record, 4, &48_u16.to_le_bytes());
        put(&mut record, 6, &3_u16.to_le_bytes());
        put(&mut record, 20, &56_u16.to_le_bytes());
        // Another attribute first.
        put(&mut record, 56, &0x10_u32.to_le_bytes());
        put(&mut record, 60, &24_u32.to_le_bytes());
        put(&mut record, 80, &INDEX_ROOT.to_le_bytes());
        put(&mut record, 84, &(48 + size as u32).to_le_bytes());
        put(&mut record, 96, &(16 + size as u32).to_le_bytes());
        put(&mut record, 100, &32_u16.to_le_bytes());
        put(&mut record, 128, &node[24..24 + size]);
        put(&mut record, 128 + size, &END_OF_ATTRIBUTES.to_le_bytes());
        record
    }

    #[test]
    fn entries_that_do_not_reach_over_their_own_header_are_broken() {
        let sound: [&[(u16, u16)]; 5] = [
            &[(16, 2)],
            &[(24, 3)],
            &[(0x70, 0), (16, 2)],
            &[(0x78, 1), (0x60, 1), (24, 3)],
            &[],
        ];
        let broken: [&[(u16, u16)]; 6] = [
            &[(0, 0)],
            &[(8, 0), (16, 2)],
            &[(15, 2)],
            &[(0, 2)],
            &[(16, 3)],
            &[(0x60, 0), (4, 0)],
        ];
        for entries in sound {
            assert!(!has_broken_index(&index(entries)), "{entries:?}");
            assert!(!has_broken_index(&file(entries)), "{entries:?}");
        }
        for entries in broken {
            assert!(has_broken_index(&index(entries)), "{entries:?}");
            assert!(has_broken_index(&file(entries)), "{entries:?}");
        }
    }

    #[test]
    fn an_index_that_reaches_beyond_its_record_is_broken() {
        let mut long = index(&[(16, 2)]);
        put(&mut long, 28, &5000_u32.to_le_bytes());
        assert!(has_broken_index(&long));
        let mut far = index(&[(16, 2)]);
        put(&mut far, 24, &u32::MAX.to_le_bytes());
        assert!(has_broken_index(&far));
        let mut entry = index(&[(16, 2)]);
        put(&mut entry, 72, &0xffff_u16.to_le_bytes());
        assert!(has_broken_index(&entry));
    }

    #[test]
    fn what_is_no_record_holds_no_broken_index() {
        for bytes in [&b""[..], b"FILE", b"INDX", b"BAAD\0\0\0\0", &[0xff; 1024]] {
            assert!(!has_broken_index(bytes));
        }
        // A length that is where a sector's number stands.
        let mut record = index(&[(0x1be, 0), (16, 2)]);
        let at = 64 + 0x1be + 8;
        assert_eq!(at, 518);
        put(&mut record, 510, &[0xaa, 0xaa]);
        assert!(!has_broken_index(&record));
    }
}
