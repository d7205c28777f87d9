//! The version, the notes and the provenance of a release, and that they reach GitHub with its files in one step.

use std::fs;

use serde_json::{Value, json};

use super::{before_path, printed, said, script, text, version};

#[test]
fn the_version_is_that_of_the_program() {
    assert_eq!(printed(&script("version.sh", &[], &[])).trim(), version());
    let second = [("SOURCE_DATE_EPOCH", "1700000000")];
    assert_eq!(
        printed(&script("version.sh", &["epoch"], &second)),
        "1700000000\n"
    );
}

/// A changelog with this heading of the version's section.
fn changelog(heading: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let more = "## 0.0.9, 2020-01-01\n\n- Older.\n";
    let text = format!("# Changelog\n\n{heading}\n\nFirst.\n\n- Made.\n\n{more}");
    fs::write(file.path(), text).expect("a changelog");
    file
}

#[test]
fn the_notes_are_the_section_of_the_tag() {
    let dated = changelog(&format!("## {}, 2026-11-30", version()));
    let at = [("CHANGELOG", text(dated.path()))];
    let notes = printed(&script("notes.sh", &[&format!("v{}", version())], &at));
    assert_eq!(notes.trim(), "First.\n\n- Made.");

    let refused = |tag: &str, heading: &str| {
        let file = changelog(heading);
        let output = script("notes.sh", &[tag], &[("CHANGELOG", text(file.path()))]);
        assert_eq!(output.status.code(), Some(2));
        said(&output).replace(text(file.path()), "CHANGELOG.md")
    };
    let tag = format!("v{}", version());
    let all = [
        refused("v9.9.9", "## 9.9.9, 2026-11-30"),
        refused(&tag, &format!("## {}, not released", version())),
        refused(&tag, "## 9.9.9, 2026-11-30"),
    ];
    let today = regex::Regex::new(r"\d{4}-\d\d-\d\d").expect("a pattern");
    let all = today
        .replace_all(&all.concat(), "[day]")
        .replace(version(), "[version]");
    insta::assert_snapshot!(all, @"
    error: the tag v9.9.9 is not v[version], the version in Cargo.toml
      cure: tag the commit that sets the version
    error: CHANGELOG.md has no date for [version]: ## [version], not released
      cure: write '## [version], [day]' and commit it
    error: CHANGELOG.md has no section for [version]
      cure: begin it with a line '## [version], DATE'
    ");
}

const SUMS: &str = "1111111111111111111111111111111111111111111111111111111111111111  winimg.tar.gz\n\
                    2222222222222222222222222222222222222222222222222222222222222222  winimg.deb\n";

fn statement(environment: &[(&str, &str)]) -> Value {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), SUMS).expect("sums");
    let output = script("provenance.py", &[text(file.path())], environment);
    serde_json::from_str(&printed(&output)).expect("JSON")
}

#[test]
fn the_provenance_names_every_file_the_commit_and_the_workflow() {
    let github = [
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_EVENT_NAME", "push"),
        ("GITHUB_REF", "refs/tags/v0.1.0"),
        ("GITHUB_REPOSITORY", "example/winimg"),
        ("GITHUB_REPOSITORY_ID", "1"),
        ("GITHUB_REPOSITORY_OWNER_ID", "2"),
        ("GITHUB_RUN_ATTEMPT", "1"),
        ("GITHUB_RUN_ID", "3"),
        ("GITHUB_SERVER_URL", "https://github.com"),
        (
            "GITHUB_WORKFLOW_REF",
            "example/winimg/.github/workflows/release.yml@refs/tags/v0.1.0",
        ),
        ("RUNNER_ENVIRONMENT", "github-hosted"),
    ];
    let statement = statement(&github);
    assert_eq!(statement["predicateType"], "https://slsa.dev/provenance/v1");
    let names: Vec<&Value> = statement["subject"]
        .as_array()
        .expect("files")
        .iter()
        .map(|s| &s["name"])
        .collect();
    assert_eq!(names, ["winimg.tar.gz", "winimg.deb"]);
    assert_eq!(statement["subject"][1]["digest"]["sha256"], "2".repeat(64));
    let predicate = &statement["predicate"];
    let definition = &predicate["buildDefinition"];
    assert_eq!(
        definition["externalParameters"]["workflow"],
        json!({
            "ref": "refs/tags/v0.1.0",
            "repository": "https://github.com/example/winimg",
            "path": ".github/workflows/release.yml",
        })
    );
    let source = &definition["resolvedDependencies"][0];
    assert_eq!(
        source["uri"],
        "git+https://github.com/example/winimg@refs/tags/v0.1.0"
    );
    assert_eq!(
        source["digest"]["gitCommit"].as_str().map(str::len),
        Some(40)
    );
    assert_eq!(
        predicate["runDetails"]["builder"]["id"],
        "https://github.com/example/winimg/.github/workflows/release.yml@refs/tags/v0.1.0"
    );
}

#[test]
fn a_release_made_here_does_not_say_that_it_was_made_elsewhere() {
    let statement = statement(&[]);
    let predicate = &statement["predicate"];
    assert_eq!(
        predicate["runDetails"]["builder"]["id"],
        "urn:winimg:workstation"
    );
    assert_eq!(
        predicate["buildDefinition"]["buildType"],
        "urn:winimg:release-here:v1"
    );
}

/// Knows the two calls that a release is made with; a draft becomes public only when its files are there.
const GH: &str = r#"#!/bin/bash
set -eu
echo "$@" >>"$GH_LOG"
case "$1 $2" in
    "release create") [[ " $* " == *" --draft "* && " $* " == *" --verify-tag "* ]] ;;
    "release edit") [ "$4" = --draft=false ] ;;
    *) echo "unknown command: $*" >&2; exit 1 ;;
esac
"#;

#[test]
fn what_is_published_is_whole_and_signed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = before_path(folder.path(), "gh", GH);
    let log = folder.path().join("log");
    let dated = changelog(&format!("## {}, 2026-11-30", version()));
    let dist = folder.path().join("dist");
    fs::create_dir(&dist).expect("a folder");
    fs::write(dist.join("winimg.deb"), "a package\n").expect("a file");
    let digest = winimg_base::digest::Digest::sha256_of(b"a package\n").hex();
    fs::write(dist.join("SHA256SUMS"), format!("{digest}  winimg.deb\n")).expect("sums");
    let tag = format!("v{}", version());
    let publish = || {
        let environment = [
            ("PATH", path.as_str()),
            ("GH_LOG", text(&log)),
            ("CHANGELOG", text(dated.path())),
        ];
        script("publish.sh", &[&tag, text(&dist)], &environment)
    };

    let unsigned = publish();
    assert!(
        said(&unsigned).contains("SHA256SUMS is not signed"),
        "{}",
        said(&unsigned)
    );
    fs::write(dist.join("SHA256SUMS.sigstore.json"), "{}").expect("a bundle");
    fs::write(dist.join("winimg.deb"), "another package\n").expect("a file");
    assert!(said(&publish()).contains("winimg.deb: FAILED") || !publish().status.success());
    assert!(!log.exists(), "GitHub was told of a release that is none");

    fs::write(dist.join("winimg.deb"), "a package\n").expect("a file");
    printed(&publish());
    let calls = fs::read_to_string(&log).expect("calls");
    let calls: Vec<&str> = calls.lines().collect();
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert!(
        calls[0].contains("SHA256SUMS.sigstore.json") && calls[0].contains("winimg.deb"),
        "{calls:?}"
    );
    assert_eq!(calls[1], format!("release edit {tag} --draft=false"));
}
