//! Disks that are damaged, by accident or on purpose, in ways that the crates under the readers
//! take for impossible.

use std::fs;
use std::path::Path;

use support::media::{have, run, text};
use winimg_formats::disk::ntfs::NtfsVolume;
use winimg_formats::disk::{Disk, RawDisk, gpt};

/// A disk of 80 sectors with one partition, whose primary header's `field` is `word`; its sum is
/// right.
fn disk_with(folder: &Path, field: usize, word: u32) -> RawDisk {
    let path = folder.join("disk");
    fs::write(&path, vec![0; 80 * 512]).unwrap();
    let arguments = ["--set-alignment=1", "--new=1:34:38", text(&path)];
    run("sgdisk", &arguments);
    let mut bytes = fs::read(&path).unwrap();
    bytes[512 + field..512 + field + 4].copy_from_slice(&word.to_le_bytes());
    bytes[512 + 16..512 + 20].fill(0);
    let sum = libdeflater::crc32(&bytes[512..512 + 92]);
    bytes[512 + 16..512 + 20].copy_from_slice(&sum.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    RawDisk::open(&path).unwrap()
}

#[test]
fn a_partition_table_of_another_shape_is_refused() {
    if !have(&["sgdisk"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let rendered = |field, word| {
        let disk = disk_with(folder.path(), field, word);
        gpt::read_table(&disk).unwrap_err().to_string()
    };
    assert_eq!(
        rendered(84, 256),
        "\
the disk's partition table cannot be read
  at: offset 0x200 of the disk
  expected: at most 1024 entries of 128 bytes
  found: 128 of 256"
    );
    assert_eq!(
        rendered(80, u32::MAX),
        "\
the disk's partition table cannot be read
  at: offset 0x200 of the disk
  expected: at most 1024 entries of 128 bytes
  found: 4294967295 of 128"
    );
    // The backup takes the place of a header whose sum is wrong, whatever else is wrong with it.
    disk_with(folder.path(), 84, 256);
    let mut bytes = fs::read(folder.path().join("disk")).unwrap();
    bytes[512 + 16] ^= 1;
    fs::write(folder.path().join("disk"), bytes).unwrap();
    let disk = RawDisk::open(&folder.path().join("disk")).unwrap();
    assert_eq!(gpt::read_table(&disk).unwrap().partitions.len(), 1);
}

#[test]
fn a_volume_that_is_cut_short_is_an_error_wherever_it_ends() {
    if !have(&["mkntfs"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    fs::File::create(&path).unwrap().set_len(2 << 20).unwrap();
    run("mkntfs", &["-qFf", "-s", "512", text(&path)]);
    let disk = RawDisk::open(&path).unwrap();
    assert!(
        !NtfsVolume::open_at(&disk, 0, disk.len())
            .unwrap()
            .is_dirty()
            .unwrap()
    );
    // Within the boot sector, its tables, the master file table, and a directory.
    let ends = (0..512).chain((512..disk.len()).step_by(32 << 10));
    let mut refused = 0;
    for end in ends {
        let answer = NtfsVolume::open_at(&disk, 0, end)
            .and_then(|v| v.list(""))
            .and_then(|found| found.map(|f| f.len()).ok_or_else(|| unreachable!()));
        refused += usize::from(answer.is_err());
    }
    assert!(refused >= 512, "{refused}");
    assert_eq!(
        NtfsVolume::open_at(&disk, 0, 30).err().unwrap().to_string(),
        "\
cannot read $Boot on the NTFS volume: offset 0x1e of the volume is beyond its end
  cure: check the volume in that Windows: chkdsk /f"
    );
}
