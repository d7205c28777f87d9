//! Every byte of a chain is the one that the topmost file which has a say about it says.

use std::fs;

use winimg_base::event::Cancel;
use winimg_formats::disk::open;

use crate::disk_vhdx::Layers;
use crate::disk_vhdx::MIB;
use crate::disk_vhdx::Made;
use crate::disk_vhdx::dense;
use crate::disk_vhdx::text;
use crate::disk_vhdx::three;
use crate::disk_vhdx::whole;
use support::vhdx::{JUNK, Writer, data_write};

#[test]
fn every_byte_comes_from_the_file_that_has_it() {
    let layers = Layers::new();
    let (path, made) = three(&layers);
    let disk = layers.open(&path);
    assert_eq!(disk.len(), 14 * MIB);
    let content = whole(&*disk);
    for (sector, (found, wanted)) in content
        .chunks(512)
        .zip(made.content.chunks(512))
        .enumerate()
    {
        assert!(found == wanted, "sector {sector}");
    }
    // Pieces that keep to no sector.
    for (at, len) in [(511, 2), (MIB as usize - 700, 1400), (100_001, 333)] {
        let mut part = vec![9; len];
        disk.read_at(at as u64, &mut part).unwrap();
        assert!(part == made.content[at..at + len], "at {at}");
    }
    assert!(disk.read_at(14 * MIB - 1, &mut [0; 2]).is_err());
    assert!(disk.read_at(u64::MAX, &mut [0; 2]).is_err());
}

#[test]
fn what_may_hold_something_is_what_no_file_above_hides() {
    let layers = Layers::new();
    let (path, made) = three(&layers);
    let data = layers.open(&path).data().unwrap();
    let mut rest = made.content.clone();
    for range in &data {
        rest[range.start as usize..range.end as usize].fill(0);
    }
    assert!(rest.iter().all(|b| *b == 0), "{data:?}");
    // By blocks: unmapped by the top at 4, nothing anywhere at 6 and 7, undefined at 9, zero in the
    // middle at 10, nothing at 12; the middle has its blocks of 2 MiB in whole or in part at 0, 2,
    // 4 and 8.
    let mib = data.iter().map(|r| r.start / MIB..r.end / MIB);
    assert_eq!(mib.collect::<Vec<_>>(), [0..4, 5..6, 8..9, 11..12, 13..14]);
}

#[test]
fn the_files_below_are_disks_of_their_own() {
    let layers = Layers::new();
    three(&layers);
    let base = layers.folder().join("aa/disk.vhdx");
    let alone = open(&base, &Cancel::default()).unwrap();
    let bytes = whole(&*alone);
    assert!(bytes[..3 << 20] == dense(1, 3 * MIB));
    assert!(bytes[12 * MIB as usize - 512..] == dense(3, 3 * MIB)[(3 << 20) - 512..]);
    assert_eq!(whole(&*layers.open(&base)).len(), 12 << 20);
}

#[test]
fn a_bitmap_covers_a_chunk_of_blocks() {
    // 4096 blocks of 1 MiB, then the entry of their bitmap, then the next chunk.
    let layers = Layers::new();
    let len = 9 << 30;
    let mut base = Writer::new(len, MIB);
    let mut top = Writer::over(len, MIB, base.data_write, r"..\aa\disk.vhdx");
    let places = [0, (4 << 30) - 1024, 4 << 30, (8 << 30) - 1024, 8 << 30];
    for (seed, at) in (1..).zip(places) {
        base.write(at, &dense(seed, 1024));
        top.write(at + 512, &dense(seed + 10, 512));
    }
    layers.save("aa", &base);
    let disk = layers.open(&layers.save("bb", &top));
    for (seed, at) in (1..).zip(places) {
        let mut found = vec![0; 1024];
        disk.read_at(at, &mut found).unwrap();
        let expected = [&dense(seed, 1024)[..512], &dense(seed + 10, 512)[..]].concat();
        assert!(found == expected, "at {at}");
        assert!(!found.contains(&JUNK) || expected.contains(&JUNK));
    }
}

#[test]
fn sectors_of_4096_bytes_have_a_bit_each() {
    let layers = Layers::new();
    let mut base = Made::new(4 * MIB, MIB);
    base.file.sector = 4096;
    base.write(1, 0, 2 * MIB);
    layers.save("aa", &base.file);
    let mut top = base.child(4 * MIB, MIB, r"..\aa\disk.vhdx");
    top.file.sector = 4096;
    top.write(2, 4096, 4096);
    top.write(3, MIB - 4096, 8192);
    let disk = layers.open(&layers.save("bb", &top.file));
    assert_eq!(disk.sector_size(), 4096);
    assert!(whole(&*disk) == top.content);
}

#[test]
fn a_parent_that_qemu_img_made_is_read_too() {
    let layers = Layers::new();
    let raw = layers.folder().join("disk.raw");
    let content = [dense(1, 2 * MIB), vec![0; 5 << 20], dense(2, MIB)].concat();
    fs::write(&raw, &content).unwrap();
    fs::create_dir(layers.folder().join("aa")).unwrap();
    let parent = layers.folder().join("aa/disk.vhdx");
    crate::disk_vhdx::erase::qemu_img(&["convert", "-O", "vhdx", text(&raw), text(&parent)]);
    let mut top = Writer::over(8 * MIB, MIB, data_write(&parent), r"..\aa\disk.vhdx");
    top.write(512, &dense(3, 512));
    let mut expected = content;
    expected[512..1024].copy_from_slice(&dense(3, 512));
    assert!(whole(&*layers.open(&layers.save("bb", &top))) == expected);
}

#[test]
fn the_other_places_are_tried_when_the_relative_one_is_empty() {
    let layers = Layers::new();
    let (_, base) = three(&layers);
    let parent = layers.folder().join(".new-1/disk.vhdx");
    let mut top = base.child(14 * MIB, MIB, r"..\gone\disk.vhdx");
    // The order in the file does not count; a volume's name is none on this host.
    top.file.set("absolute_win32_path", text(&parent));
    let volume = r"\\?\Volume{26a21bda-a627-11d7-9931-806e6f6e6963}\disk.vhdx";
    top.file.set("volume_path", volume);
    let path = layers.save("cc", &top.file);
    assert!(whole(&*layers.open(&path)) == base.content);
}

#[test]
fn either_id_of_the_parent_will_do_while_it_is_being_merged() {
    let layers = Layers::new();
    let (_, base) = three(&layers);
    let mut top = base.child(14 * MIB, MIB, r"..\.new-1\disk.vhdx");
    let id = format!("{{{}}}", base.file.data_write.to_string().to_uppercase());
    top.file
        .set("parent_linkage", &format!("{{{}}}", uuid::Uuid::new_v4()));
    top.file.set("parent_linkage2", &id);
    let path = layers.save("cc", &top.file);
    assert!(whole(&*layers.open(&path)) == base.content);
}

#[test]
fn a_chain_may_have_64_files() {
    let layers = Layers::new();
    let mut made = Made::new(MIB, MIB);
    made.write(1, 0, MIB);
    layers.save("0", &made.file);
    let mut top = layers.folder().join("0/disk.vhdx");
    for i in 1..65 {
        made = made.child(MIB, MIB, &format!(r"..\{}\disk.vhdx", i - 1));
        made.write(i, i * 512, 512);
        top = layers.save(&i.to_string(), &made.file);
        if i == 63 {
            assert!(whole(&*layers.open(&top)) == made.content);
        }
    }
    assert_eq!(
        layers.refusal(&top),
        "the parent LAYERS/0/disk.vhdx is refused\n  at: LAYERS/1/disk.vhdx\n  \
         expected: at most 64 files in a chain\n  found: more\n  cure: merge some of them: Merge-VHD"
    );
}
