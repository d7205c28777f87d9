//! What a volume's clusters are used for, against what ntfs-3g and ntfsinfo say of the same volume;
//! and damaged volumes.

use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use support::media::{run, text};
use support::ntfs::mounted;
use support::windows_disk::can_make;
use winimg_base::error::Result;
use winimg_base::event::Cancel;
use winimg_formats::disk::ntfs::{NtfsVolume, VolumeUsage};
use winimg_formats::disk::{Disk as _, RawDisk};

const KIB: usize = 1 << 10;
const MIB: u64 = 1 << 20;

/// Bytes that no compression makes fewer.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..len / 8).flat_map(|_| next()).collect()
}

fn put(root: &Path, name: &str, bytes: &[u8]) {
    let file = root.join(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, bytes).unwrap();
}

/// Those of the volume that have clusters.
const FILES: [&str; 5] = [
    "Windows/System32/ntdll.dll",
    "Windows/WinSxS/old/old.dll",
    "Data/packed.txt",
    "Data/many.bin",
    "Data/sparse.bin",
];

/// A small Windows as far as space is concerned; what is written to it is compressed where it can
/// be.
fn volume(folder: &Path) -> (PathBuf, Vec<(&'static str, u64)>) {
    let path = folder.join("volume");
    let file = fs::File::create(&path).unwrap();
    file.set_len(24 * MIB).unwrap();
    run("mkntfs", &["-qFfC", "-s", "512", "-c", "4096", text(&path)]);
    mounted(&path, &[], |root| {
        put(root, "Windows/System32/ntdll.dll", &noise(300 * KIB));
        put(root, "Windows/tiny.ini", b"its content lies in its record");
        put(root, "Windows/WinSxS/old/old.dll", &noise(200 * KIB));
        let link = |from: &str, to: &str| {
            let to = root.join(to);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::hard_link(root.join(from), to).unwrap();
        };
        link("Windows/System32/ntdll.dll", "Windows/WinSxS/new/ntdll.dll");
        link(
            "Windows/WinSxS/old/old.dll",
            "Windows/WinSxS/Backup/old.dll",
        );
        put(root, "Data/many.bin", &noise(64 * KIB));
        // More names than a record holds.
        for number in 0..40 {
            let name = format!("Data/links/{number:02} {}", "long ".repeat(20));
            link("Data/many.bin", &name);
        }
        let sparse = fs::File::create(root.join("Data/sparse.bin")).unwrap();
        sparse.write_all_at(&noise(64 * KIB), 8 * MIB).unwrap();
    });
    mounted(&path, &["compression"], |root| {
        put(
            root,
            "Data/packed.txt",
            &b"again and again. ".repeat(60_000),
        );
    });
    // Mounted anew: ntfs-3g gives back what a file has too much of some time after the file was
    // closed.
    let blocks = mounted(&path, &[], |root| {
        let blocks = |name| (name, fs::metadata(root.join(name)).unwrap().blocks() * 512);
        FILES.map(blocks).to_vec()
    });
    (path, blocks)
}

fn usage(path: &Path) -> Result<VolumeUsage> {
    let disk = RawDisk::open(path)?;
    NtfsVolume::open_at(&disk, 0, disk.len())?.measure_usage(&Cancel::default())
}

/// The folders of the volume where `packed.txt` occupies `packed` bytes. How many that are depends
/// on the pieces in which the kernel passes its content to ntfs-3g, which compresses each by
/// itself. The folder with forty long names has clusters for its index.
fn tree(packed: u64) -> String {
    format!(
        "{} 6 /
{} 3 /Data/
520192 3 /Windows/
32768 0 /Data/links/
311296 1 /Windows/System32/
208896 1 /Windows/WinSxS/
208896 1 /Windows/WinSxS/Backup/
0 0 /Windows/WinSxS/new/
0 0 /Windows/WinSxS/old/
",
        700_416 + packed,
        167_936 + packed
    )
}

/// A line a folder: bytes, files, path.
fn listed(usage: &VolumeUsage) -> String {
    let mut paths: Vec<String> = Vec::new();
    let mut lines = Vec::new();
    for folder in &usage.folders {
        let above = paths.get(folder.parent).cloned().unwrap_or_default();
        let path = match paths.len() {
            0 => String::new(),
            _ => format!("{above}/{}", folder.name),
        };
        lines.push(format!("{} {} {path}/\n", folder.bytes, folder.files));
        paths.push(path);
    }
    lines.concat()
}

#[test]
fn clusters_are_counted_once_and_by_what_is_occupied() {
    if !can_make() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (path, blocks) = volume(folder.path());
    let usage = usage(&path).unwrap();
    let of = |name: &str| blocks.iter().find(|(n, _)| *n == name).unwrap().1;
    assert!(of("Data/packed.txt") < 500 << 10, "it is compressed");
    assert!(of("Data/sparse.bin") < 128 << 10, "it has a hole");
    assert_eq!(listed(&usage), tree(of("Data/packed.txt")));
    let all: u64 = blocks.iter().map(|(_, bytes)| bytes).sum();
    // The indexes of `links` and of the root, and the list of the records that `many.bin` has.
    assert_eq!(
        usage.folders[0].bytes - all,
        32768 + 12288 + 4096,
        "{blocks:?}"
    );

    let says = run("ntfsinfo", &["-m", text(&path)]);
    let free = says.lines().find(|l| l.contains("Free Clusters")).unwrap();
    let free = free.split(": ").nth(1).unwrap().split(' ').next().unwrap();
    assert_eq!(
        usage.free,
        free.trim().parse::<u64>().unwrap() * 4096,
        "{says}"
    );
    let own: u64 = usage.metadata.iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(
        usage.folders[0].bytes + own + usage.free + usage.unclaimed,
        usage.total
    );
    assert_eq!(usage.unclaimed, 0);
    let names: Vec<&str> = usage
        .metadata
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(names.first(), Some(&"$LogFile"));
    assert!(names.contains(&"$MFT"));
}

/// What is spoiled at an offset, and what is said of it.
fn spoiled(path: &Path, at: u64, bytes: &[u8]) -> String {
    let spoiled = path.with_extension("spoiled");
    fs::copy(path, &spoiled).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&spoiled).unwrap();
    file.write_all_at(bytes, at).unwrap();
    drop(file);
    match usage(&spoiled) {
        Ok(_) => "read".into(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn damage_is_an_error_with_its_offset_and_never_a_number() {
    if !can_make() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = volume(folder.path());
    let bytes = fs::read(&path).unwrap();
    let table = u64::from_le_bytes(bytes[48..56].try_into().unwrap()) * 4096;
    // The first file of users that ntfs-3g makes has number 64.
    let record = table + 64 * 1024;
    let said = |what: &str, place: u64| {
        format!(
            "the NTFS volume is damaged: {what}\n  at: offset {place:#x} of the volume\n  cure: check the volume in that Windows: chkdsk /f"
        )
    };
    for (at, bytes, what) in [
        (
            0,
            &b"BAAD"[..],
            "record 64 of the $MFT is not a FILE record",
        ),
        (
            510,
            &[0xee, 0xee],
            "record 64 of the $MFT was not written completely",
        ),
        (6, &[9], "record 64 of the $MFT was not written completely"),
    ] {
        assert_eq!(spoiled(&path, record + at, bytes), said(what, record));
    }
    // Its first attribute is said to be longer than the record.
    let first = u64::from(bytes[record as usize + 20]);
    assert_eq!(
        spoiled(&path, record + first + 4, &[0xf8, 0xff]),
        said(
            "an attribute of record 64 of the $MFT is invalid",
            record + first
        )
    );
    // In use no more: what lies in it lies nowhere.
    let lost = spoiled(&path, record + 22, &[0]);
    assert!(lost.starts_with("the NTFS volume is damaged: "), "{lost}");
}

/// Bytes of the records spoiled, one at a time: an answer or an error, and it ends.
#[test]
fn whatever_a_record_says_there_is_an_answer() {
    if !can_make() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = volume(folder.path());
    let mut bytes = fs::read(&path).unwrap();
    let table = u64::from_le_bytes(bytes[48..56].try_into().unwrap()) as usize * 4096;
    let mut refused = 0;
    let numbers = [0, 5, 11, 64, 65, 66, 67];
    for at in numbers
        .iter()
        .flat_map(|n| (0..480).step_by(12).map(move |b| n * 1024 + b))
    {
        bytes[table + at] ^= 0xff;
        let read = NtfsVolume::open_at(&bytes, 0, bytes.len() as u64)
            .and_then(|volume| volume.measure_usage(&Cancel::default()));
        refused += usize::from(read.is_err());
        bytes[table + at] ^= 0xff;
    }
    assert!(refused > 50, "{refused}");
}
