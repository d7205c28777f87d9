//! Zeros over parts of a closed VHDX: those bytes, the headers, and nothing else.

use std::fs;
use std::ops::Range;
use std::process::Command;

use winimg_base::event::Cancel;
use winimg_formats::disk::vhdx::zero_in_place;
use winimg_formats::disk::{DiskImage, open};

use crate::disk_vhdx::Layers;
use crate::disk_vhdx::MIB;
use crate::disk_vhdx::Made;
use crate::disk_vhdx::dense;
use crate::disk_vhdx::text;
use crate::disk_vhdx::three;
use crate::disk_vhdx::whole;
use support::vhdx::{JUNK, Writer, data_write, headers};

pub fn qemu_img(arguments: &[&str]) {
    let done = Command::new("qemu-img").args(arguments).output().unwrap();
    assert!(
        done.status.success(),
        "{arguments:?}: {}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
}

/// Where two files of one length differ, in pieces of 4 KiB.
fn differences(one: &[u8], other: &[u8]) -> Vec<usize> {
    assert_eq!(one.len(), other.len());
    let pieces = one.chunks(4096).zip(other.chunks(4096)).enumerate();
    let differ = pieces.filter(|(_, (a, b))| a != b);
    differ.map(|(i, _)| i * 4096).collect()
}

#[test]
fn ranges_of_a_dynamic_disk_become_zeros_and_qemu_img_agrees() {
    let folder = tempfile::tempdir().unwrap();
    let (raw, vhdx) = (folder.path().join("disk.raw"), folder.path().join("disk"));
    let mut content = [dense(1, 9 * MIB), vec![0; 20 << 20], dense(2, 3 * MIB)].concat();
    fs::write(&raw, &content).unwrap();
    qemu_img(&["convert", "-O", "vhdx", text(&raw), text(&vhdx)]);
    let before = (fs::read(&vhdx).unwrap(), headers(&vhdx));
    // A part of a sector, over the border of a block, in blocks that are not there, to the end.
    let ranges = [
        700..701,
        8 * MIB - 513..8 * MIB + 99,
        12 * MIB..20 * MIB,
        31 * MIB..32 * MIB,
    ];
    zero_in_place(DiskImage::from_file(&vhdx), &ranges, &Cancel::default()).unwrap();
    for range in ranges {
        content[range.start as usize..range.end as usize].fill(0);
    }
    fs::write(&raw, &content).unwrap();
    qemu_img(&[
        "compare",
        "-f",
        "raw",
        "-F",
        "vhdx",
        text(&raw),
        text(&vhdx),
    ]);
    qemu_img(&["check", "-q", "-f", "vhdx", text(&vhdx)]);
    assert!(whole(&*open(&vhdx, &Cancel::default()).unwrap()) == content);
    assert_renewed(before.1, headers(&vhdx));
    let after = fs::read(&vhdx).unwrap();
    for at in differences(&before.0, &after) {
        let header = at == 65_536 || at == 131_072;
        assert!(header || at >= 4 << 20, "written at {at:#x}");
    }
}

/// Both headers have the same new ids, and numbers one and two above the newest.
fn assert_renewed(
    before: [(u64, uuid::Uuid, uuid::Uuid); 2],
    after: [(u64, uuid::Uuid, uuid::Uuid); 2],
) {
    let newest = before.into_iter().max_by_key(|h| h.0).unwrap();
    let mut numbers = after.map(|h| h.0);
    numbers.sort_unstable();
    assert_eq!(numbers, [newest.0 + 1, newest.0 + 2]);
    assert_eq!(after[0].1, after[1].1);
    assert_eq!(after[0].2, after[1].2);
    assert_ne!(after[0].1, newest.1, "FileWriteGuid");
    assert_ne!(after[0].2, newest.2, "DataWriteGuid");
}

#[test]
fn what_only_the_parents_hold_stays() {
    let layers = Layers::new();
    let (top, made) = three(&layers);
    let below = ["aa", "bb"].map(|n| layers.folder().join(n).join("disk.vhdx"));
    let before = below.clone().map(|path| fs::read(path).unwrap());
    let wanted = 0..14 * MIB;
    zero_in_place(layers.image(&top), &[wanted], &Cancel::default()).unwrap();

    let file = fs::read(&top).unwrap();
    assert_eq!(times(&file, &[JUNK; 64]), 0);
    assert_eq!(before, below.map(|path| fs::read(path).unwrap()));
    // The blocks still say whose they are.
    let mut expected = middle(&layers);
    expected.resize(14 << 20, 0);
    for held in top_holds() {
        expected[held.start as usize..held.end as usize].fill(0);
    }
    let found = whole(&*layers.open(&top));
    assert_eq!(differences(&found, &expected), [0; 0]);
    assert_ne!(data_write(&top), made.file.data_write);
}

fn middle(layers: &Layers) -> Vec<u8> {
    whole(&*layers.open(&layers.folder().join("bb/disk.vhdx")))
}

/// What the topmost of the three files says, in data or by a state.
fn top_holds() -> Vec<Range<u64>> {
    let mut held: Vec<_> = (1..2048)
        .step_by(2)
        .map(|s| s * 512..(s + 1) * 512)
        .collect();
    held.extend([
        2 * MIB - 512..2 * MIB,
        2 * MIB + 512 * 3..2 * MIB + 512 * 16,
        4 * MIB..5 * MIB,
        9 * MIB..10 * MIB,
        11 * MIB..12 * MIB,
        13 * MIB + 512..13 * MIB + 512 + 1024,
    ]);
    held
}

fn times(bytes: &[u8], wanted: &[u8]) -> usize {
    bytes.windows(wanted.len()).filter(|w| *w == wanted).count()
}

#[test]
fn blocks_that_were_given_up_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.vhdx");
    let mut made = Made::new(8 * MIB, MIB);
    for block in [1, 3, 5] {
        made.write(block, block * MIB, MIB);
    }
    made.file.save(&path);
    let mut bytes = fs::read(&path).unwrap();
    // Block 3 was unmapped and keeps its place; nothing points to block 5 any more.
    let entry = |block: usize| (3 << 20) + block * 8;
    bytes[entry(3)] = bytes[entry(3)] & !7 | 3;
    bytes[entry(5)..entry(5) + 8].fill(0);
    fs::write(&path, &bytes).unwrap();
    let gone = [dense(3, MIB), dense(5, MIB)];
    assert!(gone.iter().all(|g| times(&bytes, g) == 1));
    zero_in_place(DiskImage::from_file(&path), &[], &Cancel::default()).unwrap();
    let after = fs::read(&path).unwrap();
    assert!(gone.iter().all(|g| times(&after, &g[..512]) == 0));
    assert!(times(&after, &dense(1, MIB)) == 1, "block 1 is in use");
    assert_eq!(after.len(), bytes.len());
}

#[test]
fn a_file_with_nothing_to_zero_is_not_written() {
    let layers = Layers::new();
    let mut made = Made::new(4 * MIB, MIB);
    made.write(1, MIB, MIB);
    let path = layers.save("aa", &made.file);
    let before = fs::read(&path).unwrap();
    let ranges = [0..MIB, 2 * MIB..4 * MIB];
    zero_in_place(DiskImage::from_file(&path), &ranges, &Cancel::default()).unwrap();
    assert_eq!(differences(&before, &fs::read(&path).unwrap()), [0; 0]);
}

#[test]
fn a_parent_that_is_zeroed_loses_its_children() {
    let layers = Layers::new();
    let (top, _) = three(&layers);
    let parent = layers.folder().join("bb/disk.vhdx");
    let range = 4 * MIB..5 * MIB;
    zero_in_place(layers.image(&parent), &[range], &Cancel::default()).unwrap();
    let rendered = layers.refusal(&top);
    let first = rendered.lines().next().unwrap();
    assert_eq!(
        first,
        "the parent LAYERS/bb/disk.vhdx was changed after its child LAYERS/.new-1/disk.vhdx was created"
    );
}

#[test]
fn a_file_that_is_not_whole_is_left_alone() {
    let layers = Layers::new();
    let mut rendered = String::new();
    let mut refused = |file: &Writer, range: Range<u64>| {
        let path = layers.save("aa", file);
        let before = fs::read(&path).unwrap();
        let error = zero_in_place(DiskImage::from_file(&path), &[range], &Cancel::default());
        rendered += &error.unwrap_err().to_string();
        rendered += "\n";
        assert_eq!(differences(&before, &fs::read(&path).unwrap()), [0; 0]);
    };
    let mut file = Writer::new(4 * MIB, MIB);
    file.write(0, &dense(1, MIB));
    refused(&file, 0..5 * MIB);
    let mut open = file.clone();
    open.log = uuid::Uuid::from_u128(9);
    refused(&open, 0..MIB);
    // Over the block table, the log, and another block.
    for place in [3, 1, 4] {
        let mut odd = file.clone();
        odd.state(2, 6, place);
        refused(&odd, 2 * MIB..3 * MIB);
    }
    let rendered = rendered.replace(text(layers.folder()), "LAYERS");
    insta::assert_snapshot!(rendered);
}
