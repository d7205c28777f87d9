//! A Setup that stops at a screen: answer files that Windows refuses, let past the lint.

use std::fs;

use crate::faults_qemu::cases::{Case, INSTALLATION};
use crate::faults_qemu::scene::{Scene, names};
use support::tree::root;

pub const CASES: &[Case] = &[
    Case {
        name: "Setup stops: no such image",
        slug: "stuck-image",
        steps: "",
        small: false,
        play: |scene| {
            refused(
                scene,
                "<Value>{{image_name}}</Value>",
                "<Value>Windows 95</Value>",
                "no image was chosen",
            )
        },
        reuses: INSTALLATION,
    },
    Case {
        name: "Setup stops: an empty product key",
        slug: "stuck-key",
        steps: "",
        small: false,
        play: |scene| {
            refused(
                scene,
                "<ProductKey>",
                "<ProductKey><Key></Key>",
                "the product key does not fit",
            )
        },
        reuses: INSTALLATION,
    },
    Case {
        name: "Setup stops: partitions of the other firmware",
        slug: "stuck-layout",
        steps: "",
        small: false,
        play: |scene| {
            refused(
                scene,
                "{{#if uefi}}",
                "{{#if bios}}",
                "the answer file's disk layout cannot be applied",
            )
        },
        reuses: INSTALLATION,
    },
];

/// `named`: what winimg reads from the screen.
fn refused(scene: &mut Scene, from: &str, to: &str, named: &str) -> String {
    let template = root().join("unattend/autounattend.xml");
    let xml = fs::read_to_string(template).expect("the template");
    assert!(xml.contains(from), "the template has no {from}");
    let answer_file = scene.folder.join("answer.xml");
    fs::write(&answer_file, xml.replace(from, to)).expect("the answer file");
    let set = format!("setup.answer_file={}", answer_file.display());
    let mut build = scene.start(&["--set", &set, "--set", "setup.lint=warn"]);
    let status = scene.end(&mut build);
    let error = build.failed();
    assert!(!status.success(), "the build ended well");
    let fact = error["message"].as_str().unwrap_or_default().to_string();
    assert_eq!(fact, format!("Windows Setup stopped: {named}"), "{error:#}");
    let found = error["found"].as_str().unwrap_or_default();
    assert!(still_for(found) < 60, "a minute or more: {found}");
    let failure = scene.output().join("failure");
    let page = scene.output().join("report.html");
    assert!(page.is_file(), "no report.html");
    let pictures = names(&failure.join("screens"));
    assert!(
        pictures.iter().any(|name| name.ends_with(".png")),
        "no picture: {pictures:?}"
    );
    assert!(failure.join("qemu.log").is_file(), "no log of the machine");
    scene.nothing_is_lost_or_running();
    fact
}

/// The seconds of "no activity since …, for N s, …".
fn still_for(found: &str) -> u64 {
    let after = found.split(", for ").nth(1);
    let seconds = after.and_then(|rest| rest.split(" s").next());
    seconds
        .and_then(|seconds| seconds.parse().ok())
        .unwrap_or_else(|| panic!("for how long nothing moved: {found}"))
}
