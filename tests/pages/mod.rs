//! winimg's pages for people in a real browser: three widths, light and dark. `make pages` runs this; the pages stay in
//! `target/pages/in`, their pictures and prints in `target/pages/out`.
//!
//! `check.js` says what counts as a fault; `watch.js` looks at a build while it runs. Its libraries are npm's, by `package-lock.json`; the browser is the system's.

mod made;
mod watched;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::{skip, tree};

const MODULES: &str = "target/pages/npm/node_modules";
const CHROMIUM: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The browser's path; none with the reason printed, where it or what drives it is missing.
fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named = |name: &str| {
        let mut folders = std::env::split_paths(&path).map(|folder| folder.join(name));
        folders.find(|file| file.is_file())
    };
    let modules = tree::root().join(MODULES).join("playwright-core");
    let found = CHROMIUM.into_iter().find_map(named);
    match (found, named("node")) {
        (Some(found), Some(_)) if modules.is_dir() => Some(found),
        (None, _) => {
            skip::skipped(format!("no browser: none of {CHROMIUM:?}"));
            None
        }
        _ => {
            skip::skipped(format!("no Node, or no {MODULES}: run `make pages`"));
            None
        }
    }
}

/// A script of this folder in Node, with the browser's path as its first argument.
fn node(script: &str, chromium: &Path, arguments: &[&Path]) -> Output {
    let root = tree::root();
    let mut command = Command::new("node");
    command
        .env("NODE_PATH", root.join(MODULES))
        .arg(root.join("tests/pages").join(script))
        .arg(chromium)
        .args(arguments);
    command.output().expect("Node starts")
}

fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// An empty folder below `target/pages`, which is not removed.
fn folder(name: &str) -> PathBuf {
    let folder = tree::root().join("target/pages").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

#[test]
#[ignore = "opens a browser: make pages"]
fn each_page_opens_without_a_fault() {
    let Some(chromium) = chromium() else { return };
    let (from, to) = (folder("in"), folder("out"));
    made::all(&from);
    let output = node("check.js", &chromium, &[&from, &to]);
    assert!(output.status.success(), "{}", said(&output));
    println!("{}pictures: {}", said(&output), to.display());
}

/// A page of which everything is wrong that `check.js` looks for.
#[test]
#[ignore = "opens a browser: make pages"]
fn each_fault_of_a_page_is_named() {
    let Some(chromium) = chromium() else { return };
    let dir = tree::folder();
    let page = format!(
        "<html><body><a href=\"#nowhere\">a</a><a href=\"gone.log\">b</a><img src=\"http://127.0.0.1:9/x.png\">\
         <pre>{}</pre><details><summary>c</summary><table><tr><th></th></tr></table></details>\
         <script>missing()</script></body></html>",
        "x".repeat(200)
    );
    std::fs::write(dir.path().join("bad.html"), page).expect("a page");
    let output = node("check.js", &chromium, &[dir.path(), dir.path()]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    // Chromium reports what happens at once in any order.
    let text = said(&output);
    let mut faults: Vec<&str> = text.lines().collect();
    faults.sort_unstable();
    insta::assert_snapshot!(faults.join("\n"));
}
