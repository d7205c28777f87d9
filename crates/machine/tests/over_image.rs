//! A clone's disk over an image of each format, read back through `qemu-img`. Skipped, with the
//! reason printed, where that is missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::archives::ovf;
use support::media;
use winimg_base::error::Result;
use winimg_base::event::{Cancel, Sink};
use winimg_formats::disk::overlay::OverlayDisk;
use winimg_formats::disk::{self, Disk as _};
use winimg_machine::vm::{
    Accel, Hypervisor, HypervisorKind, HypervisorProbe, MachinePlan, VirtualMachine,
};
use winimg_recipe::Firmware;

/// Only the disks of a hypervisor.
struct Disks;

impl Hypervisor for Disks {
    fn platform(&self) -> HypervisorKind {
        HypervisorKind::Qemu
    }

    fn probe(&self, _: Accel, _: Firmware, _: &Cancel) -> Result<HypervisorProbe> {
        Ok(HypervisorProbe::default())
    }

    fn start(
        &self,
        _: MachinePlan,
        _: std::sync::Arc<dyn Sink>,
        _: Cancel,
    ) -> Result<Box<dyn VirtualMachine>> {
        unreachable!("nothing is started")
    }
}

const MIB: u64 = 1 << 20;
const IMAGE: u64 = 8 * MIB;

/// A disk of 8 MiB with something at its beginning, in its middle and at its end.
fn raw(folder: &Path) -> PathBuf {
    let mut bytes = vec![0; IMAGE as usize];
    for (at, word) in [(0, b"HEAD"), (3 << 20, b"BODY"), (bytes.len() - 4, b"TAIL")] {
        bytes[at..at + 4].copy_from_slice(word);
    }
    // A name in which both JSON and QEMU's options have something to escape.
    let file = folder.join("an \"image\", new.raw");
    fs::write(&file, bytes).expect("written");
    file
}

fn qemu_img(arguments: &[&str], files: &[&Path]) -> (bool, String) {
    let output = Command::new("qemu-img")
        .args(arguments)
        .args(files)
        .output();
    let output = output.expect("qemu-img");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success(), text)
}

fn over(disk: &Path, image: &Path, bytes: u64) -> Result<(), String> {
    let _ = fs::remove_file(disk);
    let made = Disks.create_disk_over_image(disk, image, bytes, &Cancel::default());
    let folder = image.parent().expect("a folder").display().to_string();
    made.map_err(|e| e.to_string().replace(&folder, "DIR"))
}

#[test]
fn a_clone_begins_as_its_image_whatever_the_format_and_grows() {
    if !media::have(&["qemu-img", "tar"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let raw = raw(folder.path());
    let disk = folder.path().join("clone.qcow2");
    let converted = |format: &str, options: &[&str], name: &str| {
        let to = folder.path().join(name);
        let arguments = [&["convert", "-f", "raw", "-O", format], options].concat();
        assert!(qemu_img(&arguments, &[&raw, &to]).0, "{name}");
        to
    };
    let vmdk = converted("vmdk", &["-o", "subformat=streamOptimized"], "disk1.vmdk");
    // QEMU pads the file behind its end-of-stream marker, a sector of zeros; VMware's library and
    // ours take no such file.
    let bytes = fs::read(&vmdk).expect("read");
    let last = bytes.iter().rposition(|b| *b != 0).expect("a footer");
    let end = (last / 512 + 2) * 512;
    fs::write(&vmdk, &bytes[..end]).expect("written");
    let ova = folder.path().join("image.ova");
    let mut tar = Command::new("tar");
    tar.args(["--format=ustar", "-C"]).arg(folder.path());
    let packed = tar
        .arg("-cf")
        .arg(&ova)
        .args(["image.ovf", "plain.vmdk.txt", "disk1.vmdk"]);
    fs::write(folder.path().join("image.ovf"), ovf("disk1.vmdk")).expect("written");
    fs::write(folder.path().join("plain.vmdk.txt"), "x".repeat(700)).expect("written");
    assert!(packed.status().expect("tar").success());
    let images = [
        raw.clone(),
        converted("qcow2", &[], "plain.qcow2"),
        converted("qcow2", &["-c"], "compressed.qcow2"),
        converted("vpc", &["-o", "subformat=fixed,force_size=on"], "fixed.vhd"),
        // By the geometry, which cuts the disk short, and by its own size.
        converted("vpc", &["-o", "subformat=dynamic"], "geometry.vhd"),
        converted(
            "vpc",
            &["-o", "subformat=dynamic,force_size=on"],
            "dynamic.vhd",
        ),
        converted("vhdx", &[], "image.vhdx"),
        converted("vmdk", &[], "sparse.vmdk"),
        vmdk,
        ova,
    ];
    for image in images {
        let before = fs::read(&image).expect("read");
        over(&disk, &image, 12 * MIB).expect("made");
        let same = qemu_img(&["compare", "-f", "qcow2", "-F", "raw"], &[&disk, &raw]);
        assert!(same.0, "{}: {}", image.display(), same.1);
        let info = qemu_img(&["info", "--output=json"], &[&disk]).1;
        assert!(
            info.contains(&format!("\"virtual-size\": {}", 12 * MIB)),
            "{info}"
        );
        // Over the image's bytes, zeros over them, and beyond its end.
        let write = [
            ["-c", "write -P 7 2M 64k"],
            ["-c", "write -z 3M 1M"],
            ["-c", "write -P 7 11M 64k"],
        ];
        let mut qemu_io = Command::new("qemu-io");
        qemu_io.args(["-f", "qcow2"]).args(write.as_flattened());
        let written = qemu_io.arg(&disk).output();
        assert!(written.expect("qemu-io").status.success());
        if !image.ends_with("compressed.qcow2") {
            read_through(&disk, &image, folder.path());
        }
        assert!(
            fs::read(&image).expect("read") == before,
            "{}",
            image.display()
        );
    }
}

/// What is read of the clone is what QEMU sees of it.
fn read_through(clone: &Path, image: &Path, folder: &Path) {
    let cancel = Cancel::default();
    let below = disk::open(image, &cancel).expect("opened");
    let overlay = OverlayDisk::open(clone, below.into(), &cancel).expect("opened");
    let flat = folder.join("flat.raw");
    let converted = qemu_img(&["convert", "-f", "qcow2", "-O", "raw"], &[clone, &flat]);
    assert!(converted.0);
    let wanted = fs::read(&flat).expect("read");
    assert_eq!(overlay.len(), wanted.len() as u64);
    // In pieces that begin and end anywhere.
    let mut read = vec![1; wanted.len()];
    for (n, piece) in read.chunks_mut(1_000_003).enumerate() {
        overlay.read_at(n as u64 * 1_000_003, piece).expect("read");
    }
    assert!(read == wanted, "{}", image.display());
    let mut beyond = [0; 2];
    assert!(overlay.read_at(overlay.len() - 1, &mut beyond).is_err());
    let mut known = vec![0; wanted.len()];
    for range in overlay.data().expect("ranges") {
        let range = range.start as usize..range.end as usize;
        known[range.clone()].copy_from_slice(&wanted[range]);
    }
    assert!(known == wanted, "{}", image.display());
}

#[test]
fn an_image_that_names_others_and_a_disk_that_is_too_small_are_refused() {
    if !media::have(&["qemu-img"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let raw = raw(folder.path());
    let disk = folder.path().join("clone.qcow2");
    assert_eq!(
        over(&disk, &raw, 4 * MIB),
        Err(
            "a clone's disk cannot be smaller than its image\n  at: DIR/an \"image\", new.raw\n  \
             expected: 8388608 bytes or more\n  found: 4194304 bytes"
                .into()
        )
    );
    let overlay = folder.path().join("overlay.qcow2");
    let create = [
        "create",
        "-q",
        "-f",
        "qcow2",
        "-F",
        "raw",
        "-b",
        "/etc/hostname",
    ];
    let made = Command::new("qemu-img")
        .args(create)
        .arg(&overlay)
        .arg("8M")
        .status();
    assert!(made.expect("qemu-img").success());
    let refused = over(&disk, &overlay, 12 * MIB).expect_err("it names a file");
    assert!(
        refused.starts_with("DIR/overlay.qcow2 is an overlay over /etc/hostname\n"),
        "{refused}"
    );
    let archive = folder.path().join("image.vma");
    support::vma::Writer::of_disk(&[7; 1 << 20]).save(&archive);
    assert_eq!(
        over(&disk, &archive, 12 * MIB),
        Err(
            "QEMU cannot start a clone from a VMA\n  at: DIR/image.vma\n  \
             cure: export it first: winimg export DIR/image.vma --to raw"
                .into()
        )
    );
    assert!(!disk.exists());
}
