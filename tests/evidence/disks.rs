//! Disks as Windows Setup leaves them when it ends early; made by sgdisk and ntfs-3g.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use support::media::convert;
use support::windows_disk::{mounted, run, text};

const MIB: u64 = 1 << 20;
const LEN: u64 = 64;
const AT: u64 = 2;
const VOLUME: u64 = 40;

/// Nothing on it, in the format that a build uses.
pub fn empty(file: &Path) {
    run(
        "qemu-img",
        &["create", "-q", "-f", "qcow2", text(file), "64M"],
    );
}

/// Something on it, but no partition table.
pub fn without_table(file: &Path) {
    let raw = blank(file);
    let mut disk = fs::OpenOptions::new()
        .write(true)
        .open(&raw)
        .expect("a disk");
    disk.seek(SeekFrom::Start(5 * MIB)).expect("a place");
    disk.write_all(&[0x5a; 4096]).expect("written");
    into_qcow2(&raw, file);
}

pub fn divided(file: &Path) {
    let raw = blank(file);
    divide(&raw);
    into_qcow2(&raw, file);
}

/// One NTFS volume with these files; a path that ends in a backslash is a folder.
pub fn formatted(file: &Path, files: &[(&str, &[u8])]) {
    let raw = blank(file);
    divide(&raw);
    let volume = raw.with_extension("ntfs");
    File::create(&volume)
        .and_then(|f| f.set_len(VOLUME * MIB))
        .expect("a volume");
    run("mkntfs", &["-qFf", text(&volume)]);
    mounted(&volume, &[], |root| {
        for (path, bytes) in files {
            let to = root.join(path.replace('\\', "/"));
            if path.ends_with('\\') {
                fs::create_dir_all(to).expect("folders")
            } else {
                fs::create_dir_all(to.parent().expect("a folder")).expect("folders");
                fs::write(to, bytes).expect("a file");
            }
        }
    });
    let mut disk = fs::OpenOptions::new()
        .write(true)
        .open(&raw)
        .expect("a disk");
    disk.seek(SeekFrom::Start(AT * MIB)).expect("a place");
    disk.write_all(&fs::read(&volume).expect("a volume"))
        .expect("written");
    fs::remove_file(volume).expect("a file");
    into_qcow2(&raw, file);
}

fn blank(file: &Path) -> std::path::PathBuf {
    let raw = file.with_extension("raw");
    File::create(&raw)
        .and_then(|f| f.set_len(LEN * MIB))
        .expect("a disk");
    raw
}

fn divide(raw: &Path) {
    let sector = |mib: u64| mib * MIB / 512;
    let new = format!("--new=1:{}:{}", sector(AT), sector(AT + VOLUME) - 1);
    run("sgdisk", &["--clear", &new, "--typecode=1:0700", text(raw)]);
}

pub fn into_qcow2(raw: &Path, file: &Path) {
    convert(&["-q", "-f", "raw", "-O", "qcow2"], raw, file);
    fs::remove_file(raw).expect("a file");
}
