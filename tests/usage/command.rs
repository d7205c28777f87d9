//! `winimg inspect --usage`, of a disk and of a record.

use std::fs;

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
             cure: winimg inspect --usage IMAGE reads the disk itself\n"
        )
    );
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
