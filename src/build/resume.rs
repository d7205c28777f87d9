//! Where a build goes on: the longest beginning of its chain that a layer holds.

use std::sync::Arc;

use super::session::Notes;
use crate::error::Result;
use crate::event::{Cancel, Event, Sink};
use crate::plan::key;
use crate::store::{Chain, Kept, Layer, LayerRecord, Store};

/// The layer to go on from, and how many links of the chain it holds.
pub struct Resumed {
    pub layer: Layer,
    pub links: usize,
    pub notes: Notes,
}

/// Looks for the longest beginning; a damaged layer is told and passed over. `limit`: at most so many links.
pub fn find(
    store: &Store,
    chain: &Chain,
    limit: usize,
    sink: &Arc<dyn Sink>,
    cancel: &Cancel,
) -> Result<Option<Resumed>> {
    for (index, link) in chain.links().iter().enumerate().take(limit).rev() {
        match store.layer(&link.key, cancel)? {
            Kept::Layer(layer) => {
                let notes = serde_json::from_value::<Notes>(layer.record().notes.clone());
                // The manifest has to tell of every step: a layer that cannot is none.
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

/// Says from where the build goes on, and why not from further on.
pub fn tell(store: &Store, recipe: &str, chain: &Chain, from: Option<&Resumed>, sink: &dyn Sink) {
    let all = chain.links().len();
    let held = from.map_or(0, |resumed| resumed.links);
    if let Some(resumed) = from {
        let record = resumed.layer.record();
        sink.emit(&Event::LayerUsed {
            key: record.key.to_string(),
            after: record.after().into(),
            made: record.made,
            parts: held,
            of: all,
        });
    }
    if held < all {
        for reason in reasons(&store.layers(), recipe, chain) {
            sink.note(format!("      {reason}"));
        }
    }
}

/// Why the layers of an earlier build of this recipe do not serve any further.
pub fn reasons(layers: &[LayerRecord], recipe: &str, chain: &Chain) -> Vec<String> {
    let of_recipe = layers.iter().filter(|layer| layer.recipe == recipe);
    let nearest = of_recipe.max_by_key(|layer| {
        let common = key::common(&layer.links, chain.links());
        (common, layer.made, layer.links.len())
    });
    nearest.map_or_else(Vec::new, |layer| key::change(&layer.links, chain.links()))
}
