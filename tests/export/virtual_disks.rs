//! Virtual disks of our own making, judged by qemu-img and by a reader that is neither ours nor QEMU's.

use std::fs;
use std::path::{Path, PathBuf};

use winimg::export::export;
use winimg_base::event::Cancel;
use winimg_recipe::{OutputFormat, Outputs};

use crate::export::fixture::{Heard, MIB, disk, everything, guest, job, openssl, path, run, sh};
use crate::export::formats::same_content;
use support::tree;
use support::vhdx::headers;

const GIB: u64 = 1 << 30;

fn both() -> Outputs {
    Outputs::from([OutputFormat::Vhdx, OutputFormat::VhdxFixed])
}

fn dynamic() -> Outputs {
    Outputs::from([OutputFormat::Vhdx])
}

/// A raw disk with data at its two ends and in its middle, and holes between.
fn sparse(directory: &Path, len: u64) -> PathBuf {
    let raw = directory.join("sparse.raw");
    fs::File::create(&raw).unwrap().set_len(len).unwrap();
    for at in [0, len / 2, len - 65_536] {
        let write = format!("write -q -P 7 {at} 64k");
        sh("qemu-io", &["-f", "raw", "-c", &write, path(&raw)]);
    }
    raw
}

fn info(file: &Path) -> serde_json::Value {
    let said = sh("qemu-img", &["info", "--output=json", path(file)]);
    serde_json::from_str(&said).unwrap()
}

#[test]
fn qemu_finds_nothing_wrong_and_zeros_take_no_room() {
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 67);
    run(&source, dir.path(), &both());
    for name in ["demo.vhdx", "demo-fixed.vhdx"] {
        let file = dir.path().join(name);
        assert_eq!(info(&file)["virtual-size"], 67 * MIB);
        sh("qemu-img", &["check", "-f", "vhdx", path(&file)]);
        same_content(&source, &file, "vhdx");
        // Both headers are whole, and the second counts.
        let [first, second] = headers(&file);
        assert_eq!((first.0, second.0), (1, 2));
        assert_eq!((first.1, first.2), (second.1, second.2));
    }
    let len = |name: &str| fs::metadata(dir.path().join(name)).unwrap().len();
    // Nine MiBs of the fixture hold something; the front has four.
    assert_eq!(len("demo.vhdx"), (4 + 9) * MIB);
    assert_eq!(len("demo-fixed.vhdx"), (4 + 67) * MIB);
}

/// A VHDX by whole blocks: reads that begin within one are not its strength.
const READ: &str = "
import hashlib, sys
from pathlib import Path
from dissect.hypervisor.disk.vhd import VHD
from dissect.hypervisor.disk.vhdx import VHDX
from dissect.hypervisor.disk.vmdk import VMDK
file = Path(sys.argv[1])
digest = hashlib.sha256()
if file.suffix == '.vhdx':
    disk = VHDX(file)
    step = disk.block_size // disk.sector_size
    for sector in range(0, disk.size // disk.sector_size, step):
        digest.update(disk.read_sectors(sector, step))
    assert not disk.has_parent
else:
    disk = VHD(file.open('rb')) if file.suffix == '.vhd' else VMDK(file)
    for _ in range(0, disk.size, 1 << 20):
        digest.update(disk.read(1 << 20))
print(digest.hexdigest(), disk.size)
";

#[test]
fn another_reader_reads_the_same() {
    let root = tree::root();
    sh(path(&root.join("tests/record/venv.sh")), &[]);
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 40);
    run(&source, dir.path(), &everything());
    let expected = openssl(&dir.path().join("demo.raw"));
    let python = root.join("target/record-venv/bin/python");
    for name in [
        "demo.vhd",
        "demo-dynamic.vhd",
        "demo.vhdx",
        "demo-fixed.vhdx",
        "demo.vmdk",
        "demo-esxi.vmdk",
    ] {
        let file = dir.path().join(name);
        let said = sh(path(&python), &["-c", READ, path(&file)]);
        assert_eq!(said, format!("{expected} {}\n", 40 * MIB), "{name}");
    }
}

/// The disk's last block is half there, and the file has it whole.
#[test]
fn a_dynamic_vhd_has_room_for_what_is_not_zero() {
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 67);
    let outputs = Outputs::from([OutputFormat::VhdDynamic]);
    run(&source, dir.path(), &outputs);
    let file = dir.path().join("demo-dynamic.vhd");
    // The creator `win ` says that the size counts and not the geometry.
    assert_eq!(info(&file)["virtual-size"], 67 * MIB);
    assert_eq!(info(&file)["format"], "vpc");
    same_content(&source, &file, "vpc");
    let (front, blocks) = (4096, 7);
    let expected = front + blocks * (2 * MIB + 4096) + 512;
    assert_eq!(fs::metadata(&file).unwrap().len(), expected);
    let bytes = fs::read(&file).unwrap();
    let (copy, footer) = (&bytes[..512], &bytes[bytes.len() - 512..]);
    assert_eq!(copy, footer);
}

/// 2040 GiB is the most, and its last block is 2 GiB below what a table's 32 bits reach.
#[test]
fn the_largest_vhd_has_its_last_block() {
    let dir = tempfile::tempdir().unwrap();
    let len = 2040 * GIB;
    let raw = sparse(dir.path(), len);
    let outputs = Outputs::from([OutputFormat::VhdDynamic]);
    run(&raw, dir.path(), &outputs);
    let file = dir.path().join("demo-dynamic.vhd");
    assert_eq!(info(&file)["virtual-size"], len);
    let end = len - 65_536;
    for (byte, at) in [(7, 0), (0, 65_536), (7, len / 2), (7, end)] {
        let read = format!("read -P {byte} {at} 64k");
        let said = sh("qemu-io", &["-r", "-f", "vpc", "-c", &read, path(&file)]);
        assert!(said.starts_with("read 65536/65536 bytes"), "{said}");
    }
}

#[test]
fn disks_too_large_for_a_vhd_are_a_vhdx() {
    let dir = tempfile::tempdir().unwrap();
    for len in [130 * GIB + 3 * MIB, 2041 * GIB] {
        let raw = sparse(dir.path(), len);
        run(&raw, dir.path(), &dynamic());
        let file = dir.path().join("demo.vhdx");
        assert_eq!(info(&file)["virtual-size"], len);
        sh("qemu-img", &["check", "-f", "vhdx", path(&file)]);
        // To compare, qemu-img would read every zero, which takes it minutes.
        let end = len - 65_536;
        for (byte, at) in [
            (7, 0),
            (0, 65_536),
            (7, len / 2),
            (0, len / 2 + 65_536),
            (7, end),
        ] {
            let read = format!("read -P {byte} {at} 64k");
            let said = sh("qemu-io", &["-r", "-f", "vhdx", "-c", &read, path(&file)]);
            assert!(said.starts_with("read 65536/65536 bytes"), "{said}");
        }
        // Three blocks; the front has its table, one MiB for each 127.97 GiB.
        assert!(fs::metadata(&file).unwrap().len() < 24 * MIB);
    }
}

#[test]
fn each_format_that_is_too_small_for_the_disk_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut said = String::new();
    let guest = guest();
    for (gib, outputs) in [
        (2041, Outputs::from([OutputFormat::Vhd, OutputFormat::Vhdx])),
        (
            2041,
            Outputs::from([OutputFormat::VhdDynamic, OutputFormat::Vhdx]),
        ),
        (16_385, both()),
        (
            2048,
            Outputs::from([OutputFormat::Vmdk, OutputFormat::Vhdx]),
        ),
        (2048, Outputs::from([OutputFormat::Ova, OutputFormat::Vhdx])),
    ] {
        // ext4 has no larger files than 16 TiB: a qcow2 says what size it likes.
        let file = dir.path().join("large.qcow2");
        let size = format!("{gib}G");
        sh(
            "qemu-img",
            &[
                "create",
                "-q",
                "-f",
                "qcow2",
                "-o",
                "cluster_size=2M",
                path(&file),
                &size,
            ],
        );
        let job = job(&file, dir.path(), &outputs, &guest);
        let error = export(&job, &Heard::default(), &Cancel::default()).unwrap_err();
        said += &format!("{error}\n");
    }
    insta::assert_snapshot!(said);
}

#[test]
fn sectors_of_4_kib_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("native.vhdx");
    let mut writer = support::vhdx::Writer::new(8 * MIB, MIB);
    writer.sector = 4096;
    writer.save(&file);
    let (guest, outputs) = (guest(), both());
    let out = tempfile::tempdir().unwrap();
    let job = job(&file, out.path(), &outputs, &guest);
    let error = export(&job, &Heard::default(), &Cancel::default()).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("found: 4096 bytes"), "{said}");
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0);
}

/// A child of another disk must not open over this one, though it has the same name, size and first and last MiB.
#[test]
fn disks_that_differ_have_other_ids() {
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 40);
    let id = |source: &Path| {
        run(source, dir.path(), &dynamic());
        support::vhdx::data_write(&dir.path().join("demo.vhdx"))
    };
    let before = id(&source);
    assert_eq!(id(&source), before);
    let write = ["-f", "qcow2", "-c", "write -q -P 1 5M 4k", path(&source)];
    sh("qemu-io", &write);
    assert_ne!(id(&source), before);
}
