//! `winimg watch` in a browser, from a build's first phase to its end.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{chromium, folder, node, said};
use crate::faults::site::Site;
use support::tree;
use support::watch::Watch;

/// What the browser saw of the build with this output folder.
fn seen(chromium: &Path, output: &Path, longest: Duration) -> Value {
    let began = Instant::now();
    while !output.join("events.jsonl").exists() {
        assert!(began.elapsed() < longest, "the build does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut command = std::process::Command::new(tree::winimg());
    command.arg("watch").arg(output);
    let watch = Watch::start(command);
    let (url, seconds) = (watch.url.text(), longest.as_secs().to_string());
    let to = folder("watch");
    let arguments = [Path::new(&url), Path::new(&seconds), &to];
    let output = node("watch.js", chromium, &arguments);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(watch.interrupted(), Some(0));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The build was followed without loading the page again, nothing was wrong with it, and it ends as the final page.
fn judge(seen: &Value, headline: &str, places: &[&str]) {
    let faults = seen["faults"].as_array().expect("a list");
    assert!(faults.is_empty(), "{seen:#}");
    assert_eq!(seen["headline"], headline, "{seen:#}");
    assert_eq!(seen["loads"], 1, "{seen:#}");
    let all = seen["places"].to_string();
    for place in places {
        assert!(all.contains(place), "{place}: {seen:#}");
    }
}

#[test]
#[ignore = "opens a browser: make pages"]
fn a_build_is_followed_to_its_end() {
    let Some(chromium) = chromium() else { return };
    let dir = tree::folder();
    let site = Site::template(dir.path().join("site"));
    let slow =
        |step: &str| format!("\n[[run]]\ncommand = '*\\steps\\{step}.cmd'\ndelay_ms = 2500\n");
    site.machine(&(slow("001") + &slow("004")), &[]);
    std::fs::remove_dir_all(site.path("out")).expect("an earlier build");
    let seen = std::thread::scope(|scope| {
        let build = scope.spawn(|| site.build(&["--layers", "none"], None));
        let seen = seen(&chromium, &site.path("out"), Duration::from_secs(120));
        let built = build.join().expect("a build");
        assert_eq!(built.status, 0, "{}", built.said);
        seen
    });
    // On a busy host the first step is over before Chromium has started.
    let places = ["Now: provision, [4/5] last", "Now: provision, [5/5] seal"];
    judge(&seen, "node is built", &places);
    assert!(seen["pictures"].as_u64() >= Some(1), "{seen:#}");
}

pub mod nightly {
    use super::*;
    use crate::end_to_end::program::Build;

    #[test]
    #[ignore = "boots QEMU and opens a browser: make pages-demo"]
    fn the_demo_is_followed_to_its_end() {
        let Some(chromium) = chromium() else { return };
        let dir = tempfile::tempdir_in(tree::root().join("target")).expect("a directory");
        let output = dir.path().join("out");
        let mut build = Build::start("recipes/demo.toml", &output, &dir.path().join("cache"), &[]);
        let hour = Duration::from_secs(3600);
        let seen = seen(&chromium, &output, hour);
        assert_eq!(build.end(hour).code(), Some(0), "{}", build.error());
        judge(
            &seen,
            "demo is built",
            &[
                "Now: install",
                "Now: provision, [",
                "Now: seal",
                "Now: export",
            ],
        );
        assert!(seen["pictures"].as_u64() > Some(3), "{seen:#}");
    }
}
