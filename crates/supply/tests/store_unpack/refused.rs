//! Every kind of hostile archive, one line each: the whole message, the tree around it unchanged,
//! nothing of it left.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use winimg_formats::archive::{ArchiveFilter, ArchiveFormat, UnpackLimits, unpack};

use crate::store_unpack::bench::packed;
use support::archives::{Zipped, gzip, tar_entry, tar_file, tar_of, tar_sized, zip_of, zipped};

/// An archive, and the problems that are told of it.
struct Case {
    what: &'static str,
    format: ArchiveFormat,
    bytes: Vec<u8>,
    problems: &'static [&'static str],
}

/// A tar whose last entries are these, after a good one.
fn tar(what: &'static str, entries: &[Vec<u8>], problems: &'static [&'static str]) -> Case {
    let entries = [&[tar_file("good.exe", "MZ")], entries].concat();
    Case {
        what,
        format: ArchiveFormat::Tar,
        bytes: tar_of(&entries),
        problems,
    }
}

fn zip(what: &'static str, entries: &[Zipped], problems: &'static [&'static str]) -> Case {
    let entries = [&[zipped("good.exe", "MZ")], entries].concat();
    Case {
        what,
        format: ArchiveFormat::Zip,
        bytes: zip_of(&entries),
        problems,
    }
}

/// A pax record with its own length (POSIX.1-2024, pax Extended Header).
fn pax(keyword: &str, value: &str) -> Vec<u8> {
    let rest = format!(" {keyword}={value}\n");
    let mut length = rest.len() + 1;
    while length != rest.len() + length.to_string().len() {
        length = rest.len() + length.to_string().len();
    }
    tar_entry(b"pax", b'x', format!("{length}{rest}").as_bytes(), "")
}

/// The sparse form of old GNU tar, whose header has GNU's own magic.
fn gnu_sparse() -> Vec<u8> {
    let mut entry = tar_entry(b"a", b'S', b"", "");
    entry[257..265].copy_from_slice(b"ustar  \0");
    entry[483..495].copy_from_slice(b"00000000000\0");
    entry[148..156].fill(b' ');
    let sum: u32 = entry[..512].iter().map(|b| u32::from(*b)).sum();
    entry[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    entry
}

fn gnu_name(name: &str) -> Vec<u8> {
    tar_entry(b"././@LongLink", b'L', format!("{name}\0").as_bytes(), "")
}

fn paths() -> Vec<Case> {
    let file = |name: &str| [tar_file(name, "x")];
    vec![
        tar(
            "a way up",
            &file("../escaped"),
            &["../escaped contains a .. segment"],
        ),
        tar(
            "a way up and in",
            &file("a/../../out/escaped"),
            &["a/../../out/escaped contains a .. segment"],
        ),
        tar(
            "a way up as Windows writes it",
            &file("a\\..\\..\\b"),
            &["a\\..\\..\\b contains a .. segment"],
        ),
        tar(
            "an absolute path",
            &file("/etc/cron.d/x"),
            &["/etc/cron.d/x is an absolute path"],
        ),
        tar(
            "a drive",
            &file("C:\\Windows\\x.dll"),
            &["C:\\Windows\\x.dll names a drive"],
        ),
        tar(
            "a drive's own folder",
            &file("c:x.dll"),
            &["c:x.dll names a drive"],
        ),
        tar(
            "a share",
            &file("\\\\host\\share\\x"),
            &["\\\\host\\share\\x is an absolute path"],
        ),
        tar(
            "a device path",
            &file("\\\\?\\C:\\x"),
            &["\\\\?\\C:\\x is an absolute path"],
        ),
        tar(
            "a stream",
            &file("good.exe:evil"),
            &["good.exe:evil names an alternate data stream (:)"],
        ),
        tar(
            "a stream by its type",
            &file("a.exe::$DATA"),
            &["a.exe::$DATA names an alternate data stream (:)"],
        ),
        tar(
            "a Windows device",
            &file("bin/nul.txt"),
            &["bin/nul.txt is the Windows device NUL"],
        ),
        tar(
            "a dot at the end",
            &file("good.exe."),
            &["good.exe. ends in a dot or space, which Windows drops"],
        ),
        tar(
            "a blank at the end",
            &file("good.exe "),
            &["good.exe  ends in a dot or space, which Windows drops"],
        ),
        tar(
            "another case",
            &file("GOOD.EXE"),
            &["GOOD.EXE differs from good.exe only in case"],
        ),
        tar(
            "another case of a folder",
            &[tar_file("Bin/a", "x"), tar_file("bin/b", "x")],
            &["bin/b differs from Bin only in case"],
        ),
        tar(
            "the same again",
            &file("good.exe"),
            &["good.exe appears twice"],
        ),
        tar(
            "the same by a dot",
            &file("./good.exe"),
            &["./good.exe appears twice"],
        ),
        tar(
            "the same by the other slash",
            &[tar_file("a/b", "x"), tar_file("a\\b", "x")],
            &["a\\b appears twice"],
        ),
        tar(
            "a file that is a folder, too",
            &file("good.exe/x"),
            &["good.exe/x needs good.exe to be both a file and a folder"],
        ),
        tar(
            "one letter in two spellings",
            &[
                tar_file("caf\u{e9}.exe", "x"),
                tar_file("cafe\u{301}.exe", "y"),
            ],
            &["cafe\u{301}.exe differs from caf\u{e9}.exe only in its Unicode normalization"],
        ),
        tar(
            "a text turned round",
            &file("x\u{202e}exe.txt"),
            &["x\\u{202e}exe.txt contains an invisible character"],
        ),
    ]
}

fn kinds() -> Vec<Case> {
    vec![
        tar(
            "a symbolic link",
            &[tar_entry(b"a", b'2', b"", "/etc/shadow")],
            &["a is a symbolic link"],
        ),
        tar(
            "a link, then a file through it",
            &[tar_entry(b"d", b'2', b"", "/tmp"), tar_file("d/x", "x")],
            &["d is a symbolic link"],
        ),
        tar(
            "a hard link",
            &[tar_entry(b"a", b'1', b"", "/etc/passwd")],
            &["a is a hard link"],
        ),
        tar(
            "a character device",
            &[tar_entry(b"a", b'3', b"", "")],
            &["a is a device, pipe or socket"],
        ),
        tar(
            "a block device",
            &[tar_entry(b"a", b'4', b"", "")],
            &["a is a device, pipe or socket"],
        ),
        tar(
            "a pipe",
            &[tar_entry(b"a", b'6', b"", "")],
            &["a is a device, pipe or socket"],
        ),
        tar(
            "a sparse file of old GNU tar",
            &[gnu_sparse()],
            &["a is a sparse file"],
        ),
        tar(
            "a sparse file by pax",
            &[pax("GNU.sparse.major", "1"), tar_file("a", "x")],
            &["a is a sparse file"],
        ),
        tar(
            "a name by pax",
            &[pax("path", "../escaped"), tar_file("a", "x")],
            &["../escaped contains a .. segment"],
        ),
        tar(
            "a name by GNU tar",
            &[gnu_name("/etc/cron.d/x"), tar_file("a", "x")],
            &["/etc/cron.d/x is an absolute path"],
        ),
        tar(
            "a name by both",
            &[
                gnu_name("good.txt"),
                pax("path", "C:\\x"),
                tar_file("a", "x"),
            ],
            &["it has several headers that name one entry"],
        ),
        zip(
            "a way up",
            &[zipped("../escaped", "x")],
            &["../escaped contains a .. segment"],
        ),
        zip(
            "an absolute path",
            &[zipped("\\Windows\\x", "x")],
            &["\\Windows\\x is an absolute path"],
        ),
        zip(
            "another case",
            &[zipped("Good.exe", "x")],
            &["Good.exe differs from good.exe only in case"],
        ),
        zip(
            "a symbolic link",
            &[changed(|e| e.mode = 0o120_777)],
            &["a is a symbolic link"],
        ),
        zip(
            "a device",
            &[changed(|e| e.mode = 0o020_644)],
            &["a is a device, pipe or socket"],
        ),
        zip(
            "an encrypted file",
            &[changed(|e| e.flags = 1)],
            &["a is encrypted"],
        ),
        zip(
            "a clash by normalisation",
            &[zipped("\u{212b}", "x"), zipped("\u{c5}", "y")],
            &["\u{c5} differs from \u{212b} only in its Unicode normalization"],
        ),
        zip(
            "two of one name",
            &[zipped("a", "x"), zipped("a", "y")],
            &["it has entries of the same name"],
        ),
        zip(
            "two files in the same bytes",
            &[changed(|e| e.points_at = Some(0))],
            &["its entries overlap, like those of an archive bomb"],
        ),
    ]
}

fn changed(change: impl Fn(&mut Zipped)) -> Zipped {
    let mut entry = zipped("a", "x");
    change(&mut entry);
    entry
}

/// SHA-256 over every path below a folder, its kind and its content.
fn hash(folder: &Path) -> String {
    let mut sum = Sha256::new();
    let mut todo = vec![folder.to_owned()];
    while let Some(at) = todo.pop() {
        let entries = fs::read_dir(&at).unwrap().map(|e| e.unwrap().path());
        let mut entries: Vec<_> = entries.collect();
        entries.sort();
        for path in entries {
            sum.update(path.as_os_str().as_encoded_bytes());
            let kind = fs::symlink_metadata(&path).unwrap().file_type();
            sum.update(format!("{kind:?}"));
            if kind.is_dir() {
                todo.push(path)
            } else if kind.is_file() {
                sum.update(fs::read(&path).unwrap())
            }
        }
    }
    format!("{:x}", sum.finalize())
}

/// A folder with neighbours that an escape would hit.
fn around() -> tempfile::TempDir {
    let around = tempfile::tempdir().unwrap();
    for file in ["escaped", "b", "inner/b", "inner/out.txt", "etc/passwd"] {
        let path = around.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "mine").unwrap();
    }
    around
}

#[test]
fn each_kind_of_hostile_archive_is_refused_and_leaves_nothing() {
    let mut wrong = Vec::new();
    for case in paths().into_iter().chain(kinds()) {
        let mut forms = vec![(case.format, case.bytes.clone())];
        if case.format == ArchiveFormat::Tar {
            forms.push((ArchiveFormat::TarGz, gzip(&case.bytes)));
        }
        // What nobody wants of it makes it no better.
        for only in [&[][..], &["good.exe"]] {
            for (format, bytes) in &forms {
                let around = around();
                let file = around.path().join("inner/archive");
                fs::File::create(&file).unwrap().write_all(bytes).unwrap();
                let before = hash(around.path());
                let filter = ArchiveFilter {
                    strip: 0,
                    only: only.iter().map(|s| s.to_string()).collect(),
                };
                let out = around.path().join("inner/out");
                let said = match unpack(
                    &packed(&file, *format),
                    &out,
                    &UnpackLimits::default(),
                    &filter,
                ) {
                    Ok(files) => format!("it is unpacked: {files:?}"),
                    Err(e) => e.to_string(),
                };
                let lines: String = case.problems.iter().map(|p| format!("  | {p}\n")).collect();
                let whole = format!(
                    "containerd is not unpacked\n{lines}  cure: ask the publisher for an archive of plain files and folders, \
                     or make one and host it"
                );
                if said != whole {
                    wrong.push(format!(
                        "{} ({format:?}, only {only:?}):\n{said}",
                        case.what
                    ));
                }
                assert_eq!(hash(around.path()), before, "{} wrote something", case.what);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// An archive that says one thing and holds another ends in an error, whatever the sentence of the
/// library under it.
#[test]
fn archives_that_lie_about_themselves_are_refused_and_leave_nothing() {
    let mut lies = Vec::new();
    let size = |claims: u32| {
        let mut entry = zipped("a", "0123456789");
        entry.claims = Some(claims);
        zip_of(&[entry])
    };
    lies.push((
        "a stored file that is longer than it says",
        ArchiveFormat::Zip,
        size(3),
    ));
    lies.push((
        "a stored file that is shorter than it says",
        ArchiveFormat::Zip,
        size(30),
    ));
    // Zip64: 0xffffffff sends to an extra field that is not there (PKWARE APPNOTE 4.5.3).
    lies.push((
        "a zip64 size without its field",
        ArchiveFormat::Zip,
        size(u32::MAX),
    ));
    let mut count = zip_of(&[zipped("a", "x")]);
    let end = count.len() - 22;
    count[end + 8..end + 12].copy_from_slice(&[9, 0, 9, 0]);
    lies.push(("more entries than there are", ArchiveFormat::Zip, count));
    let mut before = zip_of(&[zipped("a", "x")]);
    before[end + 16..end + 20].copy_from_slice(&[0xff, 0xff, 0xff, 0x7f]);
    lies.push(("a directory beyond the end", ArchiveFormat::Zip, before));
    let mut local = zipped("a.exe", "x");
    local.local_name = Some(b"b.exe".to_vec());
    lies.push((
        "another name in the file's own header",
        ArchiveFormat::Zip,
        zip_of(&[local]),
    ));
    let longer = tar_of(&[tar_sized(b"a", b'0', b"x", (1 << 33) - 1, "")]);
    lies.push((
        "a tar that ends before its file",
        ArchiveFormat::Tar,
        longer,
    ));
    let huge = tar_of(&[pax("size", "18446744073709551615"), tar_file("a", "x")]);
    lies.push(("a size beyond all disks", ArchiveFormat::Tar, huge));
    for (what, format, bytes) in lies {
        let around = around();
        let file = around.path().join("inner/archive");
        fs::write(&file, bytes).unwrap();
        let before = hash(around.path());
        let out = around.path().join("inner/out");
        let refused = unpack(
            &packed(&file, format),
            &out,
            &UnpackLimits::default(),
            &ArchiveFilter::default(),
        );
        let said = refused
            .err()
            .unwrap_or_else(|| panic!("{what}: it is unpacked"))
            .to_string();
        assert!(said.starts_with("containerd "), "{what}: {said}");
        assert_eq!(hash(around.path()), before, "{what} wrote something");
    }
}
