//! The backup archive for Proxmox VE, as its own reader takes it: by a strict one of ours, and by dissect.archive.

use std::fs;
use std::process::Command;

use winimg::export::export;
use winimg_base::event::Cancel;
use winimg_formats::disk::open;
use winimg_formats::wim::WindowsRelease;
use winimg_recipe::{Firmware, OutputFormat, Outputs};

use crate::export::fixture::{EPOCH, Heard, MIB, dense, disk, guest, job, openssl, path, run, sh};
use support::vma::{BLOCK, CLUSTER, Writer};
use support::{skip, tree};

const READER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/export/vma.py");
/// What qemu-system-x86's package ovmf brings.
const VARIABLES: &str = "/usr/share/OVMF/OVMF_VARS_4M.fd";

fn vma() -> Outputs {
    Outputs::from([OutputFormat::Vma])
}

#[test]
fn both_readers_find_the_disk_and_the_machine() {
    let root = tree::root();
    sh(path(&root.join("tests/record/venv.sh")), &[]);
    let python = root.join("target/record-venv/bin/python");
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 66);
    let outputs = Outputs::from([OutputFormat::Raw, OutputFormat::Vma]);
    run(&source, dir.path(), &outputs);
    let archive = dir.path().join("demo.vma");
    // Some 4 MiB of the disk are not zeros.
    assert!(fs::metadata(&archive).unwrap().len() < 6 * MIB);
    for reader in [&["--strict"][..], &["--dissect"]] {
        let out = tempfile::tempdir().unwrap();
        let arguments = [&[READER, path(&archive), path(out.path())][..], reader].concat();
        let config = sh(path(&python), &arguments);
        insta::assert_snapshot!("vma_config", config);
        let restored = out.path().join("drive-scsi0.raw");
        assert_eq!(
            openssl(&restored),
            openssl(&dir.path().join("demo.raw")),
            "{reader:?}"
        );
        let variables = fs::read(out.path().join("drive-efidisk0.raw")).unwrap();
        match fs::read(VARIABLES) {
            Ok(expected) => assert!(variables == expected, "{reader:?}: not OVMF's empty store"),
            Err(_) => skip::skipped(format_args!("{VARIABLES} is missing")),
        }
    }
}

#[test]
fn a_bios_machine_of_2019_has_no_variables_and_another_type() {
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 40);
    let (outputs, mut guest) = (vma(), guest());
    guest.release = WindowsRelease::Server2019;
    let mut job = job(&source, dir.path(), &outputs, &guest);
    job.firmware = Firmware::Bios;
    job.name = "a_node";
    let made = export(&job, &Heard::default(), &Cancel::default()).unwrap();
    assert_eq!(made[0].file, "a_node.vma");
    let config = sh(
        "python3",
        &[
            READER,
            path(&dir.path().join("a_node.vma")),
            path(dir.path()),
        ],
    );
    for line in [
        "bios: seabios",
        "ostype: win10",
        "name: a-node",
        "scsi0: local:vm-100-disk-0,size=40960K",
    ] {
        assert!(config.lines().any(|l| l == line), "{line}: {config}");
    }
    assert!(!config.contains("efidisk0"), "{config}");
}

#[test]
fn the_strict_reader_refuses_a_damaged_archive() {
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 40);
    run(&source, dir.path(), &vma());
    let archive = dir.path().join("demo.vma");
    let whole = fs::read(&archive).unwrap();
    // The creation time is that of the job.
    assert_eq!(whole[24..32], EPOCH.to_be_bytes());
    let head = u32::from_be_bytes(whole[56..60].try_into().unwrap()) as usize;
    let said = |bytes: &[u8]| {
        fs::write(&archive, bytes).unwrap();
        let mut reader = Command::new("python3");
        let out = reader
            .args([READER, path(&archive), path(dir.path())])
            .output()
            .unwrap();
        assert!(!out.status.success());
        // Ours refuses what that one does.
        assert!(open(&archive, &Cancel::default()).is_err());
        String::from_utf8_lossy(&out.stderr)
            .trim()
            .replace(path(&archive), "ARCHIVE")
    };
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    assert_eq!(said(&flipped(30)), "ARCHIVE: the header's sum is wrong");
    assert_eq!(
        said(&flipped(head + 45)),
        "ARCHIVE: an extent's sum is wrong"
    );
    assert_eq!(
        said(&whole[..head]),
        "ARCHIVE: missing clusters of drive-scsi0"
    );
    assert_eq!(
        said(&whole[..whole.len() - 1]),
        "ARCHIVE: an extent is cut short"
    );
}

#[test]
fn winimg_and_dissect_read_alike_what_another_writer_made() {
    let root = tree::root();
    sh(path(&root.join("tests/record/venv.sh")), &[]);
    let python = root.join("target/record-venv/bin/python");
    let dir = tempfile::tempdir().unwrap();
    let archive = dir.path().join("other.vma");
    // The last cluster is not whole, nor is its last block.
    let mut content = dense(4, 130 * CLUSTER + 2 * BLOCK + 512);
    content[CLUSTER + 3 * BLOCK..9 * CLUSTER].fill(0);
    let mut writer = Writer::of_disk(&content);
    writer.add(2, "drive-efidisk0", &dense(5, 528 << 10));
    let mut named = writer.extents.concat();
    named.sort_by_key(|(_, cluster, _)| cluster * 53 % 131);
    writer.extents = named.chunks(59).map(<[_]>::to_vec).collect();
    writer.save(&archive);
    let arguments = [READER, path(&archive), path(dir.path()), "--dissect"];
    sh(path(&python), &arguments);
    let restored = fs::read(dir.path().join("drive-scsi0.raw")).unwrap();
    assert!(restored == content, "the archive is not what it should be");
    let disk = open(&archive, &Cancel::default()).unwrap();
    let mut found = vec![0; content.len()];
    disk.read_at(0, &mut found).unwrap();
    assert_eq!(disk.len(), content.len() as u64);
    assert!(found == content);
}

#[test]
fn what_is_exported_from_an_archive_is_its_disk() {
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 66);
    let made = run(
        &source,
        dir.path(),
        &Outputs::from([OutputFormat::Raw, OutputFormat::Vma]),
    );
    let by_content = "content of every MiB against the source";
    assert_eq!(made[1].checked, ["size", "digest", "headers", by_content]);
    let archive = dir.path().join("demo.vma");
    let again = tempfile::tempdir().unwrap();
    run(
        &archive,
        again.path(),
        &Outputs::from([OutputFormat::Raw, OutputFormat::Vma]),
    );
    for name in ["demo.raw", "demo.vma"] {
        let (first, second) = (dir.path().join(name), again.path().join(name));
        assert_eq!(openssl(&first), openssl(&second), "{name}");
    }
    let (guest, outputs) = (guest(), Outputs::from([OutputFormat::Qcow2]));
    let job = job(&archive, again.path(), &outputs, &guest);
    let refused = export(&job, &Heard::default(), &Cancel::default()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "cannot create a qcow2 from an OVA, a VMA, a stream-optimised VMDK or a differencing VHDX\n  \
         cure: export a raw disk first, then a qcow2 from that"
    );
}
