//! The record as a reader gets it, against the JSON Schema in the repository; and what changed from one tree to the next.

use std::fs;

use serde_json::Value;
use winimg::usage::{
    DiskUsage, FolderChange, LayerUsage, NtfsMetadataFile, UsageFolder, UsageSchema,
    compare_folders, generate_schema,
};

use support::golden::schema_is_current;

const SCHEMA_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/schemas/disk-usage-1.json");
const MIB: u64 = 1 << 20;

pub fn folder(name: &str, mib: u64, folders: Vec<UsageFolder>) -> UsageFolder {
    UsageFolder {
        name: name.into(),
        bytes: mib * MIB,
        files: mib * 2,
        folders,
    }
}

/// A small node, with a folder that is called what nobody should call one.
pub fn node() -> DiskUsage {
    let windows = vec![
        folder("WinSxS", 3000, vec![]),
        folder("System32", 2600, vec![folder("DriverStore", 700, vec![])]),
    ];
    let data = vec![folder("containerd", 1400, vec![])];
    let own = |name: &str, mib: u64| NtfsMetadataFile {
        name: name.into(),
        bytes: mib * MIB,
    };
    let change = FolderChange {
        path: r"\ProgramData\containerd".into(),
        before: None,
        after: Some(1400 * MIB),
    };
    DiskUsage {
        schema: UsageSchema::V1,
        total: 40_000 * MIB,
        free: 31_000 * MIB,
        unclaimed: 10 * MIB,
        metadata: vec![own("$MFT", 160), own("$LogFile", 64)],
        smallest: 45 * MIB,
        root: folder(
            "",
            8766,
            vec![
                folder("Windows", 6400, windows),
                folder("ProgramData", 1500, data),
                folder("<b>\u{202e}k\u{1b}[31m", 300, vec![]),
            ],
        ),
        layers: vec![
            LayerUsage {
                after: "the installation".into(),
                used: 7600 * MIB,
                changes: vec![],
            },
            LayerUsage {
                after: "step `containerd`".into(),
                used: 9000 * MIB,
                changes: vec![change],
            },
        ],
    }
}

#[test]
fn the_record_as_text() {
    insta::assert_snapshot!(node().to_json());
}

/// After a change of the types: `WINIMG_WRITE_SCHEMA=1 cargo test --test winimg usage::record`.
#[test]
fn the_schema_in_the_repository_is_current() {
    schema_is_current(SCHEMA_FILE, &generate_schema());
}

#[test]
fn the_schema_takes_the_record_and_refuses_a_wrong_one() {
    let schema: Value = serde_json::from_str(&generate_schema()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let good = serde_json::to_value(node()).unwrap();
    assert!(validator.is_valid(&good));
    for (pointer, value) in [
        ("/schema", Value::from("winimg/disk-usage/2")),
        ("/free", "much".into()),
        ("/root/folders/0/bytes", (-1).into()),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = value;
        assert!(!validator.is_valid(&bad), "{pointer}");
    }
}

#[test]
fn a_record_is_read_back_and_one_that_contradicts_itself_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk-usage.json");
    fs::write(&path, node().to_json()).unwrap();
    assert_eq!(DiskUsage::read(&path).unwrap(), node());
    let wrong = DiskUsage {
        free: u64::MAX,
        ..node()
    };
    fs::write(&path, wrong.to_json()).unwrap();
    let at = path.display();
    assert_eq!(
        DiskUsage::read(&path).unwrap_err().to_string(),
        format!("this disk usage record is inconsistent\n  at: {at}")
    );
}

#[test]
fn a_change_is_named_where_it_happened() {
    let before = folder(
        "",
        1000,
        vec![folder("Windows", 900, vec![folder("WinSxS", 500, vec![])])],
    );
    let mut after = before.clone();
    after.bytes += 300 * MIB;
    after.folders[0].bytes += 200 * MIB;
    after.folders[0].folders[0].bytes += 196 * MIB;
    after.folders.push(folder("k", 100, vec![]));
    let lines: Vec<String> = compare_folders(&before, &after)
        .iter()
        .map(|c| format!("{} {}", c.path, c.difference() / i128::from(MIB)))
        .collect();
    assert_eq!(lines, [r"\ 300", r"\Windows\WinSxS 196", r"\k 100"]);
    assert_eq!(compare_folders(&before, &before), []);
}
