//! `release/sign.sh` with cosign itself: who has the key takes the release and every file of it, and nothing else.

use std::fs;
use std::process::Command;

use support::{skip, tree};
use winimg_base::digest::Digest;

use super::{printed, said, script, text, version};

#[test]
fn who_has_no_cosign_and_no_go_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("SHA256SUMS"), "").expect("sums");
    // A make that has nothing to build it with, as tests/record/cosign.sh without Go.
    let path = super::before_path(folder.path(), "make", "#!/bin/sh\nexit 0\n");
    let environment = [("PATH", path.as_str()), ("COSIGN", "/nonexistent/cosign")];
    let output = script("sign.sh", &[text(folder.path())], &environment);
    assert_eq!(output.status.code(), Some(3));
    insta::assert_snapshot!(said(&output), @"
    error: there is no cosign
      cure: install Go, which builds it
    ");
}

#[test]
#[ignore = "builds cosign: make cosign"]
fn cosign_takes_the_release_and_each_of_its_files_and_no_other() {
    let cosign = tree::root().join("target/tools/bin/cosign");
    if !cosign.exists() {
        skip::skipped(
            "no target/tools/bin/cosign, which `make cosign` builds where Go is installed",
        );
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let ask = |arguments: &[&str]| {
        let mut command = Command::new(&cosign);
        command.args(arguments).current_dir(folder.path());
        command
            .env("HOME", folder.path())
            .env("COSIGN_PASSWORD", "");
        command.output().expect("cosign")
    };
    printed(&ask(&["generate-key-pair"]));
    let dist = at("dist");
    fs::create_dir(&dist).expect("a folder");
    fs::write(dist.join("winimg.deb"), "a package\n").expect("a file");
    let digest = Digest::sha256_of(b"a package\n").hex();
    fs::write(dist.join("SHA256SUMS"), format!("{digest}  winimg.deb\n")).expect("sums");
    let statement = printed(&script(
        "provenance.py",
        &[text(&dist.join("SHA256SUMS"))],
        &[],
    ));
    let name = format!("winimg-{}.intoto.json", version());
    fs::write(dist.join(&name), statement).expect("the provenance");

    let key = at("cosign.key");
    let environment = [("COSIGN_KEY", text(&key)), ("COSIGN_PASSWORD", "")];
    printed(&script("sign.sh", &[text(&dist)], &environment));
    let bundle = format!("dist/{}", name.replace(".json", ".sigstore.json"));
    let sums = |file: &str| {
        let bundle = "dist/SHA256SUMS.sigstore.json";
        let of = [
            "verify-blob",
            "--insecure-ignore-tlog",
            "--key",
            "cosign.pub",
            "--bundle",
            bundle,
            file,
        ];
        ask(&of).status.success()
    };
    let made = |file: &str| {
        let kind = "https://slsa.dev/provenance/v1";
        let of = [
            "verify-blob-attestation",
            "--insecure-ignore-tlog",
            "--key",
            "cosign.pub",
            "--bundle",
            &bundle,
            "--type",
            kind,
            file,
        ];
        ask(&of).status.success()
    };
    fs::write(at("other"), "another package\n").expect("a file");
    assert!(sums("dist/SHA256SUMS") && !sums("other"));
    assert!(made("dist/winimg.deb") && !made("other"));
}
