//! What is refused, and that nothing of it is left anywhere.

use std::fs;
use std::io::Write;

use winimg_formats::archive::{ArchiveFilter, ArchiveFormat, UnpackLimits, list, unpack};

use crate::store_unpack::bench::{Bench, files, packed, pairs};
use support::archives::{Zipped, gzip, tar_entry, tar_file, tar_of, zip_of, zipped};

#[test]
fn every_problem_of_a_tar_is_listed_at_once() {
    let tar = tar_of(&[
        tar_file("good.txt", "fine"),
        tar_file("../escaped.txt", "x"),
        tar_file("/absolute.txt", "x"),
        tar_file("..\\escaped.txt", "x"),
        tar_file("C:\\Windows\\x.dll", "x"),
        tar_entry(b"kubelet.exe", b'2', b"", "/etc/shadow"),
        tar_entry(b"hard.exe", b'1', b"", "good.txt"),
        tar_entry(b"null", b'3', b"", ""),
        tar_entry(b"disk", b'4', b"", ""),
        tar_entry(b"pipe", b'6', b"", ""),
        tar_entry(b"odd", b'Z', b"", ""),
        tar_file("con.txt", "x"),
        tar_file("good.txt", "again"),
        tar_file("GOOD.TXT", "x"),
        tar_file("good.txt/below", "x"),
        tar_file("Good.txt:stream", "x"),
        tar_file("dot.", "x"),
        tar_entry(b"caf\xe9", b'0', b"", ""),
        tar_entry(b"esc\x1b[2J", b'0', b"", ""),
    ]);
    let expected = "\
containerd is not unpacked
  | ../escaped.txt contains a .. segment
  | /absolute.txt is an absolute path
  | ..\\escaped.txt contains a .. segment
  | C:\\Windows\\x.dll names a drive
  | kubelet.exe is a symbolic link
  | hard.exe is a hard link
  | null is a device, pipe or socket
  | disk is a device, pipe or socket
  | pipe is a device, pipe or socket
  | odd is an entry of the unknown type 'Z'
  | con.txt is the Windows device CON
  | good.txt appears twice
  | GOOD.TXT differs from good.txt only in case
  | good.txt/below needs good.txt to be both a file and a folder
  | Good.txt:stream names an alternate data stream (:)
  | dot. ends in a dot or space, which Windows drops
  | caf\u{fffd} is not UTF-8
  | esc\\u{1b}[2J contains a control character
  cure: ask the publisher for an archive of plain files and folders, or make one and host it";
    assert_eq!(Bench::refusal(&tar, ArchiveFormat::Tar), expected);
    assert_eq!(Bench::refusal(&gzip(&tar), ArchiveFormat::TarGz), expected);
    // What is not wanted is judged too.
    let mut bench = Bench::new();
    bench.filter.only = vec!["good.txt".into()];
    assert_eq!(bench.refused(&tar, ArchiveFormat::Tar), expected);
}

#[test]
fn every_problem_of_a_zip_is_listed_at_once() {
    let with = |name: &str, change: &dyn Fn(&mut Zipped)| {
        let mut entry = zipped(name, "x");
        change(&mut entry);
        entry
    };
    let zip = zip_of(&[
        zipped("good.txt", "fine"),
        zipped("../escaped.txt", "x"),
        zipped("/absolute.txt", "x"),
        zipped("a\\..\\..\\escaped.txt", "x"),
        zipped("C:\\Windows\\x.dll", "x"),
        with("link.exe", &|e| e.mode = 0o120_777),
        with("pipe", &|e| e.mode = 0o010_644),
        with("secret.exe", &|e| e.flags = 1),
        with("packed.exe", &|e| e.method = 14),
        zipped("nul", "x"),
        zipped("Good.TXT", "x"),
        zipped("good.txt/below", "x"),
        with("x", &|e| e.name = b"caf\xe9".to_vec()),
        with("x", &|e| e.name = b"nul\0.exe".to_vec()),
        with("full/", &|e| e.mode = 0o040_755),
        zipped("twice", "1"),
        zipped("twice", "2"),
    ]);
    assert_eq!(
        Bench::problems(&zip, ArchiveFormat::Zip),
        [
            "../escaped.txt contains a .. segment",
            "/absolute.txt is an absolute path",
            "a\\..\\..\\escaped.txt contains a .. segment",
            "C:\\Windows\\x.dll names a drive",
            "link.exe is a symbolic link",
            "pipe is a device, pipe or socket",
            "secret.exe is encrypted",
            "packed.exe is packed with Lzma, which is not supported",
            "nul is the Windows device NUL",
            "Good.TXT differs from good.txt only in case",
            "good.txt/below needs good.txt to be both a file and a folder",
            "caf\u{fffd} is not UTF-8",
            "nul\\u{0}.exe contains a NUL character",
            "full/ is a folder with content",
            "it has entries of the same name",
        ]
    );
}

#[test]
fn a_zip_that_readers_could_disagree_about_is_refused() {
    let mut cloaked = zipped("kubelet.exe", "x");
    cloaked.local_name = Some(b"malware.exe".to_vec());
    let problems = Bench::problems(&zip_of(&[cloaked]), ArchiveFormat::Zip);
    assert_eq!(problems.len(), 1);
    assert!(problems[0].contains("inconsisten"), "{problems:?}");

    let mut overlapping = zipped("b", "0123456789");
    overlapping.points_at = Some(0);
    assert_eq!(
        Bench::problems(
            &zip_of(&[zipped("a", "0123456789"), overlapping]),
            ArchiveFormat::Zip
        ),
        ["its entries overlap, like those of an archive bomb"]
    );
}

/// One reader takes a file for an archive, another for something else.
#[test]
fn archives_that_are_a_part_of_their_file_are_refused() {
    let zip = zip_of(&[zipped("a", "x")]);
    let end = zip.len() - 22;
    let stub = [b'M'; 10];
    let shifted = [&stub[..], &zip].concat();
    // The same, as a program that unpacks itself says it: counted from the file's start.
    let mut counted = shifted.clone();
    counted[end + 10 + 16..end + 10 + 20].copy_from_slice(&42_u32.to_le_bytes());
    counted[42 + 42..42 + 46].copy_from_slice(&10_u32.to_le_bytes());
    let before = ["it has 10 bytes before its first entry"];
    assert_eq!(Bench::problems(&shifted, ArchiveFormat::Zip), before);
    assert_eq!(Bench::problems(&counted, ArchiveFormat::Zip), before);

    let behind = ["it has bytes after its end"];
    let appended = [&zip[..], b"MZ"].concat();
    assert_eq!(Bench::problems(&appended, ArchiveFormat::Zip), behind);
    let mut between = zip.clone();
    between.splice(end..end, *b"between");
    let rendered = ["it has bytes between its directory and its end"];
    assert_eq!(Bench::problems(&between, ArchiveFormat::Zip), rendered);

    let tar = tar_of(&[tar_file("a", "x")]);
    let appended = [tar.clone(), tar_file("b", "x")].concat();
    assert_eq!(Bench::problems(&appended, ArchiveFormat::Tar), behind);
    assert_eq!(
        Bench::problems(&gzip(&appended), ArchiveFormat::TarGz),
        behind
    );
    let after = [gzip(&tar), b"MZ".to_vec()].concat();
    let text = Bench::refusal(&after, ArchiveFormat::TarGz);
    assert!(
        text.starts_with("containerd cannot be unpacked: "),
        "{text}"
    );
}

#[test]
fn bombs_are_refused() {
    let zeros = vec![0; 100 << 20];
    let tar = tar_of(&[tar_entry(b"zeros", b'0', &zeros, "")]);
    let packed = gzip(&tar);
    let bomb = format!(
        "it unpacks to more than 200 times its {} bytes, like an archive bomb",
        packed.len()
    );
    assert_eq!(Bench::problems(&packed, ArchiveFormat::TarGz), [bomb]);

    let mut claims = zipped("zeros", "x");
    claims.claims = Some(100 << 20);
    let zip = zip_of(&[claims]);
    let bomb = format!(
        "it unpacks to more than 200 times its {} bytes, like an archive bomb",
        zip.len()
    );
    assert_eq!(Bench::problems(&zip, ArchiveFormat::Zip), [bomb]);

    let mut bench = Bench::new();
    bench.limits.entries = 2;
    let tar = tar_of(&[tar_file("a", ""), tar_file("b", ""), tar_file("c", "")]);
    assert!(
        bench
            .refused(&tar, ArchiveFormat::Tar)
            .contains("\n  | it has more than 2 entries\n")
    );

    let mut bench = Bench::new();
    bench.limits.total = 10;
    let tar = tar_of(&[tar_file("a", "123456"), tar_file("b", "123456")]);
    assert!(
        bench
            .refused(&tar, ArchiveFormat::Tar)
            .contains("\n  | it unpacks to more than 10 bytes\n")
    );
}

#[test]
fn a_zip_that_holds_more_than_it_says_is_stopped() {
    let mut writer = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
    writer.write_all(&[7; 100_000]).unwrap();
    let mut liar = zipped("a", "");
    liar.content = writer.finish().unwrap();
    liar.method = 8;
    liar.claims = Some(10);
    let text = Bench::refusal(&zip_of(&[liar]), ArchiveFormat::Zip);
    assert!(
        text.starts_with("containerd cannot be unpacked: a"),
        "{text}"
    );
}

#[test]
fn sparse_files_and_huge_headers_are_refused() {
    let record = "22 GNU.sparse.major=1\n";
    assert_eq!(record.len(), 22);
    let pax = tar_of(&[
        tar_entry(b"pax", b'x', record.as_bytes(), ""),
        tar_file("holes", "x"),
    ]);
    assert_eq!(
        Bench::problems(&pax, ArchiveFormat::Tar),
        ["holes is a sparse file"]
    );
    let long = vec![b'n'; 2 << 20];
    let tar = tar_of(&[
        tar_entry(b"././@LongLink", b'L', &long, ""),
        tar_file("a", "x"),
    ]);
    assert_eq!(
        Bench::problems(&tar, ArchiveFormat::Tar),
        [format!("it has a header of {} bytes", long.len())]
    );
}

#[test]
fn damaged_archives_are_named_as_such() {
    let tar = tar_of(&[tar_file("a", &"x".repeat(3000))]);
    let zip = zip_of(&[zipped("a", "content")]);
    let packed = gzip(&tar);
    let mut flipped = zip.clone();
    // The first byte of the content: local header (30) and name.
    flipped[31] ^= 1;
    for (bytes, format) in [
        (&tar[..1000], ArchiveFormat::Tar),
        (&packed[..packed.len() - 9], ArchiveFormat::TarGz),
        (&packed[..], ArchiveFormat::TarZst),
        (&tar[..], ArchiveFormat::TarGz),
        (&zip[..zip.len() - 5], ArchiveFormat::Zip),
        (b"not an archive", ArchiveFormat::Zip),
        (&flipped[..], ArchiveFormat::Zip),
    ] {
        let text = Bench::refusal(bytes, format);
        assert!(
            text.starts_with("containerd cannot be unpacked: "),
            "{format:?}: {text}"
        );
    }
}

/// A small generator (Marsaglia's xorshift64), so that a failure comes again.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

#[test]
fn damage_of_any_kind_ends_in_an_error_or_in_files_of_the_destination() {
    let tar = tar_of(&[
        tar_entry(b"pax", b'x', b"15 path=d/e.txt\n", ""),
        tar_file("a.txt", "content"),
        tar_entry(b"d/", b'5', b"", ""),
        tar_file("d/b.txt", "content"),
    ]);
    let zip = zip_of(&[zipped("a.txt", "content"), zipped("d/b.txt", "content")]);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let (file, out) = (inner.join("a"), inner.join("out"));
    let (mut good, mut bad) = (0, 0);
    for round in 0..2000 {
        let format = [ArchiveFormat::Zip, ArchiveFormat::Tar][round % 2];
        let mut bytes = [&zip, &tar][round % 2].clone();
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len());
            // Often a byte that means something in names.
            bytes[at] = match random.below(3) {
                0 => b"./\\:\0"[random.below(5)],
                _ => random.below(256) as u8,
            };
        }
        fs::write(&file, &bytes).unwrap();
        match unpack(
            &packed(&file, format),
            &out,
            &UnpackLimits::default(),
            &ArchiveFilter::default(),
        ) {
            Ok(unpacked) => {
                let there: Vec<String> = files(&out).into_iter().map(|(name, _)| name).collect();
                let rendered: Vec<&str> = unpacked.iter().map(|f| f.path.as_str()).collect();
                assert_eq!(there, rendered, "round {round}");
                fs::remove_dir_all(&out).unwrap();
                good += 1;
            }
            Err(_) => bad += 1,
        }
        fs::remove_file(&file).unwrap();
        assert!(files(folder.path()).is_empty(), "round {round}");
    }
    assert!(good > 100 && bad > 100, "{good} good, {bad} bad");
}

#[test]
fn an_existing_folder_is_not_touched() {
    let bench = Bench::new();
    let archive = bench.folder.path().join("a.tar");
    fs::write(&archive, tar_of(&[tar_file("a", "x")])).unwrap();
    let dest = bench.folder.path().join("out");
    fs::create_dir(&dest).unwrap();
    fs::write(dest.join("mine"), "kept").unwrap();
    unpack(
        &packed(&archive, ArchiveFormat::Tar),
        &dest,
        &bench.limits,
        &bench.filter,
    )
    .unwrap_err();
    assert_eq!(files(&dest), pairs(&[("mine", "kept")]));
}

#[test]
fn a_listing_makes_the_same_checks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tar");
    fs::write(
        &path,
        tar_of(&[tar_file("b/a", "xy"), tar_entry(b"c/", b'5', b"", "")]),
    )
    .unwrap();
    let members = list(&packed(&path, ArchiveFormat::Tar), &UnpackLimits::default()).unwrap();
    let shown: Vec<_> = members
        .iter()
        .map(|m| (m.path.as_str(), m.size, m.is_folder))
        .collect();
    assert_eq!(shown, [("b/a", 2, false), ("c", 0, true)]);
    fs::write(&path, tar_of(&[tar_file("../a", "x")])).unwrap();
    list(&packed(&path, ArchiveFormat::Tar), &UnpackLimits::default()).unwrap_err();
}
