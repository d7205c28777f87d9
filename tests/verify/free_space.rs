//! Clusters that no file has any more are zeroed on a sealed disk, and nothing else is.

use std::fs;
use std::path::{Path, PathBuf};

use winimg_base::event::Cancel;
use winimg_formats::disk::ntfs::NtfsVolume;
use winimg_formats::disk::{DiskImage, free_space, gpt};

use support::media::convert;
use support::vhdx::{Writer, data_write};
use support::windows_disk::{mounted, run, set_dirty, text};

const MIB: u64 = 1 << 20;
/// Long enough to have clusters of its own.
const DELETED: &str = "the password that Setup leaves behind. ";
const KEPT: &str = "what a file still has. ";

/// A volume in which both files stand.
fn volume(folder: &Path) -> PathBuf {
    let volume = folder.join("volume");
    fs::File::create(&volume)
        .and_then(|f| f.set_len(30 * MIB))
        .expect("a file");
    run("mkntfs", &["-qFf", "-s", "512", text(&volume)]);
    mounted(&volume, &[], |mount| {
        fs::write(mount.join("kept.txt"), KEPT.repeat(9000)).expect("a file");
        fs::write(mount.join("deleted.txt"), DELETED.repeat(9000)).expect("a file");
    });
    volume
}

fn delete(volume: &Path) {
    mounted(volume, &[], |mount| {
        fs::remove_file(mount.join("deleted.txt")).expect("it is there");
    });
}

/// A raw disk with the volume as its one partition.
fn partitioned(volume: &Path, raw: &Path) {
    fs::File::create(raw)
        .and_then(|f| f.set_len(32 * MIB))
        .expect("a file");
    run(
        "sgdisk",
        &[
            "--disk-guid=B0F6E4C5-5D0B-4C4F-9C52-1D6C64C3B2A1",
            "--new=1:2048:63487",
            "--typecode=1:0700",
            "--partition-guid=1:7B1F3C0E-1A52-4E63-8F0B-6E1F4D2C9A33",
            text(raw),
        ],
    );
    let of = format!("of={}", text(raw));
    let from = format!("if={}", text(volume));
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
}

fn qcow2(raw: &Path, qcow2: &Path) {
    convert(&["-O", "qcow2"], raw, qcow2);
}

fn vhdx(raw: &Path, vhdx: &Path) {
    let options = ["-O", "vhdx", "-o", "subformat=dynamic,block_size=1M"];
    convert(&options, raw, vhdx);
}

/// A qcow2 with one NTFS volume, in which a file was deleted and another kept.
fn sealed(folder: &Path, dirty: bool) -> PathBuf {
    let volume = volume(folder);
    delete(&volume);
    if dirty {
        set_dirty(&volume);
    }
    let (raw, disk) = (folder.join("disk.raw"), folder.join("disk.qcow2"));
    partitioned(&volume, &raw);
    qcow2(&raw, &disk);
    disk
}

/// A layer in which both files stand, and an overlay over it which holds what deleting one of them changed.
fn layered(folder: &Path) -> (PathBuf, PathBuf) {
    let (parent, overlay) = (folder.join("aa/disk.qcow2"), folder.join("bb/disk.qcow2"));
    for layer in [&parent, &overlay] {
        fs::create_dir(layer.parent().expect("a folder")).expect("a folder");
    }
    let (before, after) = (folder.join("before.raw"), folder.join("after.raw"));
    let volume = volume(folder);
    partitioned(&volume, &before);
    qcow2(&before, &parent);
    delete(&volume);
    partitioned(&volume, &after);
    let create = ["create", "-q", "-f", "qcow2", "-F", "qcow2", "-b"];
    run(
        "qemu-img",
        &[&create[..], &["../aa/disk.qcow2", text(&overlay)]].concat(),
    );
    let (before, after) = (
        fs::read(before).expect("a disk"),
        fs::read(after).expect("a disk"),
    );
    let cluster = 64 << 10;
    let part = folder.join("part");
    for (number, new) in after.chunks(cluster).enumerate() {
        let at = number * cluster;
        if before[at..at + new.len()] != *new {
            fs::write(&part, new).expect("a file");
            let write = format!("write -s {} {at} {}", text(&part), new.len());
            run("qemu-io", &["-f", "qcow2", "-c", &write, text(&overlay)]);
        }
    }
    (parent, overlay)
}

/// How often `wanted` stands anywhere on the disk.
fn times(qcow2: &Path, wanted: &str) -> usize {
    let raw = qcow2.with_extension("read");
    convert(&["-O", "raw"], qcow2, &raw);
    times_in(&raw, wanted)
}

/// How often it stands in the file itself, mapped to the disk or not.
fn times_in(file: &Path, wanted: &str) -> usize {
    let bytes = fs::read(file).expect("a file");
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
        free_space::clear(DiskImage::from_file(&qcow2), &cancel).expect("cleared"),
        [""; 0]
    );

    assert_eq!(times(&qcow2, DELETED), 0);
    assert_eq!(
        times_in(&qcow2, DELETED),
        0,
        "in clusters of the file that are free"
    );
    run("qemu-img", &["check", "-q", text(&qcow2)]);
    let disk = winimg_formats::disk::open(&qcow2, &cancel).expect("a disk");
    let table = gpt::read_table(disk.as_ref()).expect("a table");
    let volume = NtfsVolume::open(disk.as_ref(), &table.partitions[0]).expect("a volume");
    let kept = volume.read(r"C:\kept.txt", MIB).expect("readable");
    assert_eq!(kept.expect("a file"), KEPT.repeat(9000).into_bytes());
}

#[test]
fn a_volume_that_was_not_shut_down_in_order_is_left_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let qcow2 = sealed(folder.path(), true);
    let before = times(&qcow2, DELETED);
    let doubts = free_space::clear(DiskImage::from_file(&qcow2), &Cancel::default()).expect("told");
    assert_eq!(
        doubts,
        [
            "free clusters were not zeroed, so data of deleted files stays in the image: the NTFS \
             volume was not shut down cleanly, so its list of free clusters is unreliable"
        ]
    );
    assert_eq!(times(&qcow2, DELETED), before);
}

#[test]
fn an_overlay_hides_what_was_deleted_and_the_layer_below_keeps_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (parent, overlay) = layered(folder.path());
    let image = DiskImage::with_layers(&overlay, folder.path());
    let cancel = Cancel::default();
    assert!(
        times(&overlay, DELETED) > 8000,
        "the layer below does not show through"
    );
    let before = fs::read(&parent).expect("a layer");

    assert_eq!(free_space::clear(image, &cancel).expect("cleared"), [""; 0]);

    assert_eq!(times(&overlay, DELETED), 0);
    assert_eq!(times_in(&overlay, DELETED), 0, "in the overlay's own file");
    run("qemu-img", &["check", "-q", text(&overlay)]);
    let disk = image.open(&cancel).expect("a disk");
    let table = gpt::read_table(disk.as_ref()).expect("a table");
    let volume = NtfsVolume::open(disk.as_ref(), &table.partitions[0]).expect("a volume");
    let kept = volume.read(r"C:\kept.txt", MIB).expect("readable");
    assert_eq!(kept.expect("a file"), KEPT.repeat(9000).into_bytes());
    assert!(
        fs::read(&parent).expect("a layer") == before,
        "the layer below was written"
    );
    assert!(
        times(&parent, DELETED) > 8000,
        "what a layer held is in it for as long as it is kept"
    );
}

fn kept(image: DiskImage<'_>) -> Vec<u8> {
    let disk = image.open(&Cancel::default()).expect("a disk");
    let table = gpt::read_table(disk.as_ref()).expect("a table");
    let volume = NtfsVolume::open(disk.as_ref(), &table.partitions[0]).expect("a volume");
    let kept = volume.read(r"C:\kept.txt", MIB).expect("readable");
    kept.expect("a file")
}

#[test]
fn a_vhdx_keeps_no_byte_of_a_deleted_file() {
    let folder = tempfile::tempdir().expect("a folder");
    sealed(folder.path(), false);
    let disk = folder.path().join("disk.vhdx");
    vhdx(&folder.path().join("disk.raw"), &disk);
    assert!(times_in(&disk, DELETED) > 8000, "there is nothing to clear");
    let image = DiskImage::from_file(&disk);
    let doubts = free_space::clear_vhdx(image, &Cancel::default()).expect("cleared");
    assert_eq!(doubts, [""; 0]);
    assert_eq!(times_in(&disk, DELETED), 0);
    run("qemu-img", &["check", "-q", text(&disk)]);
    assert_eq!(kept(image), KEPT.repeat(9000).into_bytes());
}

#[test]
fn what_shows_through_from_a_vhdx_below_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let (parent, child) = (folder.path().join("parent"), folder.path().join("child"));
    let (before, after) = (folder.path().join("before"), folder.path().join("after"));
    let volume = volume(folder.path());
    partitioned(&volume, &before);
    vhdx(&before, &parent);
    delete(&volume);
    partitioned(&volume, &after);
    let read = |path| fs::read(path).expect("a disk");
    let (before, after) = (read(before), read(after));
    let mut file = Writer::over(32 * MIB, MIB, data_write(&parent), "parent");
    for (number, new) in after.chunks(4096).enumerate() {
        if before[number * 4096..][..4096] != *new {
            file.write(number as u64 * 4096, new);
        }
    }
    // What a second file left, in the middle of what is free.
    let left = DELETED.repeat(512);
    file.write(20 * MIB, &left.as_bytes()[..16_384]);
    file.save(&child);
    let below = fs::read(&parent).expect("a layer");
    assert!(times_in(&child, DELETED) > 400);

    let image = DiskImage::with_layers(&child, folder.path());
    let doubts = free_space::clear_vhdx(image, &Cancel::default()).expect("cleared");

    let [doubt] = doubts.as_slice() else {
        panic!("{doubts:?}");
    };
    let (count, rest) = doubt.split_once(' ').expect("a sentence");
    let count: usize = count.parse().expect("a number");
    assert!(count > 8000 * DELETED.len(), "{count}");
    assert_eq!(
        rest,
        "bytes of deleted files are still readable from lower layers, in clusters that are now free"
    );
    assert_eq!(times_in(&child, DELETED), 0);
    assert!(fs::read(&parent).expect("a layer") == below);
    assert_eq!(kept(image), KEPT.repeat(9000).into_bytes());
}
