//! Clusters that no file has any more are zeroed on a sealed disk, and nothing else is.

use std::fs;
use std::path::{Path, PathBuf};

use winimg::build::free_space;
use winimg::disk::ntfs::Volume;
use winimg::disk::{Image, gpt};
use winimg::event::Cancel;

use crate::disk::{run, set_dirty, text, wait_for_the_end};

const MIB: u64 = 1 << 20;
/// Long enough to have clusters of its own.
const DELETED: &str = "the password that Setup leaves behind. ";
const KEPT: &str = "what a file still has. ";

/// A qcow2 with one NTFS volume, in which a file was deleted and another kept.
fn sealed(folder: &Path, dirty: bool) -> PathBuf {
    let (volume, mount) = (folder.join("volume"), folder.join("mount"));
    fs::File::create(&volume)
        .and_then(|f| f.set_len(30 * MIB))
        .expect("a file");
    run("mkntfs", &["-qFf", "-s", "512", text(&volume)]);
    fs::create_dir(&mount).expect("a folder");
    run("ntfs-3g", &[text(&volume), text(&mount)]);
    fs::write(mount.join("kept.txt"), KEPT.repeat(9000)).expect("a file");
    fs::write(mount.join("deleted.txt"), DELETED.repeat(9000)).expect("a file");
    run("sync", &["-f", text(&mount)]);
    fs::remove_file(mount.join("deleted.txt")).expect("it is there");
    run("umount", &[text(&mount)]);
    wait_for_the_end(&volume);
    if dirty {
        set_dirty(&volume);
    }

    let raw = folder.join("disk.raw");
    fs::File::create(&raw)
        .and_then(|f| f.set_len(32 * MIB))
        .expect("a file");
    run(
        "sgdisk",
        &["--new=1:2048:63487", "--typecode=1:0700", text(&raw)],
    );
    let of = format!("of={}", text(&raw));
    let from = format!("if={}", text(&volume));
    run(
        "dd",
        &[
            &from,
            &of,
            "bs=1M",
            "seek=1",
            "conv=notrunc,sparse",
            "status=none",
        ],
    );
    let qcow2 = folder.join("disk.qcow2");
    run(
        "qemu-img",
        &["convert", "-O", "qcow2", text(&raw), text(&qcow2)],
    );
    qcow2
}

/// How often `wanted` stands anywhere on the disk.
fn times(qcow2: &Path, wanted: &str) -> usize {
    let raw = qcow2.with_extension("read");
    run(
        "qemu-img",
        &["convert", "-O", "raw", text(qcow2), text(&raw)],
    );
    let bytes = fs::read(raw).expect("a disk");
    bytes
        .windows(wanted.len())
        .filter(|w| *w == wanted.as_bytes())
        .count()
}

#[test]
fn deleted_files_leave_no_byte_and_the_others_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let qcow2 = sealed(folder.path(), false);
    assert!(
        times(&qcow2, DELETED) > 8000,
        "the deleted file's bytes are not there to be cleared"
    );
    let cancel = Cancel::default();
    assert_eq!(
        free_space::clear(Image::alone(&qcow2), &cancel).expect("cleared"),
        [""; 0]
    );

    assert_eq!(times(&qcow2, DELETED), 0);
    run("qemu-img", &["check", "-q", text(&qcow2)]);
    let disk = winimg::disk::open(&qcow2, &cancel).expect("a disk");
    let table = gpt::table(disk.as_ref()).expect("a table");
    let volume = Volume::open(disk.as_ref(), &table.partitions[0]).expect("a volume");
    let kept = volume.read(r"C:\kept.txt", MIB).expect("readable");
    assert_eq!(kept.expect("a file"), KEPT.repeat(9000).into_bytes());
}

#[test]
fn a_volume_that_was_not_shut_down_in_order_is_left_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let qcow2 = sealed(folder.path(), true);
    let before = times(&qcow2, DELETED);
    let doubts = free_space::clear(Image::alone(&qcow2), &Cancel::default()).expect("told");
    assert_eq!(
        doubts,
        [
            "free clusters are not zeroed, so that bytes of deleted files stay in the image: the NTFS volume was not shut down \
          in order: which clusters are free is not certain"
        ]
    );
    assert_eq!(times(&qcow2, DELETED), before);
}
