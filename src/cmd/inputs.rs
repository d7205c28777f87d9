//! Every input of a recipe: fetched, or as the cache has it. For `lock`, `fetch`, `bundle` and `plan`.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::engine::inputs::{needed, together};
use crate::engine::windows_build;
use winimg_base::diag::Diagnostic;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::{column_width, redact};
use winimg_formats::archive;
use winimg_machine::vm::Platform;
use winimg_recipe::lock::Found;
use winimg_recipe::plan::Plan;
use winimg_recipe::recipe::{
    Address, ContainerImage, Input, InputId, InputSource, Mirrors, ProofSpec, Recipe,
};
use winimg_supply::fetch::{self, CameFrom, FetchOptions, image::Image};
use winimg_supply::store::{Blob, Store};

use super::Context;

/// An input that is in the cache now, and proved.
pub struct Fetched {
    pub id: InputId,
    pub found: Found,
    pub from: CameFrom,
    /// The file itself; of a container image its index, manifest, configuration and layers.
    pub blobs: Vec<Blob>,
}

/// Fetches the inputs that `wanted` names, with every proof that the recipe asks for; in the recipe's order.
pub fn fetch(
    recipe: &Recipe,
    wanted: &dyn Fn(&InputId) -> bool,
    store: &Store,
    context: &Context,
    options: &FetchOptions,
) -> Result<Vec<Fetched>> {
    let images = recipe.inputs().filter(|input| wanted(&input.id));
    let images = images.filter_map(|input| match input.source {
        InputSource::Image(image) => Some(image.clone()),
        InputSource::Medium(_) | InputSource::Component(_) => None,
    });
    let images: Vec<ContainerImage> = images.collect();
    // An image without a build of its own takes the medium's.
    let needs_build = images.iter().any(|image| image.os_version.is_none());
    let requests: Vec<fetch::Request> = requests(recipe)
        .into_iter()
        .filter(|r| wanted(&r.id) || (needs_build && r.id == InputId::Iso))
        .collect();
    let ids: Vec<InputId> = requests.iter().map(|r| r.id.clone()).collect();
    let (sink, cancel) = (&context.sink, &context.cancel);
    let fetched =
        fetch::fetch(requests, store, Arc::clone(sink), cancel, options).map_err(together)?;
    let mut build = String::new();
    let mut all = Vec::new();
    let archives = ids.iter().zip(&fetched).filter(|(id, _)| wanted(id));
    let unreadable: Vec<Error> = archives
        .filter_map(|(id, fetched)| unpackable(recipe, id, &fetched.blob).err())
        .collect();
    if !unreadable.is_empty() {
        return Err(together(unreadable));
    }
    for (id, fetched) in ids.into_iter().zip(fetched) {
        if id == InputId::Iso && needs_build {
            build = windows_build(fetched.blob.path(), recipe)?;
        }
        if wanted(&id) {
            all.push(one(id, fetched));
        }
    }
    let images = fetch::image::images(&images, &build, store, sink, cancel, options)?;
    all.extend(images.into_iter().map(container_image));
    Ok(all)
}

/// Refuses an archive that a build could not unpack.
fn unpackable(recipe: &Recipe, id: &InputId, blob: &Blob) -> Result<()> {
    let Some(InputSource::Component(component)) = recipe.input(id).map(|input| input.source) else {
        return Ok(());
    };
    let Some(format) = component.unpack else {
        return Ok(());
    };
    let packed = archive::Packed {
        file: blob.path(),
        format: format.into(),
        name: &component.name.value,
    };
    let listed = archive::list(&packed, &archive::Limits::default());
    listed
        .map(|_| ())
        .map_err(|error| error.from_place(&component.origin.url.place))
}

/// The media and every component, those that no step uses too.
pub fn requests(recipe: &Recipe) -> Vec<fetch::Request> {
    let inputs = recipe.inputs();
    inputs.filter_map(|i| fetch::Request::of(&i)).collect()
}

fn one(id: InputId, fetched: fetch::Fetched) -> Fetched {
    let fetch::Fetched { blob, from } = fetched;
    Fetched {
        id,
        found: Found {
            size: blob.size(),
            digest: blob.digest().clone(),
            signers: blob.signers().to_vec(),
            evidence: blob.evidence().clone(),
        },
        from,
        blobs: vec![blob],
    }
}

fn container_image(image: Image) -> Fetched {
    let id = InputId::Image(image.name.clone());
    let (size, from) = (image.size(), image.from());
    let (top, manifest) = (image.top.blob, image.manifest.blob);
    let mut found = Found {
        size,
        digest: manifest.digest().clone(),
        signers: Vec::new(),
        evidence: Default::default(),
    };
    let mut blobs = Vec::new();
    if top.digest() != manifest.digest() {
        found.evidence.insert(image.reference, top.digest().clone());
        blobs.push(top);
    }
    blobs.push(manifest);
    blobs.extend(image.parts.into_iter().map(|part| part.blob));
    Fetched {
        from,
        id,
        found,
        blobs,
    }
}

/// What is known of an input before anything is fetched.
pub struct State {
    id: InputId,
    locked: Option<Digest>,
    cache: Cache,
    mirrored: Option<Mirrored>,
}

/// Both addresses, without secrets.
struct Mirrored {
    url: String,
    mirror: String,
}

enum Cache {
    Held,
    Lacking,
    Local,
    /// It is a local file's path, and there is none.
    Absent(PathBuf),
    /// No digest names it before it is asked for.
    Unknown,
    /// Nothing proves it yet.
    Undecided,
}

impl State {
    pub fn json(&self) -> Value {
        let cache = match self.cache {
            Cache::Held => "cached",
            Cache::Lacking => "missing",
            Cache::Local => "local",
            Cache::Absent(_) => "absent",
            Cache::Unknown => "unknown",
            Cache::Undecided => "undecided",
        };
        let mut value = json!({ "name": self.id, "locked": self.locked, "cache": cache });
        if let Some(Mirrored { url, mirror }) = &self.mirrored {
            value["url"] = json!(url);
            value["mirror"] = json!(mirror);
        }
        value
    }
}

/// The state of each input, in the recipe's order. The cache is looked at, not changed.
pub fn states(recipe: &Recipe, context: &Context) -> Vec<State> {
    let holds = held(context);
    let mirrors = context.mirrors(recipe);
    let cache = |digest: Option<&Digest>| match digest {
        Some(digest) if holds(digest) => Cache::Held,
        Some(_) => Cache::Lacking,
        None => Cache::Unknown,
    };
    let state = |input: Input<'_>| {
        let locked = input.locked();
        let known = cache(locked.or(input.pinned()));
        let cache = match input.origin().map(|o| (&o.proof, &o.url.value)) {
            Some((ProofSpec::Undecided(_), _)) => Cache::Undecided,
            Some((_, Address::Local(path))) if path.is_file() => Cache::Local,
            // Only a lock lets its bytes come from the cache.
            Some((_, Address::Local(_))) if locked.is_some_and(&holds) => Cache::Held,
            Some((_, Address::Local(path))) => Cache::Absent(path.clone()),
            _ => known,
        };
        State {
            locked: locked.cloned(),
            mirrored: mirrored(&input, &mirrors),
            id: input.id,
            cache,
        }
    };
    recipe.inputs().map(state).collect()
}

/// Where the input is fetched from instead, by the rules.
fn mirrored(input: &Input<'_>, mirrors: &Mirrors) -> Option<Mirrored> {
    let (url, mirror) = match input.source {
        InputSource::Image(image) => {
            let reference = &image.reference.value;
            (reference.to_string(), mirrors.image(reference)?.to_string())
        }
        _ => match &input.origin()?.url.value {
            address @ Address::Remote(url) => (address.to_string(), mirrors.url(url)?.to_string()),
            Address::Local(_) => return None,
        },
    };
    Some(Mirrored {
        url,
        mirror: redact(&mirror),
    })
}

/// Whether the cache holds what has a digest, as far as there is a cache already.
pub fn held(context: &Context) -> impl Fn(&Digest) -> bool + use<> {
    let folder = context.cache_folder().ok().filter(|f| f.is_dir());
    let store = folder.and_then(|folder| Store::open(&folder).ok());
    move |digest| store.as_ref().is_some_and(|store| store.holds(digest))
}

/// A complaint for each local file that a build on this platform needs and that is not there. What a lock names may be in the
/// cache instead: a bundle brings it so.
pub fn absent(
    recipe: &Recipe,
    plan: &Plan,
    platform: Option<Platform>,
    context: &Context,
) -> Vec<Diagnostic> {
    let holds = held(context);
    needed(recipe, plan, platform)
        .filter_map(|input| {
            let origin = input.origin()?;
            let Address::Local(path) = &origin.url.value else {
                return None;
            };
            if path.is_file() || input.locked().is_some_and(&holds) {
                return None;
            }
            let whole = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            let what = input.id.described();
            let fact = format!("there is no file {} for {what}", whole.display());
            let diagnostic = Diagnostic::error(fact).at(&origin.url.place, "a local path");
            Some(
                diagnostic
                    .help("give the path of the file, or an address that begins with https://"),
            )
        })
        .collect()
}

/// A line for each input, for people.
pub fn rendered(states: &[State]) -> String {
    let names = states.iter().map(|s| s.id.to_string().chars().count());
    let width = column_width(names);
    let line = |state: &State| {
        let cache: String = match &state.cache {
            Cache::Held => "in the cache".into(),
            Cache::Lacking => "not in the cache: the build fetches it".into(),
            Cache::Local => "a local file".into(),
            Cache::Absent(path) => format!("there is no file {}", path.display()),
            Cache::Unknown => "fetched in each build: no digest is known".into(),
            Cache::Undecided => "no proof yet: see the end of the plan".into(),
        };
        let locked = match &state.locked {
            Some(digest) => format!("locked {digest}, "),
            None => "not locked, ".into(),
        };
        let mirrored = state
            .mirrored
            .as_ref()
            .map(|m| format!("  {:width$}  from {} instead of {}\n", "", m.mirror, m.url));
        let mirrored = mirrored.unwrap_or_default();
        format!(
            "  {:width$}  {locked}{cache}\n{mirrored}",
            state.id.to_string()
        )
    };
    states.iter().map(line).collect()
}

/// Rows under their titles; the columns of `right` are set to the right.
pub fn table(titles: &[&str], rows: &[Vec<String>], right: &[usize]) -> String {
    let titles: Vec<String> = titles.iter().map(|t| t.to_string()).collect();
    let rows: Vec<&Vec<String>> = std::iter::once(&titles).chain(rows).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        column_width(cells.map(|c| c.chars().count()))
    };
    let widths: Vec<usize> = (0..titles.len()).map(width).collect();
    let line = |row: &&Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(n, (cell, &width))| match right.contains(&n) {
            true => format!("{cell:>width$}"),
            false => format!("{cell:width$}"),
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        format!("{}\n", line.trim_end())
    };
    rows.iter().map(line).collect()
}

/// The input that the command line names; an image may be named without `image`, where no component is called so.
pub fn named(recipe: &Recipe, name: &str) -> Result<InputId> {
    let given = name.parse().ok();
    let mut both = given.into_iter().chain([InputId::Image(name.into())]);
    let found = both.find(|id| recipe.input(id).is_some());
    found.ok_or_else(|| {
        let names: Vec<String> = recipe.inputs().map(|i| i.id.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Error::new(Kind::Recipe, format!("the recipe has no input `{name}`"))
            .cure(winimg_base::diag::suggestion(name, &names, "inputs"))
    })
}
