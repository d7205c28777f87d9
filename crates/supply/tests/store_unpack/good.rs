//! What is unpacked, and what recipes can choose of it.

use std::fs;

use winimg_base::digest::Digest;
use winimg_formats::archive::{ArchiveFilter, ArchiveFormat, UnpackedFile};

use crate::store_unpack::bench::{Bench, files, pairs};
use support::archives::{gzip, tar_entry, tar_file, tar_of, zip_of, zipped};

#[test]
fn all_formats_unpack_to_the_same_tree() {
    let tar = tar_of(&[
        tar_entry(b"./", b'5', b"", ""),
        tar_file("./bin/containerd.exe", "MZ"),
        tar_entry(b"empty/", b'5', b"", ""),
        tar_file("LICENSE", "text"),
    ]);
    let mut folder = zipped("empty/", "");
    folder.mode = 0o040_755;
    let zip = zip_of(&[
        zipped("bin\\containerd.exe", "MZ"),
        folder,
        zipped("LICENSE", "text"),
    ]);
    let zstd = zstd::encode_all(&tar[..], 3).unwrap();
    for (bytes, format) in [
        (tar.clone(), ArchiveFormat::Tar),
        (gzip(&tar), ArchiveFormat::TarGz),
        (zstd, ArchiveFormat::TarZst),
        (zip, ArchiveFormat::Zip),
    ] {
        let bench = Bench::new();
        let unpacked = bench.unpack(&bytes, format).unwrap();
        let out = bench.folder.path().join("inner/out");
        assert_eq!(
            files(&out),
            pairs(&[("LICENSE", "text"), ("bin/containerd.exe", "MZ")])
        );
        assert!(out.join("empty").is_dir());
        assert_eq!(
            unpacked,
            [("LICENSE", "text"), ("bin/containerd.exe", "MZ")].map(|(path, text)| UnpackedFile {
                path: path.into(),
                size: text.len() as u64,
                sha256: Digest::sha256_of(text.as_bytes()),
            })
        );
        assert_eq!(
            fs::read_dir(bench.folder.path().join("inner"))
                .unwrap()
                .count(),
            1
        );
    }
}

/// PKWARE APPNOTE 4.3.14 to 4.3.16, as writers put it that do not know the size beforehand.
#[test]
fn a_zip_with_a_zip64_end_and_a_comment_is_read() {
    let zip = zip_of(&[zipped("a", "x")]);
    let at = zip.len() - 22;
    let (size, start) = (at as u64 - 32, 32_u64);
    let mut all = zip[..at].to_vec();
    all.extend_from_slice(b"PK\x06\x06");
    all.extend_from_slice(&44_u64.to_le_bytes());
    all.extend_from_slice(&[45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    for value in [1, 1, size, start] {
        all.extend_from_slice(&value.to_le_bytes());
    }
    all.extend_from_slice(b"PK\x06\x07\0\0\0\0");
    all.extend_from_slice(&(at as u64).to_le_bytes());
    all.extend_from_slice(&1_u32.to_le_bytes());
    all.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    all.extend_from_slice(&[0xff; 12]);
    all.extend_from_slice(&[7, 0]);
    all.extend_from_slice(b"comment");
    let bench = Bench::new();
    bench.unpack(&all, ArchiveFormat::Zip).unwrap();
    let out = bench.folder.path().join("inner/out");
    assert_eq!(files(&out), pairs(&[("a", "x")]));
}

#[test]
fn long_names_of_both_kinds_are_read() {
    let long = format!("{}/file.txt", "d".repeat(150));
    let gnu = tar_of(&[
        tar_entry(b"././@LongLink", b'L', format!("{long}\0").as_bytes(), ""),
        tar_file("short", "text"),
    ]);
    let record = format!(" path={long}\n");
    let length = record.len() + 3;
    let pax = tar_of(&[
        tar_entry(b"pax", b'x', format!("{length}{record}").as_bytes(), ""),
        tar_file("short", "text"),
    ]);
    for bytes in [gnu, pax] {
        let unpacked = Bench::new().unpack(&bytes, ArchiveFormat::Tar).unwrap();
        assert_eq!(unpacked[0].path, long);
    }
}

#[test]
fn strip_and_only_choose() {
    let tar = tar_of(&[
        tar_file("v1/bin/a.exe", "a"),
        tar_file("v1/bin/b.dll", "b"),
        tar_file("v1/doc/c.txt", "c"),
        tar_file("README", "r"),
    ]);
    let mut bench = Bench::new();
    bench.filter = ArchiveFilter {
        strip: 1,
        only: vec!["bin\\*.EXE".into(), "doc".into()],
    };
    bench.unpack(&tar, ArchiveFormat::Tar).unwrap();
    let out = bench.folder.path().join("inner/out");
    assert_eq!(
        files(&out),
        pairs(&[("bin/a.exe", "a"), ("doc/c.txt", "c")])
    );
}

#[test]
fn a_pattern_that_matches_nothing_shows_what_is_there() {
    let tar = tar_of(&[tar_file("v1/a.exe", "a"), tar_file("v1/b.dll", "b")]);
    let mut bench = Bench::new();
    bench.filter = ArchiveFilter {
        strip: 1,
        only: vec!["*.dll".into(), "*.sys".into()],
    };
    assert_eq!(
        bench.refused(&tar, ArchiveFormat::Tar),
        "nothing in containerd matches *.sys\n  | it contains a.exe\n  | it contains b.dll"
    );
    let mut bench = Bench::new();
    bench.filter.strip = 2;
    assert_eq!(
        bench.refused(&tar, ArchiveFormat::Tar),
        "containerd has nothing below its first 2 folders"
    );
    assert_eq!(
        Bench::refusal(&tar_of(&[]), ArchiveFormat::Tar),
        "containerd is empty"
    );
    let mut bench = Bench::new();
    bench.filter.only = vec!["a[".into()];
    assert!(
        bench
            .refused(&tar, ArchiveFormat::Tar)
            .starts_with("the pattern a[ is malformed: ")
    );
}

#[test]
fn names_that_become_one_by_stripping_are_refused() {
    let tar = tar_of(&[tar_file("x/a.exe", "a"), tar_file("y/A.exe", "b")]);
    let mut bench = Bench::new();
    bench.filter.strip = 1;
    let text = bench.refused(&tar, ArchiveFormat::Tar);
    assert!(
        text.contains(
            "\n  | y/A.exe differs from a.exe only in case, without its first 1 segments\n"
        ),
        "{text}"
    );
}
