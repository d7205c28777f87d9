//! Partitions and NTFS files, on disks that other programs made.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use winimg_base::event::Cancel;
use winimg_formats::disk::gpt::{PartitionStyle, read_table};
use winimg_formats::disk::ntfs::NtfsVolume;
use winimg_formats::disk::{Disk, ImageFormat, RawDisk, open};

use crate::export::fixture::{MIB, dense, disk, everything, is_root, path, run, sh};
use support::ntfs::mounted;
use support::skip::skipped;

fn empty(directory: &Path, mib: u64) -> PathBuf {
    let file = directory.join("disk.raw");
    fs::File::create(&file).unwrap().set_len(mib * MIB).unwrap();
    file
}

#[test]
fn a_windows_gpt_is_listed_as_diskpart_counts() {
    let dir = tempfile::tempdir().unwrap();
    let file = empty(dir.path(), 64);
    sh(
        "sgdisk",
        &[
            "-n1:0:+10M",
            "-t1:EF00",
            "-c1:EFI system partition",
            "-n2:0:+4M",
            "-t2:0C01",
            "-n3:0:0",
            "-t3:0700",
            "-c3:Basic data partition",
            path(&file),
        ],
    );
    let disk = RawDisk::open(&file).unwrap();
    let found = read_table(&disk).unwrap();
    assert_eq!(found.style, PartitionStyle::Gpt);
    let rows: Vec<_> = found
        .partitions
        .iter()
        .map(|p| {
            (
                p.number,
                p.start / MIB,
                p.len / MIB,
                p.role.unwrap(),
                p.name.as_str(),
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            (1, 1, 10, "EFI system", "EFI system partition"),
            (2, 11, 4, "Microsoft reserved", ""),
            (3, 15, 48, "basic data", "Basic data partition"),
        ]
    );
    assert_eq!(found.find_windows().unwrap().number, 3);
    // The primary table destroyed: the backup at the end is read.
    let mut bytes = fs::OpenOptions::new().write(true).open(&file).unwrap();
    bytes.seek(SeekFrom::Start(512)).unwrap();
    bytes.write_all(&[0; 512]).unwrap();
    let again = read_table(&RawDisk::open(&file).unwrap()).unwrap();
    assert_eq!(again.partitions, found.partitions);
    let doubt = "the partition table is damaged (there is no header) and is read from its backup";
    assert_eq!(again.doubts, [doubt]);
}

#[test]
fn an_mbr_is_listed_with_its_active_partition() {
    let dir = tempfile::tempdir().unwrap();
    let file = empty(dir.path(), 64);
    // As a BIOS install divides it: the active boot partition from 1 MiB, and the system behind it.
    let mut mbr = [0u8; 512];
    for (i, (active, start, sectors)) in [(0x80, 2048u32, 20_480u32), (0, 22_528, 100_000)]
        .iter()
        .enumerate()
    {
        let at = 446 + 16 * i;
        mbr[at] = *active;
        mbr[at + 4] = 0x07;
        mbr[at + 8..at + 12].copy_from_slice(&start.to_le_bytes());
        mbr[at + 12..at + 16].copy_from_slice(&sectors.to_le_bytes());
    }
    mbr[510..].copy_from_slice(&[0x55, 0xAA]);
    let mut bytes = fs::OpenOptions::new().write(true).open(&file).unwrap();
    bytes.write_all(&mbr).unwrap();
    let found = read_table(&RawDisk::open(&file).unwrap()).unwrap();
    assert_eq!(found.style, PartitionStyle::Mbr);
    let rows: Vec<_> = found
        .partitions
        .iter()
        .map(|p| (p.number, p.start, p.len, p.role, p.active))
        .collect();
    assert_eq!(
        rows,
        [
            (1, MIB, 10 * MIB, Some("NTFS"), true),
            (2, 11 * MIB, 51_200_000, Some("NTFS"), false),
        ]
    );
    assert_eq!(found.find_windows().unwrap().number, 2);
    // An empty disk has no table.
    let none = read_table(&RawDisk::open(&empty(dir.path(), 1)).unwrap()).unwrap();
    assert_eq!(none.style, PartitionStyle::None);
}

#[test]
fn images_are_recognized_by_their_content_and_read_alike() {
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 40);
    run(&source, dir.path(), &everything());
    sh(
        "tar",
        &[
            "-xf",
            path(&dir.path().join("demo.ova")),
            "-C",
            path(dir.path()),
        ],
    );
    let raw = RawDisk::open(&dir.path().join("demo.raw")).unwrap();
    // Compressed: read in place it can't be.
    let refused = open(&dir.path().join("demo.qcow2"), &Cancel::default())
        .err()
        .unwrap();
    assert!(
        refused.fact().contains("has compressed clusters"),
        "{refused}"
    );
    for (name, format) in [
        ("sealed.qcow2", "qcow2"),
        ("demo.raw", "raw"),
        ("demo.vhd", "fixed VHD"),
        ("demo.vhdx", "VHDX"),
        ("demo-fixed.vhdx", "VHDX"),
        ("demo.ova", "OVA"),
        ("demo-disk1.vmdk", "stream-optimised VMDK"),
        ("demo.vma", "VMA"),
    ] {
        let file = dir.path().join(name);
        assert_eq!(ImageFormat::detect(&file).unwrap().name, format);
        let disk = open(&file, &Cancel::default()).unwrap();
        assert_eq!(disk.len(), raw.len());
        for (offset, len) in [
            (0, 100_000),
            (2 * MIB - 77, 3_000_000),
            (40 * MIB - 9, 9),
            (7 * MIB + 65_535, 1),
        ] {
            let (mut a, mut b) = (vec![1; len], vec![2; len]);
            disk.read_at(offset, &mut a).unwrap();
            raw.read_at(offset, &mut b).unwrap();
            assert!(a == b, "{name} at {offset}");
        }
        assert!(disk.read_at(40 * MIB - 1, &mut [0; 2]).is_err());
    }
}

/// An NTFS volume in a file, mounted by ntfs-3g for the time of `write`.
pub fn volume(directory: &Path, write: impl FnOnce(&Path)) -> PathBuf {
    let file = directory.join("ntfs.raw");
    fs::File::create(&file).unwrap().set_len(48 * MIB).unwrap();
    sh(
        "mkntfs",
        &["-qFf", "-L", "Windows", "-s", "512", path(&file)],
    );
    mounted(&file, &["compression", "streams_interface=xattr"], write);
    file
}

pub fn set_attribute(file: &Path, name: &str, hex: &str) {
    let script = "import os,sys; os.setxattr(sys.argv[1], sys.argv[2], bytes.fromhex(sys.argv[3]))";
    sh("python3", &["-c", script, path(file), name, hex]);
}

pub fn can_mount() -> bool {
    let can = is_root() && Path::new("/dev/fuse").exists();
    if !can {
        skipped("writing the NTFS volume needs root and /dev/fuse");
    }
    can
}

#[test]
fn files_of_an_ntfs_volume_are_read_whatever_the_case() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (small, large) = (b"@echo off\r\n".to_vec(), dense(5, 3_000_001));
    let file = volume(dir.path(), |root| {
        let config = root.join("Windows/System32/config");
        fs::create_dir_all(&config).unwrap();
        fs::write(config.join("SYSTEM"), &large).unwrap();
        fs::write(root.join("Windows/setup.cmd"), &small).unwrap();
        fs::write(root.join("Windows/empty"), b"").unwrap();
        for i in 0..300 {
            fs::write(
                root.join(format!("Windows/System32/Part {i:03}.dll")),
                i.to_string(),
            )
            .unwrap();
        }
    });
    let disk = RawDisk::open(&file).unwrap();
    let volume = NtfsVolume::open_at(&disk, 0, disk.len()).unwrap();
    let read = |p: &str| volume.read(p, 8 * MIB).unwrap();
    assert!(read(r"C:\WINDOWS\system32\CONFIG\System").unwrap() == large);
    assert_eq!(read("/windows/SETUP.CMD").unwrap(), small);
    assert_eq!(read(r"\Windows\empty").unwrap(), b"");
    assert_eq!(read(r"c:\windows\system32\part 299.DLL").unwrap(), b"299");
    assert_eq!(read(r"C:\Windows\System32\Part 300.dll"), None);
    assert_eq!(read(r"C:\Windows\setup.cmd\deeper"), None);
    assert!(volume.read(r"C:\Windows", 1).is_err());
    let limited = volume
        .read(r"C:\Windows\setup.cmd", 4)
        .unwrap_err()
        .to_string();
    assert!(
        limited.contains("more than the expected maximum of 4 bytes"),
        "{limited}"
    );
    let names: Vec<_> = volume
        .list(r"C:\WINDOWS")
        .unwrap()
        .unwrap()
        .into_iter()
        .map(|e| (e.name, e.is_directory, e.size))
        .collect();
    let entry = |n: &str, d, s| (n.to_string(), d, s);
    assert_eq!(
        names,
        [
            entry("empty", false, 0),
            entry("setup.cmd", false, 11),
            entry("System32", true, 0)
        ]
    );
    assert_eq!(
        volume.list(r"C:\Windows\System32").unwrap().unwrap().len(),
        301
    );
    assert_eq!(volume.list(r"C:\Nowhere").unwrap(), None);
    assert!(!volume.is_dirty().unwrap());
    assert!(volume.exists(r"C:\Windows\System32").unwrap());
}

#[test]
fn files_whose_bytes_are_not_their_content_are_refused() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let text = include_str!("disks.rs").repeat(30);
    let file = volume(dir.path(), |root| {
        let packed = root.join("packed");
        fs::create_dir(&packed).unwrap();
        // FILE_ATTRIBUTE_DIRECTORY | COMPRESSED, big-endian: what is made inside is compressed.
        set_attribute(&packed, "system.ntfs_attrib_be", "00000810");
        fs::write(packed.join("file.txt"), &text).unwrap();
        let sparse = fs::File::create(root.join("sparse.bin")).unwrap();
        sparse.set_len(2_000_000).unwrap();
        fs::write(root.join("compact.exe"), &text).unwrap();
        // IO_REPARSE_TAG_WOF, 16 bytes of data.
        let wof =
            format!("170000801000 0000{}", "01000000020000000100000000000000").replace(' ', "");
        set_attribute(&root.join("compact.exe"), "system.ntfs_reparse_data", &wof);
    });
    let disk = RawDisk::open(&file).unwrap();
    let volume = NtfsVolume::open_at(&disk, 0, disk.len()).unwrap();
    let refused: Vec<String> = [r"C:\packed\file.txt", r"C:\sparse.bin", r"C:\compact.exe"]
        .iter()
        .map(|p| volume.read(p, 8 * MIB).unwrap_err().to_string())
        .collect();
    assert_eq!(
        refused,
        [
            r"C:\packed\file.txt is NTFS-compressed, so it cannot be read offline",
            r"C:\sparse.bin is sparse, so it cannot be read offline",
            r"C:\compact.exe is compressed by CompactOS (WOF), so it cannot be read offline",
        ]
    );
}

/// Positions of `needle` in `bytes`.
fn positions(bytes: &[u8], needle: &[u8]) -> Vec<usize> {
    let windows = bytes.windows(needle.len()).enumerate();
    windows
        .filter(|(_, w)| *w == needle)
        .map(|(i, _)| i)
        .collect()
}

#[test]
fn bytes_beyond_the_initialized_length_are_zeros() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let content = dense(6, 1_234_567);
    let file = volume(dir.path(), |root| {
        fs::write(root.join("log"), &content).unwrap()
    });
    // Data size and initialized size stand side by side; the second is cut, as Windows does for a file that was
    // extended but not written.
    let mut bytes = fs::read(&file).unwrap();
    let size = 1_234_567u64.to_le_bytes();
    let found = positions(&bytes, &[size, size].concat());
    assert!(!found.is_empty());
    for at in found {
        bytes[at + 8..at + 16].copy_from_slice(&1000u64.to_le_bytes());
    }
    fs::write(&file, bytes).unwrap();
    let disk = RawDisk::open(&file).unwrap();
    let read = NtfsVolume::open_at(&disk, 0, disk.len())
        .unwrap()
        .read("/log", 8 * MIB)
        .unwrap()
        .unwrap();
    assert_eq!(read.len(), content.len());
    assert!(read[..1000] == content[..1000]);
    assert!(read[1000..].iter().all(|b| *b == 0));
}

#[test]
fn a_volume_that_was_not_shut_down_is_reported() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = volume(dir.path(), |_| {});
    // $VOLUME_INFORMATION of NTFS 3.1: eight bytes reserved, major, minor, flags; bit 0 is dirty.
    let mut bytes = fs::read(&file).unwrap();
    let clean = [0, 0, 0, 0, 0, 0, 0, 0, 3, 1, 0, 0];
    let found: Vec<_> = positions(&bytes[..], &clean)
        .into_iter()
        .filter(|at| {
            positions(
                &bytes[at.saturating_sub(512)..*at],
                b"W\0i\0n\0d\0o\0w\0s\0",
            )
            .len()
                == 1
        })
        .collect();
    assert!(!found.is_empty());
    for at in found {
        bytes[at + 10] = 1;
    }
    fs::write(&file, bytes).unwrap();
    let disk = RawDisk::open(&file).unwrap();
    assert!(
        NtfsVolume::open_at(&disk, 0, disk.len())
            .unwrap()
            .is_dirty()
            .unwrap()
    );
}
