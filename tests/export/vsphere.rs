//! An OVA and a VMDK in the hands of vSphere's own client and of its simulator: `tests/vsphere`, in Go.

use std::process::Command;

use winimg_recipe::{OutputFormat, Outputs};

use crate::export::fixture::{disk, path, run};
use support::{skip, tree};

#[test]
#[ignore = "needs Go and its module proxy: make vsphere"]
fn govc_and_vcsim_take_what_is_exported() {
    if Command::new("go").arg("version").output().is_err() {
        skip::skipped("no Go, which builds govc and vcsim");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // tests/vsphere/import_test.go has its size.
    let source = disk(dir.path(), 67);
    let outputs = Outputs::from([OutputFormat::Ova, OutputFormat::Vmdk]);
    run(&source, dir.path(), &outputs);
    let made = Command::new("go")
        .args(["test", "-count=1", "-v", "./..."])
        .current_dir(tree::root().join("tests/vsphere"))
        .env("WINIMG_EXPORTED", path(dir.path()))
        .status()
        .expect("go");
    assert!(made.success());
}
