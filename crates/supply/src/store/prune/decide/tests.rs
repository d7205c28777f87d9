//! Which items go and which stay, with their reasons.

use super::*;
use crate::store::LayerRecord;
use serde_json::Value;
use winimg_recipe::plan::{BuildPart, ChainLink};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + 20_000 * DAY
}

fn of(text: &str) -> Digest {
    Digest::sha256_of(text.as_bytes())
}

fn item(name: &str, thing: StoreItemKind, size: u64, days: u32) -> StoreItem {
    StoreItem {
        thing,
        path: name.into(),
        size,
        used: now() - days * DAY,
        record: name.into(),
        busy: false,
    }
}

fn layer(name: &str, parent: Option<&str>, size: u64, days: u32) -> StoreItem {
    let link = |name: &str| ChainLink {
        name: name.into(),
        key: of(name),
        part: BuildPart::Skipped,
    };
    let record = LayerRecord {
        format: 1,
        key: of(name),
        parent: parent.map(of),
        parent_disk: None,
        recipe: "node".into(),
        made: 0,
        files: Vec::new(),
        links: parent.into_iter().chain([name]).map(link).collect(),
        notes: Value::Null,
    };
    item(
        name,
        StoreItemKind::Layer(of(name), Some(Box::new(record))),
        size,
        days,
    )
}

fn file(name: &str, size: u64, days: u32) -> StoreItem {
    item(name, StoreItemKind::Blob(of(name)), size, days)
}

/// Returns one line per item, removed ones first.
fn text(items: Vec<StoreItem>, limits: PruneLimits, locked: &[&str], leased: &[&str]) -> String {
    let locked = locked
        .iter()
        .map(|n| (of(n), "recipe.lock names it".into()));
    let leased = leased.iter().map(|n| of(n)).collect();
    let pruned = decide(items, limits, &locked.collect(), &leased, now());
    let line = |mark: char| {
        move |(item, why): &(StoreItem, String)| {
            let why = match why.strip_prefix("parent of layer ") {
                // Without the digest.
                Some(rest) => &rest[13..],
                None => why,
            };
            format!("{mark} {}: {why}\n", item.path.display())
        }
    };
    let gone = pruned.gone.iter().map(line('-'));
    let stayed = pruned.stayed.iter().map(line('+'));
    gone.chain(stayed).collect()
}

fn age(days: u32) -> PruneLimits {
    PruneLimits {
        older_than: Some(days * DAY),
        max_size: None,
    }
}

fn size(bytes: u64) -> PruneLimits {
    PruneLimits {
        older_than: None,
        max_size: Some(bytes),
    }
}

fn all() -> Vec<StoreItem> {
    let mut held = item("held", StoreItemKind::Partial(None), 1, 90);
    held.busy = true;
    vec![
        layer("windows", None, 40, 50),
        layer("kubelet", Some("windows"), 10, 50),
        layer("agents", Some("kubelet"), 5, 2),
        layer("patches", Some("windows"), 20, 60),
        layer("lost", Some("nothing"), 7, 0),
        layer("on the lost", Some("lost"), 3, 0),
        item("torn", StoreItemKind::Layer(of("torn"), None), 1, 0),
        item("draft", StoreItemKind::Draft, 30, 0),
        file("iso", 50, 90),
        file("old", 4, 90),
        file("new", 4, 1),
        item("old tree", StoreItemKind::Tree(of("old")), 6, 1),
        item("new tree", StoreItemKind::Tree(of("new")), 6, 90),
        item("broken off", StoreItemKind::Partial(None), 2, 90),
        held,
        item("wrong", StoreItemKind::Quarantined, 2, 90),
    ]
}

#[test]
fn without_limits_only_leftovers_go() {
    assert_eq!(
        text(all(), PruneLimits::default(), &["iso"], &[]),
        "\
- on the lost: its parent layer is gone
- lost: its parent layer is gone
- draft: its build was interrupted
- torn: its record cannot be read
+ windows: (after kubelet)
+ kubelet: (after agents)
+ agents: used 2 days ago
+ patches: used 60 days ago
+ iso: recipe.lock names it
+ old: used 90 days ago
+ new: used 24 hours ago
+ old tree: used 24 hours ago
+ new tree: used 90 days ago
+ broken off: used 90 days ago
+ held: in use by a running winimg
+ wrong: used 90 days ago
"
    );
}

#[test]
fn what_is_old_goes_but_not_what_others_need() {
    assert_eq!(
        text(all(), age(30), &["iso"], &["lost"]),
        "\
- draft: its build was interrupted
- torn: its record cannot be read
- old: not used for 90 days
- old tree: its archive is removed
- new tree: not used for 90 days
- broken off: not used for 90 days
- wrong: not used for 90 days
- patches: not used for 60 days
+ windows: (after kubelet)
+ kubelet: (after agents)
+ agents: used 2 days ago
+ lost: in use by a running winimg
+ on the lost: used 0 seconds ago
+ iso: recipe.lock names it
+ new: used 24 hours ago
+ held: in use by a running winimg
"
    );
}

#[test]
fn a_whole_chain_goes_leaf_first_and_no_further_than_the_size() {
    let chain = || {
        vec![
            layer("windows", None, 40, 9),
            // Used a moment before its child.
            layer("kubelet", Some("windows"), 10, 10),
            layer("agents", Some("kubelet"), 5, 9),
            file("file", 3, 1),
        ]
    };
    let over = "least recently used, and the cache exceeds the size limit";
    assert_eq!(
        text(chain(), size(45), &[], &[]),
        format!(
            "\
- agents: {over}
- kubelet: {over}
+ windows: used 9 days ago
+ file: used 24 hours ago
"
        )
    );
    assert_eq!(
        text(chain(), size(0), &["file"], &["kubelet", "windows"]),
        format!(
            "\
- agents: {over}
+ windows: in use by a running winimg
+ kubelet: in use by a running winimg
+ file: recipe.lock names it
"
        )
    );
    assert!(text(chain(), size(58), &[], &[]).starts_with("+ windows"));
}

#[test]
fn a_large_cache_is_decided_at_once() {
    let name = |n: u32| format!("layer {n}");
    let layers = (0..5_000).map(|n| {
        let parent = (n > 0).then(|| name(n - 1));
        layer(&name(n), parent.as_deref(), 1, 100)
    });
    let files = (0..20_000).map(|n| file(&format!("file {n}"), 1, 100));
    let items: Vec<StoreItem> = layers.chain(files).collect();
    let count = items.len();
    let began = std::time::Instant::now();
    let pruned = decide(
        items,
        age(30),
        &ProtectedFiles::new(),
        &BTreeSet::new(),
        now(),
    );
    assert_eq!(pruned.gone.len(), count);
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn a_use_in_the_future_is_one_of_now() {
    let mut ahead = file("ahead", 4, 0);
    ahead.used = now() + 400 * DAY;
    let items = || vec![ahead.clone(), file("old", 4, 31)];
    assert_eq!(
        text(items(), age(30), &[], &[]),
        "- old: not used for 31 days\n+ ahead: used 0 seconds ago\n"
    );
}
