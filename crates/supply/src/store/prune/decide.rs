//! Decides which items are removed and why. Pure.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use crate::store::{StoreItem, StoreItemKind};
use winimg_base::digest::Digest;

use super::format_span;
use super::{ProtectedFiles, PruneLimits, PruneReport};

/// Decides about all items.
pub(super) fn decide(
    items: Vec<StoreItem>,
    limits: PruneLimits,
    protected: &ProtectedFiles,
    leased: &BTreeSet<Digest>,
    now: SystemTime,
) -> PruneReport {
    let mut decision = PruneDecision {
        keep: items
            .iter()
            .map(|i| find_keep_reason(i, protected, leased))
            .collect(),
        remaining: items.iter().map(|i| i.size).sum(),
        removals: vec![None; items.len()],
        order: Vec::new(),
        items: &items,
    };
    decision.remove_leftovers();
    if let Some(limit) = limits.older_than {
        decision.remove_by_age(limit, now);
    }
    if let Some(limit) = limits.max_size {
        decision.remove_by_size(limit);
    }
    let gone = decision.order.iter();
    let gone = gone.filter_map(|n| Some((items[*n].clone(), decision.removals[*n].clone()?)));
    let stayed = (0..items.len()).filter(|n| decision.removals[*n].is_none());
    let stayed = stayed.map(|n| (items[n].clone(), decision.describe_kept(n, now)));
    PruneReport {
        gone: gone.collect(),
        stayed: stayed.collect(),
    }
}

/// Returns the reason an item must be kept regardless of the limits.
fn find_keep_reason(
    item: &StoreItem,
    protected: &ProtectedFiles,
    leased: &BTreeSet<Digest>,
) -> Option<String> {
    let uses = "in use by a running winimg";
    let leased = match &item.thing {
        StoreItemKind::Layer(digest, _)
        | StoreItemKind::Blob(digest)
        | StoreItemKind::Tree(digest) => leased.contains(digest),
        StoreItemKind::Bundle(name) => leased.iter().any(|d| d.hex().starts_with(name)),
        StoreItemKind::Quarantined => {
            let name = item.path.file_name().unwrap_or_default().to_string_lossy();
            Digest::from_hex(&name).is_ok_and(|d| leased.contains(&d))
        }
        StoreItemKind::Draft | StoreItemKind::Partial(_) => false,
    };
    if leased || item.busy {
        return Some(uses.into());
    }
    match &item.thing {
        StoreItemKind::Blob(digest) => protected.get(digest).cloned(),
        _ => None,
    }
}

struct PruneDecision<'a> {
    items: &'a [StoreItem],
    keep: Vec<Option<String>>,
    /// Reason for removal; `None` for items that are kept.
    removals: Vec<Option<String>>,
    /// Order of removal: children before their parents.
    order: Vec<usize>,
    /// Total bytes of the items that are kept.
    remaining: u64,
}

impl PruneDecision<'_> {
    fn remove(&mut self, number: usize, why: String) {
        self.removals[number] = Some(why);
        self.order.push(number);
        self.remaining -= self.items[number].size;
    }

    /// Removes unusable items.
    fn remove_leftovers(&mut self) {
        for number in 0..self.items.len() {
            let why = match &self.items[number].thing {
                _ if self.keep[number].is_some() => continue,
                StoreItemKind::Draft => "its build was interrupted",
                StoreItemKind::Layer(_, None) => "its record cannot be read",
                _ => continue,
            };
            self.remove(number, why.into());
        }
        // Layers without a parent, then their children.
        while let Some(number) = (0..self.items.len()).find(|n| self.is_orphan(*n)) {
            self.remove(number, "its parent layer is gone".into());
        }
        // They were found parents first.
        self.order.reverse();
    }

    fn is_orphan(&self, number: usize) -> bool {
        let has_parent = match &self.items[number].thing {
            StoreItemKind::Layer(_, Some(record)) => record.parent.is_some(),
            _ => false,
        };
        let is_free = self.keep[number].is_none() && self.removals[number].is_none();
        let parent = self.find_parent(number);
        has_parent && is_free && parent.is_none_or(|n| self.removals[n].is_some())
    }

    fn remove_by_age(&mut self, limit: Duration, now: SystemTime) {
        self.remove_while(|me, number| {
            let unused = unused_for(&me.items[number], now);
            (unused > limit).then(|| format!("not used for {}", format_span(unused)))
        });
    }

    fn remove_by_size(&mut self, limit: u64) {
        let why = "least recently used, and the cache exceeds the size limit";
        self.remove_while(|me, _| (me.remaining > limit).then(|| why.to_string()));
    }

    /// Removes items as long as `why` gives a reason, least recently used first.
    fn remove_while(&mut self, why: impl Fn(&Self, usize) -> Option<String>) {
        let mut by_last_use: Vec<usize> = (0..self.items.len()).collect();
        by_last_use.sort_by_key(|n| self.items[*n].used);
        loop {
            let before = self.order.len();
            for number in &by_last_use {
                let used = self.items[*number].used;
                let mut next = Some(*number);
                while let Some(number) = next.filter(|n| self.is_removable(*n)) {
                    let Some(why) = why(self, number) else {
                        break;
                    };
                    self.remove(number, why);
                    self.remove_trees(number);
                    // The parent is older and only had to wait for this child.
                    let below = self.find_parent(number);
                    next = below.filter(|n| self.items[*n].used <= used);
                }
            }
            if self.order.len() == before {
                return;
            }
        }
    }

    fn is_removable(&self, number: usize) -> bool {
        let free = self.keep[number].is_none() && self.removals[number].is_none();
        free && self.find_child(number).is_none()
    }

    /// Returns the parent layer.
    fn find_parent(&self, number: usize) -> Option<usize> {
        let StoreItemKind::Layer(_, Some(record)) = &self.items[number].thing else {
            return None;
        };
        let parent = record.parent.as_ref()?;
        self.items
            .iter()
            .position(|item| matches!(&item.thing, StoreItemKind::Layer(key, _) if key == parent))
    }

    /// Returns a child layer that is kept.
    fn find_child(&self, number: usize) -> Option<&StoreItem> {
        let StoreItemKind::Layer(key, _) = &self.items[number].thing else {
            return None;
        };
        let all = self.items.iter().zip(&self.removals);
        let mut staying = all.filter(|(_, removal)| removal.is_none()).map(|(i, _)| i);
        staying.find(|item| match &item.thing {
            StoreItemKind::Layer(_, Some(record)) => record.parent.as_ref() == Some(key),
            _ => false,
        })
    }

    /// Removes the trees that were unpacked from a removed archive.
    fn remove_trees(&mut self, number: usize) {
        let StoreItemKind::Blob(blob) = &self.items[number].thing else {
            return;
        };
        for tree in 0..self.items.len() {
            let is_from_archive =
                matches!(&self.items[tree].thing, StoreItemKind::Tree(of) if of == blob);
            if is_from_archive && self.keep[tree].is_none() && self.removals[tree].is_none() {
                self.remove(tree, "its archive is removed".into());
            }
        }
    }

    fn describe_kept(&self, number: usize, now: SystemTime) -> String {
        if let Some(keep) = &self.keep[number] {
            return keep.clone();
        }
        match self.find_child(number).map(|child| &child.thing) {
            Some(StoreItemKind::Layer(key, Some(record))) => {
                let key = &key.hex()[..12];
                format!("parent of layer {key} (after {})", record.last_link_name())
            }
            _ => {
                let unused = unused_for(&self.items[number], now);
                format!("used {} ago", format_span(unused))
            }
        }
    }
}

fn unused_for(item: &StoreItem, now: SystemTime) -> Duration {
    now.duration_since(item.used).unwrap_or_default()
}

#[cfg(test)]
mod tests {
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
    fn text(
        items: Vec<StoreItem>,
        limits: PruneLimits,
        locked: &[&str],
        leased: &[&str],
    ) -> String {
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
    fn a_use_in_the_future_is_one_of_now() {
        let mut ahead = file("ahead", 4, 0);
        ahead.used = now() + 400 * DAY;
        let items = || vec![ahead.clone(), file("old", 4, 31)];
        assert_eq!(
            text(items(), age(30), &[], &[]),
            "- old: not used for 31 days\n+ ahead: used 0 seconds ago\n"
        );
    }
}
