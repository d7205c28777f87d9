//! Fetches a recipe's inputs or reports their cache state, for `lock`, `fetch`, `bundle` and
//! `plan`.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::engine::inputs::{merge_errors, select_inputs};
use crate::engine::windows_build;
use winimg_base::diag::Diagnostic;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::{column_width, redact};
use winimg_formats::archive;
use winimg_machine::vm::HypervisorKind;
use winimg_recipe::lock::ResolvedInput;
use winimg_recipe::plan::BuildPlan;
use winimg_recipe::{
    ContainerImage, FileAddress, InputId, InputSource, Mirrors, ProofSpec, Recipe, RecipeInput,
};
use winimg_supply::fetch::{self, FetchOptions, FetchSource, image::FetchedImage};
use winimg_supply::store::{Store, StoredBlob};

use super::CommandContext;

/// A verified input in the cache.
pub struct VerifiedInput {
    pub id: InputId,
    pub found: ResolvedInput,
    pub from: FetchSource,
    /// The file, or a container image's index, manifest, configuration and layers.
    pub blobs: Vec<StoredBlob>,
}

/// Fetches and verifies the inputs that `wanted` selects. Returns them in the recipe's order,
/// images last.
pub fn fetch(
    recipe: &Recipe,
    wanted: &dyn Fn(&InputId) -> bool,
    store: &Store,
    context: &CommandContext,
    options: &FetchOptions,
) -> Result<Vec<VerifiedInput>> {
    let images: Vec<ContainerImage> = recipe
        .inputs()
        .filter(|input| wanted(&input.id))
        .filter_map(|input| match input.source {
            InputSource::Image(image) => Some(image.clone()),
            InputSource::Medium(_) | InputSource::Component(_) => None,
        })
        .collect();
    // An image without its own Windows build uses the medium's.
    let needs_build = images.iter().any(|image| image.os_version.is_none());
    let requests: Vec<fetch::FetchRequest> = collect_requests(recipe)
        .into_iter()
        .filter(|r| wanted(&r.id) || (needs_build && r.id == InputId::Iso))
        .collect();
    let ids: Vec<InputId> = requests.iter().map(|r| r.id.clone()).collect();
    let (sink, cancel) = (&context.sink, &context.cancel);
    let fetched =
        fetch::fetch(requests, store, Arc::clone(sink), cancel, options).map_err(merge_errors)?;
    let mut build = String::new();
    let mut all = Vec::new();
    let unreadable: Vec<Error> = ids
        .iter()
        .zip(&fetched)
        .filter(|(id, _)| wanted(id))
        .filter_map(|(id, fetched)| check_archive(recipe, id, &fetched.blob).err())
        .collect();
    if !unreadable.is_empty() {
        return Err(merge_errors(unreadable));
    }
    for (id, fetched) in ids.into_iter().zip(fetched) {
        if id == InputId::Iso && needs_build {
            build = windows_build(fetched.blob.path(), recipe)?;
        }
        if wanted(&id) {
            all.push(convert_file(id, fetched));
        }
    }
    let images = fetch::image::fetch_images(&images, &build, store, sink, cancel, options)?;
    all.extend(images.into_iter().map(convert_image));
    Ok(all)
}

/// Fails if a build could not unpack the archive.
fn check_archive(recipe: &Recipe, id: &InputId, blob: &StoredBlob) -> Result<()> {
    let Some(InputSource::Component(component)) = recipe.find_input(id).map(|input| input.source)
    else {
        return Ok(());
    };
    let Some(format) = component.unpack else {
        return Ok(());
    };
    let packed = archive::ArchiveFile {
        file: blob.path(),
        format: format.into(),
        name: &component.name.value,
    };
    archive::list(&packed, &archive::UnpackLimits::default())
        .map(|_| ())
        .map_err(|error| error.or_place(&component.origin.url.place))
}

/// Returns requests for the media and all components, including unused ones.
pub fn collect_requests(recipe: &Recipe) -> Vec<fetch::FetchRequest> {
    recipe
        .inputs()
        .filter_map(|i| fetch::FetchRequest::from_input(&i))
        .collect()
}

fn convert_file(id: InputId, fetched: fetch::FetchedFile) -> VerifiedInput {
    let fetch::FetchedFile { blob, from } = fetched;
    VerifiedInput {
        id,
        found: ResolvedInput {
            size: blob.size(),
            digest: blob.digest().clone(),
            signers: blob.signers().to_vec(),
            evidence: blob.evidence().clone(),
        },
        from,
        blobs: vec![blob],
    }
}

fn convert_image(image: FetchedImage) -> VerifiedInput {
    let id = InputId::Image(image.name.clone());
    let (size, from) = (image.size(), image.from());
    let (top, manifest) = (image.top.blob, image.manifest.blob);
    let mut found = ResolvedInput {
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
    VerifiedInput {
        from,
        id,
        found,
        blobs,
    }
}

/// State of an input before fetching.
pub struct InputState {
    id: InputId,
    locked: Option<Digest>,
    cache: InputCacheState,
    mirrored: Option<MirroredUrl>,
}

/// Both URLs, without secrets.
struct MirroredUrl {
    url: String,
    mirror: String,
}

enum InputCacheState {
    Held,
    Lacking,
    Local,
    /// The local file does not exist.
    Absent(PathBuf),
    /// Its digest is unknown before it is fetched.
    Unknown,
    /// The recipe has neither a digest nor another proof for it.
    Undecided,
}

impl InputState {
    pub fn to_json(&self) -> Value {
        let cache = match self.cache {
            InputCacheState::Held => "cached",
            InputCacheState::Lacking => "missing",
            InputCacheState::Local => "local",
            InputCacheState::Absent(_) => "absent",
            InputCacheState::Unknown => "unknown",
            InputCacheState::Undecided => "undecided",
        };
        let mut value = json!({ "name": self.id, "locked": self.locked, "cache": cache });
        if let Some(MirroredUrl { url, mirror }) = &self.mirrored {
            value["url"] = json!(url);
            value["mirror"] = json!(mirror);
        }
        value
    }
}

/// Returns the state of each input, in the recipe's order. Does not change the cache.
pub fn collect_states(recipe: &Recipe, context: &CommandContext) -> Vec<InputState> {
    let holds = open_lookup(context);
    let mirrors = context.mirrors(recipe);
    recipe
        .inputs()
        .map(|input| InputState {
            locked: input.locked_digest().cloned(),
            mirrored: find_mirror(&input, &mirrors),
            cache: find_cache_state(&input, &holds),
            id: input.id,
        })
        .collect()
}

fn find_cache_state(input: &RecipeInput<'_>, holds: &impl Fn(&Digest) -> bool) -> InputCacheState {
    let locked = input.locked_digest();
    match input.origin().map(|o| (&o.proof, &o.url.value)) {
        Some((ProofSpec::Undecided(_), _)) => InputCacheState::Undecided,
        Some((_, FileAddress::Local(path))) if path.is_file() => InputCacheState::Local,
        // A local file may come from the cache only if a lock names it.
        Some((_, FileAddress::Local(_))) if locked.is_some_and(holds) => InputCacheState::Held,
        Some((_, FileAddress::Local(path))) => InputCacheState::Absent(path.clone()),
        _ => match locked.or(input.pinned_digest()) {
            Some(digest) if holds(digest) => InputCacheState::Held,
            Some(_) => InputCacheState::Lacking,
            None => InputCacheState::Unknown,
        },
    }
}

/// Returns the mirror that the rules choose for the input.
fn find_mirror(input: &RecipeInput<'_>, mirrors: &Mirrors) -> Option<MirroredUrl> {
    let (url, mirror) = match input.source {
        InputSource::Image(image) => {
            let reference = &image.reference.value;
            (
                reference.to_string(),
                mirrors.resolve_image(reference)?.to_string(),
            )
        }
        _ => match &input.origin()?.url.value {
            address @ FileAddress::Remote(url) => {
                (address.to_string(), mirrors.resolve_url(url)?.to_string())
            }
            FileAddress::Local(_) => return None,
        },
    };
    Some(MirroredUrl {
        url,
        mirror: redact(&mirror),
    })
}

/// Returns a predicate for whether the cache contains a digest. Without a cache it is always false.
pub fn open_lookup(context: &CommandContext) -> impl Fn(&Digest) -> bool + use<> {
    let folder = context.cache_folder().ok().filter(|f| f.is_dir());
    let store = folder.and_then(|folder| Store::open(&folder).ok());
    move |digest| store.as_ref().is_some_and(|store| store.has_blob(digest))
}

/// Returns an error for each missing local file that a build on this platform needs. A locked file
/// may be in the cache instead, as with a bundle.
pub fn check_local_files(
    recipe: &Recipe,
    plan: &BuildPlan,
    platform: Option<HypervisorKind>,
    context: &CommandContext,
) -> Vec<Diagnostic> {
    let holds = open_lookup(context);
    select_inputs(recipe, plan, platform)
        .filter_map(|input| {
            let origin = input.origin()?;
            let FileAddress::Local(path) = &origin.url.value else {
                return None;
            };
            if path.is_file() || input.locked_digest().is_some_and(&holds) {
                return None;
            }
            let whole = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            let what = input.id.describe();
            let fact = format!("there is no file {} for {what}", whole.display());
            let diagnostic = Diagnostic::error(fact).at(&origin.url.place, "a local path");
            Some(diagnostic.help("give the path of the file, or an https:// URL"))
        })
        .collect()
}

/// Renders a line for each input.
pub fn render_states(states: &[InputState]) -> String {
    let width = column_width(states.iter().map(|s| s.id.to_string().chars().count()));
    let mut text = String::new();
    for state in states {
        let cache: String = match &state.cache {
            InputCacheState::Held => "in the cache".into(),
            InputCacheState::Lacking => "not in the cache: the build downloads it".into(),
            InputCacheState::Local => "a local file".into(),
            InputCacheState::Absent(path) => format!("there is no file {}", path.display()),
            InputCacheState::Unknown => "downloaded on every build (no digest)".into(),
            InputCacheState::Undecided => "needs a digest: run `winimg pin`".into(),
        };
        let locked = match &state.locked {
            Some(digest) => format!("locked {digest}, "),
            None => "not locked, ".into(),
        };
        text += &format!("  {:width$}  {locked}{cache}\n", state.id.to_string());
        if let Some(MirroredUrl { url, mirror }) = &state.mirrored {
            text += &format!("  {:width$}  from {mirror} instead of {url}\n", "");
        }
    }
    text
}

/// Finds the input that the command line names. `image.NAME` may be shortened to NAME if no
/// component has that name.
pub fn find_input(recipe: &Recipe, name: &str) -> Result<InputId> {
    name.parse::<InputId>()
        .ok()
        .into_iter()
        .chain([InputId::Image(name.into())])
        .find(|id| recipe.find_input(id).is_some())
        .ok_or_else(|| {
            let names: Vec<String> = recipe.inputs().map(|i| i.id.to_string()).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            Error::new(Kind::Recipe, format!("the recipe has no input `{name}`"))
                .cure(winimg_base::diag::suggest(name, &names, "inputs"))
        })
}
