//! `winimg cache`: what the store keeps, and what goes from it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use indicatif::HumanBytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cli;
use crate::engine::forecast::forecast;
use winimg_base::digest::Digest;
use winimg_base::error::Result;
use winimg_recipe::lock::LockFile;
use winimg_recipe::recipe::InputId;
use winimg_supply::fetch::image;
use winimg_supply::store::{
    Item, LayerRecord, Protected, PruneLimits, Pruned, Store, Thing, span, total,
};

use super::inputs::table;
use super::{Context, hypervisor, print, print_json, recipe, store};

/// Bytes of a container image's manifest that are read.
const MANIFEST: u64 = 4 << 20;

pub fn run(command: &cli::Cache, context: &Context) -> Result<()> {
    match command {
        cli::Cache::Ls(args) => list(args, context),
        cli::Cache::Explain(args) => explain(args, context),
        cli::Cache::Prune(args) => prune(args, context),
    }
}

fn list(args: &cli::CacheLs, context: &Context) -> Result<()> {
    let store = store(context)?;
    let shown = Shown::new(&store);
    let items = store.items();
    match args.json {
        true => print_json(&json!({
            "folder": store.folder(),
            "size": items.iter().map(|i| i.size).sum::<u64>(),
            "items": items.iter().map(|i| shown.json(i)).collect::<Vec<_>>(),
        })),
        false => print(&shown.listing(&items, &store.folder().display().to_string())),
    }
}

fn explain(args: &cli::CacheExplain, context: &Context) -> Result<()> {
    let opened = recipe::open(&args.recipe, &args.lock, recipe::Look::Explain, context)?;
    let store = store(context)?;
    let forecast = forecast(
        &opened.recipe,
        &opened.plan,
        &store,
        hypervisor::platform(&args.hypervisor, context)?,
        &context.cancel,
    )?;
    match args.json {
        true => print_json(&forecast.json()),
        false => print(&forecast.explanation()),
    }
}

fn prune(args: &cli::CachePrune, context: &Context) -> Result<()> {
    let store = store(context)?;
    if !args.dry_run {
        store.sweep_drafts(context.sink.as_ref())?;
    }
    let limits = PruneLimits {
        older_than: args.older_than,
        max_size: args.max_size,
    };
    let shown = Shown::new(&store);
    let protected = || protected(&store, context);
    let pruned = store.prune(limits, &protected, args.dry_run, &context.cancel)?;
    let stays = total(&pruned.stayed);
    if let Some(limit) = args.max_size.filter(|limit| stays > *limit) {
        context.sink.warn(format!(
            "the cache keeps {}, more than {}: the rest has to stay",
            HumanBytes(stays),
            HumanBytes(limit)
        ));
    }
    match args.json {
        true => print_json(&shown.pruned_json(&pruned, args.dry_run)),
        false => print(&shown.pruned(&pruned, args)),
    }
}

/// All that the lock files name which are remembered and still there. One that cannot be read names what it named when
/// it was read last.
fn protected(store: &Store, context: &Context) -> Protected {
    let mut protected = Protected::new();
    for known in store.known_locks().into_iter().filter(|k| k.path.exists()) {
        let path = known.path.display();
        let (digests, images) = match LockFile::read(&known.path) {
            Ok(file) => {
                let digests = file.lock.digests();
                let digests: Vec<Digest> = digests.map(|(_, d)| d.clone()).collect();
                let images = file.lock.inputs.iter();
                let images = images.filter(|e| matches!(e.id, InputId::Image(_)));
                let images: Vec<Digest> = images.map(|e| e.digest.clone()).collect();
                (digests, images)
            }
            Err(_) => {
                context.sink.warn(format!(
                    "{path} cannot be read: what it named when a command last read it stays"
                ));
                (known.named.clone(), known.named.clone())
            }
        };
        // A lock names an image's manifest, and the manifest its parts.
        let manifests = images.iter().filter_map(|d| store.small(d, MANIFEST));
        let parts: Vec<Digest> = manifests.flat_map(|m| image::named(&m)).collect();
        for digest in digests.into_iter().chain(parts) {
            let words = || format!("{path} names it");
            protected.entry(digest).or_insert_with(words);
        }
    }
    protected
}

struct Shown {
    names: BTreeMap<Digest, BTreeSet<String>>,
    now: SystemTime,
}

impl Shown {
    fn new(store: &Store) -> Self {
        let mut names = store.names();
        for known in store.known_locks() {
            let Ok(file) = LockFile::read(&known.path) else {
                continue;
            };
            for entry in file.lock.inputs {
                let names = names.entry(entry.digest).or_default();
                names.insert(entry.id.to_string());
            }
        }
        Self {
            names,
            now: SystemTime::now(),
        }
    }

    /// What people call it.
    fn name(&self, item: &Item) -> String {
        let file = item.path.file_name().unwrap_or_default().to_string_lossy();
        match &item.thing {
            Thing::Layer(key, Some(record)) => {
                format!("{} after {}", short(key), record.after())
            }
            Thing::Layer(key, None) => short(key),
            Thing::Blob(digest) => self.called(digest),
            Thing::Tree(blob) => format!("of {}", self.called(blob)),
            Thing::Partial(Some(url)) => url.clone(),
            Thing::Bundle(_) | Thing::Partial(None) | Thing::Quarantined | Thing::Draft => {
                file.into_owned()
            }
        }
    }

    fn called(&self, digest: &Digest) -> String {
        let names = self.names.get(digest).into_iter().flatten();
        let names: Vec<&str> = names.map(String::as_str).collect();
        match names.is_empty() {
            true => digest.to_string(),
            false => format!("{} {}", names.join(", "), short(digest)),
        }
    }

    fn ago(&self, time: SystemTime) -> String {
        let ago = self.now.duration_since(time).unwrap_or_default();
        format!("{} ago", span(ago))
    }

    fn listing(&self, items: &[Item], folder: &str) -> String {
        let mut text = String::new();
        let layers: Vec<Vec<String>> = items.iter().filter_map(|i| self.layer(i)).collect();
        if !layers.is_empty() {
            let titles = [
                "layer", "after", "recipe", "size", "made", "used", "lies on",
            ];
            text += &table(&titles, &layers, &[3]);
            text.push('\n');
        }
        let others = items.iter().filter(|i| self.layer(i).is_none());
        let others: Vec<Vec<String>> = others
            .map(|item| {
                let used = match item.busy {
                    true => "now".into(),
                    false => self.ago(item.used),
                };
                let size = HumanBytes(item.size).to_string();
                vec![item.thing.kind().into(), self.name(item), size, used]
            })
            .collect();
        if !others.is_empty() {
            text += &table(&["kind", "name", "size", "used"], &others, &[2]);
            text.push('\n');
        }
        text + &format!("{folder}: {}\n", totals(items))
    }

    fn layer(&self, item: &Item) -> Option<Vec<String>> {
        let Thing::Layer(key, Some(record)) = &item.thing else {
            return None;
        };
        let parent = record.parent.as_ref().map(short);
        Some(vec![
            short(key),
            record.after().to_string(),
            record.recipe.clone(),
            HumanBytes(item.size).to_string(),
            self.ago(made(record)),
            self.ago(item.used),
            parent.unwrap_or_else(|| "-".into()),
        ])
    }

    fn pruned(&self, pruned: &Pruned, args: &cli::CachePrune) -> String {
        let rows = |items: &[(Item, String)]| -> Vec<Vec<String>> {
            let row = |(item, why): &(Item, String)| {
                let size = HumanBytes(item.size).to_string();
                vec![item.thing.kind().into(), self.name(item), size, why.clone()]
            };
            items.iter().map(row).collect()
        };
        let mut text = String::new();
        let removed = match args.dry_run {
            true => "would be removed",
            false => "removed",
        };
        for (title, items) in [(removed, &pruned.gone), ("kept", &pruned.stayed)] {
            if !items.is_empty() {
                text += &table(&[title, "name", "size", "why"], &rows(items), &[2]);
                text.push('\n');
            }
        }
        let freed = match args.dry_run {
            true => "would be free",
            false => "came free",
        };
        let (gone, stays) = (total(&pruned.gone), total(&pruned.stayed));
        text += &format!("{} {freed}, {} stay\n", HumanBytes(gone), HumanBytes(stays));
        if args.older_than.is_none() && args.max_size.is_none() {
            text += "only leftovers go without --older-than and --max-size\n";
        }
        text
    }

    fn pruned_json(&self, pruned: &Pruned, dry_run: bool) -> Value {
        let all = |items: &[(Item, String)]| -> Vec<Value> {
            let one = |(item, why): &(Item, String)| {
                let mut value = self.json(item);
                value["why"] = json!(why);
                value
            };
            items.iter().map(one).collect()
        };
        json!({
            "dry_run": dry_run,
            "removed": all(&pruned.gone),
            "kept": all(&pruned.stayed),
            "freed": total(&pruned.gone),
            "size": total(&pruned.stayed),
        })
    }

    fn json(&self, item: &Item) -> Value {
        let mut value = json!({
            "kind": item.thing.kind(),
            "path": item.path,
            "size": item.size,
            "used": moment(item.used),
            "in_use": item.busy,
        });
        match &item.thing {
            Thing::Layer(key, Some(record)) => {
                value["key"] = json!(key);
                value["after"] = json!(record.after());
                value["recipe"] = json!(record.recipe);
                value["made"] = json!(moment(made(record)));
                value["parent"] = json!(record.parent);
            }
            Thing::Layer(key, None) => value["key"] = json!(key),
            Thing::Blob(digest) | Thing::Tree(digest) => {
                value["digest"] = json!(digest);
                value["names"] = json!(self.names.get(digest).cloned().unwrap_or_default());
            }
            Thing::Partial(url) => value["url"] = json!(url),
            Thing::Draft | Thing::Bundle(_) | Thing::Quarantined => {}
        }
        value
    }
}

/// `2 layers 8.00 GiB, 14 files 1.20 GiB; 9.20 GiB in all`
fn totals(items: &[Item]) -> String {
    let mut kinds: Vec<(&str, usize, u64)> = Vec::new();
    for item in items {
        let kind = item.thing.kind();
        match kinds.iter_mut().find(|(k, ..)| *k == kind) {
            Some((_, number, size)) => {
                *number += 1;
                *size += item.size;
            }
            None => kinds.push((kind, 1, item.size)),
        }
    }
    let all = kinds.iter().map(|(kind, number, size)| {
        let s = if *number == 1 { "" } else { "s" };
        // What stands in quarantine is not counted in quarantines.
        let noun = match *kind {
            "quarantine" => "in quarantine".to_string(),
            kind => format!("{kind}{s}"),
        };
        format!("{number} {noun} {}", HumanBytes(*size))
    });
    let all: Vec<String> = all.collect();
    let sum: u64 = items.iter().map(|i| i.size).sum();
    match all.is_empty() {
        true => "empty".into(),
        false => format!("{}; {} in all", all.join(", "), HumanBytes(sum)),
    }
}

fn short(digest: &Digest) -> String {
    digest.hex()[..12].to_string()
}

fn made(record: &LayerRecord) -> SystemTime {
    let made = Timestamp::from_second(record.made).unwrap_or(Timestamp::UNIX_EPOCH);
    made.into()
}

/// As RFC 3339 has it, in whole seconds.
fn moment(time: SystemTime) -> Option<String> {
    let time = Timestamp::try_from(time).ok()?;
    let time = Timestamp::from_second(time.as_second()).ok()?;
    Some(time.to_string())
}
