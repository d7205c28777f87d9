//! Seeds and bases that other programs make: install media, WIMs, NTFS volumes, disk formats, partition tables.

use std::fs;
use std::path::Path;

use super::{base, seed};
use support::archives::{ovf, tar_entry, tar_of};
use support::media::{self, have, run, text};
use support::{vhdx, vma};
use winimg_fuzz::ground::Base;

pub fn make(scratch: &Path) {
    if have(&["genisoimage", "wimlib-imagex", "mkfs.vfat"]) {
        windows(&scratch.join("windows"));
    }
    if have(&["mkntfs"]) {
        ntfs(&scratch.join("ntfs"));
    }
    if have(&["sgdisk"]) {
        gpt(&scratch.join("gpt"));
    }
    if have(&["qemu-img"]) {
        formats(&scratch.join("formats"));
    }
    differencing(scratch);
    archives(scratch);
}

/// A VHDX over another, with a block of each kind.
fn differencing(scratch: &Path) {
    const MIB: u64 = 1 << 20;
    let mut parent = vhdx::Writer::new(4 * MIB, MIB);
    parent.write(0, &[1; 8192]);
    parent.write(3 * MIB, &[3; 8192]);
    let mut child = vhdx::Writer::over(4 * MIB, MIB, parent.data_write, "vhdx-parent");
    child.write(512, &[4; 1024]);
    // Bytes that an input does not change: the tables are what matters.
    child.write(MIB, &[0xff; 1 << 20]);
    child.state(2, 2, 0);
    for (name, file) in [("vhdx-parent", parent), ("vhdx-child", child)] {
        let path = scratch.join(name);
        file.save(&path);
        base(name, &path);
    }
}

/// A VMA with the devices one after the other, and one with clusters of both in each extent.
fn archives(scratch: &Path) {
    let mut disk = vec![0; 3 * vma::CLUSTER + 700];
    for (at, byte) in [(0, 1), (70_000, 2), (3 * vma::CLUSTER, 3)] {
        disk[at..at + 600].fill(byte);
    }
    let mut writer = vma::Writer::of_disk(&disk);
    // Bytes that an input does not change.
    writer.add(2, "drive-efidisk0", &[0xff; vma::CLUSTER + vma::BLOCK]);
    for (which, called) in (0..).zip(["vma", "vma-mixed"]) {
        let path = scratch.join(called);
        writer.save(&path);
        base(called, &path);
        seed("vma", &format!("base-{which}"), &[which]);
        let mut named = writer.extents.concat();
        named.sort_by_key(|(device, cluster, _)| (cluster % 2, *device));
        writer.extents = named.chunks(3).map(<[_]>::to_vec).collect();
    }
}

/// An install medium with a WIM, as UDF and as ISO 9660.
fn windows(folder: &Path) {
    fs::create_dir(folder).expect("a folder");
    let wim = folder.join("install.wim");
    media::wim(&wim, "9", false);
    let bytes = fs::read(&wim).expect("a WIM");
    seed("wim", "four-images", &bytes);
    let (root, iso) = (folder.join("root"), folder.join("windows.iso"));
    media::put(&root, "README.TXT", b"This disc contains a UDF file system");
    media::put(&root, "sources/EI.CFG", b"[Channel]\r\neval\r\n");
    media::put(&root, "sources/install.wim", &bytes);
    media::put(&root, "boot/etfsboot.com", &[0xfa; 4096]);
    let boot = ["-no-pad", "-b", "boot/etfsboot.com", "-no-emul-boot"];
    media::udf(&root, &iso, &boot);
    base("udf-windows", &iso);

    let root = folder.join("plain");
    media::put(&root, "boot/boot.img", &[0xfa; 2048]);
    media::put(&root, "README.TXT", b"read me");
    let plain = folder.join("plain.iso");
    for (name, more) in [("plain", &[][..]), ("joliet", &["-J", "-R"])] {
        let mut arguments = vec![
            "-quiet",
            "-no-pad",
            "-b",
            "boot/boot.img",
            "-no-emul-boot",
            "-V",
            "PLAIN",
        ];
        arguments.extend(more);
        arguments.extend(["-o", text(&plain), text(&root)]);
        run("genisoimage", &arguments);
        seed(
            "iso",
            &format!("genisoimage-{name}"),
            &fs::read(&plain).expect("a disc"),
        );
    }
}

/// The smallest volume that mkntfs makes. It is empty: its own files are what is read, and they are of every kind.
fn ntfs(folder: &Path) {
    fs::create_dir(folder).expect("a folder");
    let volume = folder.join("volume");
    let file = fs::File::create(&volume).expect("a file");
    file.set_len(2 << 20).expect("its length");
    run(
        "mkntfs",
        &["-qFf", "-L", "Seed", "-s", "512", text(&volume)],
    );
    base("ntfs", &volume);
    seed("ntfs", "base", &[]);
    let bytes = fs::read(&volume).expect("a volume");
    let small = Base::new(bytes.clone());
    // The sectors of the volume, in its boot sector: far more than there are.
    let mut changes = vec![("larger-than-its-partition".to_owned(), 45, vec![0x67, 0x9d])];
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let records = (0..bytes.len()).step_by(512);
    let records = records.filter(|at| bytes[*at..].starts_with(b"INDX"));
    for (number, record) in records.enumerate() {
        // The first entry's length.
        let entry = record + 24 + u32_at(record + 24) as usize;
        for length in [0_u16, 8, 0xffff] {
            let name = format!("index-{number}-entry-of-{length}");
            changes.push((name, entry + 8, length.to_le_bytes().to_vec()));
        }
    }
    for (name, at, new) in changes {
        if let Some(change) = small.change(at, &new) {
            seed("ntfs", &name, &[&[0], change.as_slice()].concat());
        }
    }
}

fn gpt(folder: &Path) {
    fs::create_dir(folder).expect("a folder");
    let disk = folder.join("disk");
    let file = fs::File::create(&disk).expect("a file");
    // The table takes 34 sectors at the start and 33 at the end.
    file.set_len(80 * 512).expect("its length");
    run(
        "sgdisk",
        &[
            "--set-alignment=1",
            "--new=1:34:38",
            "--typecode=1:ef00",
            "--change-name=1:EFI",
            "--new=2:39:45",
            "--typecode=2:0700",
            text(&disk),
        ],
    );
    let bytes = fs::read(&disk).expect("a disk");
    seed("gpt", "gpt", &bytes);
    let mut mbr = vec![0; 4096];
    mbr[446..462].copy_from_slice(&[0x80, 0, 2, 0, 7, 0, 3, 0, 1, 0, 0, 0, 4, 0, 0, 0]);
    mbr[510..512].copy_from_slice(&[0x55, 0xaa]);
    seed("gpt", "mbr", &mbr);
}

/// A small disk in every format, with a hole and with data.
fn formats(folder: &Path) {
    fs::create_dir(folder).expect("a folder");
    let raw = folder.join("raw");
    let mut bytes = vec![0; 4 << 20];
    for (at, byte) in [(0, 1), (70_000, 2), (3 << 20, 3)] {
        bytes[at..at + 5000].fill(byte);
    }
    fs::write(&raw, bytes).expect("a disk");
    for (name, format, options) in [
        ("vhd-fixed", "vpc", "subformat=fixed,force_size=on"),
        ("vhd-dynamic", "vpc", "subformat=dynamic,force_size=on"),
        ("vhdx", "vhdx", "subformat=dynamic,block_size=1M"),
        ("vmdk-sparse", "vmdk", "subformat=monolithicSparse"),
        ("vmdk-stream", "vmdk", "subformat=streamOptimized"),
    ] {
        let to = folder.join(name);
        let arguments = [
            "convert",
            "-f",
            "raw",
            "-O",
            format,
            "-o",
            options,
            text(&raw),
            text(&to),
        ];
        run("qemu-img", &arguments);
        if name == "vmdk-stream" {
            end_after_marker(&to);
        }
        base(name, &to);
    }
    for (target, count) in [("vhd", 2), ("vhdx", 2), ("vmdk", 2)] {
        for which in 0..count {
            seed(target, &format!("base-{which}"), &[which]);
        }
    }
    let small = folder.join("small");
    fs::write(&small, [5; 128 << 10]).expect("a disk");
    let vmdk = folder.join("small.vmdk");
    let options = "subformat=streamOptimized";
    run(
        "qemu-img",
        &[
            "convert",
            "-f",
            "raw",
            "-O",
            "vmdk",
            "-o",
            options,
            text(&small),
            text(&vmdk),
        ],
    );
    end_after_marker(&vmdk);
    let vmdk = fs::read(vmdk).expect("a VMDK");
    let ova = tar_of(&[
        tar_entry(b"demo.ovf", b'0', ovf("demo.vmdk").as_bytes(), ""),
        tar_entry(b"demo.vmdk", b'0', &vmdk, ""),
    ]);
    seed("ova", "qemu", &ova);
}

/// qemu-img goes on after the marker of a VMDK's end, which is a sector of zeros; no reader of ours takes that.
fn end_after_marker(vmdk: &Path) {
    let mut bytes = fs::read(vmdk).expect("a VMDK");
    while bytes.ends_with(&[0; 1024]) {
        bytes.truncate(bytes.len() - 512);
    }
    fs::write(vmdk, bytes).expect("a VMDK");
}
