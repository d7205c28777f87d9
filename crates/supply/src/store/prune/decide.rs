//! Decides which items are removed and why. Pure.

use std::collections::{BTreeSet, HashMap};
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
    let keep = items
        .iter()
        .map(|i| find_keep_reason(i, protected, leased))
        .collect();
    let mut decision = PruneDecision::new(&items, keep);
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
    /// Parent layer of each item.
    parents: Vec<Option<usize>>,
    /// Child layers of each item, in the order of the items.
    children: Vec<Vec<usize>>,
    /// Number of child layers that are kept.
    kept_children: Vec<usize>,
    /// Trees unpacked from each archive.
    trees: HashMap<&'a Digest, Vec<usize>>,
    keep: Vec<Option<String>>,
    /// Reason for removal; `None` for items that are kept.
    removals: Vec<Option<String>>,
    /// Order of removal: children before their parents.
    order: Vec<usize>,
    /// Total bytes of the items that are kept.
    remaining: u64,
}

impl<'a> PruneDecision<'a> {
    /// Indexes the relations between items once, so that a cache with many thousands of them is
    /// decided in seconds.
    fn new(items: &'a [StoreItem], keep: Vec<Option<String>>) -> Self {
        let mut layers = HashMap::new();
        let mut trees: HashMap<&Digest, Vec<usize>> = HashMap::new();
        for (number, item) in items.iter().enumerate() {
            match &item.thing {
                StoreItemKind::Layer(key, _) => {
                    layers.entry(key).or_insert(number);
                }
                StoreItemKind::Tree(archive) => trees.entry(archive).or_default().push(number),
                _ => {}
            }
        }
        let mut children = vec![Vec::new(); items.len()];
        let mut parents = vec![None; items.len()];
        for (number, item) in items.iter().enumerate() {
            parents[number] = find_parent_key(item).and_then(|key| layers.get(key).copied());
            if let Some(parent) = parents[number] {
                children[parent].push(number);
            }
        }
        Self {
            parents,
            kept_children: children.iter().map(Vec::len).collect(),
            children,
            trees,
            keep,
            remaining: items.iter().map(|i| i.size).sum(),
            removals: vec![None; items.len()],
            order: Vec::new(),
            items,
        }
    }

    fn remove(&mut self, number: usize, why: String) {
        self.removals[number] = Some(why);
        self.order.push(number);
        self.remaining -= self.items[number].size;
        if let Some(parent) = self.parents[number] {
            self.kept_children[parent] -= 1;
        }
    }

    fn is_undecided(&self, number: usize) -> bool {
        self.keep[number].is_none() && self.removals[number].is_none()
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
        let mut orphans: BTreeSet<usize> = (0..self.items.len())
            .filter(|n| self.is_orphan(*n))
            .collect();
        while let Some(number) = orphans.pop_first() {
            self.remove(number, "its parent layer is gone".into());
            let children = self.children[number].iter().copied();
            orphans.extend(children.filter(|n| self.is_undecided(*n)));
        }
        // They were found parents first.
        self.order.reverse();
    }

    fn is_orphan(&self, number: usize) -> bool {
        let has_parent = find_parent_key(&self.items[number]).is_some();
        let parent = self.parents[number];
        has_parent && self.is_undecided(number) && parent.is_none_or(|n| self.removals[n].is_some())
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
        let mut lately: Vec<usize> = (0..self.items.len()).collect();
        lately.sort_by_key(|n| self.items[*n].used);
        loop {
            let before = self.order.len();
            for number in &lately {
                let used = self.items[*number].used;
                let mut next = Some(*number);
                while let Some(number) = next.filter(|n| self.is_removable(*n)) {
                    let Some(why) = why(self, number) else {
                        break;
                    };
                    self.remove(number, why);
                    self.remove_trees(number);
                    // The parent is older and only had to wait for this child.
                    let below = self.parents[number];
                    next = below.filter(|n| self.items[*n].used <= used);
                }
            }
            if self.order.len() == before {
                return;
            }
        }
    }

    fn is_removable(&self, number: usize) -> bool {
        self.is_undecided(number) && self.kept_children[number] == 0
    }

    /// Removes the trees that were unpacked from a removed archive.
    fn remove_trees(&mut self, number: usize) {
        let StoreItemKind::Blob(blob) = &self.items[number].thing else {
            return;
        };
        for tree in self.trees.get(blob).cloned().unwrap_or_default() {
            if self.is_undecided(tree) {
                self.remove(tree, "its archive is removed".into());
            }
        }
    }

    fn describe_kept(&self, number: usize, now: SystemTime) -> String {
        if let Some(keep) = &self.keep[number] {
            return keep.clone();
        }
        let mut children = self.children[number].iter();
        let kept = children.find(|child| self.removals[**child].is_none());
        match kept.map(|child| &self.items[*child].thing) {
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

/// Returns the key of the layer that this one was built on.
fn find_parent_key(item: &StoreItem) -> Option<&Digest> {
    match &item.thing {
        StoreItemKind::Layer(_, Some(record)) => record.parent.as_ref(),
        _ => None,
    }
}

fn unused_for(item: &StoreItem, now: SystemTime) -> Duration {
    now.duration_since(item.used).unwrap_or_default()
}

#[cfg(test)]
mod tests;
