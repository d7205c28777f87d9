//! Where a build resumes: the longest beginning of its chain that a layer holds.

use tracing::debug;

use super::session::Notes;
use super::{Layers, Request};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Event, Silent, Sink};
use winimg_recipe::plan::{Chain, Plan, change};
use winimg_supply::store::{Kept, Layer, LayerRecord, Store};

/// The layer to resume from, and how many links of the chain it holds.
pub struct Resumed {
    pub layer: Layer,
    pub links: usize,
    notes: Notes,
}

impl Resumed {
    /// What an earlier build noted of the parts that the layer holds. Names and lines are those of today's recipe.
    pub fn notes_for(&self, plan: &Plan) -> Notes {
        let mut notes = self.notes.clone();
        for (record, step) in notes.steps.iter_mut().zip(&plan.steps) {
            record.name.clone_from(&step.name);
            record.place = step.place.to_string();
        }
        notes
    }
}

/// The layer that the build resumes from; reports which.
pub fn from(request: &Request, chain: &Chain) -> Result<Option<Resumed>> {
    if request.layers == Layers::None || request.fresh {
        return Ok(None);
    }
    let (store, sink) = (request.store, request.sink.as_ref());
    // A step that the build is to stop before has to be before it.
    let all = chain.links().len();
    let limit = request.pauses.first_stop(request.plan).unwrap_or(all);
    let mut found = find(store, chain, limit, sink, request.cancel)?;
    if let Some(remote) = &request.fetch.shared {
        let held = found.as_ref().map_or(0, |resumed| resumed.links);
        let links = &chain.links()[..limit.min(all)];
        if remote.pull_longest(links, held, store)? {
            found = find(store, chain, limit, sink, request.cancel)?;
        }
    }
    report(request, chain, found.as_ref());
    Ok(found)
}

/// There is no finished disk, and no machine is to be started; so many parts of the chain are done.
pub fn unfinished(request: &Request, held: usize, all: usize) -> Error {
    let found = match request.layers {
        Layers::None => "--layers none looks for none".into(),
        _ => format!("{held} of {all} parts are done"),
    };
    let fact = "no cache has the finished disk, and --from-cache starts no machine";
    Error::new(Kind::Recipe, fact)
        .at(format!("the recipe {}", request.recipe.name.value))
        .found(found)
        .cure("build it without --from-cache; where several machines share a cache, with --cache-push=required")
}

/// Looks for the longest beginning; of a damaged layer it warns, and uses none. `limit`: at most so many links.
fn find(
    store: &Store,
    chain: &Chain,
    limit: usize,
    sink: &dyn Sink,
    cancel: &Cancel,
) -> Result<Option<Resumed>> {
    for (index, link) in chain.links().iter().enumerate().take(limit).rev() {
        let kept = store.layer(&link.key, cancel)?;
        debug!(part = link.name, key = %link.key, found = kept.word(), "a layer was looked for");
        match kept {
            Kept::Layer(layer) => {
                let notes = serde_json::from_value::<Notes>(layer.record().notes.clone());
                // The manifest lists every step: a layer without their notes is of no use.
                if let Ok(notes) = notes
                    && notes.steps.len() == index
                {
                    let links = index + 1;
                    return Ok(Some(Resumed {
                        layer: *layer,
                        links,
                        notes,
                    }));
                }
            }
            Kept::Damaged(error) => sink.warn(format!("{error}\n  it is not used")),
            Kept::Nothing => {}
        }
    }
    Ok(None)
}

/// Reports from where the build resumes, and why later layers are stale.
fn report(request: &Request, chain: &Chain, from: Option<&Resumed>) {
    let (store, recipe, sink) = (
        request.store,
        request.recipe.name.value.as_str(),
        request.sink,
    );
    let all = chain.links().len();
    let held = from.map_or(0, |resumed| resumed.links);
    if let Some(resumed) = from {
        let record = resumed.layer.record();
        sink.emit(&Event::LayerUsed {
            key: record.key.clone(),
            after: record.after().into(),
            made: record.made,
            parts: held,
            of: all,
        });
    }
    if held < all {
        let mut reasons = reasons(&store.layers(), recipe, chain);
        if held == 0 {
            reasons.extend(outdated(store.outdated_layers(recipe)));
        }
        if !reasons.is_empty() {
            sink.emit(&Event::LayersStale { reasons });
        }
    }
}

/// Describes layers that an earlier version sealed.
pub fn outdated(layers: usize) -> Option<String> {
    let which = match layers {
        0 => return None,
        1 => "1 layer in the cache is".to_string(),
        n => format!("{n} layers in the cache are"),
    };
    Some(format!(
        "{which} in the format of an earlier version of winimg and not used any more: `winimg cache prune` removes them in time"
    ))
}

/// From where this build, failed by now, would resume: from the layers that are there. Empty where they cannot be read.
pub fn next(request: &Request, chain: &Chain) -> String {
    if request.layers == Layers::None {
        return "the next build starts from the beginning: --layers none seals no layer".into();
    }
    let all = chain.links().len();
    // The build that would use a damaged layer warns of it.
    let Ok(found) = find(request.store, chain, all, &Silent, request.cancel) else {
        return String::new();
    };
    let build = match request.fresh {
        true => "the next build without --fresh",
        false => "the next build",
    };
    match found {
        None => format!("{build} starts from the beginning: no layer is sealed yet"),
        Some(Resumed { links, .. }) if links == all => {
            format!("{build} resumes from the finished disk: no VM is started")
        }
        Some(Resumed { layer, links, .. }) => {
            let after = layer.record().after();
            format!("{build} resumes from the layer after {after}: {links} of {all} parts are done")
        }
    }
}

/// Why the layers of an earlier build of this recipe do not serve any further.
pub fn reasons(layers: &[LayerRecord], recipe: &str, chain: &Chain) -> Vec<String> {
    let of_recipe = layers.iter().filter(|layer| layer.recipe == recipe);
    let nearest = of_recipe.max_by_key(|layer| {
        let common = change::common(&layer.links, chain.links());
        (common, layer.made, layer.links.len())
    });
    nearest.map_or_else(Vec::new, |layer| {
        change::change(&layer.links, chain.links())
    })
}
