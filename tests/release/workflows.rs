//! `.github/workflows` and `action.yml`: what they run is here, what they take from others is pinned, and few jobs may write. `make workflows` has
//! actionlint judge them as a whole.

use std::fs;

use regex::Regex;
use support::tree::root;

/// Programs that every hosted runner has.
const PROGRAMS: [&str; 4] = ["cargo", "git", "make", "rustup"];

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
            let own = run.strip_prefix("${GITHUB_ACTION_PATH}/").unwrap_or(run);
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
        match name.ends_with("/release.yml") {
            false => assert_eq!(writes, 0, "{name}"),
            true => {
                let (before, publish) = text.split_once("\n  publish:\n").expect("the job");
                assert!(!before.contains(": write"));
                assert!(publish.starts_with("    if: github.ref_type == 'tag'\n"));
                // A release is made by who may push a tag, and never by a pull request.
                assert!(before.contains("tags: [\"v*\"]") && !text.contains("pull_request"));
            }
        }
    }
}

#[test]
fn pushes_and_nights_run_what_the_makefile_names() {
    let of = |name: &str| {
        let path = root().join(".github/workflows").join(name);
        fs::read_to_string(path).expect("a workflow")
    };
    assert_eq!(values(&of("ci.yml"), "run:"), ["make test"]);
    assert_eq!(values(&of("nightly.yml"), "run:"), ["make nightly"]);
}
