//! Unpacked archives that the store keeps.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use winimg_base::event::{Cancel, Event, Sink};
use winimg_formats::archive::{ArchiveFilter, ArchiveFormat, UnpackLimits};
use winimg_supply::store::{AdmitCandidate, ExpectedBytes, ProgressWatch, Store};

use crate::store_unpack::bench::{files, pairs};
use support::archives::{tar_file, tar_of};

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
    let watch = ProgressWatch::new("a", Arc::new(Quiet), Cancel::default());
    let expected = ExpectedBytes::Unverified {
        reason: "made here".into(),
    };
    let blob = store
        .admit(AdmitCandidate::Local(path), expected, &watch)
        .unwrap();
    let tree = |only: &[&str]| {
        let filter = ArchiveFilter {
            strip: 1,
            only: only.iter().map(|s| s.to_string()).collect(),
        };
        store
            .unpack_tree(
                &blob,
                ArchiveFormat::Tar,
                &filter,
                &UnpackLimits::default(),
                &watch,
            )
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
