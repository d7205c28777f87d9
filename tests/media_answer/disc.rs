//! The answer CD, and the way to it from an install medium and a recipe.

use std::path::Path;
use std::time::Duration;

use support::media::{self, have, put, run, text};
use winimg::answer::{self, AnswerFacts, LintFacts};
use winimg_base::text::Secret;
use winimg_formats::iso;
use winimg_formats::udf::Medium;
use winimg_formats::wim::{MediaFacts, WindowsRelease};
use winimg_recipe::{
    DiskBus, DownloadSpec, FileAddress, Firmware, MachineSpec, MediaSpec, ProofSpec, SetupSpec,
};

use super::{facts, located, shown};

/// A virtio-win medium in small.
fn virtio(dir: &Path) -> Medium {
    let root = dir.join("virtio");
    for driver in ["viostor", "NetKVM", "vioserial", "Balloon"] {
        for release in ["2k19", "2k22", "2k25", "w11"] {
            let folder = format!("{driver}/{release}/amd64");
            media::driver(&root, &folder, "x");
            for file in ["x.pdb", "tool.exe", "help.txt"] {
                put(&root, &format!("{folder}/{file}"), b"beside a driver");
            }
        }
    }
    put(&root, "guest-agent/qemu-ga-x86_64.msi", b"an MSI");
    let iso = dir.join("virtio-win.iso");
    run(
        "genisoimage",
        &[
            "-quiet",
            "-J",
            "-R",
            "-V",
            "virtio-win",
            "-o",
            text(&iso),
            text(&root),
        ],
    );
    Medium::open(&iso).unwrap()
}

#[test]
fn the_answer_cd_holds_what_setup_and_the_first_hooks_need() {
    if !have(&["genisoimage"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let virtio = virtio(dir.path());
    let own = dir.path().join("drivers");
    let inf = media::inf("netkvm.cat", &["lib/our.dll"]).replace("1,,\r\n", "1,lib,\r\n");
    let inf = inf.replace("lib/our.dll", "our.dll");
    put(&own, "NetKVM/netkvm.inf", inf.as_bytes());
    put(&own, "NetKVM/netkvm.cat", b"our own");
    put(&own, "NetKVM/lib/our.dll", b"our own");
    put(&own, "NetKVM/README.md", b"not a driver");
    put(&own, "NetKVM/old/old.inf", b"not here");
    let facts = facts(WindowsRelease::Server2022, Firmware::Uefi, true);
    let xml = answer::render(&answer::built_in(), &facts).unwrap();
    let disc = answer::build_disc(&facts, &xml, Some(&virtio), Some(&own)).unwrap();
    let beside = ["help.txt", "tool.exe", "x.pdb"];
    let beside = |driver: &str| beside.map(|file| format!("{driver}/{file}"));
    let own = ["NetKVM/README.md", "NetKVM/old/old.inf"].map(str::to_owned);
    let left_out = [&beside("viostor")[..], &own, &beside("vioserial")].concat();
    assert_eq!(disc.left_out, left_out);
    let tree = disc.tree;
    assert_eq!(
        tree.paths().collect::<Vec<_>>(),
        [
            "Autounattend.xml",
            "drv/NetKVM/lib/our.dll",
            "drv/NetKVM/netkvm.cat",
            "drv/NetKVM/netkvm.inf",
            "drv/vioserial/x.cat",
            "drv/vioserial/x.inf",
            "drv/vioserial/x.sys",
            "drv/viostor/x.cat",
            "drv/viostor/x.inf",
            "drv/viostor/x.sys",
            "winimg/ErrorHandler.cmd",
            "winimg/SetupComplete.cmd",
            "winimg/agent.cmd",
            "winimg/driver.cmd",
            "winimg/payload.cmd",
            "winimg/qemu-ga-x86_64.msi",
            "winimg/stage.cmd",
        ]
    );
    let path = dir.path().join("answer.iso");
    iso::write(&tree, &path).unwrap();
    let cd = Medium::open(&path).unwrap();
    answer::check_disc(&cd).unwrap();
    let read = |p: &str| cd.read(&cd.find(p).unwrap().unwrap(), 1 << 20).unwrap();
    assert_eq!(read("autounattend.xml"), xml.expose().as_bytes());
    assert_eq!(read("drv/viostor/x.sys"), b"viostor/2k22/amd64/x.sys");
    assert_eq!(read("drv/netkvm/lib/our.dll"), b"our own");
    let complete = String::from_utf8(read("winimg/SetupComplete.cmd")).unwrap();
    assert!(
        complete.contains(
            "for %%d in (viostor NetKVM vioserial) do call C:\\winimg\\driver.cmd %%d\r\n"
        )
    );
    assert_eq!(
        complete.matches("\r\n").count(),
        complete.matches('\n').count()
    );
    assert!(
        !format!("{tree:?}").contains("VwBpAG4AaQBtAGc"),
        "the tree shows no password"
    );
}

#[test]
fn a_driver_that_is_not_there_lists_those_that_are() {
    if !have(&["genisoimage"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let virtio = virtio(dir.path());
    let say = |drivers: &[&str], virtio: Option<&Medium>| {
        let mut facts = facts(WindowsRelease::Server2022, Firmware::Uefi, true);
        facts.drivers = drivers.iter().map(|d| (*d).to_string()).collect();
        answer::build_disc(&facts, &Secret::new("<x/>"), virtio, None)
            .unwrap_err()
            .to_string()
            .replace(text(dir.path()), "")
    };
    assert_eq!(
        say(&["viostore"], Some(&virtio)),
        "\
the virtio-win medium has no driver viostore for Windows Server 2022
  at: /virtio-win.iso:viostore/2k22/amd64
  found: drivers for 2k22: Balloon, NetKVM, vioserial, viostor
  cure: did you mean \"viostor\"?"
    );
    // A driver that is requested already is no suggestion.
    let other = say(&["viostor", "vioserial", "viostore"], Some(&virtio));
    assert!(
        other.ends_with(
            "  cure: use a virtio-win medium that has it, or put the driver into \
             drivers/viostore/ beside the recipe"
        ),
        "{other}"
    );
    assert_eq!(
        say(&["viostor"], None),
        "\
there is no source for the driver viostor
  cure: add [media.virtio] to the recipe, or put the driver into drivers/viostor/ beside the recipe"
    );
    assert_eq!(
        say(&["..\\x"], Some(&virtio)),
        "\"..\\x\" is not a valid driver folder name: use only letters, digits, - and _"
    );
}

/// All faults of a package at once, by name, from the medium and from the team's own folder.
#[test]
fn a_driver_that_lacks_a_file_is_refused_by_name() {
    if !have(&["genisoimage"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let virtio = virtio(dir.path());
    let own = dir.path().join("own");
    let mut facts = facts(WindowsRelease::Server2022, Firmware::Uefi, true);
    facts.drivers = vec!["viostor".into()];
    let say = |inf: &str| {
        put(&own, "viostor/v.inf", inf.as_bytes());
        answer::build_disc(&facts, &Secret::new("<x/>"), Some(&virtio), Some(&own))
            .unwrap_err()
            .to_string()
            .replace(text(dir.path()), "")
    };
    assert_eq!(
        say("our own"),
        "\
this driver folder has no driver INF
  at: /own/viostor
  expected: a [Version] section with Signature = \"$Windows NT$\"
  found: v.inf"
    );
    assert_eq!(
        say(&media::inf("v.cat", &["v.sys"])),
        "\
2 problems in the driver packages of this folder
  at: /own/viostor
  | v.inf names v.cat, which is not in the folder (expected v.cat)
  | v.inf names v.sys, which is not in the folder (expected v.sys)
  cure: provide the complete package, as published"
    );
}

#[test]
fn an_answer_cd_without_joliet_is_refused() {
    if !have(&["genisoimage"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    put(&root, "Autounattend.xml", b"<x/>");
    let iso = dir.path().join("a.iso");
    run("genisoimage", &["-quiet", "-o", text(&iso), text(&root)]);
    assert_eq!(
        answer::check_disc(&Medium::open(&iso).unwrap())
            .unwrap_err()
            .fact(),
        "the answer CD is ISO 9660; Windows Setup needs Joliet to see Autounattend.xml"
    );
    put(&root, "unattend.xml", b"<x/>");
    run(
        "genisoimage",
        &["-quiet", "-J", "-o", text(&iso), text(&root)],
    );
    assert_eq!(
        answer::check_disc(&Medium::open(&iso).unwrap())
            .unwrap_err()
            .fact(),
        "the answer CD must have exactly one answer file at its root, Autounattend.xml; it has [\"Autounattend.xml\", \"unattend.xml\"]"
    );
}

/// The parts of a recipe that an answer file is made from.
fn recipe(image: &str, key: Option<&str>, language: &str) -> (MediaSpec, MachineSpec, SetupSpec) {
    let nowhere = DownloadSpec::new(
        located("").map(|_| FileAddress::Local("server.iso".into())),
        ProofSpec::Unverified {
            reason: located("a test"),
        },
    );
    (
        MediaSpec {
            iso: nowhere,
            virtio: None,
            image: located(image),
            product_key: key.map(located),
            language: located(language),
            time_zone: located("UTC"),
        },
        MachineSpec {
            firmware: Firmware::Uefi,
            secure_boot: false,
            disk_bus: DiskBus::Virtio,
            disk_size: 64 << 30,
            cpus: 2,
            memory: 4 << 30,
            network: false,
            tpm: false,
        },
        SetupSpec {
            answer_file: None,
            lint_is_advice: false,
            computer_name: "WINIMG-BUILD".into(),
            timeout: Duration::from_secs(3600),
            still_limit: Duration::from_secs(600),
            settle_time: Duration::from_secs(90),
            drivers: vec!["viostor".into(), "vioserial".into()],
            own_drivers: None,
        },
    )
}

/// From the install medium and the recipe to the CD in the drive.
#[test]
fn a_medium_and_a_recipe_make_an_answer_cd() {
    if !have(&["genisoimage", "wimlib-imagex", "mkfs.vfat"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let iso = dir.path().join("server.iso");
    media::windows(dir.path(), &iso);
    let medium = MediaFacts::read(&Medium::open(&iso).unwrap()).unwrap();
    let settle = |image, key, language| {
        let (media, machine, setup) = recipe(image, key, language);
        AnswerFacts::new(
            &medium,
            &media,
            &machine,
            &setup,
            answer::generate_password().unwrap(),
        )
    };
    let facts = settle("standard-core", None, "en-us").unwrap();
    assert_eq!(facts.image_name, "Windows Server 2022 SERVERSTANDARDCORE");
    assert!(facts.eval);
    assert_eq!(facts.language, "en-US");
    let xml = answer::render(&answer::built_in(), &facts).unwrap();
    let found = answer::lint(
        xml.expose(),
        &LintFacts::new("Autounattend.xml", &facts, &medium),
    );
    assert_eq!(shown(&found), [""; 0]);
    let virtio = virtio(dir.path());
    let disc = answer::build_disc(&facts, &xml, Some(&virtio), None).unwrap();
    let path = dir.path().join("answer.iso");
    iso::write(&disc.tree, &path).unwrap();
    answer::check_disc(&Medium::open(&path).unwrap()).unwrap();

    let say = |image, key, language| {
        settle(image, key, language)
            .unwrap_err()
            .to_string()
            .replace(text(dir.path()), "")
    };
    assert_eq!(
        say("standard", None, "de-DE"),
        "\
Windows Server 2022 SERVERSTANDARD has no language de-DE
  recipe: recipe.toml:1:16
  expected: en-US
  cure: use one of these, or the medium of that language"
    );
    assert_eq!(
        say("standard", Some("kms"), "en-US")
            .lines()
            .next()
            .unwrap(),
        "evaluation media take no product key"
    );
    assert_eq!(
        say("7", None, "en-US").lines().next().unwrap(),
        "the medium has no image \"7\""
    );
}
