//! The import request and its guide.

use std::fs;

use winimg_recipe::{OutputFormat, Outputs};

use crate::export::fixture::{disk, everything, files, run};

#[test]
fn the_request_and_the_guide_as_text() {
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 40);
    let out = tempfile::tempdir().unwrap();
    run(&source, out.path(), &everything());
    let read = |name: &str| fs::read_to_string(out.path().join("demo.ami").join(name)).unwrap();
    insta::assert_snapshot!("import-image.json", read("import-image.json"));
    insta::assert_snapshot!("HOWTO.md", read("HOWTO.md"));
}

#[test]
fn the_disk_of_an_ami_is_never_written_twice() {
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 40);
    for (raw, vhd, expected, disk) in [
        (false, false, vec!["demo.raw"], "demo.raw"),
        (false, true, vec!["demo.vhd"], "demo.vhd"),
        (true, true, vec!["demo.raw", "demo.vhd"], "demo.raw"),
    ] {
        let out = tempfile::tempdir().unwrap();
        let disks = [(raw, OutputFormat::Raw), (vhd, OutputFormat::Vhd)];
        let disks = disks.into_iter().filter(|(asked, _)| *asked);
        let formats = disks.map(|(_, format)| format).chain([OutputFormat::Ami]);
        let outputs: Outputs = formats.collect();
        let artifacts = run(&source, out.path(), &outputs);
        let mut all = vec!["demo.ami/HOWTO.md", "demo.ami/import-image.json"];
        all.extend(expected);
        assert_eq!(files(out.path()), all);
        assert_eq!(artifacts.last().unwrap().disk.as_deref(), Some(disk));
        let request = fs::read_to_string(out.path().join("demo.ami/import-image.json")).unwrap();
        let request: serde_json::Value = serde_json::from_str(&request).unwrap();
        let container = &request["DiskContainers"][0];
        assert_eq!(container["UserBucket"]["S3Key"], format!("winimg/{disk}"));
        assert_eq!(container["Format"], disk[5..].to_uppercase());
    }
}
