//! The clusters that no file has: zeroed on the sealed disk.
//!
//! Windows marks the clusters of a deleted file as free and leaves their bytes: Setup's copies of the answer file, with the
//! Administrator's password, are among them. Writes nothing but what the volume's own bitmap calls free, and nothing at all
//! on a volume that was not shut down in order. Of an overlay only the overlay is written: a qcow2 hides what the layers below
//! it hold, and they keep it; a VHDX can't hide it without new blocks, so that what shows through is reported.

use std::ops::Range;

use super::backing::Chain;
use super::ntfs::Volume;
use super::{Disk, Image, gpt, qemu_img, vhdx};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;

const BUFFER: usize = 1 << 20;

/// Zeroes the free clusters of every NTFS volume on a closed qcow2; what could not be zeroed, in words. A disk without such
/// a volume is left as it is.
pub fn clear(qcow2: Image<'_>, cancel: &Cancel) -> Result<Vec<String>> {
    let (wanted, doubts) = wanted(qcow2.open(cancel)?.as_ref())?;
    qemu_img::write_zeros(&Chain::of(qcow2, cancel)?.named()?, &wanted, cancel)?;
    let opened = qcow2.open(cancel)?;
    let shown = shared(&wanted, &opened.data()?);
    check_zero(qcow2, opened.as_ref(), shown, cancel)?;
    Ok(doubts)
}

/// The same for a closed VHDX, fixed, dynamic or differencing. What its parents have in clusters that were freed since is
/// among the doubts.
pub fn clear_vhdx(vhdx: Image<'_>, cancel: &Cancel) -> Result<Vec<String>> {
    let (wanted, mut doubts) = wanted(&vhdx::open(vhdx)?)?;
    vhdx::zero_in_place(vhdx, &wanted, cancel)?;
    let opened = vhdx::open(vhdx)?;
    let mut shown = 0;
    for range in &wanted {
        shown += bytes_in(&opened, range.clone(), cancel)?;
    }
    if shown > 0 {
        check_zero(vhdx, &opened, opened.held(&wanted)?, cancel)?;
        doubts.push(format!(
            "{shown} bytes of deleted files show through from the layers below, in clusters that are free now"
        ));
    }
    Ok(doubts)
}

/// The free bytes that may hold something, and what is not certain about them.
fn wanted(disk: &dyn Disk) -> Result<(Vec<Range<u64>>, Vec<String>)> {
    let mut doubts = Vec::new();
    let free = free(disk, &mut doubts);
    Ok((shared(&free, &disk.data()?), doubts))
}

fn check_zero(
    image: Image<'_>,
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

/// Free bytes of the disk's NTFS volumes, ascending and apart.
fn free(disk: &dyn Disk, doubts: &mut Vec<String>) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    let Ok(table) = gpt::table(disk) else {
        return found;
    };
    for partition in &table.partitions {
        let Ok(volume) = Volume::open(disk, partition) else {
            continue;
        };
        let within = match volume.free() {
            Ok(within) => within,
            Err(error) => {
                doubts.push(format!(
                    "free clusters are not zeroed, so that bytes of deleted files stay in the image: {}",
                    error.fact()
                ));
                continue;
            }
        };
        let end = partition.start + partition.len;
        let within = within
            .into_iter()
            .map(|r| partition.start + r.start..(partition.start + r.end).min(end));
        found.extend(within.filter(|r| !r.is_empty()));
    }
    found.sort_by_key(|r| r.start);
    found
}

/// What two lists of ranges have in common; each ascending and apart.
fn shared(one: &[Range<u64>], other: &[Range<u64>]) -> Vec<Range<u64>> {
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    let mut found = Vec::new();
    while let (Some(a), Some(b)) = (one.peek(), other.peek()) {
        let both = a.start.max(b.start)..a.end.min(b.end);
        let a_ends_first = a.end < b.end;
        if !both.is_empty() {
            found.push(both);
        }
        match a_ends_first {
            true => one.next(),
            false => other.next(),
        };
    }
    found
}

/// Where the first byte is that is not zero.
fn first_byte(disk: &dyn Disk, range: Range<u64>, cancel: &Cancel) -> Result<Option<u64>> {
    let mut first = None;
    read(disk, range, cancel, |at, part| {
        first = part.iter().position(|b| *b != 0).map(|i| at + i as u64);
        first.is_none()
    })?;
    Ok(first)
}

/// How many bytes are not zero.
fn bytes_in(disk: &dyn Disk, range: Range<u64>, cancel: &Cancel) -> Result<usize> {
    let mut count = 0;
    read(disk, range, cancel, |_, part| {
        count += part.iter().filter(|b| **b != 0).count();
        true
    })?;
    Ok(count)
}

/// Gives a range to `look` in pieces, for as long as it says so.
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
    use super::shared;

    #[test]
    fn ranges_have_in_common_what_both_have() {
        assert_eq!(
            shared(&[0..10, 20..30, 40..50], &[5..25, 29..40]),
            [5..10, 20..25, 29..30]
        );
        assert_eq!(shared(&[0..10, 10..12], &[0..3, 3..6]), [0..3, 3..6]);
    }
}
