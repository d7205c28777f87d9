//! From where a build would resume, without starting anything: for `plan` and `cache explain`.
//!
//! Looks at what is on this machine; fetches nothing. An input that is not here leaves the rest unknown.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{chain, inputs, media, resume};
use winimg_base::error::{Error, Result};
use winimg_base::event::{Cancel, Silent, Sink};
use winimg_machine::vm::Platform;
use winimg_recipe::plan::{Chain, Plan};
use winimg_recipe::recipe::Recipe;
use winimg_supply::fetch::FetchOptions;
use winimg_supply::store::{Kept, LayerRecord, Store};

pub enum Forecast {
    /// No layer serves, and none of a recipe of this name is here, but for so many in the format of an earlier version.
    None {
        outdated: usize,
    },
    /// The recipe leaves open what a layer's key is made from.
    Undecided,
    /// The inputs are not all here: why.
    Unknown(Error),
    Known(Known),
}

pub struct Known {
    chain: Chain,
    /// Of the links, those whose layer is here, whole.
    sealed: Vec<LayerRecord>,
    /// Why no later layer serves.
    reasons: Vec<String>,
    /// Layers of the recipe in the format of an earlier version.
    outdated: usize,
}

/// What a build on this platform would find.
pub fn forecast(
    recipe: &Recipe,
    plan: &Plan,
    store: &Store,
    platform: Platform,
    cancel: &Cancel,
) -> Result<Forecast> {
    let layers = store.layers();
    let outdated = store.outdated_layers(&recipe.name.value);
    // A recipe of another name may have made layers that serve this one.
    let has_own = layers.iter().any(|layer| layer.recipe == recipe.name.value);
    if layers.is_empty() {
        return Ok(Forecast::None { outdated });
    }
    if !recipe.undecided.is_empty() {
        return Ok(match has_own {
            true => Forecast::Undecided,
            false => Forecast::None { outdated },
        });
    }
    let chain = match chain_of(recipe, plan, store, platform, cancel) {
        Ok(chain) => chain,
        Err(error) if cancel.is_cancelled() => return Err(error),
        Err(_) if !has_own => return Ok(Forecast::None { outdated }),
        Err(error) => return Ok(Forecast::Unknown(error)),
    };
    let mut sealed = Vec::new();
    for link in chain.links() {
        if let Kept::Layer(layer) = store.layer(&link.key, cancel)? {
            sealed.push(layer.record().clone());
        }
    }
    if sealed.is_empty() && !has_own {
        return Ok(Forecast::None { outdated });
    }
    let reasons = match sealed.last() {
        Some(last) if last.links.len() == chain.links().len() => Vec::new(),
        _ => resume::reasons(&layers, &recipe.name.value, &chain),
    };
    Ok(Forecast::Known(Known {
        chain,
        sealed,
        reasons,
        outdated,
    }))
}

fn chain_of(
    recipe: &Recipe,
    plan: &Plan,
    store: &Store,
    platform: Platform,
    cancel: &Cancel,
) -> Result<Chain> {
    let sink: Arc<dyn Sink> = Arc::new(Silent);
    let options = FetchOptions {
        offline: true,
        ..FetchOptions::default()
    };
    let source = inputs::Source {
        recipe,
        plan,
        store,
        options: &options,
        platform,
        sink: &sink,
        cancel,
    };
    let mut found = inputs::fetch(&source)?;
    let media = media::read(&source, &found)?;
    inputs::fetch_images(&mut found, &source, &media.base_build())?;
    chain::of(&source, &found, &media)
}

impl Forecast {
    /// How many parts of the build a layer holds, of how many; `None` where that is not known.
    pub fn held(&self) -> Option<(usize, usize)> {
        match self {
            Self::Known(known) => Some((known.held(), known.chain.links().len())),
            Self::None { .. } | Self::Undecided | Self::Unknown(_) => None,
        }
    }

    /// A few lines for people, two blanks before each.
    pub fn text(&self) -> String {
        match self {
            Self::None { outdated } => {
                "  none yet: the build installs Windows\n".to_string() + &left_over(*outdated)
            }
            Self::Undecided => "  not known before everything is decided\n".into(),
            Self::Unknown(error) => {
                format!(
                    "  not known before the inputs are fetched: {}\n",
                    error.fact()
                )
            }
            Self::Known(known) => known.text(),
        }
    }

    /// Every part of the build and what becomes of it, two blanks before each line.
    pub fn explanation(&self) -> String {
        match self {
            Self::Known(known) => known.rows() + &known.text(),
            other => other.text(),
        }
    }

    pub fn json(&self) -> Value {
        match self {
            Self::None { .. } => json!({ "state": "none" }),
            Self::Undecided => json!({ "state": "undecided" }),
            Self::Unknown(error) => json!({ "state": "unknown", "why": error.to_string() }),
            Self::Known(known) => json!({
                "state": "known",
                "parts": known.chain.links().len(),
                "held": known.held(),
                "from": known.sealed.last().map(|layer| json!({
                    "key": layer.key, "after": layer.after(), "made": layer.made,
                })),
                "reasons": known.reasons,
            }),
        }
    }
}

fn left_over(outdated: usize) -> String {
    let words = resume::outdated(outdated);
    words.map_or_else(String::new, |words| format!("  {words}\n"))
}

impl Known {
    /// How many parts the build does not do again.
    fn held(&self) -> usize {
        self.sealed.last().map_or(0, |layer| layer.links.len())
    }

    fn text(&self) -> String {
        let all = self.chain.links().len();
        let mut text = match self.sealed.last() {
            None => {
                "  none is valid any more: the build installs Windows\n".to_string()
                    + &left_over(self.outdated)
            }
            Some(_) if self.held() == all => {
                "  the finished disk is here: no machine is started\n".to_string()
            }
            Some(layer) => format!(
                "  the build resumes from the layer after {}: {} of {all} parts are done\n",
                layer.after(),
                self.held()
            ),
        };
        for reason in &self.reasons {
            text += &format!("  {reason}\n");
        }
        text
    }

    /// ``  held    the installation (layer, 21 MiB)``
    fn rows(&self) -> String {
        let held = self.held();
        let mut text = String::new();
        for (index, link) in self.chain.links().iter().enumerate() {
            let state = match index {
                _ if index < held => "held ",
                _ if index == held => "stale",
                _ => "after",
            };
            let layer = self.sealed.iter().find(|layer| layer.key == link.key);
            let size = layer.map(|layer| indicatif::HumanBytes(layer.size()));
            let size = size.map_or_else(String::new, |size| format!(" (layer, {size})"));
            text += &format!("  {state}  {}{size}\n", link.name);
        }
        text
    }
}
