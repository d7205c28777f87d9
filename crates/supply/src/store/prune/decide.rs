//! What goes and what stays, and why: pure.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use crate::store::{Item, Thing};
use winimg_base::digest::Digest;

use super::span;
use super::{Protected, PruneLimits, Pruned};

/// What goes and what stays, of all that is there.
pub(super) fn decide(
    items: Vec<Item>,
    limits: PruneLimits,
    protected: &Protected,
    leased: &BTreeSet<Digest>,
    now: SystemTime,
) -> Pruned {
    let mut deciding = Deciding {
        keep: items.iter().map(|i| kept(i, protected, leased)).collect(),
        left: items.iter().map(|i| i.size).sum(),
        going: vec![None; items.len()],
        order: Vec::new(),
        items: &items,
    };
    deciding.leftovers();
    if let Some(limit) = limits.older_than {
        deciding.by_age(limit, now);
    }
    if let Some(limit) = limits.max_size {
        deciding.by_size(limit);
    }
    let gone = deciding.order.iter();
    let gone = gone.filter_map(|n| Some((items[*n].clone(), deciding.going[*n].clone()?)));
    let stayed = (0..items.len()).filter(|n| deciding.going[*n].is_none());
    let stayed = stayed.map(|n| (items[n].clone(), deciding.stays(n, now)));
    Pruned {
        gone: gone.collect(),
        stayed: stayed.collect(),
    }
}

/// Why an item must stay whatever the limits are.
fn kept(item: &Item, protected: &Protected, leased: &BTreeSet<Digest>) -> Option<String> {
    let uses = "a running winimg uses it";
    let leased = match &item.thing {
        Thing::Layer(digest, _) | Thing::Blob(digest) | Thing::Tree(digest) => {
            leased.contains(digest)
        }
        Thing::Bundle(name) => leased.iter().any(|d| d.hex().starts_with(name)),
        Thing::Quarantined => {
            let name = item.path.file_name().unwrap_or_default().to_string_lossy();
            Digest::from_hex(&name).is_ok_and(|d| leased.contains(&d))
        }
        Thing::Draft | Thing::Partial(_) => false,
    };
    if leased || item.busy {
        return Some(uses.into());
    }
    match &item.thing {
        Thing::Blob(digest) => protected.get(digest).cloned(),
        _ => None,
    }
}

struct Deciding<'a> {
    items: &'a [Item],
    keep: Vec<Option<String>>,
    /// Why it goes.
    going: Vec<Option<String>>,
    /// Leaves before what they lie on.
    order: Vec<usize>,
    /// Bytes of what stays.
    left: u64,
}

impl Deciding<'_> {
    fn goes(&mut self, number: usize, why: String) {
        self.going[number] = Some(why);
        self.order.push(number);
        self.left -= self.items[number].size;
    }

    /// Whether it is of use to nobody.
    fn leftovers(&mut self) {
        for number in 0..self.items.len() {
            let why = match &self.items[number].thing {
                _ if self.keep[number].is_some() => continue,
                Thing::Draft => "its build was interrupted",
                Thing::Layer(_, None) => "its record cannot be read",
                _ => continue,
            };
            self.goes(number, why.into());
        }
        // What lies on nothing, then what lies on that.
        while let Some(number) = (0..self.items.len()).find(|n| self.is_orphan(*n)) {
            self.goes(number, "the layer that it lies on is gone".into());
        }
        // They were found from below.
        self.order.reverse();
    }

    fn is_orphan(&self, number: usize) -> bool {
        let has_parent = match &self.items[number].thing {
            Thing::Layer(_, Some(record)) => record.parent.is_some(),
            _ => false,
        };
        let stays = |n: usize| self.going[n].is_none();
        let is_free = self.keep[number].is_none() && stays(number);
        has_parent && is_free && !self.below(number).is_some_and(stays)
    }

    fn by_age(&mut self, limit: Duration, now: SystemTime) {
        let old = |item: &Item| unused_for(item, now) > limit;
        let why = |item: &Item| format!("not used for {}", span(unused_for(item, now)));
        self.while_any(|me, number| old(&me.items[number]).then(|| why(&me.items[number])));
    }

    fn by_size(&mut self, limit: u64) {
        let why = "the least lately used, and the rest is over the size";
        self.while_any(|me, _| (me.left > limit).then(|| why.to_string()));
    }

    /// Offers each thing that may go, the least lately used first, until none goes any more.
    fn while_any(&mut self, why: impl Fn(&Self, usize) -> Option<String>) {
        let mut lately: Vec<usize> = (0..self.items.len()).collect();
        lately.sort_by_key(|n| self.items[*n].used);
        loop {
            let before = self.order.len();
            for number in &lately {
                let used = self.items[*number].used;
                let mut next = Some(*number);
                while let Some(number) = next.filter(|n| self.may_go(*n)) {
                    let Some(why) = why(self, number) else {
                        break;
                    };
                    self.goes(number, why);
                    self.trees_of(number);
                    // Its turn was before, and it had to wait for this one.
                    let below = self.below(number);
                    next = below.filter(|n| self.items[*n].used <= used);
                }
            }
            if self.order.len() == before {
                return;
            }
        }
    }

    fn may_go(&self, number: usize) -> bool {
        let free = self.keep[number].is_none() && self.going[number].is_none();
        free && self.child(number).is_none()
    }

    /// The layer that this one lies on.
    fn below(&self, number: usize) -> Option<usize> {
        let Thing::Layer(_, Some(record)) = &self.items[number].thing else {
            return None;
        };
        let parent = record.parent.as_ref()?;
        let is_parent = |item: &Item| matches!(&item.thing, Thing::Layer(key, _) if key == parent);
        self.items.iter().position(is_parent)
    }

    /// A layer that stays and lies on this one.
    fn child(&self, number: usize) -> Option<&Item> {
        let Thing::Layer(key, _) = &self.items[number].thing else {
            return None;
        };
        let all = self.items.iter().zip(&self.going);
        let mut staying = all.filter(|(_, going)| going.is_none()).map(|(i, _)| i);
        staying.find(|item| match &item.thing {
            Thing::Layer(_, Some(record)) => record.parent.as_ref() == Some(key),
            _ => false,
        })
    }

    /// What was unpacked from a file is of no use without it.
    fn trees_of(&mut self, number: usize) {
        let Thing::Blob(blob) = &self.items[number].thing else {
            return;
        };
        for tree in 0..self.items.len() {
            let of_it = matches!(&self.items[tree].thing, Thing::Tree(of) if of == blob);
            if of_it && self.keep[tree].is_none() && self.going[tree].is_none() {
                self.goes(tree, "the archive that it was unpacked from goes".into());
            }
        }
    }

    fn stays(&self, number: usize, now: SystemTime) -> String {
        if let Some(keep) = &self.keep[number] {
            return keep.clone();
        }
        match self.child(number).map(|child| &child.thing) {
            Some(Thing::Layer(key, Some(record))) => {
                let key = &key.hex()[..12];
                format!("layer {key} (after {}) lies on it", record.after())
            }
            _ => {
                let unused = unused_for(&self.items[number], now);
                format!("used {} ago", span(unused))
            }
        }
    }
}

fn unused_for(item: &Item, now: SystemTime) -> Duration {
    now.duration_since(item.used).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::LayerRecord;
    use serde_json::Value;
    use winimg_recipe::plan::{Link, Part};

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + 20_000 * DAY
    }

    fn of(text: &str) -> Digest {
        Digest::sha256_of(text.as_bytes())
    }

    fn item(name: &str, thing: Thing, size: u64, days: u32) -> Item {
        Item {
            thing,
            path: name.into(),
            size,
            used: now() - days * DAY,
            record: name.into(),
            busy: false,
        }
    }

    fn layer(name: &str, parent: Option<&str>, size: u64, days: u32) -> Item {
        let link = |name: &str| Link {
            name: name.into(),
            key: of(name),
            part: Part::Skipped,
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
            Thing::Layer(of(name), Some(Box::new(record))),
            size,
            days,
        )
    }

    fn file(name: &str, size: u64, days: u32) -> Item {
        item(name, Thing::Blob(of(name)), size, days)
    }

    /// One line a thing, those that go first.
    fn text(items: Vec<Item>, limits: PruneLimits, locked: &[&str], leased: &[&str]) -> String {
        let locked = locked
            .iter()
            .map(|n| (of(n), "recipe.lock names it".into()));
        let leased = leased.iter().map(|n| of(n)).collect();
        let pruned = decide(items, limits, &locked.collect(), &leased, now());
        let line = |mark: char| {
            move |(item, why): &(Item, String)| {
                let why = match why.find("layer ") {
                    // Without the digest.
                    Some(at) if why.contains(" lies on it") => &why[at + 19..],
                    _ => why,
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

    fn all() -> Vec<Item> {
        let mut held = item("held", Thing::Partial(None), 1, 90);
        held.busy = true;
        vec![
            layer("windows", None, 40, 50),
            layer("kubelet", Some("windows"), 10, 50),
            layer("agents", Some("kubelet"), 5, 2),
            layer("patches", Some("windows"), 20, 60),
            layer("lost", Some("nothing"), 7, 0),
            layer("on the lost", Some("lost"), 3, 0),
            item("torn", Thing::Layer(of("torn"), None), 1, 0),
            item("draft", Thing::Draft, 30, 0),
            file("iso", 50, 90),
            file("old", 4, 90),
            file("new", 4, 1),
            item("old tree", Thing::Tree(of("old")), 6, 1),
            item("new tree", Thing::Tree(of("new")), 6, 90),
            item("broken off", Thing::Partial(None), 2, 90),
            held,
            item("wrong", Thing::Quarantined, 2, 90),
        ]
    }

    #[test]
    fn without_limits_only_leftovers_go() {
        assert_eq!(
            text(all(), PruneLimits::default(), &["iso"], &[]),
            "\
- on the lost: the layer that it lies on is gone
- lost: the layer that it lies on is gone
- draft: its build was interrupted
- torn: its record cannot be read
+ windows: (after kubelet) lies on it
+ kubelet: (after agents) lies on it
+ agents: used 2 days ago
+ patches: used 60 days ago
+ iso: recipe.lock names it
+ old: used 90 days ago
+ new: used 24 hours ago
+ old tree: used 24 hours ago
+ new tree: used 90 days ago
+ broken off: used 90 days ago
+ held: a running winimg uses it
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
- old tree: the archive that it was unpacked from goes
- new tree: not used for 90 days
- broken off: not used for 90 days
- wrong: not used for 90 days
- patches: not used for 60 days
+ windows: (after kubelet) lies on it
+ kubelet: (after agents) lies on it
+ agents: used 2 days ago
+ lost: a running winimg uses it
+ on the lost: used 0 seconds ago
+ iso: recipe.lock names it
+ new: used 24 hours ago
+ held: a running winimg uses it
"
        );
    }

    #[test]
    fn a_whole_chain_goes_leaf_first_and_no_further_than_the_size() {
        let chain = || {
            vec![
                layer("windows", None, 40, 9),
                // Used a moment before the layer that lies on it.
                layer("kubelet", Some("windows"), 10, 10),
                layer("agents", Some("kubelet"), 5, 9),
                file("file", 3, 1),
            ]
        };
        let over = "the least lately used, and the rest is over the size";
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
+ windows: a running winimg uses it
+ kubelet: a running winimg uses it
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
