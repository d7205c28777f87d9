//! `winimg cache`: lists, explains and prunes the store.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use indicatif::HumanBytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cli;
use crate::engine::forecast::compute_forecast;
use winimg_base::digest::Digest;
use winimg_base::error::Result;
use winimg_recipe::InputId;
use winimg_recipe::lock::LockFile;
use winimg_supply::fetch::image;
use winimg_supply::store::{
    LayerRecord, ProtectedFiles, PruneLimits, PruneReport, Store, StoreItem, StoreItemKind,
    format_span, sum_sizes,
};

use super::recipe::{self, RecipePurpose};
use super::{CommandContext, hypervisor, open_store, print, print_json};
use crate::report::render_table;

/// Maximum size of a container image's manifest, in bytes.
const MANIFEST: u64 = 4 << 20;

pub fn run(command: &cli::CacheCommand, context: &CommandContext) -> Result<()> {
    match command {
        cli::CacheCommand::Ls(args) => list(args, context),
        cli::CacheCommand::Explain(args) => explain(args, context),
        cli::CacheCommand::Prune(args) => prune(args, context),
    }
}

fn list(args: &cli::CacheLsArgs, context: &CommandContext) -> Result<()> {
    let store = open_store(context)?;
    let shown = CacheListing::new(&store);
    let items = store.list_items();
    if !args.json {
        return print(&shown.render_listing(&items, &store.folder().display().to_string()));
    }
    print_json(&json!({
        "folder": store.folder(),
        "size": items.iter().map(|i| i.size).sum::<u64>(),
        "items": items.iter().map(|i| shown.render_json(i)).collect::<Vec<_>>(),
    }))
}

fn explain(args: &cli::CacheExplainArgs, context: &CommandContext) -> Result<()> {
    let opened = recipe::open(&args.recipe, &args.lock, RecipePurpose::Explain, context)?;
    let store = open_store(context)?;
    let forecast = compute_forecast(
        &opened.recipe,
        &opened.plan,
        &store,
        hypervisor::choose_platform(&args.hypervisor, context)?,
        &context.cancel,
    )?;
    if args.json {
        print_json(&forecast.render_json())
    } else {
        print(&forecast.explain())
    }
}

fn prune(args: &cli::CachePruneArgs, context: &CommandContext) -> Result<()> {
    let store = open_store(context)?;
    if !args.dry_run {
        store.remove_leftover_drafts(context.sink.as_ref())?;
    }
    let limits = PruneLimits {
        older_than: args.older_than,
        max_size: args.max_size,
    };
    let shown = CacheListing::new(&store);
    let pruned = store.prune(
        limits,
        &|| collect_protected(&store, context),
        args.dry_run,
        &context.cancel,
    )?;
    let stays = sum_sizes(&pruned.stayed);
    if let Some(limit) = args.max_size.filter(|limit| stays > *limit) {
        context.sink.warn(format!(
            "the cache keeps {}, more than {}: the rest is in use or named by a lock",
            HumanBytes(stays),
            HumanBytes(limit)
        ));
    }
    if args.json {
        print_json(&shown.render_pruned_json(&pruned, args.dry_run))
    } else {
        print(&shown.render_pruned(&pruned, args))
    }
}

/// Collects the blobs named by all known lock files that still exist. For an unreadable lock, uses
/// what it named when it was last read.
fn collect_protected(store: &Store, context: &CommandContext) -> ProtectedFiles {
    let mut protected = ProtectedFiles::new();
    for known in store.known_locks().into_iter().filter(|k| k.path.exists()) {
        let path = known.path.display();
        let (digests, images) = match LockFile::read(&known.path) {
            Ok(file) => {
                let digests: Vec<Digest> = file.lock.digests().map(|(_, d)| d.clone()).collect();
                let images: Vec<Digest> = file
                    .lock
                    .inputs
                    .iter()
                    .filter(|e| matches!(e.id, InputId::Image(_)))
                    .map(|e| e.digest.clone())
                    .collect();
                (digests, images)
            }
            Err(_) => {
                context.sink.warn(format!(
                    "{path} cannot be read: keeping the files that it named when it was last read"
                ));
                (known.named.clone(), known.named.clone())
            }
        };
        // A lock names an image's manifest, and the manifest its parts.
        let parts: Vec<Digest> = images
            .iter()
            .filter_map(|d| store.read_small_blob(d, MANIFEST))
            .flat_map(|m| image::list_digests(&m))
            .collect();
        for digest in digests.into_iter().chain(parts) {
            protected
                .entry(digest)
                .or_insert_with(|| format!("{path} names it"));
        }
    }
    protected
}

struct CacheListing {
    names: BTreeMap<Digest, BTreeSet<String>>,
    now: SystemTime,
}

impl CacheListing {
    fn new(store: &Store) -> Self {
        let mut names = store.list_names();
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

    /// Returns the display name of an item.
    fn name(&self, item: &StoreItem) -> String {
        let file = item.path.file_name().unwrap_or_default().to_string_lossy();
        match &item.thing {
            StoreItemKind::Layer(key, Some(record)) => {
                format!("{} after {}", truncate_digest(key), record.last_link_name())
            }
            StoreItemKind::Layer(key, None) => truncate_digest(key),
            StoreItemKind::Blob(digest) => self.name_digest(digest),
            StoreItemKind::Tree(blob) => format!("of {}", self.name_digest(blob)),
            StoreItemKind::Partial(Some(url)) => url.clone(),
            StoreItemKind::Bundle(_)
            | StoreItemKind::Partial(None)
            | StoreItemKind::Quarantined
            | StoreItemKind::Draft => file.into_owned(),
        }
    }

    fn name_digest(&self, digest: &Digest) -> String {
        let names: Vec<&str> = self
            .names
            .get(digest)
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect();
        if names.is_empty() {
            digest.to_string()
        } else {
            format!("{} {}", names.join(", "), truncate_digest(digest))
        }
    }

    fn format_age(&self, time: SystemTime) -> String {
        let ago = self.now.duration_since(time).unwrap_or_default();
        format!("{} ago", format_span(ago))
    }

    fn render_listing(&self, items: &[StoreItem], folder: &str) -> String {
        let mut text = String::new();
        let layers: Vec<Vec<String>> = items.iter().filter_map(|i| self.render_layer(i)).collect();
        if !layers.is_empty() {
            let titles = [
                "layer", "after", "recipe", "size", "made", "used", "based on",
            ];
            text += &render_table(&titles, &layers, &[3]);
            text.push('\n');
        }
        let others: Vec<Vec<String>> = items
            .iter()
            .filter(|i| self.render_layer(i).is_none())
            .map(|item| {
                let used = if item.busy {
                    "now".into()
                } else {
                    self.format_age(item.used)
                };
                let size = HumanBytes(item.size).to_string();
                vec![item.thing.label().into(), self.name(item), size, used]
            })
            .collect();
        if !others.is_empty() {
            text += &render_table(&["kind", "name", "size", "used"], &others, &[2]);
            text.push('\n');
        }
        text + &format!("{folder}: {}\n", render_totals(items))
    }

    fn render_layer(&self, item: &StoreItem) -> Option<Vec<String>> {
        let StoreItemKind::Layer(key, Some(record)) = &item.thing else {
            return None;
        };
        let parent = record.parent.as_ref().map(truncate_digest);
        Some(vec![
            truncate_digest(key),
            record.last_link_name().to_string(),
            record.recipe.clone(),
            HumanBytes(item.size).to_string(),
            self.format_age(to_system_time(record)),
            self.format_age(item.used),
            parent.unwrap_or_else(|| "-".into()),
        ])
    }

    fn render_pruned(&self, pruned: &PruneReport, args: &cli::CachePruneArgs) -> String {
        let mut text = String::new();
        let removed = if args.dry_run {
            "would be removed"
        } else {
            "removed"
        };
        for (title, items) in [(removed, &pruned.gone), ("kept", &pruned.stayed)] {
            if items.is_empty() {
                continue;
            }
            let rows: Vec<Vec<String>> = items
                .iter()
                .map(|(item, why)| {
                    let size = HumanBytes(item.size).to_string();
                    vec![
                        item.thing.label().into(),
                        self.name(item),
                        size,
                        why.clone(),
                    ]
                })
                .collect();
            text += &render_table(&[title, "name", "size", "why"], &rows, &[2]);
            text.push('\n');
        }
        let kept = HumanBytes(sum_sizes(&pruned.stayed));
        text += &if pruned.gone.is_empty() {
            format!("Nothing to remove, {kept} kept.")
        } else {
            let freed = if args.dry_run {
                "would be freed"
            } else {
                "freed"
            };
            format!(
                "{} {freed}, {kept} kept.",
                HumanBytes(sum_sizes(&pruned.gone))
            )
        };
        if args.older_than.is_none() && args.max_size.is_none() {
            text += " Use --older-than or --max-size to prune more.";
        }
        text.push('\n');
        text
    }

    fn render_pruned_json(&self, pruned: &PruneReport, dry_run: bool) -> Value {
        json!({
            "dry_run": dry_run,
            "removed": self.render_items_json(&pruned.gone),
            "kept": self.render_items_json(&pruned.stayed),
            "freed": sum_sizes(&pruned.gone),
            "size": sum_sizes(&pruned.stayed),
        })
    }

    fn render_items_json(&self, items: &[(StoreItem, String)]) -> Vec<Value> {
        items
            .iter()
            .map(|(item, why)| {
                let mut value = self.render_json(item);
                value["why"] = json!(why);
                value
            })
            .collect()
    }

    fn render_json(&self, item: &StoreItem) -> Value {
        let mut value = json!({
            "kind": item.thing.label(),
            "path": item.path,
            "size": item.size,
            "used": format_time(item.used),
            "in_use": item.busy,
        });
        match &item.thing {
            StoreItemKind::Layer(key, Some(record)) => {
                value["key"] = json!(key);
                value["after"] = json!(record.last_link_name());
                value["recipe"] = json!(record.recipe);
                value["made"] = json!(format_time(to_system_time(record)));
                value["parent"] = json!(record.parent);
            }
            StoreItemKind::Layer(key, None) => value["key"] = json!(key),
            StoreItemKind::Blob(digest) | StoreItemKind::Tree(digest) => {
                value["digest"] = json!(digest);
                value["names"] = json!(self.names.get(digest).cloned().unwrap_or_default());
            }
            StoreItemKind::Partial(url) => value["url"] = json!(url),
            StoreItemKind::Draft | StoreItemKind::Bundle(_) | StoreItemKind::Quarantined => {}
        }
        value
    }
}

/// `2 layers 8.00 GiB, 14 files 1.20 GiB; 9.20 GiB in total`
fn render_totals(items: &[StoreItem]) -> String {
    let mut kinds: Vec<(&str, usize, u64)> = Vec::new();
    for item in items {
        let kind = item.thing.label();
        match kinds.iter_mut().find(|(k, ..)| *k == kind) {
            Some((_, number, size)) => {
                *number += 1;
                *size += item.size;
            }
            None => kinds.push((kind, 1, item.size)),
        }
    }
    if kinds.is_empty() {
        return "empty".into();
    }
    let all: Vec<String> = kinds
        .iter()
        .map(|(kind, number, size)| {
            let s = if *number == 1 { "" } else { "s" };
            // "2 in quarantine", not "2 quarantines".
            let noun = match *kind {
                "quarantine" => "in quarantine".to_string(),
                kind => format!("{kind}{s}"),
            };
            format!("{number} {noun} {}", HumanBytes(*size))
        })
        .collect();
    let sum: u64 = items.iter().map(|i| i.size).sum();
    format!("{}; {} in total", all.join(", "), HumanBytes(sum))
}

fn truncate_digest(digest: &Digest) -> String {
    digest.hex()[..12].to_string()
}

fn to_system_time(record: &LayerRecord) -> SystemTime {
    Timestamp::from_second(record.made)
        .unwrap_or(Timestamp::UNIX_EPOCH)
        .into()
}

/// Formats a time as RFC 3339 in whole seconds.
fn format_time(time: SystemTime) -> Option<String> {
    let time = Timestamp::try_from(time).ok()?;
    let time = Timestamp::from_second(time.as_second()).ok()?;
    Some(time.to_string())
}
