//! `winimg export` of a finished image: the machine that it describes, and the files that it leaves alone.

use std::fs;

use serde_json::Value;
use support::media;
use support::windows_disk::{REG_DWORD, REG_SZ, WindowsDisk, can_make, dword, sz};

use crate::cli::furnished::{self, furnished};
use crate::cli::site::{Outcome, Site};
use crate::cli::verify::build;

const NT: &str = r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion";

fn with_version(mut disk: WindowsDisk) -> WindowsDisk {
    disk.value(NT, "CurrentBuildNumber", REG_SZ, &sz("20348"));
    disk.value(NT, "UBR", REG_DWORD, &dword(2113));
    disk.value(NT, "EditionID", REG_SZ, &sz("ServerDatacenter"));
    disk
}

fn site() -> Site {
    let outputs = "raw = {}\nova = { hardware_version = 20 }\n";
    let site = furnished::site(&with_version(furnished()), outputs);
    build(&site).ended_well();
    site
}

fn export<'s>(site: &'s Site, image: &str, more: &[&str]) -> Outcome<'s> {
    site.run(&[&["export", image], more].concat())
}

fn ovf(site: &Site, ova: &str, member: &str) -> String {
    media::run("tar", &["-xOf", media::text(&site.path(ova)), member])
}

fn bytes(site: &Site, file: &str) -> Vec<u8> {
    fs::read(site.path(file)).expect("a file")
}

#[test]
fn the_machine_is_that_of_the_build_even_under_another_name() {
    if !can_make() {
        return;
    }
    let site = site();
    let manifest: Value = serde_json::from_str(&site.read("out/manifest.json")).expect("JSON");
    let machine = &manifest["machine"];
    assert!(
        machine["disk_bus"].is_string() && machine["cpus"].is_u64(),
        "{machine}"
    );
    assert_eq!(manifest["export"]["hardware_version"], 20);
    // The same bytes: the machine, the name, the hardware and the time of the build.
    let outcome = export(&site, "out/node.raw", &["--to", "ova", "--output", "again"]);
    let outcome = outcome.ended_well();
    assert!(
        !outcome.stderr().contains("assuming"),
        "{}",
        outcome.stderr()
    );
    assert!(bytes(&site, "again/node.ova") == bytes(&site, "out/node.ova"));
    // The digest says whose image it is.
    fs::rename(site.path("out/node.raw"), site.path("renamed.raw")).expect("renamed");
    let more = [
        "--to",
        "ova",
        "--output",
        "renamed",
        "--manifest",
        "out/manifest.json",
    ];
    export(&site, "renamed.raw", &more).ended_well();
    assert!(bytes(&site, "renamed/node.ova") == bytes(&site, "out/node.ova"));
}

#[test]
fn the_machine_of_another_image_is_guessed_and_that_is_said() {
    if !can_make() {
        return;
    }
    let site = site();
    with_version(WindowsDisk::sound()).write(&site.path("out/foo.raw"));
    let before = bytes(&site, "out/node.ova");
    let outcome = export(&site, "out/foo.raw", &["--to", "ova"]).ended_well();
    let said = outcome.stderr();
    assert!(said.contains("manifest.json does not list"), "{said}");
    let guess = "assuming a SATA controller, 4 processors, 4096 MiB of memory, no Secure Boot";
    assert!(said.contains(guess), "{said}");
    // It has its own name, and what its own registry says.
    assert!(bytes(&site, "out/node.ova") == before);
    let described = ovf(&site, "out/foo.ova", "foo.ovf");
    assert!(
        described.contains("Windows Server 2022 ServerDatacenter"),
        "{described}"
    );
    assert!(described.contains("20348.2113"), "{described}");
    // A disk alone has no machine that could be guessed.
    let outcome = export(&site, "out/foo.raw", &["--to", "vhd"]).ended_well();
    assert!(
        !outcome.stderr().contains("assuming"),
        "{}",
        outcome.stderr()
    );
    // Who names a manifest means it.
    let more = ["--to", "ova", "--manifest", "out/manifest.json"];
    let outcome = export(&site, "out/foo.raw", &more);
    assert_eq!(outcome.status(), Some(9), "{}", outcome.whole());
    assert!(
        outcome
            .error()
            .contains("the manifest does not list this image")
    );
    // Far from any manifest it is the same.
    fs::rename(site.path("out/foo.raw"), site.path("foo.raw")).expect("renamed");
    let more = ["--to", "ova", "--output", "foo"];
    let outcome = export(&site, "foo.raw", &more).ended_well();
    assert!(
        outcome.stderr().contains("has no manifest"),
        "{}",
        outcome.stderr()
    );
}

#[test]
fn existing_files_are_replaced_on_request_alone() {
    if !can_make() {
        return;
    }
    let site = site();
    let before = bytes(&site, "out/node.ova");
    let outcome = export(&site, "out/node.raw", &["--to", "ova,vhd"]);
    assert_eq!(outcome.status(), Some(9), "{}", outcome.whole());
    let error = outcome.error();
    assert!(
        error.contains("the export would replace existing files"),
        "{error}"
    );
    assert!(
        error.contains("| node.ova") && !error.contains("node.vhd"),
        "{error}"
    );
    assert!(bytes(&site, "out/node.ova") == before);
    assert!(!site.path("out/node.vhd").exists());
    let mut left = site.files("out");
    left.retain(|name| name.contains(".part"));
    assert!(left.is_empty(), "{left:?}");
    // The same holds for a file that no build made.
    fs::write(site.path("out/node.vhd"), "of another origin").expect("written");
    let outcome = export(&site, "out/node.raw", &["--to", "vhd"]);
    assert_eq!(outcome.status(), Some(9), "{}", outcome.whole());
    let error = outcome.error();
    assert!(
        error.contains("| node.vhd") && error.contains("with --replace"),
        "{error}"
    );
    assert_eq!(bytes(&site, "out/node.vhd"), b"of another origin");
    let replaced = ["--to", "ova,vhd", "--replace"];
    export(&site, "out/node.raw", &replaced).ended_well();
    assert!(bytes(&site, "out/node.vhd").len() > 1 << 20);
    assert!(bytes(&site, "out/node.ova") == before);
    // An image never replaces itself.
    let outcome = export(&site, "out/node.raw", &["--to", "raw", "--replace"]);
    assert_eq!(outcome.status(), Some(9), "{}", outcome.whole());
    let error = outcome.error();
    assert!(
        error.contains("the image itself is never replaced"),
        "{error}"
    );
    // An artifact that the manifest lists, but that is not there, is not replaced.
    fs::create_dir(site.path("moved")).expect("a folder");
    for (from, to) in [
        ("node.raw", "moved.raw"),
        ("manifest.json", "manifest.json"),
    ] {
        let to = site.path("moved").join(to);
        fs::rename(site.path("out").join(from), to).expect("renamed");
    }
    export(&site, "moved/moved.raw", &["--to", "raw,ova"]).ended_well();
    assert!(bytes(&site, "moved/node.ova") == before);
}

#[test]
fn a_disk_that_is_not_whole_is_refused_by_every_command() {
    if !can_make() {
        return;
    }
    let site = site();
    let disk = fs::OpenOptions::new()
        .write(true)
        .open(site.path("out/node.raw"));
    let disk = disk.expect("the disk");
    let len = disk.metadata().expect("the disk").len();
    disk.set_len(len - (3 << 20)).expect("cut");
    let why = "the disk is truncated: its partition table was written for a larger one";
    let by_itself = site.run(&["verify", "out/node.raw"]);
    assert_eq!(by_itself.status(), Some(10), "{}", by_itself.whole());
    assert!(by_itself.whole().contains(why), "{}", by_itself.whole());
    for arguments in [
        &["verify", "out/node.raw", "--manifest", "out/manifest.json"][..],
        &["inspect", "out/node.raw"],
        &["inspect", "--usage", "out/node.raw"],
        &["export", "out/node.raw", "--to", "vhd", "--output", "cut"],
        &["diff", "out/node.raw", "out/node.ova"],
    ] {
        let outcome = site.run(arguments);
        assert_ne!(outcome.status(), Some(0), "{arguments:?}");
        assert!(
            outcome.whole().contains(why),
            "{arguments:?}: {}",
            outcome.whole()
        );
    }
    let more = ["--to", "vhd", "--output", "cut"];
    assert_eq!(export(&site, "out/node.raw", &more).status(), Some(10));
    assert!(!site.path("cut/node.vhd").exists());
}

#[test]
fn a_vhd_without_its_footer_is_refused_by_every_command() {
    if !can_make() {
        return;
    }
    let site = site();
    export(&site, "out/node.raw", &["--to", "vhd"]).ended_well();
    let disk = fs::OpenOptions::new()
        .write(true)
        .open(site.path("out/node.vhd"));
    let disk = disk.expect("the disk");
    let len = disk.metadata().expect("the disk").len();
    disk.set_len(len - 512).expect("cut");
    for (arguments, status) in [
        (&["verify", "out/node.vhd"][..], 10),
        (&["inspect", "out/node.vhd"], 1),
        (&["inspect", "--usage", "out/node.vhd"], 1),
        (&["diff", "out/node.vhd", "out/node.raw"], 1),
        (
            &["export", "out/node.vhd", "--to", "ova", "--output", "made"],
            10,
        ),
    ] {
        let outcome = site.run(arguments);
        let whole = outcome.whole();
        assert_eq!(outcome.status(), Some(status), "{arguments:?}: {whole}");
        let why = "out/node.vhd is not in the format VHD, which its name promises";
        assert!(whole.contains(why), "{arguments:?}: {whole}");
    }
    assert!(!site.path("made").exists());
    // A file that is not there is no fault of a disk.
    let outcome = export(&site, "out/nothing.vhd", &["--to", "ova"]);
    assert_eq!(outcome.status(), Some(1), "{}", outcome.whole());
}

#[test]
fn a_container_that_is_not_read_is_refused_by_every_command() {
    if !can_make() {
        return;
    }
    let site = site();
    let (from, to) = (site.path("out/node.raw"), site.path("node.vdi"));
    media::convert(&["-O", "vdi"], &from, &to);
    for arguments in [
        &["verify", "node.vdi"][..],
        &["inspect", "node.vdi"],
        &["export", "node.vdi", "--to", "vhd,ova", "--output", "made"],
        &["diff", "node.vdi", "out/node.raw"],
    ] {
        let outcome = site.run(arguments);
        assert_eq!(
            outcome.status(),
            Some(2),
            "{arguments:?}: {}",
            outcome.whole()
        );
        let why = "node.vdi is a VDI, which winimg cannot read as a disk";
        assert!(
            outcome.whole().contains(why),
            "{arguments:?}: {}",
            outcome.whole()
        );
    }
    assert!(!site.path("made").exists());
}

#[test]
fn a_windows_that_was_hibernated_is_not_exported() {
    if !can_make() {
        return;
    }
    let site = site();
    let mut disk = with_version(WindowsDisk::sound());
    disk.file(r"C:\hiberfil.sys", &[b"HIBR", &[7; 5000][..]].concat());
    disk.write(&site.path("asleep.raw"));
    let outcome = export(&site, "asleep.raw", &["--to", "vhd", "--output", "made"]);
    assert_eq!(outcome.status(), Some(9), "{}", outcome.whole());
    assert!(
        outcome.error().contains("is hibernated"),
        "{}",
        outcome.error()
    );
    let mut disk = with_version(WindowsDisk::sound());
    disk.dirty_volume = true;
    disk.write(&site.path("dirty.raw"));
    let outcome = export(&site, "dirty.raw", &["--to", "vhd", "--output", "made"]).ended_well();
    let said = outcome.stderr();
    assert!(
        said.contains("its Windows volume was not cleanly unmounted"),
        "{said}"
    );
}
