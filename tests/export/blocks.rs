//! Disks that are kept in blocks (dynamic VHD, VHDX, sparse VMDK), as qemu-img writes them.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use winimg_base::event::Cancel;
use winimg_formats::disk::gpt::{PartitionStyle, read_table};
use winimg_formats::disk::{Disk, ImageFormat, RawDisk, open};

use crate::export::fixture::{MIB, dense, disk, path, sh};

/// Each way to write such a disk: name, qemu's format and options, the format it is opened as.
const WAYS: [(&str, &str, &str, &str); 6] = [
    (
        "dynamic.vhd",
        "vpc",
        "subformat=dynamic,force_size=on",
        "dynamic VHD",
    ),
    ("dynamic.vhdx", "vhdx", "subformat=dynamic", "VHDX"),
    (
        "small-blocks.vhdx",
        "vhdx",
        "subformat=dynamic,block_size=1M",
        "VHDX",
    ),
    (
        "zero-blocks.vhdx",
        "vhdx",
        "subformat=dynamic,block_state_zero=off",
        "VHDX",
    ),
    ("fixed.vhdx", "vhdx", "subformat=fixed", "VHDX"),
    (
        "sparse.vmdk",
        "vmdk",
        "subformat=monolithicSparse",
        "sparse VMDK",
    ),
];

fn convert(
    directory: &Path,
    raw: &Path,
    (name, format, options, _): (&str, &str, &str, &str),
) -> PathBuf {
    let file = directory.join(name);
    let arguments = [
        "convert",
        "-f",
        "raw",
        "-O",
        format,
        "-o",
        options,
        path(raw),
        path(&file),
    ];
    sh("qemu-img", &arguments);
    file
}

/// The patterned disk of the fixture, raw.
fn pattern(directory: &Path) -> PathBuf {
    let raw = directory.join("disk.raw");
    let qcow2 = disk(directory, 40);
    support::media::convert(&["-O", "raw"], &qcow2, &raw);
    raw
}

fn opened(file: &Path) -> winimg_base::error::Result<Box<dyn Disk>> {
    open(file, &Cancel::default())
}

fn whole(disk: &dyn Disk) -> Vec<u8> {
    let mut bytes = vec![1; disk.len() as usize];
    // Pieces that keep to no block.
    let mut at = 0;
    for part in bytes.chunks_mut(777_777) {
        disk.read_at(at, part).unwrap();
        at += part.len() as u64;
    }
    bytes
}

#[test]
fn every_byte_is_what_qemu_img_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let raw = pattern(dir.path());
    let bytes = fs::read(&raw).unwrap();
    for way in WAYS {
        let file = convert(dir.path(), &raw, way);
        assert_eq!(ImageFormat::detect(&file).unwrap().name, way.3);
        let disk = opened(&file).unwrap();
        assert!(whole(&*disk) == bytes, "{}", way.0);
        assert!(disk.read_at(40 * MIB - 1, &mut [0; 2]).is_err());
        assert!(disk.read_at(u64::MAX, &mut [0; 2]).is_err());
        // What no range names is zeros.
        let mut rest = bytes.clone();
        for range in disk.data().unwrap() {
            rest[range.start as usize..range.end as usize].fill(0);
        }
        assert!(rest.iter().all(|b| *b == 0), "{}", way.0);
    }
}

#[test]
fn large_disks_have_bitmaps_between_their_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let raw = dir.path().join("disk.raw");
    let file = fs::File::create(&raw).unwrap();
    file.set_len(9 << 30).unwrap();
    // Before, on and after each border of a chunk: 4096 blocks of 1 MiB, then a bitmap's entry in the table.
    let places = [
        0,
        (4 << 30) - 5000,
        4 << 30,
        (4 << 30) + 3 * MIB,
        (8 << 30) - 1,
        (9 << 30) - 5000,
    ];
    for (seed, at) in (1..).zip(places) {
        file.write_all_at(&dense(seed, 5000), at).unwrap();
    }
    for way in [WAYS[0], WAYS[2], WAYS[5]] {
        let disk = convert(dir.path(), &raw, way);
        let disk = opened(&disk).unwrap();
        assert_eq!(disk.len(), 9 << 30);
        let raw = RawDisk::open(&raw).unwrap();
        let mut known = 0;
        for range in disk.data().unwrap() {
            known += range.end - range.start;
            let len = (range.end - range.start) as usize;
            let (mut a, mut b) = (vec![1; len], vec![2; len]);
            disk.read_at(range.start, &mut a).unwrap();
            raw.read_at(range.start, &mut b).unwrap();
            assert!(a == b, "{} at {}", way.0, range.start);
        }
        for (seed, at) in (1..).zip(places) {
            let mut found = vec![0; 5000];
            disk.read_at(at, &mut found).unwrap();
            assert!(found == dense(seed, 5000), "{} at {at}", way.0);
        }
        assert!(known < 32 * MIB, "{}: {known}", way.0);
    }
}

#[test]
fn sectors_that_were_never_written_are_zeros_whatever_lies_there() {
    let dir = tempfile::tempdir().unwrap();
    let raw = pattern(dir.path());
    let file = convert(dir.path(), &raw, WAYS[0]);
    let mut bytes = fs::read(&file).unwrap();
    // The first block: its bitmap's sector is the first entry of the table, which stands at 1536.
    let bitmap = u32::from_be_bytes(bytes[1536..1540].try_into().unwrap()) as usize * 512;
    assert_eq!(bytes[bitmap], 0xff);
    bytes[bitmap] = 0b1010_1111;
    fs::write(&file, bytes).unwrap();
    let mut expected = fs::read(&raw).unwrap();
    expected[512..1024].fill(0);
    expected[3 * 512..4 * 512].fill(0);
    assert!(whole(&*opened(&file).unwrap()) == expected);
}

/// A VHDX whose metadata was changed: the item is found by its old value, which has to be there once.
fn with_item(file: &Path, old: &[u8], new: &[u8]) {
    let mut bytes = fs::read(file).unwrap();
    let windows = bytes.windows(old.len()).enumerate();
    let found: Vec<usize> = windows
        .filter(|(_, w)| *w == old)
        .map(|(at, _)| at)
        .collect();
    assert_eq!(found.len(), 1);
    bytes[found[0]..found[0] + new.len()].copy_from_slice(new);
    fs::write(file, bytes).unwrap();
}

#[test]
fn a_disk_with_sectors_of_4096_bytes_has_its_partitions_there() {
    let dir = tempfile::tempdir().unwrap();
    let raw = dir.path().join("disk.raw");
    fs::File::create(&raw).unwrap().set_len(64 * MIB).unwrap();
    let mut device = fs::File::options()
        .read(true)
        .write(true)
        .open(&raw)
        .unwrap();
    let lb = gpt::disk::LogicalBlockSize::Lb4096;
    gpt::mbr::ProtectiveMBR::with_lb_size((64 * MIB / 4096 - 1) as u32)
        .overwrite_lba0(&mut device)
        .unwrap();
    let mut made = gpt::GptConfig::new()
        .writable(true)
        .logical_block_size(lb)
        .create_from_device(device, None)
        .unwrap();
    made.add_partition("Windows", 32 * MIB, gpt::partition_types::BASIC, 0, None)
        .unwrap();
    made.write().unwrap();
    let file = convert(dir.path(), &raw, WAYS[1]);
    assert_ne!(
        read_table(&*opened(&file).unwrap())
            .ok()
            .map(|t| t.partitions.len()),
        Some(1)
    );
    // Logical and physical sector sizes stand side by side.
    let sizes = |n: u32| [n.to_le_bytes(), 512_u32.to_le_bytes()].concat();
    with_item(&file, &sizes(512), &sizes(4096));
    let disk = opened(&file).unwrap();
    assert_eq!(disk.sector_size(), 4096);
    let found = read_table(&*disk).unwrap();
    assert_eq!(found.style, PartitionStyle::Gpt);
    assert_eq!(
        (found.partitions[0].len, found.partitions[0].start % 4096),
        (32 * MIB, 0)
    );
    assert!(whole(&*disk) == fs::read(&raw).unwrap());
}

#[test]
fn a_disk_that_is_not_whole_is_refused_with_its_cure() {
    let dir = tempfile::tempdir().unwrap();
    let raw = pattern(dir.path());
    let mut rendered = Vec::new();
    let mut note = |file: &Path| {
        let error = opened(file).err().unwrap().to_string();
        rendered.push(error.replace(path(dir.path()), ""));
    };
    let log = convert(
        dir.path(),
        &raw,
        ("log.vhdx", "vhdx", "subformat=dynamic", "VHDX"),
    );
    let mut bytes = fs::read(&log).unwrap();
    for at in [64 << 10, 128 << 10] {
        bytes[at + 48] = 1;
        let header = &mut bytes[at..at + 4096];
        header[4..8].fill(0);
        let sum = crc::Crc::<u32>::new(&crc::CRC_32_ISCSI).checksum(header);
        header[4..8].copy_from_slice(&sum.to_le_bytes());
    }
    fs::write(&log, &bytes).unwrap();
    note(&log);
    bytes[64 << 10] = 0;
    bytes[128 << 10] = 0;
    fs::write(&log, &bytes).unwrap();
    note(&log);
    let child = dir.path().join("child.vhdx");
    fs::copy(convert(dir.path(), &raw, WAYS[1]), &child).unwrap();
    // File parameters: blocks of 8 MiB, then the bit for a parent.
    with_item(&child, &[0, 0, 0x80, 0, 0, 0, 0, 0], &[0, 0, 0x80, 0, 2]);
    note(&child);
    let vhd = convert(dir.path(), &raw, WAYS[0]);
    let mut bytes = fs::read(&vhd).unwrap();
    let footer = bytes.len() - 512;
    bytes[footer + 63] = 4;
    let sum = u32::from_be_bytes(bytes[footer + 64..footer + 68].try_into().unwrap());
    bytes[footer + 64..footer + 68].copy_from_slice(&(sum - 1).to_be_bytes());
    fs::write(&vhd, &bytes).unwrap();
    note(&vhd);
    fs::write(&vhd, &bytes[..footer]).unwrap();
    note(&vhd);
    let vmdk = convert(dir.path(), &raw, WAYS[5]);
    let bytes = fs::read(&vmdk).unwrap();
    for (old, new) in [
        ("parentCID=ffffffff", "parentCID=fffffffe"),
        ("monolithicSparse", "twoGbMaxExtSpars"),
    ] {
        fs::write(&vmdk, &bytes).unwrap();
        with_item(&vmdk, old.as_bytes(), new.as_bytes());
        note(&vmdk);
    }
    let flat = convert(
        dir.path(),
        &raw,
        ("flat.vmdk", "vmdk", "subformat=monolithicFlat", "raw"),
    );
    note(&flat);
    insta::assert_snapshot!(rendered.join("\n"));
}

#[test]
fn an_extent_of_a_split_vmdk_is_refused_with_its_descriptor() {
    let dir = tempfile::tempdir().unwrap();
    let raw = pattern(dir.path());
    let options = "subformat=twoGbMaxExtentSparse";
    let way = ("split.vmdk", "vmdk", options, "sparse VMDK");
    let descriptor = convert(dir.path(), &raw, way);
    let extent = dir.path().join("split-s001.vmdk");
    let refused = |file: &Path| opened(file).err().unwrap().to_string();
    let cure = |descriptor: &str| {
        format!(
            "is one extent of a split VMDK: the disk is in several files\n  cure: pass its \
             descriptor to qemu-img: qemu-img convert -O raw {descriptor} disk.raw"
        )
    };
    let error = refused(&extent);
    assert!(error.ends_with(&cure(path(&descriptor))), "{error}");
    fs::remove_file(&descriptor).unwrap();
    let error = refused(&extent);
    assert!(error.ends_with(&cure("DESCRIPTOR.vmdk")), "{error}");
}

#[test]
fn damage_anywhere_is_an_error_or_other_bytes_but_never_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    let raw = pattern(dir.path());
    for (way, meant) in [
        // Footer copy, header and table; tables and metadata of VHDX; header, descriptor and tables.
        (WAYS[0], vec![0..1616, usize::MAX - 511..usize::MAX]),
        (
            WAYS[1],
            vec![
                65536..65616,
                131072..131152,
                196608..196720,
                2 * MIB as usize..2 * MIB as usize + 300,
                3 * MIB as usize..3 * MIB as usize + 60,
            ],
        ),
        (
            WAYS[5],
            vec![0..80, 512..700, 15_360..15_368, 15_872..16_300],
        ),
    ] {
        let file = convert(dir.path(), &raw, way);
        let bytes = fs::read(&file).unwrap();
        let places: Vec<usize> = meant
            .into_iter()
            .flatten()
            .map(|at| {
                if at < bytes.len() {
                    at
                } else {
                    bytes.len() - (usize::MAX - at) - 1
                }
            })
            .collect();
        let target = fs::File::options().write(true).open(&file).unwrap();
        let mut refused = 0;
        for (round, random) in (0..400).zip(dense(9, 1600).chunks(4)) {
            let at =
                places[usize::from(u16::from_le_bytes([random[0], random[1]])) % places.len()] & !3;
            let word = [
                [0; 4],
                [0xff; 4],
                [0, 0, 0, 0x80],
                [random[2], 0, random[3], 0],
            ][round % 4];
            target.write_all_at(&word, at as u64).unwrap();
            // With the checksum of VHDX made right, so that the field itself is met.
            if way.3 == "VHDX" {
                reseal(&file, &target);
            }
            match opened(&file) {
                Ok(disk) => {
                    disk.data().unwrap();
                    let mut buffer = vec![0; 70_000];
                    for at in [0, disk.len() / 2, disk.len().saturating_sub(70_000)] {
                        let _ = disk.read_at(at, &mut buffer);
                    }
                }
                Err(_) => refused += 1,
            }
            target.write_all_at(&bytes[at..at + 4], at as u64).unwrap();
            if way.3 == "VHDX" {
                target.write_all_at(&bytes[65536..262_144], 65536).unwrap();
            }
        }
        assert!(refused > 20, "{}: {refused}", way.0);
        assert!(opened(&file).is_ok(), "{}", way.0);
    }
}

/// The sums of both headers and of the first region table.
fn reseal(file: &Path, target: &fs::File) {
    let read = fs::File::open(file).unwrap();
    for (at, len) in [(65536, 4096), (131_072, 4096), (196_608, 65536)] {
        let mut bytes = vec![0; len];
        read.read_exact_at(&mut bytes, at).unwrap();
        bytes[4..8].fill(0);
        let sum = crc::Crc::<u32>::new(&crc::CRC_32_ISCSI).checksum(&bytes);
        target.write_all_at(&sum.to_le_bytes(), at + 4).unwrap();
    }
}
