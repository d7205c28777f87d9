//! What earlier versions left on the disk, in their form: each is read, or refused with what to do. `kept/` has one file for each number of a format;
//! those of the present formats are made here and compared, so that a format cannot change without a new number and a new file.
#![cfg(unix)]

use std::fs;

use serde_json::Value;
use support::golden;
use support::tree::root;
use winimg_base::digest::Digest;
use winimg_base::event::Cancel;
use winimg_formats::disk::MachineDiskFormat;
use winimg_recipe::lock::{self, UsedLock};
use winimg_recipe::plan::ExitRule;
use winimg_recipe::plan::chain::{self, BuildChain, BuildPart, GuestAction};
use winimg_supply::store::layer::LayerInfo;
use winimg_supply::store::{LayerLookup, Store};

use crate::cli::site::Site;

/// Where `kept/recipe.toml` finds its inputs.
const INPUTS: [(&str, &str); 3] = [
    ("windows.iso", "stands for a medium of Windows\n"),
    ("virtio-win.iso", "stands for virtio-win\n"),
    ("tool.exe", "MZ the tool\n"),
];

fn kept(name: &str) -> String {
    let path = root().join("tests/upgrade/kept").join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| {
        panic!(
            "{}: {e}: keep a file of each format that a version wrote",
            path.display()
        )
    })
}

/// Another machine with the recipe, its inputs and an empty cache.
fn desk() -> Site {
    let desk = Site::empty();
    desk.write("recipe.toml", &kept("recipe.toml"));
    for (name, text) in INPUTS {
        desk.write(name, text);
    }
    desk
}

fn store(desk: &Site) -> Store {
    Store::open(&desk.path("cache")).expect("a store")
}

/// Puts the layer of this format into the cache; its key.
fn laid(desk: &Site, format: u32) -> Digest {
    let record = kept(&format!("layers-{format}.json"));
    let read: Value = serde_json::from_str(&record).expect("JSON");
    assert_eq!(read["format"], format);
    let key = read["key"].as_str().expect("a key");
    let folder = format!("cache/layers/{}", key.replace("sha256:", ""));
    desk.write(&format!("{folder}/layer.json"), &record);
    let disk = format!("the disk after the installation, format {format}\n");
    desk.write(&format!("{folder}/disk.qcow2"), &disk);
    serde_json::from_value(read["key"].clone()).expect("a digest")
}

#[test]
fn the_present_lock_is_the_kept_one() {
    let desk = desk();
    desk.run(&["lock", "recipe.toml"]).ended_well();
    let path = format!("tests/upgrade/kept/lock-{}.lock", lock::SCHEMA);
    golden::whole(&path, &desk.read("recipe.lock"));
}

#[test]
fn a_lock_of_each_schema_is_obeyed() {
    for schema in 1..=lock::SCHEMA {
        let desk = desk();
        desk.write("recipe.lock", &kept(&format!("lock-{schema}.lock")));
        let checked = desk.run(&["lock", "recipe.toml", "--check"]).ended_well();
        let advised = checked.stderr().contains("writes schema 3");
        assert_eq!(advised, schema < lock::SCHEMA, "{}", checked.stderr());
        desk.run(&["fetch", "recipe.toml"]).ended_well();

        // It still pins: another file under the same name is refused.
        desk.write("tool.exe", "MZ another tool\n");
        let refused = desk.run(&["fetch", "recipe.toml"]);
        assert_eq!(refused.status(), Some(5), "{}", refused.stderr());
    }
}

#[test]
fn a_lock_of_schema_1_is_written_anew_and_pins_the_same() {
    let desk = desk();
    desk.write("recipe.lock", &kept("lock-1.lock"));
    desk.run(&["lock", "recipe.toml"]).ended_well();
    let written = desk.read("recipe.lock");
    let digests = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with("digest = "));
        lines.map(str::to_owned).collect()
    };
    assert!(written.contains("\nschema = 3\n") && written.contains("\nserial = 4\n"));
    assert_eq!(digests(&written), digests(&kept("lock-1.lock")));
}

#[test]
fn a_lock_of_a_later_version_is_refused() {
    let desk = desk();
    let present = format!("schema = {}", lock::SCHEMA);
    let later = kept("lock-3.lock").replace(&present, "schema = 4");
    desk.write("recipe.lock", &later);
    insta::assert_snapshot!(desk.run(&["fetch", "recipe.toml"]).failure(), @"
    exit status: 2
    error: schema 4 of recipe.lock is not supported by this version
     --> recipe.lock:2:10
      |
    2 | schema = 4
      |          ^
      |
      = help: this version reads schemas 1 to 3: use the winimg that wrote it, or a later one

    1 error in recipe.lock
    ");
}

/// A rollback to a lock of before the upgrade is refused as one of after it.
#[test]
fn what_an_earlier_version_was_built_with_is_remembered() {
    let desk = desk();
    let built = UsedLock {
        recipe: "node".into(),
        serial: 7,
        inputs: Vec::new(),
    };
    store(&desk).record_built_with(&built).expect("a record");
    let [record] = &desk.files("cache/serials")[..] else {
        panic!("{:?}", desk.files("cache/serials"));
    };
    let present = desk.read(&format!("cache/serials/{record}"));
    golden::whole(
        "tests/upgrade/kept/serials.json",
        &format!("{}\n", present.trim_end()),
    );
    desk.write(&format!("cache/serials/{record}"), &kept("serials.json"));
    desk.write("recipe.lock", &kept("lock-1.lock"));
    insta::assert_snapshot!(desk.run(&["fetch", "recipe.toml"]).failure(), @"
    exit status: 2
    error: recipe.lock is older than a lock already used here for `node`
      expected: serial 7 or higher
      found: serial 4
      cure: use the newer lock; to go back deliberately, add `--allow-rollback`
    ");
}

#[test]
fn the_present_layer_is_the_kept_one_and_is_used() {
    let writer = Site::empty();
    let (text, exit) = ("echo".into(), ExitRule::Zero);
    let mut chain = BuildChain::default();
    let part = BuildPart::Step {
        payload: Vec::new(),
        ops: vec![GuestAction::Script { text, exit }],
    };
    chain.push("step `the tool`", part);
    let draft = store(&writer).create_draft().expect("a draft");
    let disk = format!(
        "the disk after the installation, format {}\n",
        chain::FORMAT
    );
    fs::write(draft.disk_path(MachineDiskFormat::Qcow2), disk).expect("a disk");
    let about = LayerInfo {
        parent: None,
        recipe: "node",
        links: chain.links(),
        notes: Value::Null,
        made: 1_700_000_000,
    };
    let sealed = store(&writer).seal(draft, about, &Cancel::default());
    let key = sealed.expect("a layer").record().key.clone();
    let record = writer.read(&format!("cache/layers/{}/layer.json", key.hex()));
    let name = format!("tests/upgrade/kept/layers-{}.json", chain::FORMAT);
    golden::whole(&name, &record);

    let desk = desk();
    let key = laid(&desk, chain::FORMAT);
    let found = store(&desk).find_layer(&key, &Cancel::default());
    assert!(matches!(found, Ok(LayerLookup::Layer(_))));
}

#[test]
fn layers_of_earlier_formats_are_counted_left_alone_and_pruned() {
    let desk = desk();
    for format in 1..chain::FORMAT {
        let key = laid(&desk, format);
        let found = store(&desk).find_layer(&key, &Cancel::default());
        assert!(matches!(found, Ok(LayerLookup::Nothing)), "format {format}");
        let counted = store(&desk).count_outdated_layers("node");
        assert_eq!(counted, format as usize);
    }
    let earlier = desk.files("cache/layers").len();
    desk.run(&["plan", "recipe.toml"]).ended_well();
    assert_eq!(desk.files("cache/layers").len(), earlier);

    desk.run(&["cache", "prune", "--older-than", "0s"])
        .ended_well();
    assert_eq!(desk.files("cache/layers"), Vec::<String>::new());
}

#[test]
fn who_has_only_layers_of_an_earlier_format_is_told() {
    let desk = desk();
    laid(&desk, 1);
    let explained = desk.run(&["cache", "explain", "recipe.toml"]).ended_well();
    let said = explained.stdout() + &explained.stderr();
    let sentence = "1 layer in the cache has the format of an earlier version of winimg and cannot be used: remove them with `winimg cache prune --older-than AGE`";
    assert!(said.contains(sentence), "{said}");
}

#[test]
fn layers_of_a_later_version_are_left_alone() {
    let desk = desk();
    let key = laid(&desk, chain::FORMAT);
    let path = format!("cache/layers/{}/layer.json", key.hex());
    let present = format!("\"format\": {}", chain::FORMAT);
    let later = format!("\"format\": {}", chain::FORMAT + 1);
    let record = desk.read(&path);
    assert!(record.contains(&present), "{record}");
    desk.write(&path, &record.replace(&present, &later));
    let found = store(&desk).find_layer(&key, &Cancel::default());
    assert!(matches!(found, Ok(LayerLookup::Nothing)));
    assert!(desk.path(&path).exists());
}

/// Reads the kept bundle; of the next schema it is refused.
#[test]
fn a_bundle_is_read_and_a_later_one_is_refused() {
    let desk = desk();
    desk.run(&["lock", "recipe.toml"]).ended_well();
    desk.run(&["bundle", "recipe.toml", "--to", "node.tar"])
        .ended_well();
    let file = root().join("tests/upgrade/kept/bundle-1.tar");
    let present = fs::read(desk.path("node.tar")).expect("a bundle");
    if fs::read(&file).ok().as_ref() != Some(&present) {
        let update = std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always");
        assert!(
            update,
            "kept/bundle-1.tar is not what `winimg bundle` writes"
        );
        fs::write(&file, &present).expect("a file");
    }

    let elsewhere = Site::empty();
    fs::copy(&file, elsewhere.path("node.tar")).expect("a file");
    elsewhere.run(&["plan", "node.tar"]).ended_well();

    // The number has one digit, so that no length changes.
    let at = present
        .windows(10)
        .position(|bytes| bytes == b"schema = 1")
        .expect("a schema");
    let mut later = present.clone();
    later[at + 9] = b'2';
    fs::write(elsewhere.path("node.tar"), later).expect("a file");
    insta::assert_snapshot!(elsewhere.run(&["plan", "node.tar"]).failure(), @"
    exit status: 5
    error: the bundle's index cannot be trusted
      at: node.tar
      | schema 2 is not supported by this version, which reads schema 1
      cure: recreate it with `winimg bundle`, or ask its author
    ");
}
