//! Disks whose tables, volumes or containers say that they are larger than they are.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use support::media::{have, run, text};
use winimg_base::event::Cancel;
use winimg_formats::disk::{self, ImageFormat, RawDisk, gpt};

const MIB: u64 = 1 << 20;

/// A disk of 64 MiB with an EFI system partition and one of basic data, divided by sgdisk.
fn divided(folder: &Path) -> PathBuf {
    let path = folder.join("disk.raw");
    let file = File::create(&path).unwrap();
    file.set_len(64 * MIB).unwrap();
    let first = ["--new=1:2048:+10M", "--typecode=1:ef00"];
    let second = ["--new=2:0:+40M", "--typecode=2:0700", text(&path)];
    run("sgdisk", &[&first[..], &second[..]].concat());
    path
}

fn change(path: &Path, at: u64, bytes: &[u8]) {
    let mut file = OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(bytes).unwrap();
}

fn set_len(path: &Path, len: u64) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(len).unwrap();
}

fn table(path: &Path) -> Result<gpt::PartitionTable, String> {
    gpt::read_table(&RawDisk::open(path).unwrap()).map_err(|e| e.to_string())
}

/// An MBR whose partitions are of NTFS, by their first sectors and lengths.
fn mbr(path: &Path, sectors: &[(u32, u32)]) {
    let mut mbr = [0; 512];
    for (i, (start, len)) in sectors.iter().enumerate() {
        let at = 446 + 16 * i;
        mbr[at + 4] = 0x07;
        mbr[at + 8..at + 12].copy_from_slice(&start.to_le_bytes());
        mbr[at + 12..at + 16].copy_from_slice(&len.to_le_bytes());
    }
    mbr[510..].copy_from_slice(&[0x55, 0xaa]);
    change(path, 0, &mbr);
}

#[test]
fn a_disk_that_lost_its_end_is_refused_however_little_it_lost() {
    if !have(&["sgdisk"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = divided(folder.path());
    assert!(table(&path).unwrap().doubts.is_empty());
    for lost in [1, 512, MIB, 30 * MIB] {
        set_len(&path, 64 * MIB - lost);
        assert_eq!(
            table(&path).unwrap_err(),
            format!(
                "\
the disk is truncated: its partition table was written for a larger one
  expected: 67108864 bytes
  found: {} bytes
  cure: copy the disk again from its source, and compare its digest with the manifest",
                64 * MIB - lost
            )
        );
    }
    // A disk that was made larger is not damaged: its backup is where the first table says.
    let path = divided(folder.path());
    set_len(&path, 80 * MIB);
    assert!(table(&path).unwrap().doubts.is_empty());
}

#[test]
fn an_mbr_disk_that_lost_its_end_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.raw");
    File::create(&path).unwrap().set_len(64 * MIB).unwrap();
    mbr(&path, &[(2048, 20_480), (22_528, 100_000)]);
    assert_eq!(table(&path).unwrap().partitions.len(), 2);
    set_len(&path, 62_000_128);
    let error = table(&path).unwrap_err();
    let fact = "the disk is damaged: partition 2 ends beyond the end of the disk, \
                at 62734336 of 62000128 bytes";
    assert!(error.starts_with(fact), "{error}");
}

#[test]
fn one_damaged_copy_of_a_gpt_is_a_doubt_and_two_are_an_error() {
    if !have(&["sgdisk"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let sound = divided(folder.path());
    let bytes = fs::read(&sound).unwrap();
    let last = 64 * MIB - 512;
    let expected = table(&sound).unwrap().partitions;
    let doubt = |changes: &[(u64, &[u8])]| {
        fs::write(&sound, &bytes).unwrap();
        for (at, bytes) in changes {
            change(&sound, *at, bytes);
        }
        table(&sound).map(|found| {
            assert_eq!(found.partitions, expected);
            found.doubts.join("; ")
        })
    };
    let first = "the partition table is damaged (";
    for (at, why) in [
        (512, "there is no header) and is read from its backup"),
        (
            512 + 56,
            "the checksum of its header is wrong) and is read from its backup",
        ),
        (
            1024 + 32,
            "the checksum of its entries is wrong) and is read from its backup",
        ),
    ] {
        assert_eq!(doubt(&[(at, b"\xff")]).unwrap(), format!("{first}{why}"));
    }
    let backup = "the backup of the partition table is damaged: ";
    for (at, why) in [
        (last, "there is no header"),
        (last + 60, "the checksum of its header is wrong"),
        (last - 32 * 512 + 60, "the checksum of its entries is wrong"),
    ] {
        assert_eq!(doubt(&[(at, b"\xff")]).unwrap(), format!("{backup}{why}"));
    }
    let error = doubt(&[(512, &[0; 8]), (last, &[0; 8])]).unwrap_err();
    assert!(
        error.contains("the first, at sector 1: there is no header"),
        "{error}"
    );
    assert!(
        error.contains("the backup, at sector 131071: there is no header"),
        "{error}"
    );
}

#[test]
fn partitions_that_overlap_are_refused_and_neighbours_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.raw");
    File::create(&path).unwrap().set_len(64 * MIB).unwrap();
    mbr(&path, &[(2048, 2048), (4096, 2048)]);
    assert_eq!(table(&path).unwrap().partitions.len(), 2);
    mbr(&path, &[(2048, 2049), (4096, 2048), (5000, 1_000_000)]);
    let error = table(&path).unwrap_err();
    // All complaints at once.
    for complaint in [
        "partitions 1 and 2 overlap",
        "partitions 2 and 3 overlap",
        "partition 3 ends beyond the end of the disk",
    ] {
        assert!(error.contains(complaint), "{error}");
    }
}

#[test]
fn a_volume_s_boot_sector_is_no_partition_table() {
    if !have(&["mkntfs", "mkfs.vfat"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    File::create(&path).unwrap().set_len(8 * MIB).unwrap();
    run("mkntfs", &["-qFf", text(&path)]);
    assert_eq!(table(&path).unwrap().style, gpt::PartitionStyle::None);
    run("mkfs.vfat", &[text(&path)]);
    assert_eq!(table(&path).unwrap().style, gpt::PartitionStyle::None);
}

#[test]
fn a_volume_that_is_larger_than_its_partition_is_refused() {
    if !have(&["sgdisk", "mkntfs", "mkfs.vfat"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = divided(folder.path());
    let found = table(&path).unwrap();
    let (efi, data) = (&found.partitions[0], &found.partitions[1]);
    let volume = folder.path().join("volume");
    let put = |program: &str, arguments: &[&str], at: u64, len: u64| {
        File::create(&volume).unwrap().set_len(len).unwrap();
        run(program, &[arguments, &[text(&volume)]].concat());
        let mut boot = [0; 512];
        File::open(&volume).unwrap().read_exact(&mut boot).unwrap();
        change(&path, at, &boot);
    };
    put("mkntfs", &["-qFf"], data.start, data.len);
    put("mkfs.vfat", &[], efi.start, efi.len);
    assert_eq!(table(&path).unwrap(), found);
    put("mkntfs", &["-qFf"], data.start, data.len + 2 * MIB);
    let error = table(&path).unwrap_err();
    let start = "the disk is damaged: the NTFS volume of partition 2 has";
    assert!(error.starts_with(start), "{error}");
    put("mkfs.vfat", &[], efi.start, efi.len + 2 * MIB);
    let error = table(&path).unwrap_err();
    assert!(
        error.contains("the FAT volume of partition 1 has"),
        "{error}"
    );
    assert!(
        error.contains("the NTFS volume of partition 2 has"),
        "{error}"
    );
}

#[test]
fn a_qcow2_that_is_cut_is_refused_and_a_whole_one_is_not() {
    if !have(&["qemu-img", "qemu-io"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.qcow2");
    let image = text(&path);
    let cancel = Cancel::default();
    run("qemu-img", &["create", "-q", "-f", "qcow2", image, "64M"]);
    run("qemu-io", &["-c", "write -P 7 1M 20M", image]);
    let whole = fs::metadata(&path).unwrap().len();
    let disk = disk::open(&path, &cancel).unwrap();
    let mut byte = [0];
    disk.read_at(20 * MIB, &mut byte).unwrap();
    assert_eq!((disk.len(), byte), (64 * MIB, [7]));
    // QEMU opens each of them and reads zeros for what is lost.
    for len in [whole * 7 / 10, whole * 4 / 10, whole - (64 << 10)] {
        set_len(&path, len);
        let error = disk::open(&path, &cancel).err().unwrap().to_string();
        assert!(error.contains("disk.qcow2 is damaged"), "{len}: {error}");
        assert!(error.contains("errors in `qemu-img check`"), "{error}");
    }
}

#[test]
fn a_cut_file_below_an_overlay_is_found_as_well() {
    if !have(&["qemu-img", "qemu-io"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (below, top) = (
        folder.path().join("below.qcow2"),
        folder.path().join("top.qcow2"),
    );
    let cancel = Cancel::default();
    run(
        "qemu-img",
        &["create", "-q", "-f", "qcow2", text(&below), "64M"],
    );
    run("qemu-io", &["-c", "write -P 7 1M 20M", text(&below)]);
    let create = [
        "create",
        "-q",
        "-f",
        "qcow2",
        "-F",
        "qcow2",
        "-b",
        "below.qcow2",
    ];
    run("qemu-img", &[&create[..], &[text(&top)]].concat());
    let image = disk::DiskImage::with_layers(&top, folder.path());
    image.open(&cancel).map(drop).unwrap();
    set_len(&below, 10 * MIB);
    let error = image.open(&cancel).err().unwrap().to_string();
    assert!(error.contains("below.qcow2 is damaged"), "{error}");
}

#[test]
fn a_container_that_is_not_read_is_refused_by_its_name() {
    if !have(&["qemu-img", "gzip", "xz", "zstd", "bzip2", "genisoimage"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let raw = folder.path().join("disk.raw");
    File::create(&raw).unwrap().set_len(4 * MIB).unwrap();
    mbr(&raw, &[(2048, 2048)]);
    assert_eq!(ImageFormat::detect(&raw).unwrap().name, "raw");
    let refused = |name: &str| {
        let path = folder.path().join(name);
        let error = ImageFormat::detect(&path).unwrap_err().to_string();
        error.replace(text(folder.path()), "")
    };
    for (format, name) in [
        ("vdi", "a VDI"),
        ("qed", "a QED image"),
        ("parallels", "a Parallels disk"),
        ("qcow", "a qcow image of version 1"),
    ] {
        let to = folder.path().join("converted");
        run(
            "qemu-img",
            &["convert", "-O", format, text(&raw), text(&to)],
        );
        // Whole MiB, as VirtualBox writes them.
        let len = fs::metadata(&to).unwrap().len();
        set_len(&to, len.next_multiple_of(MIB));
        assert_eq!(
            refused("converted"),
            format!(
                "\
/converted is {name}, which winimg cannot read as a disk
  expected: a disk in one file: raw, qcow2, VHD, VHDX, VMDK, OVA, VMA
  cure: convert it first: qemu-img convert -f {format} -O qcow2 /converted disk.qcow2"
            )
        );
    }
    for (program, name) in [
        ("gzip", "packed with gzip"),
        ("xz", "packed with xz"),
        ("zstd", "packed with zstd"),
        ("bzip2", "packed with bzip2"),
    ] {
        run(program, &["-k", "-f", text(&raw)]);
        let end = match program {
            "gzip" => "gz",
            "zstd" => "zst",
            "bzip2" => "bz2",
            other => other,
        };
        let error = refused(&format!("disk.raw.{end}"));
        let start = format!("/disk.raw.{end} is {name}, which winimg cannot read as a disk");
        assert!(error.starts_with(&start), "{error}");
    }
    fs::create_dir(folder.path().join("tree")).unwrap();
    let iso = folder.path().join("some.iso");
    run(
        "genisoimage",
        &[
            "-quiet",
            "-o",
            text(&iso),
            text(&folder.path().join("tree")),
        ],
    );
    let error = refused("some.iso");
    assert!(error.starts_with("/some.iso is an ISO"), "{error}");
}

#[test]
fn a_name_that_promises_a_format_is_believed_before_raw() {
    let folder = tempfile::tempdir().unwrap();
    // The end of a GPT: a fixed VHD is a raw disk and a footer.
    let mut raw = vec![0; 2 << 20];
    let last = raw.len() - 512;
    raw[last..last + 8].copy_from_slice(b"EFI PART");
    let detected = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        let found = ImageFormat::detect(&path).map(|format| format.name);
        found.map_err(|e| e.to_string().replace(text(folder.path()), ""))
    };
    for name in ["disk.raw", "disk.img", "disk", "disk-flat.vmdk"] {
        assert_eq!(detected(name, &raw), Ok("raw"), "{name}");
    }
    let cure = "copy the disk again from its source, and compare its digest with the manifest; \
                if it is a raw disk, rename it to .raw or .img";
    let footer = "a footer in its last 512 bytes";
    let header = "a header at its beginning";
    let short = &b"this is no disk"[..];
    for (name, family, bytes, expected, found) in [
        ("disk.vhd", "VHD", &raw[..], footer, "\"EFI PART\""),
        ("DISK.VHD", "VHD", short, footer, "15 bytes in total"),
        ("disk.vhdx", "VHDX", &raw, header, "zeros"),
        ("disk.qcow2", "qcow2", &raw[last..], header, "\"EFI PART\""),
        ("disk.vmdk", "VMDK", b"", header, "0 bytes in total"),
        ("disk.ova", "OVA", &raw, header, "zeros"),
        ("disk.vma", "VMA", &raw, header, "zeros"),
    ] {
        let refusal = format!(
            "the content of /{name} is not in the format {family}, which its name promises\n  \
             expected: {expected}\n  found: {found}\n  cure: {cure}"
        );
        assert_eq!(detected(name, bytes), Err(refusal));
    }
    // The content has the last word.
    let vhdx = [&b"vhdxfile"[..], &raw[8..]].concat();
    assert_eq!(detected("disk.vhd", &vhdx), Ok("VHDX"));
}
