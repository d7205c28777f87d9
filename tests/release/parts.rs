//! The scripts under `make test`: its table of durations, what counts as a warning, and which
//! checks a change concerns.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use support::tree::root;

use super::{before_path, printed, said, text};

/// A checkout that has these scripts and no other file.
fn checkout() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("tests")).expect("a folder");
    for name in ["parts.sh", "changed.sh"] {
        let copy = folder.path().join("tests").join(name);
        fs::copy(root().join("tests").join(name), copy).expect("a script");
    }
    folder
}

fn script(checkout: &Path, name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(checkout.join("tests").join(name));
    command
        .args(arguments)
        .env_remove("BASE")
        .env_remove("MAKE");
    command
}

#[test]
fn the_table_ends_with_the_part_that_failed() {
    let checkout = checkout();
    let make = "#!/bin/sh\necho \"made $2\"\n[ \"$2\" != second ]\n";
    let path = before_path(checkout.path(), "make", make);
    let run = |parts: &[&str]| {
        let mut command = script(checkout.path(), "parts.sh", parts);
        command.env("PATH", &path).output().expect("a script")
    };

    let good = printed(&run(&["first", "third"]));
    let table = "\nfirst              0:00\nthird              0:00\ntotal              0:00\n";
    assert!(good.ends_with(table), "{good}");
    let kept = fs::read_to_string(checkout.path().join("target/test-parts.txt")).expect("a table");
    assert_eq!(format!("\n{kept}"), table);

    let failed = run(&["first", "second", "third"]);
    assert!(!failed.status.success());
    let shown = String::from_utf8_lossy(&failed.stdout);
    assert!(
        shown.contains("second             0:00  failed\ntotal"),
        "{shown}"
    );
    assert!(!shown.contains("third"), "{shown}");
}

#[test]
fn a_warning_of_the_workspace_fails_the_lint() {
    let read = |log: &str| {
        let mut child = Command::new(root().join("tests/warnings.sh"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a script");
        let mut input = child.stdin.take().expect("standard input");
        input.write_all(log.as_bytes()).expect("a pipe");
        drop(input);
        child.wait_with_output().expect("its end")
    };
    let end = "    Finished `dev` profile [unoptimized] target(s) in 0.63s\n";
    let other = "warning: the package `x` contains code that a future version rejects\n";
    assert_eq!(printed(&read(&format!("{other}{end}"))), "");

    let warning = "src/main.rs:3:9: warning: unused variable: `x`\n";
    let failed = read(&format!("{warning}{warning}{end}"));
    assert_eq!(String::from_utf8_lossy(&failed.stdout), warning);
    assert_eq!(said(&failed), "error: 1 warnings\n");
    assert!(!failed.status.success());

    let broken = read("src/main.rs:3:9: error: no\nerror: could not compile `winimg`\n");
    assert!(!broken.status.success());
}

const OLD: &str = "2026-05-01T10:00:00Z";
const LAST: &str = "2026-05-03T10:00:00Z";

/// A first commit of this date, and a last one that has the named files. Returns the last one.
fn history(checkout: &Path, first: &str, today: &[(&str, &str)]) -> String {
    let git = |arguments: &[&str], date: &str| {
        let mut command = Command::new("git");
        command
            .current_dir(checkout)
            .args(["-c", "user.name=x", "-c", "user.email=x@example.com"])
            .args(arguments)
            .env("GIT_COMMITTER_DATE", date)
            .env("GIT_AUTHOR_DATE", date);
        printed(&command.output().expect("git"))
    };
    fs::create_dir_all(checkout.join("src")).expect("a folder");
    fs::write(checkout.join("Cargo.lock"), "version = 4\n").expect("a file");
    git(&["init", "-q"], first);
    git(&["add", "."], first);
    git(&["commit", "-qm", "old"], first);
    for (name, content) in today {
        fs::write(checkout.join(name), content).expect("a file");
    }
    git(&["add", "."], LAST);
    git(&["commit", "-qm", "new", "--allow-empty"], LAST);
    git(&["rev-parse", "HEAD"], LAST).trim().to_owned()
}

fn changed(checkout: &Path, what: &str, base: Option<&str>) -> Output {
    let mut command = script(checkout, "changed.sh", &[what]);
    command.envs(base.map(|base| ("BASE", base)));
    command.output().expect("a script")
}

#[test]
fn checks_run_where_the_change_of_the_last_day_concerns_them() {
    let checkout = checkout();
    let files = [
        ("Cargo.lock", "version = 5\n"),
        ("src/io.rs", "#[cfg(windows)]\nmod windows;\n"),
        ("src/plain.rs", "fn main() {}\n"),
    ];
    let head = history(checkout.path(), OLD, &files);
    let shown = |what: &str, base| printed(&changed(checkout.path(), what, base));
    assert!(shown("dependencies", None).ends_with(": Cargo.lock\n"));
    assert!(shown("windows", None).ends_with(": src/io.rs\n"));

    // A pipeline says what it has checked already.
    for what in ["dependencies", "windows"] {
        let none = changed(checkout.path(), what, Some(&head));
        assert_eq!(none.status.code(), Some(1), "{}", text(checkout.path()));
    }
    // What is not committed counts as well.
    fs::write(checkout.path().join("Cargo.lock"), "version = 6\n").expect("a file");
    assert!(shown("dependencies", Some(&head)).ends_with(": Cargo.lock\n"));
}

#[test]
fn a_change_of_other_files_runs_no_such_check() {
    let checkout = checkout();
    history(checkout.path(), OLD, &[("src/plain.rs", "fn main() {}\n")]);
    for what in ["dependencies", "windows"] {
        let none = changed(checkout.path(), what, None);
        assert_eq!(none.status.code(), Some(1));
    }
}

#[test]
fn where_history_does_not_reach_back_a_day_every_check_runs() {
    let checkout = checkout();
    let files = [("src/io.rs", "#[cfg(unix)]\nmod unix;\n")];
    history(checkout.path(), "2026-05-03T09:00:00Z", &files);
    let shown = printed(&changed(checkout.path(), "windows", None));
    assert!(
        shown.ends_with("since the beginning: src/io.rs\n"),
        "{shown}"
    );
    let shown = printed(&changed(checkout.path(), "dependencies", None));
    assert!(
        shown.ends_with("since the beginning: Cargo.lock\n"),
        "{shown}"
    );
}
