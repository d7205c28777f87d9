//! `msi`: packages made by wixl, installed by Wine's msiexec: files, registry, a service, restarts, refusals.

use std::time::Duration;

use winimg_machine::guest::{Guest as _, GuestCommand, GuestExit};

use crate::wine::glib::Glib;
use crate::wine::node::Node;
use crate::wine::prefix::Prefix;

const AGENT: &str = r"HKLM\Software\Example\Agent";

#[test]
#[ignore = "needs Wine: make wine"]
fn a_package_brings_files_values_and_a_service() {
    let mut node = Node::new(Glib::New);
    insta::assert_snapshot!(
        "packages",
        &node.twice(
            "packages",
            include_str!("recipes/packages.toml"),
            &Prefix::untouched(),
        ),
    );
    let look = node.prefix.look();
    assert_eq!(look.registry.value(AGENT, "Tier"), Some("sz \"gold\""));
    assert_eq!(
        look.registry.value(AGENT, "Note"),
        Some(r#"sz "two words, 100% & ^""#)
    );
}

/// 3010 restarts the guest once, after the step.
#[test]
#[ignore = "needs Wine: make wine"]
fn a_package_that_wants_a_restart_gets_one() {
    let mut node = Node::new(Glib::Old);
    let text = "[[steps]]\nname = \"driver\"\nmsi = { component = \"driver\" }\n";
    let rendered = node.build("driver", text).expect("a build");
    assert!(
        rendered.starts_with("msi: driver, reboots: 1\n"),
        "{rendered}"
    );
    assert!(
        rendered.contains(
            "\n  3010  C:\\Windows\\System32\\msiexec.exe /i C:\\winimg\\steps\\001\\reboot.msi "
        ),
        "{rendered}"
    );
    assert!(
        node.prefix
            .host(r"C:\Program Files\Example Driver\driver.exe")
            .exists()
    );
}

/// 1603, and Windows Installer's own log kept beside the step's.
#[test]
#[ignore = "needs Wine: make wine"]
fn a_package_that_refuses_stops_the_build() {
    let mut node = Node::new(Glib::New);
    let text = "[[steps]]\nname = \"later\"\nmsi = { component = \"later\" }\n";
    let error = node.build_error("later", text);
    assert!(
        error.contains("exit code 1603") && error.contains("later.toml:"),
        "{error}"
    );
    assert!(node.logs().join("001-msi.log").exists());
    assert!(
        !node
            .prefix
            .host(r"C:\Program Files\Example For Later")
            .exists()
    );
}

/// A product that nobody installed.
#[test]
#[ignore = "needs Wine: make wine"]
fn an_unknown_product_cannot_be_removed() {
    let mut node = Node::new(Glib::New);
    let command = GuestCommand {
        program: r"C:\Windows\System32\msiexec.exe".into(),
        arguments: ["/x", "{0A7C1D52-11AA-4A57-9F6B-3B6F7A3C0099}", "/qn"]
            .map(String::from)
            .to_vec(),
        timeout: Duration::from_secs(120),
    };
    let exit = node.client.run(&command, &mut |_| {}).expect("it runs");
    assert_eq!(exit, GuestExit::Code(1605));
}
