//! Each operation of the store: killed at every call, then run again.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use support::tree::this_program_as;

use serde_json::Value;
use winimg_base::digest::Digest;
use winimg_base::event::{Cancel, SilentSink};
use winimg_recipe::plan::ExitRule;
use winimg_recipe::plan::chain::{BuildChain, BuildPart, GuestAction};
use winimg_supply::store::layer::{LayerInfo, LayerLookup};
use winimg_supply::store::{AdmitCandidate, ExpectedBytes, ProgressWatch, Store};

use crate::crash::kill::{counts, killed, log_of, spread};
use crate::crash::site::Site;

/// One operation: the command, and the cache that it begins with.
struct Operation<'a> {
    site: &'a Site,
    command: Command,
    begins_with: Option<&'a str>,
    /// A file that it writes outside of the cache.
    writes: Option<&'a str>,
    /// Calls of one kind that are tried.
    at_most: usize,
}

impl Operation<'_> {
    fn begin(&self) {
        self.site.bring_cache(self.begins_with);
        if let Some(file) = self.writes {
            let _ = fs::remove_file(self.site.path(file));
        }
    }

    fn again(&self) -> Command {
        let mut again = Command::new(self.command.get_program());
        again.args(self.command.get_args());
        let mut again = self.site.here(again);
        for (name, value) in self.command.get_envs() {
            if let Some(value) = value {
                again.env(name, value);
            }
        }
        again
    }

    fn written(&self) -> Option<Vec<u8>> {
        self.writes
            .and_then(|file| fs::read(self.site.path(file)).ok())
    }

    /// The deaths that were died.
    fn survives(&self) -> BTreeMap<&'static str, usize> {
        self.begin();
        let log = log_of(&self.command, &self.site.path("strace.log"));
        let (cache, written) = (self.site.cache(), self.written());
        let mut died = BTreeMap::new();
        for (call, count) in counts(&log) {
            for number in spread(count, self.at_most) {
                self.begin();
                if !killed(&self.command, call, number) {
                    continue;
                }
                *died.entry(call).or_default() += 1;
                let when = format!("killed at {call} {number}");
                self.site.whole(&when);
                let half = self.written();
                assert!(half.is_none() || half == written, "{when}");
                self.site.run(self.again());
                let now = self.site.cache();
                let names: Vec<&String> = now.keys().collect();
                let expected: Vec<&String> = cache.keys().collect();
                assert_eq!(names, expected, "{when}");
                assert!(now == cache, "{when}: other bytes");
                assert!(self.written() == written, "{when}: other bytes");
                assert_eq!(self.site.hidden(), [""; 0], "{when}");
            }
        }
        died
    }
}

/// Fails unless each of these calls was died at.
fn came_to(died: &BTreeMap<&'static str, usize>, calls: &[&str]) {
    println!("{died:?}");
    for call in calls {
        assert!(died.contains_key(call), "never killed at {call}: {died:?}");
    }
}

#[test]
fn a_fetch_that_is_killed_anywhere_is_finished_by_the_next() {
    let site = Site::new();
    let died = Operation {
        site: &site,
        command: site.command(&["fetch", "recipe.toml"]),
        begins_with: None,
        writes: None,
        at_most: 16,
    }
    .survives();
    came_to(
        &died,
        &[
            "write", "rename", "renameat", "fsync", "unlink", "mkdir", "fchmod",
        ],
    );
}

#[test]
fn a_lock_that_is_killed_anywhere_is_written_whole_by_the_next() {
    let site = Site::new();
    site.run(site.command(&["fetch", "recipe.toml"]));
    site.keep_cache("filled");
    let died = Operation {
        site: &site,
        command: site.command(&["lock", "recipe.toml"]),
        begins_with: Some("filled"),
        writes: Some("recipe.lock"),
        at_most: 12,
    }
    .survives();
    came_to(&died, &["write", "renameat", "fsync"]);
}

#[test]
fn a_prune_that_is_killed_anywhere_leaves_no_half_thing() {
    let site = Site::new();
    site.run(site.command(&["fetch", "recipe.toml"]));
    site.run(site.command(&["lock", "recipe.toml"]));
    seal_layers(&site.path("cache"));
    fill(&site.path("cache"));
    site.keep_cache("filled");
    let died = Operation {
        site: &site,
        command: site.command(&["cache", "prune", "--older-than", "1d"]),
        begins_with: Some("filled"),
        writes: None,
        at_most: 24,
    }
    .survives();
    came_to(&died, &["rename", "fsync", "unlink", "unlinkat"]);
    let left = site.cache();
    let left = |folder: &str| left.keys().filter(|f| f.starts_with(folder)).count();
    // The lock's four inputs are three files.
    let counts = [
        "blobs",
        "stamps",
        "layers",
        "partial",
        "quarantine",
        "trash",
    ]
    .map(left);
    assert_eq!(counts, [3, 3, 0, 0, 0, 0]);
}

#[test]
fn a_layer_that_was_being_sealed_is_there_whole_or_not_at_all() {
    let site = Site::new();
    let command = this_program_as(module_path!(), "seals");
    let died = Operation {
        site: &site,
        command: site.here(command),
        begins_with: None,
        writes: None,
        at_most: 24,
    }
    .survives();
    came_to(
        &died,
        &["write", "rename", "renameat", "fsync", "unlink", "mkdir"],
    );
}

/// Not a test of its own: what a build does with its layers, as far as the store goes.
#[test]
#[ignore = "started by the other tests"]
fn seals() {
    seal_layers(&Store::default_folder(None).expect("a folder"));
}

/// Two layers over one another, unless they are there.
fn seal_layers(folder: &std::path::Path) {
    let store = Store::open(folder).expect("a store");
    let cancel = Cancel::default();
    store.remove_leftover_drafts(&SilentSink).expect("a sweep");
    let mut chain = BuildChain::default();
    for name in ["the installation", "step `tool`"] {
        let text = name.into();
        let exit = ExitRule::Zero;
        let part = BuildPart::Step {
            payload: Vec::new(),
            ops: vec![GuestAction::Script { text, exit }],
        };
        chain.push(name, part);
    }
    for (number, link) in chain.links().iter().enumerate() {
        if let LayerLookup::Layer(_) = store.find_layer(&link.key, &cancel).expect("a look") {
            continue;
        }
        let draft = store.create_draft().expect("a draft");
        fs::write(
            draft.disk_path(winimg_formats::disk::MachineDiskFormat::Qcow2),
            format!("the disk after {}", link.name),
        )
        .expect("a disk");
        fs::write(draft.variables_path(), "variables").expect("variables");
        let about = LayerInfo {
            parent: number.checked_sub(1).map(|n| &chain.links()[n].key),
            recipe: "node",
            links: &chain.links()[..=number],
            notes: Value::Null,
            made: 1_700_000_000,
        };
        store.seal(draft, about, &cancel).expect("a layer");
    }
}

/// More that nobody needs, and everything used long ago.
fn fill(folder: &std::path::Path) {
    let store = Store::open(folder).expect("a store");
    let watch = ProgressWatch::new("a file", Arc::new(SilentSink), Cancel::default());
    let file = folder.join("partial/copy-b");
    fs::write(&file, "nobody needs it").expect("a file");
    let expected = ExpectedBytes::Digest(Digest::sha256_of(b"nobody needs it"));
    store
        .admit(AdmitCandidate::Downloaded(file), expected, &watch)
        .expect("a blob");
    fs::write(folder.join("quarantine").join("0".repeat(64)), "wrong").expect("a file");
    fs::write(folder.join("partial/a.data"), "half").expect("a file");
    fs::write(folder.join("partial/a.json"), r#"{"url":"https://a/b"}"#).expect("a file");
    drop(store);
    let long_ago = SystemTime::now() - Duration::from_secs(10 * 24 * 60 * 60);
    for name in winimg_base::io::files_below(folder).expect("a cache") {
        let opened = fs::File::open(folder.join(name)).expect("a file");
        opened.set_modified(long_ago).expect("a time");
    }
}
