//! Finds the layer that a build resumes from: the one that contains the longest prefix
//! of the build's chain.

use serde_json::Value;
use tracing::debug;

use super::session::BuildNotes;
use super::{BuildRequest, LayerPolicy};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Event, SilentSink, Sink};
use winimg_base::io::folder_of;
use winimg_recipe::plan::{BuildChain, BuildPlan, change};
use winimg_supply::store::{LayerLookup, LayerRecord, Store, StoredLayer};

/// The layer to resume from, and the number of the chain's links that it contains.
pub struct ResumePoint {
    pub layer: StoredLayer,
    pub links: usize,
    notes: BuildNotes,
}

impl ResumePoint {
    /// Returns the notes of the build that made the layer, with the step names and positions of the
    /// current plan.
    pub fn notes_for(&self, plan: &BuildPlan) -> BuildNotes {
        let mut notes = self.notes.clone();
        for (record, step) in notes.steps.iter_mut().zip(&plan.steps) {
            record.name.clone_from(&step.name);
            record.place = step.place.to_string();
        }
        notes
    }
}

/// Finds the layer that the build resumes from, and reports it.
pub fn from(request: &BuildRequest, chain: &BuildChain) -> Result<Option<ResumePoint>> {
    if request.layers == LayerPolicy::None || request.fresh {
        return Ok(None);
    }
    let (store, sink) = (request.store, request.sink.as_ref());
    // The layer must not contain a step that the build pauses before.
    let all = chain.links().len();
    let limit = request.pauses.find_first_stop(request.plan).unwrap_or(all);
    let mut found = find(store, chain, limit, sink, request.cancel)?;
    if let Some(remote) = &request.fetch.shared {
        let covered_links = found.as_ref().map_or(0, |resumed| resumed.links);
        let links = &chain.links()[..limit.min(all)];
        if remote.pull_longest(links, covered_links, store)? {
            found = find(store, chain, limit, sink, request.cancel)?;
        }
    }
    report(request, chain, found.as_ref());
    Ok(found)
}

/// Returns the error for `--from-cache` without a finished disk. `covered_links`: the number of
/// links that the longest layer contains.
pub fn report_unfinished(request: &BuildRequest, covered_links: usize, all: usize) -> Error {
    let found = match request.layers {
        LayerPolicy::None => "--layers none ignores all layers".into(),
        _ => format!("{covered_links} of {all} parts are done"),
    };
    let fact = "the finished disk is not cached, and --from-cache does not build it";
    Error::new(Kind::Recipe, fact)
        .at(format!("the recipe {}", request.recipe.name.value))
        .found(found)
        .cure(
            "build it once without --from-cache; to share it, add \
             --cache-push=required",
        )
}

/// Finds the layer with the longest prefix of at most `limit` links. Skips damaged layers with a
/// warning.
fn find(
    store: &Store,
    chain: &BuildChain,
    limit: usize,
    sink: &dyn Sink,
    cancel: &Cancel,
) -> Result<Option<ResumePoint>> {
    for (index, link) in chain.links().iter().enumerate().take(limit).rev() {
        let kept = store.find_layer(&link.key, cancel)?;
        debug!(part = link.name, key = %link.key, found = kept.label(), "looked for a layer");
        match kept {
            LayerLookup::Layer(layer) => match read_notes(&layer.record().notes, index) {
                Ok(notes) => {
                    return Ok(Some(ResumePoint {
                        layer: *layer,
                        links: index + 1,
                        notes,
                    }));
                }
                Err(why) => sink.warn(format!(
                    "the notes of the layer {} are unreadable: {why}\n  ignoring this layer",
                    folder_of(&layer.disk_path()).display()
                )),
            },
            LayerLookup::Damaged(error) => sink.warn(format!("{error}\n  ignoring this layer")),
            LayerLookup::Nothing => {}
        }
    }
    Ok(None)
}

/// Returns the notes of the build that made the layer. The manifest lists every step, so a layer
/// needs notes about all of them.
fn read_notes(notes: &Value, steps: usize) -> std::result::Result<BuildNotes, String> {
    let notes: BuildNotes = serde_json::from_value(notes.clone()).map_err(|e| e.to_string())?;
    match notes.steps.len() {
        found if found == steps => Ok(notes),
        found => Err(format!("they are about {found} steps instead of {steps}")),
    }
}

/// Reports the layer that the build resumes from, and why later layers are stale.
fn report(request: &BuildRequest, chain: &BuildChain, from: Option<&ResumePoint>) {
    let (store, recipe, sink) = (
        request.store,
        request.recipe.name.value.as_str(),
        request.sink,
    );
    let all = chain.links().len();
    let covered_links = from.map_or(0, |resumed| resumed.links);
    if let Some(resumed) = from {
        let record = resumed.layer.record();
        sink.emit(&Event::LayerUsed {
            key: record.key.clone(),
            after: record.last_link_name().into(),
            made: record.made,
            parts: covered_links,
            of: all,
        });
    }
    if covered_links < all {
        let mut reasons = explain_stale(&store.list_layer_records(), recipe, chain);
        if covered_links == 0 {
            reasons.extend(describe_outdated(store.count_outdated_layers(recipe)));
        }
        if !reasons.is_empty() {
            sink.emit(&Event::LayersStale { reasons });
        }
    }
}

/// Describes layers that an earlier version of winimg sealed.
pub fn describe_outdated(layers: usize) -> Option<String> {
    let which = match layers {
        0 => return None,
        1 => "1 layer in the cache has".to_string(),
        n => format!("{n} layers in the cache have"),
    };
    Some(format!(
        "{which} the format of an earlier version of winimg and cannot be used: \
         remove them with `winimg cache prune --older-than AGE`"
    ))
}

/// Describes where the next build would resume after this one failed. Empty if the layers cannot be
/// read.
pub fn next(request: &BuildRequest, chain: &BuildChain) -> String {
    if request.layers == LayerPolicy::None {
        return "the next build starts from the beginning: --layers none seals no layer".into();
    }
    let all = chain.links().len();
    // Silent: the next build itself warns about a damaged layer.
    let Ok(found) = find(request.store, chain, all, &SilentSink, request.cancel) else {
        return String::new();
    };
    let build = if request.fresh {
        "the next build without --fresh"
    } else {
        "the next build"
    };
    match found {
        None => format!("{build} starts from the beginning: no layer is sealed yet"),
        Some(ResumePoint { links, .. }) if links == all => {
            format!("{build} resumes from the finished disk: no VM is started")
        }
        Some(ResumePoint { layer, links, .. }) => {
            let after = layer.record().last_link_name();
            format!("{build} resumes from the layer after {after}: {links} of {all} parts are done")
        }
    }
}

/// Explains why the layers of this recipe's earlier builds no longer match.
pub fn explain_stale(layers: &[LayerRecord], recipe: &str, chain: &BuildChain) -> Vec<String> {
    let of_recipe = layers.iter().filter(|layer| layer.recipe == recipe);
    let nearest = of_recipe.max_by_key(|layer| {
        let common = change::count_common(&layer.links, chain.links());
        (common, layer.made, layer.links.len())
    });
    nearest.map_or_else(Vec::new, |layer| {
        change::describe_change(&layer.links, chain.links())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_layer_without_notes_about_every_step_is_not_used() {
        let notes = json!({"probe": null, "steps": [], "depth": 1, "warnings": []});
        assert!(read_notes(&notes, 0).is_ok());
        let too_few = "they are about 0 steps instead of 2";
        assert_eq!(read_notes(&notes, 2).err().as_deref(), Some(too_few));
        let unreadable = read_notes(&json!({"steps": 1}), 0).err();
        assert!(unreadable.is_some_and(|why| why.contains("invalid type")));
    }
}
