//! What was deleted in the guest takes no room in any artifact, once the sealed disk's free clusters are zeroed as a build does it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use winimg::export::ExportedArtifact;
use winimg_base::event::Cancel;
use winimg_formats::disk::{DiskImage, free_space};
use winimg_recipe::{OutputFormat, Outputs};

use crate::export::fixture::{MIB, dense, run};
use support::media;
use support::windows_disk::{self, can_make, mounted, text};

/// MiB of files that stay and of files that go, none of which any compressor makes smaller.
const KEPT: u64 = 6;
const DELETED: u64 = 40;
/// MiB that NTFS, the partition table and the formats' own tables take at most; a VHDX in a box has no holes.
const OVERHEAD: u64 = 18;

/// A qcow2 with an NTFS volume in which files were written and deleted by turns.
fn sealed(folder: &Path) -> PathBuf {
    let (volume, raw) = (folder.join("volume"), folder.join("disk.raw"));
    let new = |path: &Path, mib: u64| {
        let file = fs::File::create(path).expect("a file");
        file.set_len(mib * MIB).expect("a size");
    };
    new(&volume, 94);
    windows_disk::run("mkntfs", &["-qFf", "-s", "512", text(&volume)]);
    mounted(&volume, &[], |root| {
        for n in 0..KEPT + DELETED {
            let bytes = dense(n + 1, MIB as usize);
            fs::write(root.join(format!("{n}.bin")), bytes).expect("a file");
        }
    });
    mounted(&volume, &[], |root| {
        for n in KEPT..KEPT + DELETED {
            fs::remove_file(root.join(format!("{n}.bin"))).expect("it is there");
        }
    });
    new(&raw, 96);
    windows_disk::run(
        "sgdisk",
        &["--new=1:2048:194559", "--typecode=1:0700", text(&raw)],
    );
    let (from, to) = (
        format!("if={}", text(&volume)),
        format!("of={}", text(&raw)),
    );
    let options = ["bs=1M", "seek=1", "conv=notrunc,sparse", "status=none"];
    windows_disk::run("dd", &[&[from.as_str(), &to][..], &options].concat());
    let disk = folder.join("disk.qcow2");
    media::convert(&["-O", "qcow2"], &raw, &disk);
    disk
}

fn every_format() -> Outputs {
    Outputs::from(OutputFormat::ALL)
}

/// What an artifact takes of the host's disk, in MiB.
fn room(folder: &Path, artifact: &ExportedArtifact) -> u64 {
    let file = fs::metadata(folder.join(&artifact.file)).expect("an artifact");
    (file.blocks() * 512).div_ceil(MIB)
}

#[test]
fn deleted_files_take_no_room_in_any_artifact() {
    if !can_make() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let disk = sealed(folder.path());
    let exported = || {
        let out = tempfile::tempdir().expect("a folder");
        let artifacts = run(&disk, out.path(), &every_format());
        let rooms = artifacts.iter().map(|a| (a.kind, room(out.path(), a)));
        rooms.collect::<Vec<_>>()
    };
    let before = exported();
    let doubts =
        free_space::clear(DiskImage::from_file(&disk), &Cancel::default()).expect("cleared");
    assert_eq!(doubts, [""; 0]);
    let after = exported();
    assert_eq!(before.len(), 16);
    println!(
        "{:<16} {:>7} {:>7}   MiB of the host's disk",
        "format", "before", "after"
    );
    for ((kind, before), (_, after)) in before.into_iter().zip(after) {
        println!("{kind:<16} {before:>7} {after:>7}");
        // They hold no disk.
        if matches!(kind, "ami" | "vmdk_descriptor") {
            continue;
        }
        assert!(before >= KEPT + DELETED, "{kind}: {before} MiB before");
        assert!(
            (KEPT..=KEPT + OVERHEAD).contains(&after),
            "{kind}: {after} MiB after"
        );
    }
}
