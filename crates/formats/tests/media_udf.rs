//! UDF as other writers lay it out: files inside their own entries, files in pieces, continued
//! allocation descriptors, holes, and the metadata partition of UDF 2.50. The media are built here
//! by the letter of ECMA-167 and OSTA UDF, and 7-Zip has to read the same from them.

use crate::media_damage;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use support::media::{have, text};
use support::udf::{SECTOR, START, built, put, tagged};
use winimg_formats::udf::{FileSystem, Medium, MediumData};

fn check(bytes: &[u8], expected: &BTreeMap<String, Vec<u8>>) {
    let medium = Medium::from_bytes(Arc::new(bytes.to_vec()), Path::new("built.iso")).unwrap();
    assert_eq!(medium.file_system, FileSystem::Udf);
    assert_eq!(medium.label, "BUILT_BY_TEST");
    let mut found = BTreeMap::new();
    for folder in ["", "folder"] {
        for entry in medium
            .read_dir(folder)
            .unwrap()
            .into_iter()
            .filter(|e| !e.is_dir)
        {
            let path = format!("{folder}/{}", entry.name)
                .trim_start_matches('/')
                .to_string();
            found.insert(path, medium.read(&entry, 1 << 20).unwrap());
        }
    }
    assert_eq!(
        found.keys().collect::<Vec<_>>(),
        expected.keys().collect::<Vec<_>>()
    );
    for (path, content) in expected {
        assert!(found[path] == *content, "{path} was read wrongly");
    }
}

/// 7-Zip unpacks the same.
fn check_with_7z(bytes: &[u8], expected: &BTreeMap<String, Vec<u8>>) {
    if !have(&["7z"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let iso = dir.path().join("built.iso");
    fs::write(&iso, bytes).unwrap();
    let to = dir.path().join("out");
    // Its status is not asked: it grumbles about where the last anchor stands. What it unpacks
    // counts.
    let _ = std::process::Command::new("7z")
        .args(["x", "-bd", "-tudf", &format!("-o{}", text(&to)), text(&iso)])
        .output()
        .unwrap();
    for (path, content) in expected {
        let read = fs::read(to.join(path)).unwrap_or_else(|e| panic!("7z has no {path}: {e}"));
        assert!(read == *content, "7z reads {path} otherwise");
    }
}

#[test]
fn embedded_scattered_and_continued_files_are_read() {
    let (bytes, expected) = built(Vec::new(), false);
    check(&bytes, &expected);
    let (plain, less) = built(Vec::new(), true);
    check(&plain, &less);
    check_with_7z(&plain, &less);
    let medium = Medium::from_bytes(Arc::new(bytes), Path::new("x")).unwrap();
    let pieces = |name: &str| match medium.find(name).unwrap().unwrap().data {
        MediumData::Extents(all) => all.len(),
        MediumData::Embedded(_) => 0,
    };
    assert_eq!(
        ["small.txt", "pieces.bin", "long.bin"].map(pieces),
        [0, 2, 3]
    );
}

#[test]
fn the_metadata_partition_of_udf_2_50_is_read_through_its_mirror() {
    // Scattered, so that a block number is not its place.
    let metadata: Vec<usize> = (0..40).map(|n| 200 + (n * 7) % 40).collect();
    let (bytes, expected) = built(metadata, false);
    check(&bytes, &expected);
    let (plain, less) = built((200..240).collect(), true);
    check(&plain, &less);
    check_with_7z(&plain, &less);
}

#[test]
fn media_that_cannot_be_read_say_why() {
    let say = |bytes: Vec<u8>| {
        Medium::from_bytes(Arc::new(bytes), Path::new("built.iso"))
            .unwrap_err()
            .to_string()
    };
    let (bytes, _) = built(Vec::new(), false);
    let mut no_root = bytes.clone();
    no_root[(START + 1) * SECTOR + 60] ^= 1;
    assert_eq!(
        say(no_root),
        "\
the file system of this medium is damaged: no valid file entry at offset 616448
  at: built.iso
  cure: fetch the file again and compare its digest with the publisher's"
    );
    let mut virtual_partition = bytes;
    let map = &mut virtual_partition[34 * SECTOR..34 * SECTOR + 440 + 64];
    map[440..442].copy_from_slice(&[2, 64]);
    map[445..467].copy_from_slice(b"*UDF Virtual Partition");
    map[264] = 64;
    let resealed = tagged(6, 34, map.to_vec());
    put(&mut virtual_partition, 34 * SECTOR, &resealed);
    assert_eq!(
        say(virtual_partition).lines().next().unwrap(),
        "the file system of this medium is damaged: a UDF partition of an unsupported kind: *UDF Virtual Partition"
    );
}

#[test]
fn damaged_media_never_crash_the_reader() {
    let metadata: Vec<usize> = (0..40).map(|n| 200 + (n * 7) % 40).collect();
    for pieces in [Vec::new(), metadata] {
        media_damage::damage(&built(pieces, false).0, 1000);
    }
}
