//! `winimg cache ls` and `winimg cache prune`: what they print, what goes, and what never does.

use std::fs;
use std::time::{Duration, SystemTime};

use regex::Regex;
use serde_json::Value;
use winimg_base::digest::Digest;
use winimg_base::event::Cancel;
use winimg_recipe::plan::ExitRule;
use winimg_recipe::plan::chain::{BuildChain, BuildPart, GuestAction};
use winimg_supply::store::Store;
use winimg_supply::store::layer::LayerInfo;

use crate::cli::site::{SEAL, Site};

const STEPS: &str = r#"
[[steps]]
name = "the tool"
copy = { component = "tool", to = 'C:\k\tool.exe' }
"#;

/// A site with a lock, two layers, a broken transfer and a file that nobody named.
fn site() -> Site {
    let site = Site::new(&format!("{STEPS}\n{SEAL}"));
    site.run(&["lock", "recipe.toml"]).ended_well();
    let store = store(&site);
    let mut chain = BuildChain::default();
    for name in ["the installation", "step `the tool`"] {
        let text = name.into();
        let exit = ExitRule::Zero;
        let part = BuildPart::Step {
            payload: Vec::new(),
            ops: vec![GuestAction::Script { text, exit }],
        };
        chain.push(name, part);
    }
    for (number, link) in chain.links().iter().enumerate() {
        let draft = store.create_draft().expect("a draft");
        fs::write(
            draft.disk_path(winimg_formats::disk::MachineDiskFormat::Qcow2),
            format!("the disk after {}", link.name),
        )
        .expect("a disk");
        let about = LayerInfo {
            parent: number.checked_sub(1).map(|n| &chain.links()[n].key),
            recipe: "node",
            links: &chain.links()[..=number],
            notes: Value::Null,
            made: 1_700_000_000,
        };
        let sealed = store.seal(draft, about, &Cancel::default());
        sealed.expect("a layer");
    }
    site.write("cache/partial/a.data", "half of it");
    site.write("cache/partial/a.json", r#"{"url":"https://example.com/a"}"#);
    let wrong = format!("cache/quarantine/{}", "0".repeat(64));
    site.write(&wrong, "not what was named");
    site
}

fn store(site: &Site) -> Store {
    Store::open(&site.path("cache")).expect("a store")
}

/// Without digests and times, and with one blank between columns: the media are made anew by each test.
fn short(text: &str) -> String {
    let mut text = text.to_string();
    for (pattern, to) in [
        (r"\b[0-9a-f]{12}\b", "[key]"),
        (r"\b\d+ (second|minute|hour|day)s? ago", "[ago]"),
        (r"for \d+ seconds?", "for [time]"),
        (r"\b\d+(\.\d+)? (B|KiB|MiB|GiB)\b", "[size]"),
        (r" {2,}", "  "),
    ] {
        let pattern = Regex::new(pattern).expect("a pattern");
        text = pattern.replace_all(&text, to).into_owned();
    }
    // Files stand in the order of their digests.
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    for files in lines.chunk_by_mut(|a, b| [a, b].iter().all(|l| l.starts_with("file "))) {
        files.sort_unstable();
    }
    lines.concat()
}

fn prune(site: &Site, more: &[&str]) -> String {
    let pruned = site.run(&[&["cache", "prune"], more].concat()).ended_well();
    short(&format!("{}{}", pruned.stdout(), pruned.stderr()))
}

#[test]
fn what_the_cache_keeps_is_reported_with_its_names() {
    let site = site();
    insta::assert_snapshot!(short(&site.run(&["cache", "ls"]).ended_well().stdout()));
    let json = site.run(&["cache", "ls", "--json"]).ended_well();
    let json = String::from_utf8(json.output.stdout).expect("UTF-8");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let items = json["items"].as_array().expect("items");
    let sum: u64 = items.iter().filter_map(|i| i["size"].as_u64()).sum();
    assert_eq!(json["size"], sum);
    let layers: Vec<&Value> = items.iter().filter(|i| i["kind"] == "layer").collect();
    let child = layers.iter().find(|l| l["after"] == "step `the tool`");
    let child = child.expect("the second layer");
    assert_eq!(child["made"], "2023-11-14T22:13:20Z");
    assert!(layers.iter().any(|l| l["key"] == child["parent"]));
}

#[test]
fn a_prune_says_what_goes_and_why_the_rest_stays() {
    let site = site();
    let before = site.files("cache");
    let mut said = String::new();
    for more in [
        &[][..],
        &["--older-than", "0s", "--dry-run"],
        &["--max-size", "1B", "--dry-run"],
    ] {
        said += &format!("=== {}\n{}\n", more.join(" "), prune(&site, more));
        assert_eq!(site.files("cache"), before);
    }
    said += &format!("=== for good\n{}", prune(&site, &["--older-than", "0s"]));
    insta::assert_snapshot!(said);
    let left = site.files("cache");
    let left: Vec<&String> = left
        .iter()
        .filter(|f| {
            !["locks/", "seen/", "serials/"]
                .iter()
                .any(|o| f.starts_with(o))
        })
        .collect();
    let kinds: Vec<&str> = left.iter().filter_map(|f| f.split('/').next()).collect();
    // The lock's four files, how they looked, and where the lock stands.
    let expected = [&["blobs"; 4][..], &["locks-seen"], &["stamps"; 4]].concat();
    assert_eq!(kinds, expected, "{left:?}");
}

#[test]
fn a_lock_keeps_its_files_until_it_is_gone() {
    let site = site();
    let blobs = |site: &Site| site.files("cache/blobs").len();
    let all = blobs(&site);
    let lock = site.read("recipe.lock");
    site.write("recipe.lock", &format!("<<<<<<< ours\n{lock}"));
    let said = prune(&site, &["--older-than", "0s"]);
    let warning =
        "/site/recipe.lock cannot be read: keeping the files that it named when it was last read";
    assert!(said.contains(warning), "{said}");
    assert_eq!(blobs(&site), all);
    fs::remove_file(site.path("recipe.lock")).expect("the lock");
    prune(&site, &["--older-than", "0s"]);
    assert_eq!(blobs(&site), 0);
    // Nothing of it is missed.
    site.run(&["lock", "recipe.toml"]).ended_well();
    assert_eq!(site.read("recipe.lock"), lock);
}

#[test]
fn what_a_running_process_uses_stays_until_it_ends() {
    let site = site();
    fs::remove_file(site.path("recipe.lock")).expect("the lock");
    let tool = Digest::sha256_of(b"MZ the tool\n");
    let store = store(&site);
    let layers = store.list_layer_records();
    let lower = layers[0].key.clone();
    let lease = store.lease().expect("a lease");
    lease.add(&[tool.clone(), lower.clone()]).expect("held");
    let draft = store.create_draft().expect("a draft");
    prune(&site, &["--older-than", "0s", "--max-size", "1B"]);
    let left = |site: &Site| {
        let mut left = site.files("cache/blobs");
        left.extend(site.files("cache/layers"));
        left.len()
    };
    // The tool; the layer's disk, stamps and record; the draft's lock.
    assert_eq!(left(&site), 5, "{:?}", site.files("cache"));
    drop((draft, lease));
    prune(&site, &["--older-than", "0s"]);
    assert_eq!(left(&site), 0);
}

#[test]
fn a_clock_that_went_wrong_keeps_nothing_for_ever_and_removes_nothing_fresh() {
    let site = site();
    fs::remove_file(site.path("recipe.lock")).expect("the lock");
    let year = Duration::from_secs(365 * 24 * 60 * 60);
    let records: Vec<String> = site.files("cache/stamps");
    for record in &records {
        let file = fs::File::open(site.path("cache/stamps").join(record)).expect("a record");
        file.set_modified(SystemTime::now() + year).expect("a time");
    }
    let all = site.files("cache/blobs").len();
    prune(&site, &["--older-than", "30d"]);
    assert_eq!(site.files("cache/blobs").len(), all);
    for record in &records {
        let record = fs::metadata(site.path("cache/stamps").join(record)).expect("a record");
        assert!(record.modified().expect("a time") <= SystemTime::now());
    }
    prune(&site, &["--older-than", "0s"]);
    assert_eq!(site.files("cache/blobs").len(), 0);
}
