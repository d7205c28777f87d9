//! `winimg inspect --usage`, of a disk and of a record.

use std::fs;
use std::io::{Seek as _, SeekFrom};

use support::media::text;
use support::windows_disk::{WindowsDisk, can_make};
use winimg::usage::DiskUsage;

use super::record::node;

struct Said {
    status: Option<i32>,
    out: String,
    err: String,
}

fn inspect(arguments: &[&str]) -> Said {
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_winimg"))
        .args([&["inspect", "--usage"], arguments].concat())
        .output()
        .expect("winimg");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said {
        status: out.status.code(),
        out: text(&out.stdout),
        err: text(&out.stderr),
    }
}

#[test]
fn a_build_s_record_as_a_tree() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("disk-usage.json"), node().to_json()).expect("the record");
    let said = inspect(&[text(folder.path())]);
    assert_eq!((said.status, said.err.as_str()), (Some(0), ""));
    insta::assert_snapshot!(said.out);
    let record = folder.path().join("disk-usage.json");
    let as_json = inspect(&["--json", text(&record)]);
    // The same document: what would turn the direction of writing is escaped.
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    assert_eq!(value(&as_json.out), value(&node().to_json()));
    assert!(!as_json.out.contains('\u{202e}'));
}

#[test]
fn a_folder_without_a_record_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = inspect(&[text(folder.path())]);
    let at = folder.path().display();
    assert_eq!(said.status, Some(2));
    assert_eq!(
        said.err,
        format!(
            "error: this build recorded no disk usage\n  at: {at}\n  expected: disk-usage.json\n  \
             cure: run `winimg inspect --usage IMAGE` to read the disk itself\n"
        )
    );
}

/// A data partition may be larger than that of Windows.
#[test]
fn the_volume_with_windows_is_counted_and_not_the_largest() {
    if !can_make() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let disk = folder.path().join("disk.raw");
    WindowsDisk::sound().write(&disk);
    let len = fs::metadata(&disk).expect("the disk").len();
    let file = fs::OpenOptions::new()
        .write(true)
        .open(&disk)
        .expect("the disk");
    file.set_len(len + (100 << 20)).expect("a larger disk");
    let data = [
        "--move-second-header",
        "--new=9:0:+90M",
        "--typecode=9:0700",
    ];
    support::media::run("sgdisk", &[&data[..], &[text(&disk)]].concat());
    let table = winimg_formats::disk::RawDisk::open(&disk).expect("the disk");
    let table = winimg_formats::disk::gpt::read_table(&table).expect("a table");
    let last = table.partitions.last().expect("the data partition");
    let volume = folder.path().join("data.ntfs");
    let new = fs::File::create(&volume).expect("a volume");
    new.set_len(last.len).expect("a volume");
    support::media::run("mkntfs", &["-qFf", text(&volume)]);
    let mut to = &file;
    to.seek(SeekFrom::Start(last.start)).expect("a place");
    std::io::copy(&mut fs::File::open(&volume).expect("the volume"), &mut to).expect("copied");
    let said = inspect(&["--json", text(&disk)]);
    assert_eq!((said.status, said.err.as_str()), (Some(0), ""));
    let usage: DiskUsage = serde_json::from_str(&said.out).expect("the record");
    assert_eq!(usage.total, (44 << 20) - 4096);
    assert_eq!(usage.root.folders[0].name, "Windows");
}

#[test]
fn a_disk_is_read_itself() {
    if !can_make() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let disk = folder.path().join("disk.raw");
    WindowsDisk::sound().write(&disk);
    let said = inspect(&["--json", text(&disk)]);
    assert_eq!((said.status, said.err.as_str()), (Some(0), ""));
    let usage: DiskUsage = serde_json::from_str(&said.out).expect("the record");
    assert_eq!(usage.total, (44 << 20) - 4096);
    assert_eq!(usage.unclaimed, 0);
    assert_eq!(usage.root.folders[0].name, "Windows");
    let own: u64 = usage.metadata.iter().map(|own| own.bytes).sum();
    assert_eq!(usage.root.bytes + own, usage.used());
}
