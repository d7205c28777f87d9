//! What a row that ended well need not keep: its artifacts, and the layers that its build sealed. Records stay.

use std::fs;
use std::path::Path;

use serde_json::Value;
use winimg::record::BuildManifest;
use winimg_base::digest::Digest;

use crate::seen;
use crate::site::{Done, at};

/// # Errors
/// The manifest cannot be read, or a file not removed.
pub fn free(folder: &Path, layers: &Path) -> Done<()> {
    let output = folder.join("out");
    let manifest = BuildManifest::read(&output.join("manifest.json")).map_err(|e| e.to_string())?;
    for artifact in manifest.artifacts {
        let file = output.join(artifact.file);
        if file.starts_with(&output) && file.is_file() {
            at(&file, fs::remove_file(&file))?;
        }
    }
    let events = folder.join("build.jsonl");
    for key in sealed(&at(&events, fs::read_to_string(&events))?)
        .iter()
        .rev()
    {
        let layer = layers.join(key.hex());
        // Another row's may lie on it.
        if layer.is_dir() && !is_below(layers, key) {
            at(&layer, fs::remove_dir_all(&layer))?;
        }
    }
    Ok(())
}

/// The keys of the layers that builds sealed, each after those that it lies on.
fn sealed(events: &str) -> Vec<Digest> {
    let sealed = seen::each(events).filter(|event| event["event"] == "layer_sealed");
    let keys = sealed.filter_map(|event| event["key"].as_str()?.parse().ok());
    keys.collect()
}

/// Whether a layer that is there names this one as the one it lies on.
fn is_below(layers: &Path, key: &Digest) -> bool {
    let Ok(entries) = fs::read_dir(layers) else {
        return false;
    };
    let records = entries.flatten().filter_map(|entry| {
        let text = fs::read_to_string(entry.path().join("layer.json")).ok()?;
        serde_json::from_str::<Value>(&text).ok()
    });
    let key = key.to_string();
    records
        .map(|record| record["parent"].clone())
        .any(|parent| parent.as_str() == Some(&key))
}
