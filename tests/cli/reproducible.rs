//! Two builds of one recipe, in two folders, with two caches, at two times: what is the same and what is not.
//!
//! docs/reproducible.md says the same in words.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use regex::Regex;

use crate::cli::site::{BUILD, KEEP, Site};
use support::media;
use support::planted::files;

const PASSWORD: &str = "Open-Sesame-42!";

const STEPS: &str = r#"
[[steps]]
name = "the tool"
copy = { component = "tool", to = 'C:\k\tool.exe' }

[[steps]]
name = "two lines"
file = { path = 'C:\k\lines.txt', content = "one\ntwo\n" }

[[steps]]
name = "hello"
cmd = "echo hello"
"#;

/// Two folders with the same inputs; the second was made later.
fn sites() -> [Site; 2] {
    let first = Site::with_every_output(STEPS);
    let second = |time: SystemTime| time.duration_since(UNIX_EPOCH).expect("a time").as_secs();
    let made = second(SystemTime::now());
    while second(SystemTime::now()) <= made + 1 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let second = Site::new("");
    for file in [
        "windows.iso",
        "virtio-win.iso",
        "tool.exe",
        "agent.msi",
        "sealed.qcow2",
        "recipe.toml",
    ] {
        fs::copy(first.path(file), second.path(file)).expect("a copy");
    }
    [first, second]
}

fn kept(site: &Site, password: Option<&str>) -> Vec<(String, Vec<u8>)> {
    site.machine("[install]\noutcome = \"stands-still\"\n", "");
    let mut command = site.command(&KEEP);
    if let Some(password) = password {
        command.env("WINIMG_ADMIN_PASSWORD", password);
    }
    let output = command.output().expect("winimg starts");
    assert_eq!(
        output.status.code(),
        Some(6),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let discs = files(&site.path("out")).into_iter().filter_map(|path| {
        let name = path.file_name()?.to_str()?.to_string();
        let disc = ["answer.iso", "payload.iso", "install.qcow2"].contains(&name.as_str());
        disc.then_some((name, path))
    });
    let mut kept = Vec::new();
    for (name, path) in discs {
        let bytes = match name.as_str() {
            // An overlay names the medium under it by its path: what the machine reads is what counts.
            "install.qcow2" => {
                let raw = site.path("install.raw");
                media::convert(&["-O", "raw"], &path, &raw);
                fs::read(raw)
            }
            _ => fs::read(path),
        };
        kept.push((name, bytes.expect("a disc")));
    }
    kept.sort();
    kept
}

#[test]
fn the_discs_are_the_same_bytes() {
    let [first, second] = sites();
    let (one, two) = (kept(&first, Some(PASSWORD)), kept(&second, Some(PASSWORD)));
    let names: Vec<&str> = one.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["answer.iso", "install.qcow2", "payload.iso"]);
    for ((name, a), (_, b)) in one.iter().zip(&two) {
        assert!(a == b, "{name} differs from the other build's");
    }
    // A random password is another one each time, and the answer disc with it; nothing else is.
    fs::remove_dir_all(first.path("out")).expect("the first build's folder");
    let random = kept(&first, None);
    let differ: Vec<&str> = one
        .iter()
        .zip(&random)
        .filter(|(a, b)| a != b)
        .map(|(a, _)| a.0.as_str())
        .collect();
    assert_eq!(differ, ["answer.iso"]);
}

#[test]
fn plan_and_outputs_are_the_same_but_for_what_is_documented() {
    let [first, second] = sites();
    for arguments in [
        &["plan", "recipe.toml"][..],
        &["plan", "recipe.toml", "--json"],
    ] {
        let said = |site: &Site| {
            let output = site.command(arguments).output().expect("winimg starts");
            assert!(output.status.success());
            String::from_utf8(output.stdout).expect("text")
        };
        assert_eq!(said(&first), said(&second), "{arguments:?}");
    }
    for site in [&first, &second] {
        site.machine("", "");
        let mut command = site.command(&BUILD);
        let output = command
            .env("WINIMG_ADMIN_PASSWORD", PASSWORD)
            .output()
            .expect("winimg starts");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    assert_eq!(first.files("out"), second.files("out"));
    let read = |site: &Site, name: &str| fs::read(site.path("out").join(name)).expect("an output");
    let all = first.files("out");
    let differ: Vec<&str> = all
        .iter()
        .map(String::as_str)
        // It shows the times of all of them, as bars too.
        .filter(|name| *name != "report.html")
        .filter(|name| read(&first, name) != read(&second, name))
        .collect();
    assert_eq!(differ, DIFFER);
    for name in DIFFER {
        let plain = |site: &Site| without_times(&String::from_utf8_lossy(&read(site, name)), site);
        assert_eq!(plain(&first), plain(&second), "{name}");
    }
}

/// What holds the times of the build or the folder that it ran in.
const DIFFER: &[&str] = &[
    ".winimg-lock",
    "events.jsonl",
    "manifest.json",
    "packer-manifest.json",
    "provenance.intoto.json",
];

/// A record without when and where.
fn without_times(text: &str, site: &Site) -> String {
    let mut text = text.replace(media::text(&site.path("")).trim_end_matches('/'), "/site");
    for (pattern, to) in [
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "[moment]"),
        (r#""(seconds|took|build_time|at)": ?[0-9.e-]+"#, "\"$1\":0"),
        (r"^\d+\n?$", "[process]"),
        (r"\.winimg-work-[0-9a-f]{8}", ".winimg-work-[id]"),
        (r#""packer_run_uuid": ?"[^"]*""#, "\"packer_run_uuid\":0"),
        (r#""urn:uuid:[^"]*""#, "\"[build]\""),
        // It names the manifest by its digest.
        (
            r#"(?s)("name": "manifest.json",\s*"digest": \{\s*"sha256": ")[0-9a-f]{64}"#,
            "${1}[digest]",
        ),
        (r#""last_run_uuid": ?"[^"]*""#, "\"last_run_uuid\":0"),
    ] {
        text = Regex::new(pattern)
            .expect("a pattern")
            .replace_all(&text, to)
            .into_owned();
    }
    // How often progress is reported is a matter of time, too.
    let lines = text.lines().filter(|l| !l.contains(r#""event":"bytes""#));
    lines.collect::<Vec<_>>().join("\n")
}
