//! What is known before a build begins is said by `validate` and `plan`, and a build that could not end well does not begin.

use crate::cli::site::{BUILD, SEAL, Site};
use support::complaints::facts;

const TOOL: &str =
    "[[steps]]\nname = \"tool\"\ncopy = { component = \"tool\", to = 'C:\\tool.exe' }\n";

/// Nothing was fetched, no machine was started, no output directory made.
fn nothing_began(site: &Site, what: &str) {
    for made in ["out", "asked.txt", "cache/sha256"] {
        assert!(!site.path(made).exists(), "{what}: {made} was made");
    }
}

#[test]
fn local_files_that_are_not_there() {
    let site = Site::new(&format!("{TOOL}{SEAL}"));
    for file in ["windows.iso", "virtio-win.iso", "tool.exe", "agent.msi"] {
        std::fs::remove_file(site.path(file)).expect("a file goes");
    }
    let mut said = String::new();
    for command in [&["validate", "recipe.toml"][..], &["plan", "recipe.toml"]] {
        let outcome = site.run(command);
        assert_eq!(outcome.status(), Some(0), "{}", outcome.whole());
        said += &format!("== {}\n{}\n", command[0], outcome.stderr());
    }
    let plan = site.run(&["plan", "recipe.toml"]).stdout();
    let inputs = plan.find("\nInputs\n").expect("the inputs");
    said += &plan[inputs..];
    // The component that no step takes is not fetched either.
    let build = site.build(&[]);
    said += &format!("\n== build\n{}", build.whole());
    insta::assert_snapshot!(facts(&said));
    nothing_began(&site, "build");
}

/// What a lock names and the cache holds is not looked for where it came from.
#[test]
fn a_file_that_is_locked_and_in_the_cache_may_be_gone() {
    let site = Site::new(&format!("{TOOL}{SEAL}"));
    site.run(&["lock", "recipe.toml"]).ended_well();
    std::fs::remove_file(site.path("tool.exe")).expect("it goes");
    let outcome = site.run(&["validate", "recipe.toml"]).ended_well();
    assert!(
        !outcome.stderr().contains("is not there"),
        "{}",
        outcome.stderr()
    );
    site.build(&[]).ended_well();
}

#[test]
fn no_guest_agent_is_brought_along() {
    let site = Site::new(SEAL);
    let recipe = site.read("recipe.toml");
    let (before, rest) = recipe.split_once("[media.virtio]").expect("the medium");
    let after = &rest[rest.find("[machine]").expect("the machine")..];
    site.write("recipe.toml", &format!("{before}{after}"));
    let mut said = String::new();
    for (command, status) in [
        (&["plan", "recipe.toml"][..], 2),
        (&BUILD, 2),
        // Which hypervisor will run it is not known there.
        (&["validate", "recipe.toml"], 0),
        // Hyper-V's machines are reached without one.
        (&["plan", "recipe.toml", "--hypervisor", "hyperv"], 0),
    ] {
        let outcome = site.run(command);
        assert_eq!(outcome.status(), Some(status), "{}", outcome.whole());
        said += &format!("== {}\n{}\n", command.join(" "), outcome.stderr());
    }
    nothing_began(&site, "build");
    // The medium is there, but not the driver of the agent's port.
    site.write(
        "recipe.toml",
        &format!("{recipe}[setup]\ndrivers = [\"NetKVM\"]\n"),
    );
    let outcome = site.run(&["plan", "recipe.toml"]);
    assert_eq!(outcome.status(), Some(2), "{}", outcome.whole());
    said += &format!("== plan without the driver\n{}", outcome.stderr());
    insta::assert_snapshot!(facts(&said));
    site.write(
        "recipe.toml",
        &format!("{recipe}[setup]\ndrivers = [\"vioserial\"]\n"),
    );
    site.run(&["plan", "recipe.toml"]).ended_well();
}

/// An answer file of the team's own may bring an agent that winimg knows nothing of.
#[test]
fn an_answer_file_of_ones_own_may_bring_the_agent() {
    let site = Site::new(SEAL);
    let recipe = site.read("recipe.toml");
    let (before, rest) = recipe.split_once("[media.virtio]").expect("the medium");
    let after = &rest[rest.find("[machine]").expect("the machine")..];
    let setup = "[setup]\nanswer_file = \"own.xml\"\n";
    site.write("recipe.toml", &format!("{before}{after}{setup}"));
    let own = support::tree::root().join("unattend/autounattend.xml");
    site.write(
        "own.xml",
        &std::fs::read_to_string(own).expect("the template"),
    );
    let outcome = site.run(&["plan", "recipe.toml"]).ended_well();
    assert!(
        !outcome.stderr().contains("guest agent"),
        "{}",
        outcome.stderr()
    );
}

/// QEMU's machine with a TPM needs a program more, and one with Secure Boot another firmware.
#[cfg(unix)]
#[test]
fn what_qemu_needs_for_a_tpm_and_secure_boot_is_missed_before_anything_is_fetched() {
    let site = Site::new(SEAL);
    let recipe = site.read("recipe.toml");
    let with = |key: &str| {
        let machine = format!("[machine]\n{key} = true\n");
        site.write("recipe.toml", &recipe.replace("[machine]\n", &machine));
    };
    let build = |qemu: &str, swtpm: &str| {
        let output = site
            .command(&["build", "recipe.toml", "--output", "out"])
            .env("PATH", "/nowhere")
            .env("WINIMG_QEMU", qemu)
            .env("WINIMG_SWTPM", swtpm)
            .output()
            .expect("winimg starts");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    // All that is asked of it before a machine starts.
    site.write(
        "qemu",
        "#!/bin/sh\necho QEMU emulator version 7.2.0\necho tcg\n",
    );
    site.write("other", "#!/bin/sh\necho swtpm\n");
    for name in ["qemu", "other"] {
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(site.path(name), executable).expect("executable");
    }
    let path = |name: &str| site.path(name).display().to_string();
    with("tpm");
    let (status, said) = build(&path("qemu"), "");
    assert_eq!(status, Some(3), "{said}");
    assert!(
        said.ends_with(
            "error: swtpm is not in PATH\n  \
             cure: install it (Debian, Ubuntu, Fedora: swtpm) or set WINIMG_SWTPM, or set tpm = false\n"
        ),
        "{said}"
    );
    let (status, said) = build(&path("qemu"), &path("other"));
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("error: this is not swtpm\n  at: "), "{said}");
    nothing_began(&site, "build");
    site.run(&["plan", "recipe.toml"]).ended_well();
}

#[test]
fn hyper_v_where_there_is_none_is_refused_before_anything_is_fetched() {
    let site = Site::new(SEAL);
    let outcome = site.run(&[
        "build",
        "recipe.toml",
        "--hypervisor",
        "hyperv",
        "--output",
        "out",
    ]);
    assert_eq!(outcome.status(), Some(3), "{}", outcome.whole());
    let error = outcome.error();
    assert!(
        error.starts_with("error: powershell.exe cannot be started: ")
            && error.contains("\n  cure: Hyper-V needs Windows: on other hosts omit --hypervisor"),
        "{error}"
    );
    nothing_began(&site, "build");
    assert!(!site.path("cache/hyperv-password").exists());
    let doctor = site.run(&["doctor", "--hypervisor", "hyperv"]);
    assert_eq!(doctor.status(), Some(3));
    let said = doctor.stdout();
    assert!(
        said.starts_with("missing: Hyper-V: powershell.exe cannot be started: "),
        "{said}"
    );
    assert!(said.contains("Hyper-V needs Windows"), "{said}");
}
