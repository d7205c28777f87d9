//! Zeroes free clusters on the sealed disk.
//!
//! Windows marks the clusters of a deleted file as free and leaves their bytes, such as Setup's
//! copies of the answer file with the Administrator's password. Only clusters that are free in the
//! volume's own bitmap are written, and nothing on a volume that was not shut down cleanly. For an
//! overlay only the overlay is written: a qcow2 then hides the data of lower layers, which keep it;
//! a VHDX cannot hide it without new blocks, so remaining data is reported.

use std::ops::Range;

use super::backing::BackingChain;
use super::ntfs::NtfsVolume;
use super::{Disk, DiskImage, gpt, qemu_img, vhdx};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;

const BUFFER: usize = 1 << 20;

/// Zeroes the free clusters of every NTFS volume on a closed qcow2, and describes those that could
/// not be zeroed. A disk without such a volume is not changed.
pub fn clear(qcow2: DiskImage<'_>, cancel: &Cancel) -> Result<Vec<String>> {
    let (wanted, doubts) = find_free_data(qcow2.open(cancel)?.as_ref())?;
    qemu_img::write_zeros(
        &BackingChain::resolve(qcow2, cancel)?.to_image_arg()?,
        &wanted,
        cancel,
    )?;
    let opened = qcow2.open(cancel)?;
    let shown = intersect(&wanted, &opened.data()?);
    check_zero(qcow2, opened.as_ref(), shown, cancel)?;
    Ok(doubts)
}

/// Zeroes the free clusters of a closed VHDX: fixed, dynamic or differencing. Data that its parents
/// have in clusters that were freed since is reported among the doubts.
pub fn clear_vhdx(vhdx: DiskImage<'_>, cancel: &Cancel) -> Result<Vec<String>> {
    let (wanted, mut doubts) = find_free_data(&vhdx::open(vhdx)?)?;
    vhdx::zero_in_place(vhdx, &wanted, cancel)?;
    let opened = vhdx::open(vhdx)?;
    let mut shown = 0;
    for range in &wanted {
        shown += bytes_in(&opened, range.clone(), cancel)?;
    }
    if shown > 0 {
        check_zero(vhdx, &opened, opened.find_held(&wanted)?, cancel)?;
        doubts.push(format!(
            "{shown} bytes of deleted files are still readable from lower layers, in clusters \
             that are \
             now free"
        ));
    }
    Ok(doubts)
}

/// Finds the free ranges that may contain data, and doubts about them.
fn find_free_data(disk: &dyn Disk) -> Result<(Vec<Range<u64>>, Vec<String>)> {
    let mut doubts = Vec::new();
    let free = free(disk, &mut doubts);
    Ok((intersect(&free, &disk.data()?), doubts))
}

fn check_zero(
    image: DiskImage<'_>,
    disk: &dyn Disk,
    ranges: Vec<Range<u64>>,
    cancel: &Cancel,
) -> Result<()> {
    for range in ranges {
        if let Some(offset) = first_byte(disk, range, cancel)? {
            let fact = "free clusters of the sealed disk could not be zeroed";
            let at = format!("{}, offset {offset}", image.file.display());
            return Err(Error::new(Kind::Machine, fact).at(at));
        }
    }
    Ok(())
}

/// Finds free ranges of the disk's NTFS volumes, ascending and disjoint.
fn free(disk: &dyn Disk, doubts: &mut Vec<String>) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    let Ok(table) = gpt::read_table(disk) else {
        return found;
    };
    for partition in &table.partitions {
        let Ok(volume) = NtfsVolume::open(disk, partition) else {
            continue;
        };
        let free = match volume.free() {
            Ok(free) => free,
            Err(error) => {
                doubts.push(format!(
                    "free clusters were not zeroed, so data of deleted files stays in the image: \
                     {}",
                    error.fact()
                ));
                continue;
            }
        };
        let end = partition.start + partition.len;
        found.extend(
            free.into_iter()
                .map(|r| partition.start + r.start..(partition.start + r.end).min(end))
                .filter(|r| !r.is_empty()),
        );
    }
    found.sort_by_key(|r| r.start);
    found
}

/// Intersects two lists of ranges, each ascending and disjoint.
fn intersect(one: &[Range<u64>], other: &[Range<u64>]) -> Vec<Range<u64>> {
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    let mut found = Vec::new();
    while let (Some(a), Some(b)) = (one.peek(), other.peek()) {
        let both = a.start.max(b.start)..a.end.min(b.end);
        let a_ends_first = a.end < b.end;
        if !both.is_empty() {
            found.push(both);
        }
        if a_ends_first {
            one.next()
        } else {
            other.next()
        };
    }
    found
}

/// Finds the offset of the first nonzero byte.
fn first_byte(disk: &dyn Disk, range: Range<u64>, cancel: &Cancel) -> Result<Option<u64>> {
    let mut first = None;
    read(disk, range, cancel, |at, part| {
        first = part.iter().position(|b| *b != 0).map(|i| at + i as u64);
        first.is_none()
    })?;
    Ok(first)
}

/// Counts nonzero bytes.
fn bytes_in(disk: &dyn Disk, range: Range<u64>, cancel: &Cancel) -> Result<usize> {
    let mut count = 0;
    read(disk, range, cancel, |_, part| {
        count += part.iter().filter(|b| **b != 0).count();
        true
    })?;
    Ok(count)
}

/// Passes a range to `look` in pieces until it returns false.
fn read(
    disk: &dyn Disk,
    range: Range<u64>,
    cancel: &Cancel,
    mut look: impl FnMut(u64, &[u8]) -> bool,
) -> Result<()> {
    let mut buffer = vec![0; BUFFER];
    let mut at = range.start;
    while at < range.end {
        cancel.check()?;
        let part = &mut buffer[..(range.end - at).min(BUFFER as u64) as usize];
        disk.read_at(at, part)?;
        if !look(at, part) {
            break;
        }
        at += part.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::intersect;

    #[test]
    fn ranges_have_in_common_what_both_have() {
        assert_eq!(
            intersect(&[0..10, 20..30, 40..50], &[5..25, 29..40]),
            [5..10, 20..25, 29..30]
        );
        assert_eq!(intersect(&[0..10, 10..12], &[0..3, 3..6]), [0..3, 3..6]);
    }
}
