//! `release/pack.sh`: what lies in the archives and in the Debian package, and that the same binaries give the same bytes.

use std::fs;
use std::path::Path;
use std::process::Command;

use support::tree::{program, root};
use winimg_base::digest::Digest;

use super::{before_path, printed, said, script, text, version};

/// Packs this tree's program, by a script in its place: what is packed of it is only copied.
fn packed(folder: &Path, dist: &str) -> Vec<(String, Digest)> {
    let binaries = folder.join("binaries");
    fs::create_dir_all(&binaries).expect("a folder");
    let winimg = format!("#!/bin/sh\nexec {} \"$@\"\n", program("winimg").display());
    before_path(&binaries, "winimg-x86_64-linux", &winimg);
    before_path(&binaries, "winimg-aarch64-linux", "of another processor\n");
    before_path(
        &binaries,
        "winimg-x86_64-windows.exe",
        "MZ of another system\n",
    );
    let dist = folder.join(dist);
    let environment = [
        ("BINARIES", text(&binaries)),
        ("SOURCE_DATE_EPOCH", "1700000000"),
    ];
    printed(&script("pack.sh", &[text(&dist)], &environment));
    let mut files: Vec<(String, Digest)> = fs::read_dir(&dist)
        .expect("a folder")
        .map(|entry| entry.expect("a file").path())
        .map(|path| {
            let name = path.file_name().expect("a name").to_str().expect("UTF-8");
            let bytes = fs::read(&path).expect("a file");
            (name.to_owned(), Digest::sha256_of(&bytes))
        })
        .collect();
    files.sort();
    files
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .expect("a program");
    printed(&output)
}

#[test]
fn archives_and_packages_hold_the_program_its_pages_and_its_licence_and_are_the_same_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = packed(folder.path(), "first");
    let version = version();
    let names: Vec<&str> = first.iter().map(|(name, _)| name.as_str()).collect();
    let expected = [
        format!("winimg-{version}-aarch64-linux.tar.gz"),
        format!("winimg-{version}-x86_64-linux.tar.gz"),
        format!("winimg-{version}-x86_64-windows.zip"),
        format!("winimg_{version}_amd64.deb"),
        format!("winimg_{version}_arm64.deb"),
    ];
    assert_eq!(names, expected);
    assert_eq!(first, packed(folder.path(), "second"));

    let archive = folder.path().join("first").join(&expected[1]);
    let listed = run("tar", &["-tzf", text(&archive)]);
    let top = format!("winimg-{version}-x86_64-linux");
    for file in [
        "winimg",
        "LICENSE",
        "README.md",
        "man/winimg.1",
        "man/winimg-build.1",
        "completions/winimg.bash",
    ] {
        assert!(
            listed.lines().any(|line| line == format!("{top}/{file}")),
            "{file} in {listed}"
        );
    }
    let zip = folder.path().join("first").join(&expected[2]);
    let listed = run("python3", &["-m", "zipfile", "-l", text(&zip)]);
    for file in ["winimg.exe", "LICENSE", "completions/winimg.powershell"] {
        assert!(
            listed.contains(&format!("-x86_64-windows/{file}")),
            "{listed}"
        );
    }

    for (package, architecture) in [(&expected[3], "amd64"), (&expected[4], "arm64")] {
        let package = folder.path().join("first").join(package);
        let field = |name: &str| run("dpkg-deb", &["--field", text(&package), name]);
        assert_eq!(field("Version").trim(), version);
        assert_eq!(field("Architecture").trim(), architecture);
        // Without it no server's certificate is believed.
        assert_eq!(field("Depends").trim(), "ca-certificates");
        let listed = run("dpkg-deb", &["--contents", text(&package)]);
        let files = listed.lines().filter(|line| line.starts_with('-'));
        let files: Vec<&str> = files
            .filter(|line| !line.contains("/man1/winimg-"))
            .collect();
        let shown: Vec<&str> = files
            .iter()
            .filter_map(|line| line.rsplit(' ').next())
            .collect();
        insta::allow_duplicates! {
            insta::assert_snapshot!(shown.join("\n"), @"
            ./usr/bin/winimg
            ./usr/share/bash-completion/completions/winimg
            ./usr/share/doc/winimg/README.md
            ./usr/share/doc/winimg/changelog.gz
            ./usr/share/doc/winimg/copyright
            ./usr/share/fish/vendor_completions.d/winimg.fish
            ./usr/share/man/man1/winimg.1.gz
            ./usr/share/zsh/vendor-completions/_winimg
            ");
        }
        assert!(
            files.iter().all(|line| line.contains(" root/root ")),
            "{files:?}"
        );
    }
}

#[test]
fn completions_are_read_by_bash() {
    let completions = run(text(&program("winimg")), &["completions", "bash"]);
    let ask = "\nCOMP_WORDS=(winimg buil); COMP_CWORD=1; _winimg winimg buil winimg; printf '%s\\n' \"${COMPREPLY[@]}\"";
    assert_eq!(run("bash", &["-c", &(completions + ask)]), "build\n");
}

#[test]
fn there_is_no_binary_for_any_other_system() {
    let output = script("build.sh", &["sparc-linux"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        said(&output),
        "error: no binaries are made for sparc-linux\n"
    );
    assert!(root().join("release/requirements.txt").is_file());
}

#[test]
fn who_lacks_a_compiler_for_a_binary_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    // Knows no target, and reaches no server.
    let rustup = "#!/bin/sh\n[ \"$1 $2\" = \"target list\" ]\n";
    let path = before_path(folder.path(), "rustup", rustup);
    let output = script("build.sh", &["aarch64-linux"], &[("PATH", &path)]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(
        said(&output),
        "error: aarch64-linux is not built: rustup cannot fetch aarch64-unknown-linux-musl\n  \
         cure: try again where static.rust-lang.org is reached\n"
    );
}
