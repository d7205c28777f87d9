//! `.github/workflows` and `action.yml`: what they run is here, what they take from others is pinned, and few jobs may write. `make workflows` has
//! actionlint judge them as a whole.

use std::collections::BTreeSet;
use std::fs;

use regex::Regex;
use support::tree::{makefile, root};

use super::{printed, started, text};

/// Programs that every hosted runner has, or the container of a job.
const PROGRAMS: [&str; 5] = ["apt-get", "cargo", "git", "make", "rustup"];

fn all() -> Vec<(String, String)> {
    let mut names = vec!["action.yml".to_owned()];
    for entry in fs::read_dir(root().join(".github/workflows")).expect("workflows") {
        let name = entry.expect("a workflow").file_name();
        names.push(format!(
            ".github/workflows/{}",
            name.to_str().expect("UTF-8")
        ));
    }
    assert!(names.len() > 5, "{names:?}");
    let read = |name: String| (fs::read_to_string(root().join(&name)).expect("it"), name);
    names
        .into_iter()
        .map(read)
        .map(|(text, name)| (name, text))
        .collect()
}

/// What follows a key on its line, wherever the key stands.
fn values<'t>(text: &'t str, key: &str) -> Vec<&'t str> {
    let lines = text
        .lines()
        .map(|line| line.trim().trim_start_matches("- "));
    lines
        .filter_map(|line| line.strip_prefix(key))
        .map(str::trim)
        .filter(|value| !value.is_empty())
        .collect()
}

#[test]
fn each_run_is_a_script_that_is_there_or_a_program_of_every_runner() {
    for (name, text) in all() {
        for run in values(&text, "run:") {
            let own = run.strip_prefix("'\"$GITHUB_ACTION_PATH/").unwrap_or(run);
            let own = own.trim_end_matches("\"'");
            let first = own.split(' ').next().expect("a word");
            let known = first == ">-" || PROGRAMS.contains(&first);
            assert!(known || root().join(first).is_file(), "{name}: {run}");
            // What comes from outside comes as an environment variable and is no shell text.
            for foreign in ["inputs.", "github.event", "github.head_ref", "github.ref"] {
                assert!(!run.contains(foreign), "{name}: {run}");
            }
        }
    }
}

#[test]
fn actions_of_others_are_pinned_by_their_commit_and_say_its_version() {
    let pinned = Regex::new(r"^[a-z-]+/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$").expect("a pattern");
    let mut found = Vec::new();
    for (name, text) in all() {
        for uses in values(&text, "uses:") {
            assert!(pinned.is_match(uses), "{name}: {uses}");
            found.push(uses.to_owned());
        }
    }
    found.sort();
    found.dedup();
    // One version of each, and none but GitHub's own.
    let actions: Vec<&str> = found
        .iter()
        .filter_map(|uses| uses.split('@').next())
        .collect();
    assert_eq!(
        actions,
        [
            "actions/checkout",
            "actions/download-artifact",
            "actions/upload-artifact"
        ]
    );
}

#[test]
fn only_the_job_that_publishes_may_write_and_only_for_a_tag() {
    for (name, text) in all() {
        if name == "action.yml" {
            continue;
        }
        assert!(
            text.contains("\npermissions:\n  contents: read\n"),
            "{name}"
        );
        let writes = text.matches(": write").count();
        if name.ends_with("/release.yml") {
            let (before, publish) = text.split_once("\n  publish:\n").expect("the job");
            assert!(!before.contains(": write"));
            assert!(publish.starts_with("    if: github.ref_type == 'tag'\n"));
            // A release is made by who may push a tag, and never by a pull request.
            assert!(before.contains("tags: [\"v*\"]") && !text.contains("pull_request"));
        } else {
            assert_eq!(writes, 0, "{name}")
        }
    }
}

fn workflow(name: &str) -> String {
    let path = root().join(".github/workflows").join(name);
    fs::read_to_string(path).expect("a workflow")
}

/// The text of a job, from its name to the next one.
fn job<'t>(workflow: &'t str, name: &str) -> &'t str {
    let from = format!("\n  {name}:\n");
    let (_, text) = workflow.split_once(&from).expect("the job");
    let next = Regex::new(r"(?m)^  [a-z-]+:$").expect("a pattern");
    next.find(text).map_or(text, |next| &text[..next.start()])
}

#[test]
fn pushes_and_nights_run_what_the_makefile_names() {
    let (ci, nightly) = (workflow("ci.yml"), workflow("nightly.yml"));
    assert_eq!(values(&ci, "run:").last(), Some(&"make test"));
    let parts = values(job(&nightly, "parts"), "run:");
    assert_eq!(parts, ["tests/hosted/targets.sh"]);
    let runs = values(job(&nightly, "nightly"), "run:");
    assert_eq!(runs.last(), Some(&"make nightly NIGHTLY=\"$TARGET\""));
    // A part of its own has no other that installed what it needs.
    assert!(runs.contains(&"make packages"), "{runs:?}");
}

#[test]
fn the_parts_of_a_night_are_those_of_the_makefile() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("output");
    let script = root().join("tests/hosted/targets.sh");
    printed(&started(&script, &[], &[("GITHUB_OUTPUT", text(&output))]));
    let written = fs::read_to_string(&output).expect("an output");
    let list = written.strip_prefix("targets=").expect("the name");
    let listed: Vec<String> = serde_json::from_str(list).expect("JSON");
    let makefile = makefile();
    let (_, after) = makefile.split_once("\nNIGHTLY ?= ").expect("the list");
    let (named, _) = after.split_once("\n\n").expect("its end");
    let named: Vec<&str> = named.split_whitespace().filter(|w| *w != "\\").collect();
    assert_eq!(listed, named);
    let of = |target: &String| {
        makefile.contains(&format!("\n{target}: ")) || makefile.contains(&format!(" {target}: "))
    };
    assert!(listed.len() > 20 && listed.iter().all(of), "{listed:?}");
}

/// Ubuntu has not all that the tests need. A container's first steps bring what a checkout and the scripts start with.
#[test]
fn what_is_tried_on_debian_runs_in_a_container_of_it() {
    let jobs = [
        ("ci.yml", "test"),
        ("nightly.yml", "nightly"),
        ("release.yml", "binary"),
    ];
    for (name, which) in jobs {
        let text = workflow(name);
        let text = job(&text, which);
        assert!(text.contains("debian:bookworm\n"), "{name}");
        let runs = values(text, "run:");
        assert!(runs[0].starts_with("apt-get update"), "{runs:?}");
        assert!(runs[1].contains(" ca-certificates curl git"), "{runs:?}");
        assert!(runs.contains(&"tests/hosted/debian.sh"), "{runs:?}");
        let checkout = text.find("actions/checkout").expect("a checkout");
        assert!(text.find("apt-get install").expect("git") < checkout);
    }
}

/// A container sees of the runner's folders only those that are mounted.
#[test]
fn what_is_freed_is_mounted_into_the_containers() {
    let script = fs::read_to_string(root().join("tests/hosted/room.sh")).expect("the script");
    let list = Regex::new("for folder in (/.*); do").expect("a pattern");
    let folders: BTreeSet<&str> = list
        .captures(&script)
        .expect("a list")
        .get(1)
        .expect("it")
        .as_str()
        .split(' ')
        .collect();
    assert!(folders.len() > 4, "{folders:?}");
    let mounted = Regex::new("\"(/[a-z/]+):/host(/[a-z/]+)\"").expect("a pattern");
    for name in ["ci.yml", "nightly.yml"] {
        let text = workflow(name);
        assert!(text.contains("run: tests/hosted/room.sh /host\n"), "{name}");
        let mounts: Vec<_> = mounted
            .captures_iter(&text)
            .map(|m| (m[1].to_owned(), m[2].to_owned()))
            .collect();
        assert!(mounts.iter().all(|(from, to)| from == to), "{mounts:?}");
        for folder in &folders {
            let is_below = |(top, _): &(String, String)| folder.starts_with(&format!("{top}/"));
            assert!(mounts.iter().any(is_below), "{name}: {folder}");
        }
    }
}

#[test]
fn a_tag_is_judged_before_anything_is_built() {
    let release = workflow("release.yml");
    let notes = job(&release, "notes");
    assert_eq!(
        values(notes, "run:"),
        ["release/notes.sh \"$GITHUB_REF_NAME\""]
    );
    // The job runs for a release by hand too: one that is skipped would skip those that need it.
    assert!(
        notes.contains("      - if: github.ref_type == 'tag'\n        run: "),
        "{notes}"
    );
    assert!(job(&release, "binary").contains("    needs: notes\n"));
}
