//! Predicts where a build would resume, for `plan` and `cache explain`.
//!
//! Starts and downloads nothing. If an input is not on this machine, the result is unknown.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{chain, inputs, media, resume};
use winimg_base::error::{Error, Result};
use winimg_base::event::{Cancel, SilentSink, Sink};
use winimg_machine::vm::HypervisorKind;
use winimg_recipe::Recipe;
use winimg_recipe::plan::{BuildChain, BuildPlan};
use winimg_supply::fetch::FetchOptions;
use winimg_supply::store::{LayerLookup, LayerRecord, Store};

pub enum Forecast {
    /// No layer matches, and the recipe has none except those in an outdated format.
    None {
        outdated: usize,
    },
    /// The recipe is missing values that the layer keys depend on.
    Undecided,
    /// Not all inputs are on this machine.
    Unknown(Error),
    Known(KnownForecast),
}

pub struct KnownForecast {
    chain: BuildChain,
    /// The intact layers for the chain's links.
    sealed: Vec<LayerRecord>,
    /// Reasons why no later layer matches.
    reasons: Vec<String>,
    /// Number of the recipe's layers in an outdated format.
    outdated: usize,
}

/// Predicts where a build on this platform would resume.
pub fn compute_forecast(
    recipe: &Recipe,
    plan: &BuildPlan,
    store: &Store,
    platform: HypervisorKind,
    cancel: &Cancel,
) -> Result<Forecast> {
    let layers = store.list_layer_records();
    let outdated = store.count_outdated_layers(&recipe.name.value);
    // Layers of a recipe with another name may match, too.
    let has_own = layers.iter().any(|layer| layer.recipe == recipe.name.value);
    if layers.is_empty() {
        return Ok(Forecast::None { outdated });
    }
    if !recipe.undecided.is_empty() {
        return Ok(if has_own {
            Forecast::Undecided
        } else {
            Forecast::None { outdated }
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
        if let LayerLookup::Layer(layer) = store.find_layer(&link.key, cancel)? {
            sealed.push(layer.record().clone());
        }
    }
    if sealed.is_empty() && !has_own {
        return Ok(Forecast::None { outdated });
    }
    let reasons = match sealed.last() {
        Some(last) if last.links.len() == chain.links().len() => Vec::new(),
        _ => resume::explain_stale(&layers, &recipe.name.value, &chain),
    };
    Ok(Forecast::Known(KnownForecast {
        chain,
        sealed,
        reasons,
        outdated,
    }))
}

fn chain_of(
    recipe: &Recipe,
    plan: &BuildPlan,
    store: &Store,
    platform: HypervisorKind,
    cancel: &Cancel,
) -> Result<BuildChain> {
    let sink: Arc<dyn Sink> = Arc::new(SilentSink);
    let options = FetchOptions {
        offline: true,
        ..FetchOptions::default()
    };
    let source = inputs::InputContext {
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
    chain::compute_chain(&source, &found, &media)
}

impl Forecast {
    /// Returns the number of parts that are in a layer, and of all parts; `None` if unknown.
    pub fn count_cached(&self) -> Option<(usize, usize)> {
        match self {
            Self::Known(known) => Some((known.count_cached(), known.chain.links().len())),
            Self::None { .. } | Self::Undecided | Self::Unknown(_) => None,
        }
    }

    /// Renders a short text, indented by two spaces.
    pub fn render_text(&self) -> String {
        match self {
            Self::None { outdated } => {
                "  none yet: the build installs Windows\n".to_string() + &left_over(*outdated)
            }
            Self::Undecided => "  unknown until all values are set\n".into(),
            Self::Unknown(error) => {
                format!("  unknown until the inputs are fetched: {}\n", error.fact())
            }
            Self::Known(known) => known.render_text(),
        }
    }

    /// Renders the state of every part of the build, indented by two spaces.
    pub fn explain(&self) -> String {
        match self {
            Self::Known(known) => known.render_rows() + &known.render_text(),
            other => other.render_text(),
        }
    }

    pub fn render_json(&self) -> Value {
        match self {
            Self::None { .. } => json!({ "state": "none" }),
            Self::Undecided => json!({ "state": "undecided" }),
            Self::Unknown(error) => json!({ "state": "unknown", "why": error.to_string() }),
            Self::Known(known) => json!({
                "state": "known",
                "parts": known.chain.links().len(),
                "held": known.count_cached(),
                "from": known.sealed.last().map(|layer| json!({
                    "key": layer.key, "after": layer.last_link_name(), "made": layer.made,
                })),
                "reasons": known.reasons,
            }),
        }
    }
}

fn left_over(outdated: usize) -> String {
    let words = resume::describe_outdated(outdated);
    words.map_or_else(String::new, |words| format!("  {words}\n"))
}

impl KnownForecast {
    /// Returns the number of parts that the build can skip.
    fn count_cached(&self) -> usize {
        self.sealed.last().map_or(0, |layer| layer.links.len())
    }

    fn render_text(&self) -> String {
        let all = self.chain.links().len();
        let mut text = match self.sealed.last() {
            None => {
                "  none is valid any longer: the build installs Windows\n".to_string()
                    + &left_over(self.outdated)
            }
            Some(_) if self.count_cached() == all => {
                "  the finished disk is cached: no VM is started\n".to_string()
            }
            Some(layer) => format!(
                "  the build resumes from the layer after {}: {} of {all} parts are done\n",
                layer.last_link_name(),
                self.count_cached()
            ),
        };
        for reason in &self.reasons {
            text += &format!("  {reason}\n");
        }
        text
    }

    /// ``  held    the installation (layer, 21 MiB)``
    fn render_rows(&self) -> String {
        let held = self.count_cached();
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
