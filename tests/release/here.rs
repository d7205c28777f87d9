//! `release/here.sh`, which `make release-here` runs: what this machine lacks is named, and the rest made. Its scripts are stand-ins.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use support::tree::root;

use super::{before_path, printed, said, script, started, text};

/// A tree with the script and stand-ins of those that it calls, each of which ends as `ends` says.
struct Tree {
    folder: tempfile::TempDir,
    path: String,
}

/// Says what it was asked, and ends as the line for it in `ends` says.
const PART: &str = r#"#!/bin/bash
name=$(basename "$0")
echo "$name $*${BASE:+ on $BASE}" >>"$SITE/asked"
if [ "$name" = build.sh ]; then mkdir -p target/release-bin; fi
status=$(sed -n "s|^$name ${1-}=||p; s|^$name=||p" "$SITE/ends" | head -n 1)
if [ "${status:-0}" = 0 ] && [ "$name" = build.sh ]; then install -m 755 /dev/null "target/release-bin/winimg-$1"; fi
if [ "$name" = base.sh ]; then echo made-here; fi
exit "${status:-0}"
"#;

impl Tree {
    /// Where a line of `ends` is `build.sh x86_64-windows=3`, that call ends with 3.
    fn new(ends: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for name in ["release", "tests", "programs"] {
            fs::create_dir(at(name)).expect("a folder");
        }
        let here = root().join("release/here.sh");
        fs::copy(here, at("release/here.sh")).expect("the script");
        for name in ["build", "pack", "record", "sign", "bare", "base", "image"] {
            before_path(&at("release"), &format!("{name}.sh"), PART);
        }
        before_path(&at("tests"), "install-packages.sh", PART);
        before_path(&at("programs"), "make", PART);
        let path = before_path(&at("programs"), "buildah", PART);
        fs::write(at("ends"), ends).expect("a list");
        Self { folder, path }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn make(&self, more: &[(&str, &str)]) -> Output {
        let mut environment = vec![
            ("PATH", self.path.as_str()),
            ("SITE", text(self.folder.path())),
            ("ENGINE", "buildah"),
        ];
        environment.extend(more);
        let dist = self.at("dist");
        started(&self.at("release/here.sh"), &[text(&dist)], &environment)
    }

    /// What was asked of whom, without the folder.
    fn asked(&self) -> Vec<String> {
        let asked = fs::read_to_string(self.at("asked")).expect("calls");
        let dist = format!(" {}", text(&self.at("dist")));
        asked.lines().map(|line| line.replace(&dist, "")).collect()
    }
}

/// The lines at the end that name something.
fn named(output: &Output) -> Vec<String> {
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = |line: &&str| line.starts_with("left out: ") || line.starts_with("failed: ");
    printed.lines().filter(names).map(str::to_owned).collect()
}

#[test]
fn everything_is_made_where_nothing_is_missing() {
    let tree = Tree::new("");
    let done = tree.make(&[("COSIGN_KEY", "key")]);
    printed(&done);
    assert_eq!(named(&done), Vec::<String>::new());
    assert_eq!(
        tree.asked(),
        [
            "build.sh x86_64-linux",
            "build.sh aarch64-linux",
            "build.sh x86_64-windows",
            "pack.sh",
            "record.sh",
            "sign.sh",
            "install-packages.sh ",
            "make demo WINIMG=target/release-bin/winimg-x86_64-linux",
            "bare.sh --demo",
            "buildah pull docker.io/library/debian:bookworm-slim",
            "image.sh build on docker.io/library/debian:bookworm-slim",
        ]
    );
}

#[test]
fn what_is_missing_is_named_and_the_rest_made() {
    let ends = "build.sh x86_64-windows=3\ninstall-packages.sh=100\nbare.sh=3\nbuildah pull=125\n";
    let tree = Tree::new(ends);
    let done = tree.make(&[("TARGETS", "x86_64-linux x86_64-windows")]);
    assert_eq!(done.status.code(), Some(0), "{}", said(&done));
    assert_eq!(
        named(&done),
        [
            "left out: the binary for x86_64-windows",
            "left out: signatures: COSIGN_KEY names no key",
            "left out: the demo by the static binary",
            "left out: the package on a bare Debian",
        ]
    );
    // No registry: the image stands on a Debian that is made here.
    let asked = tree.asked();
    assert_eq!(
        asked[asked.len() - 2..],
        ["base.sh buildah", "image.sh build on made-here"]
    );
    assert!(asked.contains(&"pack.sh".to_owned()), "{asked:?}");
}

#[test]
fn what_fails_is_named_and_the_run_fails() {
    let tree = Tree::new("build.sh aarch64-linux=101\nimage.sh=3\n");
    let done = tree.make(&[]);
    assert_eq!(done.status.code(), Some(1));
    assert_eq!(
        named(&done),
        [
            "left out: signatures: COSIGN_KEY names no key",
            "failed: the binary for aarch64-linux, with status 101",
            // An image that was tried is none that was left out.
            "failed: the container image, with status 1",
        ]
    );

    // Nothing is made of another day's binary.
    let tree = Tree::new("build.sh x86_64-linux=3\n");
    let old = tree.at("target/release-bin");
    fs::create_dir_all(&old).expect("folders");
    before_path(&old, "winimg-x86_64-linux", "#!/bin/sh\n");
    let done = tree.make(&[]);
    assert_eq!(done.status.code(), Some(3));
    assert!(!tree.asked().contains(&"pack.sh".to_owned()));
    let last = named(&done).pop().expect("a line");
    assert_eq!(
        last,
        "left out: everything that is made with the binary for x86_64-linux"
    );
}

#[test]
fn a_mirror_that_is_not_reached_is_named() {
    let environment = [("MIRROR", "file:///nonexistent")];
    let output = script("bootstrap.sh", &["/nonexistent/root"], &environment);
    assert_eq!(output.status.code(), Some(3));
    let said = said(&output);
    let cure = "error: no Debian can be fetched from file:///nonexistent\n  cure: MIRROR names another mirror\n";
    assert!(said.ends_with(cure), "{said}");
}

/// The tree that is made becomes an image of the engine, without its devices.
#[test]
fn a_base_is_made_of_a_debian_and_kept_by_the_engine() {
    let tree = Tree::new("");
    let base = root().join("release/base.sh");
    fs::copy(base, tree.at("release/base.sh")).expect("the script");
    let bootstrap = "#!/bin/sh\nmkdir -p \"$1/etc\" \"$1/dev\"\necho 12 >\"$1/etc/debian_version\"\n: >\"$1/dev/null\"\n";
    before_path(&tree.at("release"), "bootstrap.sh", bootstrap);
    before_path(&tree.at("programs"), "id", "#!/bin/sh\necho 0\n");
    let docker = "#!/bin/sh\n[ \"$1 $3\" = \"import localhost/winimg-base:bookworm\" ] && tar -tf \"$2\" >\"$SITE/held\"\n";
    before_path(&tree.at("programs"), "docker", docker);
    let site = text(tree.folder.path()).to_owned();
    let environment = [("PATH", tree.path.as_str()), ("SITE", site.as_str())];
    let made = started(&tree.at("release/base.sh"), &["docker"], &environment);
    assert_eq!(printed(&made), "localhost/winimg-base:bookworm\n");
    let held = fs::read_to_string(tree.at("held")).expect("a list");
    assert!(
        held.contains("./etc/debian_version\n") && held.contains("./dev/\n"),
        "{held}"
    );
    assert!(!held.contains("./dev/null"), "{held}");
    let left = fs::read_dir(tree.at("target")).expect("a folder").count();
    assert_eq!(left, 0, "{}", Path::new(&site).display());
}
