//! Archives made here byte by byte, good and hostile: what is unpacked, and what each refusal says.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;
use winimg::archive::{Filter, Format, Limits, Packed, Unpacked, list, unpack};
use winimg::digest::Digest;
use winimg::error::Error;
use winimg::event::{Cancel, Event, Sink};
use winimg::store::{Candidate, Expected, Store, Watch};

// ---- writers ----

/// One tar header and its content, POSIX.1-1988 with the ustar magic.
fn tar_entry(name: &[u8], kind: u8, content: &[u8], link: &str) -> Vec<u8> {
    tar_sized(name, kind, content, content.len() as u64, link)
}

fn tar_sized(name: &[u8], kind: u8, content: &[u8], size: u64, link: &str) -> Vec<u8> {
    let mut header = [0u8; 512];
    header[..name.len()].copy_from_slice(name);
    header[100..108].copy_from_slice(b"0000644\0");
    header[108..116].copy_from_slice(b"0000000\0");
    header[116..124].copy_from_slice(b"0000000\0");
    header[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
    header[136..148].copy_from_slice(b"00000000000\0");
    header[148..156].copy_from_slice(b"        ");
    header[156] = kind;
    header[157..157 + link.len()].copy_from_slice(link.as_bytes());
    header[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u32 = header.iter().map(|b| u32::from(*b)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut entry = header.to_vec();
    entry.extend_from_slice(content);
    entry.resize(entry.len().next_multiple_of(512), 0);
    entry
}

fn tar_file(name: &str, content: &str) -> Vec<u8> {
    tar_entry(name.as_bytes(), b'0', content.as_bytes(), "")
}

fn tar_of(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut all = entries.concat();
    all.extend_from_slice(&[0; 1024]);
    all
}

/// One zip entry, and how its headers may lie.
#[derive(Clone)]
struct Zipped {
    name: Vec<u8>,
    /// The name in the local header, when another.
    local_name: Option<Vec<u8>>,
    content: Vec<u8>,
    mode: u32,
    flags: u16,
    method: u16,
    /// The size that the headers claim, when another.
    claims: Option<u32>,
    /// The local header that the directory points at, when another.
    points_at: Option<u32>,
}

fn zipped(name: &str, content: &str) -> Zipped {
    Zipped {
        name: name.into(),
        local_name: None,
        content: content.into(),
        mode: 0o100_644,
        flags: 0,
        method: 0,
        claims: None,
        points_at: None,
    }
}

fn zip_header(entry: &Zipped, name: &[u8]) -> Vec<u8> {
    let mut header = Vec::new();
    for value in [20, entry.flags, entry.method, 0, 0x21] {
        header.extend_from_slice(&value.to_le_bytes());
    }
    let size = entry.content.len() as u32;
    for value in [
        crc32fast::hash(&entry.content),
        size,
        entry.claims.unwrap_or(size),
    ] {
        header.extend_from_slice(&value.to_le_bytes());
    }
    header.extend_from_slice(&(name.len() as u16).to_le_bytes());
    header.extend_from_slice(&0u16.to_le_bytes());
    header
}

fn zip_of(entries: &[Zipped]) -> Vec<u8> {
    let (mut all, mut directory) = (Vec::new(), Vec::new());
    for entry in entries {
        let at = entry.points_at.unwrap_or(all.len() as u32);
        let local_name = entry.local_name.as_ref().unwrap_or(&entry.name);
        all.extend_from_slice(b"PK\x03\x04");
        all.extend(zip_header(entry, local_name));
        all.extend_from_slice(local_name);
        all.extend_from_slice(&entry.content);

        directory.extend_from_slice(b"PK\x01\x02\x1e\x03");
        directory.extend(zip_header(entry, &entry.name));
        directory.extend_from_slice(&[0; 6]);
        directory.extend_from_slice(&(entry.mode << 16).to_le_bytes());
        directory.extend_from_slice(&at.to_le_bytes());
        directory.extend_from_slice(&entry.name);
    }
    let start = all.len() as u32;
    all.extend_from_slice(&directory);
    all.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    for _ in 0..2 {
        all.extend_from_slice(&(entries.len() as u16).to_le_bytes());
    }
    all.extend_from_slice(&(directory.len() as u32).to_le_bytes());
    all.extend_from_slice(&start.to_le_bytes());
    all.extend_from_slice(&0u16.to_le_bytes());
    all
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

// ---- a folder to unpack in ----

fn packed(file: &Path, format: Format) -> Packed<'_> {
    Packed {
        file,
        format,
        name: "containerd",
    }
}

struct Bench {
    folder: TempDir,
    limits: Limits,
    filter: Filter,
}

impl Bench {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            limits: Limits::default(),
            filter: Filter::default(),
        }
    }

    fn unpack(&self, bytes: &[u8], format: Format) -> Result<Vec<Unpacked>, Error> {
        let inner = self.folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let archive = self.folder.path().join("containerd");
        fs::write(&archive, bytes).unwrap();
        let result = unpack(
            &packed(&archive, format),
            &inner.join("out"),
            &self.limits,
            &self.filter,
        );
        fs::remove_file(&archive).unwrap();
        result
    }

    /// The message of a refusal, after a look whether anything was left or escaped.
    fn refusal(bytes: &[u8], format: Format) -> String {
        Self::new().refused(bytes, format)
    }

    fn refused(&self, bytes: &[u8], format: Format) -> String {
        let error = self.unpack(bytes, format).unwrap_err();
        assert!(
            files(self.folder.path()).is_empty(),
            "{:?}",
            files(self.folder.path())
        );
        error.to_string()
    }

    /// The lines of a refusal.
    fn problems(bytes: &[u8], format: Format) -> Vec<String> {
        let text = Self::refusal(bytes, format);
        assert!(text.starts_with("containerd is not unpacked\n"), "{text}");
        text.lines()
            .filter_map(|l| l.strip_prefix("  | "))
            .map(String::from)
            .collect()
    }
}

/// All files below a folder, relative to it, with what they hold.
fn files(folder: &Path) -> Vec<(String, String)> {
    fn walk(root: &Path, folder: &Path, into: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                walk(root, &path, into);
            } else {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                into.push((name, fs::read_to_string(&path).unwrap_or_default()));
            }
        }
    }
    let mut all = Vec::new();
    walk(folder, folder, &mut all);
    all.sort();
    all
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(a, b)| (a.to_string(), b.to_string()))
        .collect()
}

// ---- good ones ----

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
        (tar.clone(), Format::Tar),
        (gzip(&tar), Format::TarGz),
        (zstd, Format::TarZst),
        (zip, Format::Zip),
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
            [("LICENSE", "text"), ("bin/containerd.exe", "MZ")].map(|(path, text)| Unpacked {
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
        let unpacked = Bench::new().unpack(&bytes, Format::Tar).unwrap();
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
    bench.filter = Filter {
        strip: 1,
        only: vec!["bin\\*.EXE".into(), "doc".into()],
    };
    bench.unpack(&tar, Format::Tar).unwrap();
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
    bench.filter = Filter {
        strip: 1,
        only: vec!["*.dll".into(), "*.sys".into()],
    };
    assert_eq!(
        bench.refused(&tar, Format::Tar),
        "containerd holds nothing that matches *.sys\n  | it holds a.exe\n  | it holds b.dll"
    );
    let mut bench = Bench::new();
    bench.filter.strip = 2;
    assert_eq!(
        bench.refused(&tar, Format::Tar),
        "containerd holds nothing below its first 2 folders"
    );
    assert_eq!(
        Bench::refusal(&tar_of(&[]), Format::Tar),
        "containerd is empty"
    );
    let mut bench = Bench::new();
    bench.filter.only = vec!["a[".into()];
    assert!(
        bench
            .refused(&tar, Format::Tar)
            .starts_with("the pattern a[ is malformed: ")
    );
}

#[test]
fn names_that_become_one_by_stripping_are_refused() {
    let tar = tar_of(&[tar_file("x/a.exe", "a"), tar_file("y/A.exe", "b")]);
    let mut bench = Bench::new();
    bench.filter.strip = 1;
    let text = bench.refused(&tar, Format::Tar);
    assert!(
        text.contains(
            "\n  | y/A.exe differs from a.exe only in case, without its first 1 segments\n"
        ),
        "{text}"
    );
}

// ---- hostile ones ----

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
  | ../escaped.txt climbs out with ..
  | /absolute.txt is an absolute path
  | ..\\escaped.txt climbs out with ..
  | C:\\Windows\\x.dll names a drive
  | kubelet.exe is a symbolic link
  | hard.exe is a hard link
  | null is a device, pipe or socket
  | disk is a device, pipe or socket
  | pipe is a device, pipe or socket
  | odd is an entry of the unknown type 'Z'
  | con.txt is the Windows device CON
  | good.txt is there twice
  | GOOD.TXT differs from good.txt only in case
  | good.txt/below needs good.txt to be both a file and a folder
  | Good.txt:stream names an alternate data stream (:)
  | dot. ends in a dot or blank, which Windows drops
  | caf\u{fffd} is not UTF-8
  | esc\\u{1b}[2J holds a control character
  cure: ask the publisher for an archive of plain files and folders, or make one and host it";
    assert_eq!(Bench::refusal(&tar, Format::Tar), expected);
    assert_eq!(Bench::refusal(&gzip(&tar), Format::TarGz), expected);
    // What is not wanted is judged too.
    let mut bench = Bench::new();
    bench.filter.only = vec!["good.txt".into()];
    assert_eq!(bench.refused(&tar, Format::Tar), expected);
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
        Bench::problems(&zip, Format::Zip),
        [
            "../escaped.txt climbs out with ..",
            "/absolute.txt is an absolute path",
            "a\\..\\..\\escaped.txt climbs out with ..",
            "C:\\Windows\\x.dll names a drive",
            "link.exe is a symbolic link",
            "pipe is a device, pipe or socket",
            "secret.exe is encrypted",
            "packed.exe is packed with Lzma, which is not supported",
            "nul is the Windows device NUL",
            "Good.TXT differs from good.txt only in case",
            "good.txt/below needs good.txt to be both a file and a folder",
            "caf\u{fffd} is not UTF-8",
            "nul\\u{0}.exe holds a NUL",
            "full/ is a folder with content",
            "it has entries of the same name",
        ]
    );
}

#[test]
fn a_zip_that_readers_could_disagree_about_is_refused() {
    let mut cloaked = zipped("kubelet.exe", "x");
    cloaked.local_name = Some(b"malware.exe".to_vec());
    let problems = Bench::problems(&zip_of(&[cloaked]), Format::Zip);
    assert_eq!(problems.len(), 1);
    assert!(problems[0].contains("inconsisten"), "{problems:?}");

    let mut overlapping = zipped("b", "0123456789");
    overlapping.points_at = Some(0);
    assert_eq!(
        Bench::problems(
            &zip_of(&[zipped("a", "0123456789"), overlapping]),
            Format::Zip
        ),
        ["its entries overlap, like those of an archive bomb"]
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
    assert_eq!(Bench::problems(&packed, Format::TarGz), [bomb]);

    let mut claims = zipped("zeros", "x");
    claims.claims = Some(100 << 20);
    let zip = zip_of(&[claims]);
    let bomb = format!(
        "it unpacks to more than 200 times its {} bytes, like an archive bomb",
        zip.len()
    );
    assert_eq!(Bench::problems(&zip, Format::Zip), [bomb]);

    let mut bench = Bench::new();
    bench.limits.entries = 2;
    let tar = tar_of(&[tar_file("a", ""), tar_file("b", ""), tar_file("c", "")]);
    assert!(
        bench
            .refused(&tar, Format::Tar)
            .contains("\n  | it has more than 2 entries\n")
    );

    let mut bench = Bench::new();
    bench.limits.total = 10;
    let tar = tar_of(&[tar_file("a", "123456"), tar_file("b", "123456")]);
    assert!(
        bench
            .refused(&tar, Format::Tar)
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
    let text = Bench::refusal(&zip_of(&[liar]), Format::Zip);
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
        Bench::problems(&pax, Format::Tar),
        ["holes is a sparse file"]
    );
    let long = vec![b'n'; 2 << 20];
    let tar = tar_of(&[
        tar_entry(b"././@LongLink", b'L', &long, ""),
        tar_file("a", "x"),
    ]);
    assert_eq!(
        Bench::problems(&tar, Format::Tar),
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
        (&tar[..1000], Format::Tar),
        (&packed[..packed.len() - 9], Format::TarGz),
        (&packed[..], Format::TarZst),
        (&tar[..], Format::TarGz),
        (&zip[..zip.len() - 5], Format::Zip),
        (b"not an archive", Format::Zip),
        (&flipped[..], Format::Zip),
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
        let format = [Format::Zip, Format::Tar][round % 2];
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
            &Limits::default(),
            &Filter::default(),
        ) {
            Ok(unpacked) => {
                let there: Vec<String> = files(&out).into_iter().map(|(name, _)| name).collect();
                let told: Vec<&str> = unpacked.iter().map(|f| f.path.as_str()).collect();
                assert_eq!(there, told, "round {round}");
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
        &packed(&archive, Format::Tar),
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
    let members = list(&packed(&path, Format::Tar), &Limits::default()).unwrap();
    let shown: Vec<_> = members
        .iter()
        .map(|m| (m.path.as_str(), m.size, m.is_folder))
        .collect();
    assert_eq!(shown, [("b/a", 2, false), ("c", 0, true)]);
    fs::write(&path, tar_of(&[tar_file("../a", "x")])).unwrap();
    list(&packed(&path, Format::Tar), &Limits::default()).unwrap_err();
}

// ---- trees of the store ----

struct Quiet;

impl Sink for Quiet {
    fn emit(&self, _: &Event) {}
}

#[test]
fn a_tree_is_unpacked_once_and_again_when_someone_changed_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    let path = folder.path().join("a.tar");
    fs::write(
        &path,
        tar_of(&[tar_file("v/a.exe", "a"), tar_file("v/b.exe", "b")]),
    )
    .unwrap();
    let watch = Watch::new("a", Arc::new(Quiet), Cancel::default());
    let expected = Expected::Unverified {
        reason: "made here".into(),
    };
    let blob = store
        .admit(Candidate::Local(path), &expected, &watch)
        .unwrap();
    let tree = |only: &[&str]| {
        let filter = Filter {
            strip: 1,
            only: only.iter().map(|s| s.to_string()).collect(),
        };
        store
            .tree(&blob, Format::Tar, &filter, &Limits::default(), &watch)
            .unwrap()
    };
    let inode = |path: &Path| {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(path).unwrap().ino()
    };
    let all = tree(&[]);
    assert_eq!(files(all.path()), pairs(&[("a.exe", "a"), ("b.exe", "b")]));
    let one = tree(&["a.exe"]);
    assert_eq!(files(one.path()), pairs(&[("a.exe", "a")]));
    let before = inode(&all.path().join("a.exe"));
    assert_eq!(tree(&[]).files(), all.files());
    assert_eq!(inode(&all.path().join("a.exe")), before);
    fs::write(all.path().join("a.exe"), "changed").unwrap();
    fs::write(all.path().join("added"), "x").unwrap();
    let again = tree(&[]);
    assert_eq!(
        files(again.path()),
        pairs(&[("a.exe", "a"), ("b.exe", "b")])
    );
    assert_eq!(again.path(), all.path());
}
