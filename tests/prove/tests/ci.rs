//! `.github/workflows/real-windows.yml` and its scripts, started here as it starts them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

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
            program == "cargo" || root().join(program).is_file(),
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
