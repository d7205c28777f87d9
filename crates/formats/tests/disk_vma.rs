//! VMAs of another writer's making: whole ones in any order, and those that no reader may take.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use support::vma::{BLOCK, CLUSTER, Writer, held, seal};
use winimg_base::event::Cancel;
use winimg_formats::disk::{Disk, ImageFormat, open};

/// 61 clusters, the last of which has two blocks and a part of a third; runs of zeros of all
/// lengths, among them a whole cluster.
fn content() -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..60 * CLUSTER + 2 * BLOCK + 700)
        .map(|i| (i / 3 % 251) as u8 | 1)
        .collect();
    for (from, to) in [(0, 1), (3, 5), (20, 31), (47, 64), (80, 96), (962, 963)] {
        let end = (to * BLOCK).min(bytes.len());
        bytes[from * BLOCK..end].fill(0);
    }
    bytes
}

/// One cluster with three blocks and a bit, and firmware's variables.
fn small() -> Writer {
    let mut bytes = vec![0; 5 * BLOCK + 33];
    for (at, byte) in [(9, 1), (2 * BLOCK, 2), (5 * BLOCK + 32, 3)] {
        bytes[at] = byte;
    }
    let mut writer = Writer::of_disk(&bytes);
    writer.add(2, "drive-efidisk0", &[0xff; BLOCK]);
    writer
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("demo.vma")
    }

    fn opened(&self, bytes: &[u8]) -> Result<Box<dyn Disk>, String> {
        fs::write(self.file(), bytes).unwrap();
        let folder = format!("{}/", self.0.path().display());
        open(&self.file(), &Cancel::default()).map_err(|e| e.to_string().replace(&folder, ""))
    }

    fn refusal(&self, bytes: &[u8]) -> String {
        self.opened(bytes).err().unwrap_or_else(|| "taken".into())
    }
}

fn whole(disk: &dyn Disk) -> Vec<u8> {
    let mut bytes = vec![1; disk.len() as usize];
    // Pieces that keep to no block.
    for (n, piece) in bytes.chunks_mut(7_777).enumerate() {
        disk.read_at(n as u64 * 7_777, piece).unwrap();
    }
    bytes
}

fn check(path: &Path, content: &[u8]) {
    assert_eq!(ImageFormat::detect(path).unwrap().name, "VMA");
    let disk = open(path, &Cancel::default()).unwrap();
    assert_eq!(disk.sector_size(), 512);
    assert!(whole(&*disk) == content);
    let len = content.len() as u64;
    assert!(disk.read_at(len - 1, &mut [0; 2]).is_err());
    assert!(disk.read_at(u64::MAX, &mut [0; 2]).is_err());
    // What no range names is zeros.
    let mut rest = content.to_vec();
    let mut end = 0;
    for range in disk.data().unwrap() {
        assert!(range.start > end || end == 0, "{range:?} after {end}");
        end = range.end;
        rest[range.start as usize..range.end as usize].fill(0);
    }
    assert!(end <= len && rest.iter().all(|b| *b == 0));
}

#[test]
fn every_byte_is_read_whatever_the_order_of_clusters() {
    let (folder, content) = (Folder::new(), content());
    let mut writer = Writer::of_disk(&content);
    writer.add(7, "drive-tpmstate0-backup", &[5; 4 * CLUSTER]);
    writer.add(255, "drive-efidisk0", &[0xff; 528 << 10]);
    assert_eq!(writer.extents.len(), 4);
    writer.save(&folder.file());
    check(&folder.file(), &content);
    // A running machine is backed up in the order of its writes: clusters of all devices in one
    // extent, and places that name none.
    let mut named: Vec<_> = writer.extents.concat();
    named.sort_by_key(|(device, cluster, _)| (cluster * 37 % 61, *device));
    named.insert(5, (0, 0, 0));
    writer.extents = named.chunks(11).map(<[_]>::to_vec).collect();
    writer.extents.insert(3, Vec::new());
    writer.save(&folder.file());
    check(&folder.file(), &content);
    // Zeros that are stored all the same, beyond the end of the disk as well.
    for extent in &mut writer.extents {
        extent
            .iter_mut()
            .filter(|n| n.0 == 1)
            .for_each(|n| n.2 = 0xffff);
    }
    writer.save(&folder.file());
    check(&folder.file(), &content);
}

#[test]
fn a_disk_of_any_size_ends_where_its_header_says() {
    let folder = Folder::new();
    for len in [
        1,
        512,
        BLOCK - 1,
        BLOCK,
        BLOCK + 1,
        CLUSTER - 1,
        CLUSTER,
        CLUSTER + 1,
        59 * CLUSTER,
        59 * CLUSTER + 1,
    ] {
        for byte in [0, 9] {
            let content = vec![byte; len];
            Writer::of_disk(&content).save(&folder.file());
            check(&folder.file(), &content);
        }
    }
}

#[test]
fn what_is_not_the_whole_of_one_disk_is_refused_with_its_place() {
    let folder = Folder::new();
    let mut said = Vec::new();
    let mut note = |what: &str, change: fn(&mut Writer), then: fn(&mut Vec<u8>)| {
        let mut writer = small();
        change(&mut writer);
        let mut bytes = writer.bytes();
        then(&mut bytes);
        said.push(format!("# {what}\n{}\n", folder.refusal(&bytes)));
    };
    let sealed = |_: &mut Vec<u8>| {};
    note("a cluster twice", |w| w.extents[1].push((1, 0, 0)), sealed);
    note(
        "an unknown device",
        |w| w.extents[0].push((3, 0, 0)),
        sealed,
    );
    note("beyond the end", |w| w.extents[0].push((1, 1, 0)), sealed);
    note(
        "far beyond the end",
        |w| w.extents[0].push((1, u32::MAX, 1)),
        sealed,
    );
    note(
        "a block beyond the end",
        |w| w.extents[0][0].2 |= 1 << 6,
        sealed,
    );
    note("a missing cluster", |w| w.extents[0].clear(), sealed);
    note("no extents", |w| w.extents.clear(), sealed);
    note("two disks", |w| w.add(9, "drive-\u{7}sata1", &[1]), sealed);
    note(
        "no disk",
        |w| w.devices[0].name = "drive-efidisk1".into(),
        sealed,
    );
    note("memory", |w| w.add(9, "vmstate", &[1]), sealed);
    note(
        "too large a disk",
        |w| w.devices[0].size = (16 << 40) + 1,
        sealed,
    );
    note(
        "a disk that the file can't hold",
        |w| w.devices[0].size = 16 << 40,
        sealed,
    );
    note(
        "variables that it can't hold",
        |w| w.devices[1].size = u64::MAX,
        sealed,
    );
    note(
        "a part of another archive",
        |_| {},
        |b| {
            b[12800 + 8] ^= 1;
            seal(b);
        },
    );
    note("a wrong sum of the header", |_| {}, |b| b[12287] ^= 1);
    note("a wrong sum of an extent", |_| {}, |b| b[12800 + 511] ^= 1);
    note("something else", |_| {}, |b| b[12800] ^= 1);
    note(
        "too many blocks said",
        |_| {},
        |b| {
            b[12800 + 7] = 2;
            b.drain(12800 + 512..12800 + 512 + BLOCK);
            seal(b);
        },
    );
    note("version 2", |_| {}, |b| b[7] = 2);
    note("a header without end", |_| {}, |b| b[56..60].fill(0xff));
    note(
        "a header without texts",
        |_| {},
        |b| b[56..60].copy_from_slice(&[0, 0, 0x30, 0]),
    );
    note(
        "texts outside",
        |_| {},
        |b| {
            b[48..52].fill(0xff);
            seal(b);
        },
    );
    note(
        "texts among the devices",
        |_| {},
        |b| {
            b[48..52].copy_from_slice(&4096_u32.to_be_bytes());
            seal(b);
        },
    );
    note(
        "a name outside the texts",
        |_| {},
        |b| {
            b[4096 + 32..4096 + 36].fill(0xff);
            seal(b);
        },
    );
    note("bytes behind", |_| {}, |b| b.push(0));
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn an_archive_that_is_cut_short_is_refused_wherever_it_ends() {
    let folder = Folder::new();
    let bytes = small().bytes();
    assert!(folder.opened(&bytes).is_ok());
    let file = fs::File::options().write(true).open(folder.file()).unwrap();
    for len in (0..bytes.len() as u64).rev() {
        file.set_len(len).unwrap();
        let error = winimg_formats::disk::vma::open(&folder.file()).err();
        let text = error.map(|e| e.to_string()).unwrap_or_default();
        assert!(text.contains("the file ends"), "{len}: {text:?}");
    }
}

#[test]
fn damage_anywhere_is_an_error_or_other_bytes_but_never_a_panic() {
    let folder = Folder::new();
    let writer = small();
    let bytes = writer.bytes();
    let content = &writer.devices[0].content;
    folder.opened(&bytes).unwrap();
    let file = fs::File::options().write(true).open(folder.file()).unwrap();
    // The two headers of extents: behind the first come the three blocks of the disk.
    let second = 12800 + 512 + held(content).count_ones() as usize * BLOCK;
    let is_header = |at: usize| at < 12800 + 512 || (second..second + 512).contains(&at);
    // Most of the archive's header is zeros that nobody reads.
    let is_read = |at: usize| !(128..4096).contains(&at) && !(4096 + 96..12288).contains(&at);
    let mut taken = 0;
    for at in 0..bytes.len() {
        for (flip, is_sealed) in [(0xff, false), (0xff, true), (1, true)] {
            // Of blocks no sum is taken, and one byte of them is like another.
            if is_sealed && !(is_header(at) && is_read(at)) || !is_header(at) && at % 5 != 0 {
                continue;
            }
            let mut bad = bytes.clone();
            bad[at] ^= flip;
            if is_sealed {
                seal(&mut bad);
            }
            let changed = if is_sealed {
                0..bytes.len()
            } else {
                at..at + 1
            };
            let put = |from: &[u8]| file.write_all_at(&from[changed.clone()], changed.start as u64);
            put(&bad).unwrap();
            if let Ok(disk) = winimg_formats::disk::vma::open(&folder.file()) {
                assert!(is_sealed || !is_header(at), "{at} has a sum");
                let mut found = vec![0; (disk.len() as usize).min(2 * CLUSTER)];
                disk.read_at(0, &mut found).unwrap();
                if !is_sealed {
                    let differ = found.iter().zip(content).filter(|(a, b)| a != b).count();
                    assert!(differ <= 1, "{at}: {differ}");
                }
                taken += 1;
            }
            put(&bytes).unwrap();
        }
    }
    assert!(taken > BLOCK / 2, "{taken}");
}
