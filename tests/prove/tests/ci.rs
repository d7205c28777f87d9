//! `.github/workflows/real-windows.yml` and its scripts, started here as it starts them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use prove::rows::{self, What};
use support::tree::root;

use crate::ledger::read;

fn script(name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(root().join("tests/prove/ci").join(name));
    command.args(arguments).envs(environment.iter().copied());
    command.output().expect("a script")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn each_run_is_cargo_or_a_script_that_is_there() {
    let file = root().join(".github/workflows/real-windows.yml");
    let text = fs::read_to_string(file).expect("the workflow");
    let runs = text
        .lines()
        .filter_map(|line| line.trim().trim_start_matches("- ").strip_prefix("run: "));
    let runs: Vec<&str> = runs.collect();
    assert!(runs.len() > 5, "{runs:?}");
    for run in runs {
        let program = run.split(' ').next().expect("a word");
        assert!(
            ["cargo", "git"].contains(&program) || root().join(program).is_file(),
            "{run}"
        );
        // What comes from outside is no shell text.
        assert!(!run.contains("inputs."), "{run}");
    }
    let dangerous = text.contains("pull_request");
    assert!(!dangerous, "secrets and hours are not for pull requests");
}

#[test]
fn media_of_the_list_are_those_of_the_ledger() {
    let list = fs::read_to_string(root().join("tests/prove/ci/media.txt")).expect("the list");
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    let ledger = read();
    let virtio = fs::read_to_string(root().join("recipes/packs/virtio.toml")).expect("a pack");
    let mut names = Vec::new();
    for line in lines {
        let [name, digest, address] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        names.push(name.to_owned());
        assert!(address.starts_with("https://"), "{line}");
        match ledger.medium(digest) {
            Some(medium) => assert!(medium.name.contains(name), "{line}"),
            None => assert!(name == "virtio" && virtio.contains(digest), "{line}"),
        }
    }
    assert_eq!(names, ["2019", "2022", "2025", "virtio"]);
}

fn list(folder: &Path, digest: &str) -> String {
    let file = folder.join("source");
    fs::write(&file, "a medium\n").expect("a file");
    let list = folder.join("media.txt");
    fs::write(&list, format!("one {digest} file://{}\n", file.display())).expect("a list");
    list.to_str().expect("UTF-8").to_owned()
}

#[test]
fn a_medium_is_fetched_once_and_another_file_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let to = folder.path().join("media");
    let to = to.to_str().expect("UTF-8");
    let wrong = list(folder.path(), &"00".repeat(32));
    let refused = script("media.sh", &[to, "one"], &[("MEDIA", &wrong)]);
    assert!(
        said(&refused).contains("is another file"),
        "{}",
        said(&refused)
    );
    let left = fs::read_dir(to).expect("a folder").count();
    assert_eq!((refused.status.code(), left), (Some(1), 0));

    let digest = winimg_base::digest::Digest::sha256_of(b"a medium\n").hex();
    let right = list(folder.path(), &digest);
    let fetched = script("media.sh", &[to, "one"], &[("MEDIA", &right)]);
    assert!(fetched.status.success(), "{}", said(&fetched));
    let again = script("media.sh", &[to, "one"], &[("MEDIA", &right)]);
    let stdout = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(stdout.ends_with("one.iso is there already\n"), "{stdout}");

    let none = script("media.sh", &[to, "two"], &[("MEDIA", &right)]);
    assert!(said(&none).contains("has no medium two"), "{}", said(&none));
}

#[test]
fn a_host_without_kvm_is_told_so() {
    let without = script("kvm.sh", &[], &[("DEVICE", "/nonexistent/kvm")]);
    assert_eq!(without.status.code(), Some(1));
    insta::assert_snapshot!(said(&without), @"
    error: this host has no /nonexistent/kvm
      cure: take a runner with KVM; without it each installation takes many hours
    ");
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().to_str().expect("UTF-8");
    assert!(script("kvm.sh", &[], &[("DEVICE", path)]).status.success());
}

#[test]
fn a_run_without_its_medium_says_which() {
    let folder = tempfile::tempdir().expect("a folder");
    let media = folder.path().to_str().expect("UTF-8");
    let out = folder.path().join("proof");
    let out = out.to_str().expect("UTF-8");
    let target = root().join("target");
    let target = target.to_str().expect("UTF-8");
    let done = script(
        "run.sh",
        &["2022", media, out, "uefi-virtio"],
        &[("CARGO_TARGET_DIR", target)],
    );
    assert!(!done.status.success());
    assert!(
        said(&done).contains("2022.iso: No such file"),
        "{}",
        said(&done)
    );
}

/// The jobs that `rows.sh` makes of these words: releases and rows.
fn jobs(words: &str) -> Vec<(String, String)> {
    let output = tempfile::NamedTempFile::new().expect("a file");
    let path = output.path().to_str().expect("UTF-8");
    let done = script("rows.sh", &[words], &[("GITHUB_OUTPUT", path)]);
    assert!(done.status.success(), "{}", said(&done));
    let written = fs::read_to_string(output.path()).expect("an output");
    let list = written.strip_prefix("jobs=").expect("the name");
    let list: Vec<BTreeMap<String, String>> = serde_json::from_str(list).expect("JSON");
    list.into_iter()
        .map(|job| (job["release"].clone(), job["row"].clone()))
        .collect()
}

#[test]
fn each_job_of_a_night_is_a_release_and_a_row_of_it() {
    let builds = [("2019", "17763"), ("2022", "20348"), ("2025", "26100")];
    let jobs = jobs("");
    for (release, build) in builds {
        let all = rows::all("qemu", build);
        let named = jobs.iter().filter(|(of, _)| of == release);
        let named: Vec<&str> = named.map(|(_, row)| row.as_str()).collect();
        for row in &named {
            assert!(all.iter().any(|r| r.name == *row), "{release}: {row}");
        }
        // All but the shipped recipes, of which a night has some.
        let own = all.iter().filter(|r| matches!(r.what, What::Own { .. }));
        for row in own {
            assert!(
                named.contains(&row.name.as_str()),
                "{release}: {}",
                row.name
            );
        }
    }
    assert!(jobs.len() > 20, "{jobs:?}");
}

#[test]
fn jobs_on_demand_are_those_that_were_named_and_no_more() {
    let of = |words: &str| -> Vec<String> {
        jobs(words)
            .into_iter()
            .map(|(release, row)| format!("{release} {row}"))
            .collect()
    };
    // A whole name is that row alone, in each release.
    let virtio = ["2019 uefi-virtio", "2022 uefi-virtio", "2025 uefi-virtio"];
    assert_eq!(of("uefi-virtio"), virtio);
    assert_eq!(of("uefi-virtio,uefi-virtio"), virtio);
    assert_eq!(of("nvme").len(), 6);
    // Shipped recipes are for one release; what a part of a name means there, `prove` says.
    assert_eq!(of("capi-ova, wmco"), ["2022 capi-ova", "2022 wmco"]);
    let wrong = script("rows.sh", &["a\"b"], &[("GITHUB_OUTPUT", "/dev/null")]);
    assert_eq!(wrong.status.code(), Some(2));
    insta::assert_snapshot!(said(&wrong), @r#"
    error: a"b is no row, nor a part of one's name
      cure: words of small letters, digits and hyphens, such as uefi-virtio,capi-ova
    "#);
}

/// A device that not even root may write: sudo is asked.
#[test]
fn a_device_that_is_closed_is_opened() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let sudo = folder.path().join("sudo");
    let asked = folder.path().join("asked");
    fs::write(
        &sudo,
        format!("#!/bin/sh\necho \"$@\" >{}\n", asked.display()),
    )
    .expect("it");
    fs::set_permissions(&sudo, fs::Permissions::from_mode(0o755)).expect("a mode");
    let path = std::env::var("PATH").expect("PATH");
    let path = format!("{}:{path}", folder.path().display());
    let device = "/proc/sys/kernel/osrelease";
    let done = script("kvm.sh", &[], &[("DEVICE", device), ("PATH", &path)]);
    assert!(done.status.success(), "{}", said(&done));
    let asked = fs::read_to_string(asked).expect("a call");
    assert_eq!(asked, format!("chmod 0666 {device}\n"));
}

/// What a build on Windows has to be told, in both workflows that have one.
#[test]
fn the_builds_on_windows_are_told_the_same() {
    for name in ["windows.yml", "real-windows.yml"] {
        let file = root().join(".github/workflows").join(name);
        let text = fs::read_to_string(file).expect("the workflow");
        for line in [
            "AWS_LC_SYS_PREBUILT_NASM: \"1\"",
            "run: git config --global core.autocrlf false",
            "--package winimg-prove",
        ] {
            assert!(text.contains(line), "{name}: {line}");
        }
    }
}
