//! Disks that come from elsewhere or were written by a guest: partition tables, NTFS, VHD, VHDX, VMDK, OVA, VMA.

use std::path::Path;
use std::sync::OnceLock;

use winimg_base::event::Cancel;
use winimg_formats::disk::ntfs::NtfsVolume;
use winimg_formats::disk::ova::OvaFile;
use winimg_formats::disk::{self, Disk};

use crate::ground::{self, Base};
use crate::seal;

pub fn gpt(bytes: &[u8]) -> bool {
    let as_it_is = disk::gpt::read_table(&bytes.to_vec()).is_ok();
    let mut sealed = bytes.to_vec();
    seal::gpt(&mut sealed);
    match disk::gpt::read_table(&sealed) {
        Ok(table) => {
            let _ = table.find_windows();
            !table.partitions.is_empty()
        }
        Err(_) => as_it_is,
    }
}

pub fn ntfs(input: &[u8]) -> bool {
    static BASES: OnceLock<Vec<Base>> = OnceLock::new();
    let bases = BASES.get_or_init(|| vec![Base::load("ntfs")]);
    let disk = ground::changed(bases, input);
    let Ok(volume) = NtfsVolume::open_at(&disk, 0, disk.len() as u64) else {
        return false;
    };
    let mut whole = volume.is_dirty().is_ok();
    whole &= volume.measure_usage(&Cancel::default()).is_ok();
    let mut todo = vec![String::new()];
    for _ in 0..32 {
        let Some(at) = todo.pop() else { break };
        let Ok(Some(entries)) = volume.list(&at) else {
            whole = false;
            continue;
        };
        for entry in entries.into_iter().take(64) {
            let path = format!(r"{at}\{}", entry.name);
            whole &= volume.read_file_info(&path).is_ok();
            let _ = volume.exists(&path);
            let _ = volume.read_security(&path);
            if entry.is_directory {
                todo.push(path)
            } else {
                let _ = volume.read(&path, 1 << 20);
            }
        }
    }
    whole
}

pub fn vhd(input: &[u8]) -> bool {
    static BASES: Bases = Bases::new();
    image(input, &BASES, &["vhd-fixed", "vhd-dynamic"], seal::vhd)
}

pub fn vhdx(input: &[u8]) -> bool {
    static PARENT: OnceLock<()> = OnceLock::new();
    PARENT.get_or_init(|| {
        // Where the child among the bases looks for it.
        let parent = ground::folder().join("vhdx-parent");
        let _ = std::fs::copy(ground::made().join("bases/vhdx-parent"), parent);
    });
    static BASES: Bases = Bases::new();
    image(input, &BASES, &["vhdx", "vhdx-child"], seal::vhdx)
}

pub fn vmdk(input: &[u8]) -> bool {
    static BASES: Bases = Bases::new();
    image(input, &BASES, &["vmdk-sparse", "vmdk-stream"], |_| {})
}

pub fn vma(input: &[u8]) -> bool {
    static BASES: Bases = Bases::new();
    let names = &["vma", "vma-mixed"];
    image(input, &BASES, names, support::vma::seal)
}

/// Those of a target, which are loaded once.
type Bases = OnceLock<Vec<Base>>;

/// Reads a disk of any format as `export` does, which may follow a VHDX to its parent. qcow2 is not among them: qemu-img
/// reads that.
fn image(input: &[u8], bases: &Bases, names: &[&str], seal: fn(&mut [u8])) -> bool {
    let bases = bases.get_or_init(|| names.iter().map(|n| Base::load(n)).collect());
    let mut bytes = ground::changed(bases, input);
    seal(&mut bytes);
    ground::on_file(&bytes, read)
}

fn read(path: &Path) -> bool {
    let Ok(format) = disk::ImageFormat::detect(path) else {
        return false;
    };
    if ["raw", "qcow2"].contains(&format.name) {
        return false;
    }
    let Ok(disk) = disk::DiskImage::with_layers(path, ground::folder()).open(&Cancel::default())
    else {
        return false;
    };
    content(&*disk)
}

/// Every range that holds something, up to a few MiB.
fn content(disk: &dyn Disk) -> bool {
    let Ok(ranges) = disk.data() else {
        return false;
    };
    let mut buffer = vec![0; 64 << 10];
    let mut left = 4 << 20;
    let mut end = 0;
    for range in ranges {
        assert!(
            range.start >= end && range.end > range.start,
            "{range:?} after {end}"
        );
        assert!(range.end <= disk.len(), "{range:?} of {}", disk.len());
        end = range.end;
        let mut at = range.start;
        while at < range.end && left > 0 {
            let n = (range.end - at).min(buffer.len() as u64);
            if disk.read_at(at, &mut buffer[..n as usize]).is_err() {
                return false;
            }
            at += n;
            left -= n as i64;
        }
    }
    let _ = disk::gpt::read_table(disk);
    disk.read_at(disk.len(), &mut [0]).is_err()
}

pub fn ova(bytes: &[u8]) -> bool {
    let mut sealed = bytes.to_vec();
    seal::tar(&mut sealed);
    ground::on_file(&sealed, |path| {
        let Ok(ova) = OvaFile::open(path) else {
            return false;
        };
        for member in &ova.members {
            let _ = ova.read_text(member);
        }
        match ova.open_disk() {
            Ok(disk) => content(&disk),
            Err(e) => {
                ground::say(|| e.to_string());
                false
            }
        }
    })
}
