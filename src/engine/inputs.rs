//! All inputs of a build, fetched and verified before a VM starts: archives are unpacked, and the
//! recipe's own files are copied into the store. Only [`Blob`]s reach a guest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Event, InputProof, Phase, Sink};
use winimg_base::io;
use winimg_base::text::redact;
use winimg_formats::archive::{ArchiveFilter, UnpackLimits};
use winimg_formats::driver::{self, DriverSelection};
use winimg_machine::vm::HypervisorKind;
use winimg_recipe::plan::chain::hash_listing;
use winimg_recipe::plan::{BuildPlan, DriverFolder, PayloadEntry};
use winimg_recipe::{
    ContainerImage, FileAddress, ImageProof, InputId, InputSource, Recipe, RecipeInput,
};
use winimg_supply::fetch::shared_cache::SharedCacheClient;
use winimg_supply::fetch::{self, FetchOptions, image::FetchedImage};
use winimg_supply::store::{
    AdmitCandidate, ExpectedBytes, ProgressWatch, Store, StoredBlob, UnpackedTree,
};

pub struct BuildInputs {
    /// The media, then the components that a step uses, in the recipe's order.
    pub files: Vec<(InputId, StoredBlob)>,
    /// The container images that a step imports, in the recipe's order.
    pub images: Vec<FetchedImage>,
    /// The unpacked trees, by the number of their payload entry.
    pub trees: BTreeMap<usize, UnpackedTree>,
    /// The files of driver packages in unpacked trees, by the number of their payload entry.
    pub drivers: BTreeMap<usize, BTreeSet<String>>,
    /// The files beside the recipe, by the number of their payload entry.
    pub own: BTreeMap<usize, LocalFiles>,
}

/// A file or folder next to the recipe, as it was when the build started: the hashed bytes are the
/// ones that reach the guest.
pub struct LocalFiles {
    is_folder: bool,
    /// Files by path, with slashes, relative to the entry's folder on the payload disc.
    files: BTreeMap<String, StoredBlob>,
}

impl LocalFiles {
    pub fn files(&self) -> impl Iterator<Item = (&str, &StoredBlob)> {
        self.files.iter().map(|(path, blob)| (path.as_str(), blob))
    }

    /// Returns the digest of the file, or of the folder's listing.
    pub fn digest(&self) -> Digest {
        match self.files().next() {
            Some((_, blob)) if !self.is_folder => blob.digest().clone(),
            _ => hash_listing(
                &self
                    .files()
                    .map(|(path, blob)| (path.into(), Some(blob.digest().clone())))
                    .collect(),
            ),
        }
    }
}

impl BuildInputs {
    pub fn find_file(&self, id: &InputId) -> Option<&StoredBlob> {
        let found = self.files.iter().find(|(known, _)| known == id);
        found.map(|(_, blob)| blob)
    }

    pub fn find_component(&self, name: &str) -> Option<&StoredBlob> {
        self.find_file(&InputId::Component(name.into()))
    }

    pub fn require_iso(&self) -> Result<&StoredBlob> {
        self.find_file(&InputId::Iso)
            .ok_or_else(|| Error::new(Kind::Failed, "the install medium was not fetched"))
    }

    pub fn find_image(&self, name: &str) -> Option<&FetchedImage> {
        self.images.iter().find(|image| image.name == name)
    }

    /// Returns the digests of all files that were fetched or copied from the recipe's folder.
    pub fn collect_digests(&self) -> Vec<Digest> {
        let files = self.files.iter().map(|(_, blob)| blob);
        let images = self.images.iter().flat_map(|image| {
            let parts = image.parts.iter();
            [&image.top, &image.manifest].into_iter().chain(parts)
        });
        files
            .chain(images.map(|part| &part.blob))
            .chain(
                self.own
                    .values()
                    .flat_map(LocalFiles::files)
                    .map(|(_, blob)| blob),
            )
            .map(|blob| blob.digest().clone())
            .collect()
    }

    /// Describes each input that is not verified, for the manifest's warnings.
    pub fn describe_unverified(&self) -> Vec<String> {
        let files = self.files.iter();
        files
            .filter_map(|(id, blob)| match blob.proof() {
                ExpectedBytes::Unverified { reason } => {
                    Some(format!("{id} is not verified: {reason}"))
                }
                _ => None,
            })
            .collect()
    }

    /// Uploads the files that others would look up in the shared cache: downloads with a digest.
    pub fn share(&self, recipe: &Recipe, remote: Option<&SharedCacheClient>) -> Result<()> {
        let Some(remote) = remote else {
            return Ok(());
        };
        for (id, blob) in &self.files {
            let Some(input) = recipe.find_input(id) else {
                continue;
            };
            let is_named = input.locked_digest().or(input.pinned_digest()).is_some();
            let address = input.origin().map(|origin| &origin.url.value);
            if is_named && matches!(address, Some(FileAddress::Remote(_))) {
                remote.push_blob(&id.to_string(), blob)?;
            }
        }
        Ok(())
    }
}

impl BuildInputs {
    /// Reports how each input was verified.
    pub fn report(&self, recipe: &Recipe, sink: &dyn Sink) {
        for (id, blob) in &self.files {
            let asked = recipe.find_input(id);
            let version = asked.as_ref().and_then(|input| match input.source {
                InputSource::Component(component) => component.version.clone(),
                InputSource::Medium(_) | InputSource::Image(_) => None,
            });
            let origin = asked.as_ref().and_then(RecipeInput::origin);
            let signers = blob.signers().iter();
            sink.emit(&Event::InputProved {
                input: id.to_string(),
                version,
                url: origin.map_or_else(String::new, |origin| origin.url.value.to_recorded()),
                bytes: blob.size(),
                digest: blob.digest().clone(),
                proof: to_proof(blob.proof()),
                signers: signers.map(ToString::to_string).collect(),
            });
        }
        for image in &self.images {
            let id = InputId::Image(image.name.clone());
            let asked = recipe.find_input(&id).map(|input| input.source);
            let proof = match asked {
                Some(InputSource::Image(ContainerImage {
                    proof: ImageProof::Unverified { reason },
                    ..
                })) => InputProof::Unverified {
                    reason: reason.value.clone(),
                },
                _ => InputProof::Digest,
            };
            sink.emit(&Event::InputProved {
                input: id.to_string(),
                version: image.os_version.clone(),
                url: image.reference.clone(),
                bytes: image.size(),
                digest: image.manifest.blob.digest().clone(),
                proof,
                signers: Vec::new(),
            });
        }
    }
}

fn to_proof(expected: &ExpectedBytes) -> InputProof {
    match expected {
        ExpectedBytes::Digest(_) => InputProof::Digest,
        ExpectedBytes::ChecksumFile { url, .. } => InputProof::ChecksumFile { url: redact(url) },
        ExpectedBytes::Signed => InputProof::Signed,
        ExpectedBytes::Unverified { reason } => InputProof::Unverified {
            reason: reason.clone(),
        },
    }
}

/// The parameters of a fetch: inputs, store and options.
pub struct InputContext<'a> {
    pub recipe: &'a Recipe,
    pub plan: &'a BuildPlan,
    pub store: &'a Store,
    pub options: &'a FetchOptions,
    pub platform: HypervisorKind,
    pub sink: &'a Arc<dyn Sink>,
    pub cancel: &'a Cancel,
}

impl InputContext<'_> {
    fn watch(&self, what: String) -> ProgressWatch {
        ProgressWatch::new(what, Arc::clone(self.sink), self.cancel.clone())
    }
}

/// Fetches the media and every component in the plan's payload, then unpacks the archives.
pub fn fetch(from: &InputContext<'_>) -> Result<BuildInputs> {
    let needed = select_inputs(from.recipe, from.plan, Some(from.platform));
    let requests: Vec<_> = needed
        .filter_map(|i| fetch::FetchRequest::from_input(&i))
        .collect();
    let ids: Vec<_> = requests.iter().map(|request| request.id.clone()).collect();
    let sink = Arc::clone(from.sink);
    let fetched = fetch::fetch(requests, from.store, sink, from.cancel, from.options);
    let fetched = fetched.map_err(merge_errors)?;
    let blobs = fetched.into_iter().map(|fetched| fetched.blob);
    let mut inputs = BuildInputs {
        files: ids.into_iter().zip(blobs).collect(),
        images: Vec::new(),
        trees: BTreeMap::new(),
        drivers: BTreeMap::new(),
        own: BTreeMap::new(),
    };
    unpack(&mut inputs, from)?;
    take_own(&mut inputs, from)?;
    Ok(inputs)
}

/// Fetches the container images that the plan imports. `build`: the medium's Windows version, such
/// as `10.0.20348`.
pub fn fetch_images(inputs: &mut BuildInputs, from: &InputContext<'_>, build: &str) -> Result<()> {
    let images =
        select_inputs(from.recipe, from.plan, None).filter_map(|input| match input.source {
            InputSource::Image(image) => Some(image.clone()),
            InputSource::Medium(_) | InputSource::Component(_) => None,
        });
    let wanted: Vec<ContainerImage> = images.collect();
    let (store, sink, cancel) = (from.store, from.sink, from.cancel);
    inputs.images = fetch::image::fetch_images(&wanted, build, store, sink, cancel, from.options)?;
    Ok(())
}

/// Returns the inputs that a build on this platform needs: the media, and the components and images
/// used by a step that is not skipped. Without a platform, those that any platform may need.
pub fn select_inputs<'r>(
    recipe: &'r Recipe,
    plan: &BuildPlan,
    platform: Option<HypervisorKind>,
) -> impl Iterator<Item = RecipeInput<'r>> {
    recipe.inputs().filter(move |input| match &input.id {
        InputId::Iso => true,
        InputId::Virtio => platform.is_none_or(|platform| platform.spec().needs_virtio),
        InputId::Component(name) => {
            let mut entries = plan.payload.iter();
            entries.any(|entry| entry.component() == Some(name.as_str()))
        }
        InputId::Image(name) => {
            let mut entries = plan.payload.iter();
            entries.any(|entry| matches!(entry, PayloadEntry::Image { image } if image == name))
        }
    })
}

fn unpack(inputs: &mut BuildInputs, from: &InputContext<'_>) -> Result<()> {
    for (number, entry) in from.plan.payload.iter().enumerate() {
        let (name, strip, only) = match entry {
            PayloadEntry::Tree {
                component,
                strip,
                only,
            } => (component, *strip, only),
            PayloadEntry::Drivers {
                from: DriverFolder::Component(component),
                only,
            } => (component, 0, only),
            _ => continue,
        };
        let components = &from.recipe.components;
        let Some(component) = components.iter().find(|c| c.name.value == *name) else {
            continue;
        };
        let (Some(blob), Some(format)) = (inputs.find_component(name), component.unpack) else {
            continue;
        };
        let filter = ArchiveFilter {
            strip,
            only: only.clone(),
        };
        let watch = from.watch(name.clone());
        let tree = from
            .store
            .unpack_tree(
                blob,
                format.into(),
                &filter,
                &UnpackLimits::default(),
                &watch,
            )
            .map_err(|e| e.or_place(&component.name.place))?;
        if matches!(entry, PayloadEntry::Drivers { .. }) {
            let chosen = drivers_of(&tree, name, from);
            let chosen = chosen.map_err(|e| e.or_place(&component.name.place))?;
            inputs.drivers.insert(number, chosen);
        }
        inputs.trees.insert(number, tree);
    }
    Ok(())
}

/// Selects the files of an unpacked archive that belong to its driver packages.
fn drivers_of(
    tree: &UnpackedTree,
    component: &str,
    from: &InputContext<'_>,
) -> Result<BTreeSet<String>> {
    let files: Vec<&str> = tree.files().iter().map(|file| file.path.as_str()).collect();
    let chosen = driver::select_packages(tree.path(), &files, |_| true)?;
    let chosen = chosen.map_err(|faults| {
        let problem =
            driver::merge_faults(faults).cure("make `only` match every file of the package");
        Error::from_problem(Kind::Recipe, problem).at(format!("component {component}"))
    })?;
    note_left_out(component, &chosen, from);
    Ok(chosen.paths().into_iter().map(str::to_owned).collect())
}

/// Selects the files of a local folder that belong to its driver packages.
fn own_drivers(path: &Path, only: &[String], from: &InputContext<'_>) -> Result<Vec<String>> {
    let chosen = driver::in_folder(path, |inf| is_taken(inf, only))?;
    let chosen = chosen.map_err(|faults| {
        Error::from_problem(Kind::Recipe, driver::merge_faults(faults)).at(path.display())
    })?;
    note_left_out(&path.display().to_string(), &chosen, from);
    Ok(chosen.paths().into_iter().map(str::to_owned).collect())
}

/// Returns true if the patterns select the INF. The plan has already validated them.
fn is_taken(inf: &str, only: &[String]) -> bool {
    let filter = ArchiveFilter {
        strip: 0,
        only: only.to_vec(),
    };
    filter.should_include(inf).unwrap_or(false)
}

fn note_left_out(what: &str, chosen: &DriverSelection, from: &InputContext<'_>) {
    if let Some(left_out) = driver::left_out_in_words(&chosen.left_out) {
        from.sink.emit(&Event::Progress {
            phase: Phase::Fetch,
            text: format!("drivers of {what}: {left_out}"),
        });
    }
}

/// Copies the files of the recipe's own folder into the store; they are not read from the folder
/// again.
fn take_own(inputs: &mut BuildInputs, from: &InputContext<'_>) -> Result<()> {
    for (number, entry) in from.plan.payload.iter().enumerate() {
        let (path, drivers) = match entry {
            PayloadEntry::Local { path } => (path, None),
            PayloadEntry::Drivers {
                from: DriverFolder::Local(path),
                only,
            } => (path, Some(only)),
            _ => continue,
        };
        let is_folder = path.is_dir();
        let mut files = BTreeMap::new();
        if is_folder {
            let names = match drivers {
                Some(only) => own_drivers(path, only, from)?,
                None => io::files_below(path).map_err(|e| Error::io("read", path, e))?,
            };
            for name in names {
                let blob = admit_own(&path.join(&name), from)?;
                files.insert(name, blob);
            }
        } else {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            files.insert(name.into_owned(), admit_own(path, from)?);
        }
        let own = LocalFiles { is_folder, files };
        inputs.own.insert(number, own);
    }
    Ok(())
}

/// Admits a file next to the recipe. It needs no other verification, because the same people write
/// both.
pub(super) fn admit_own(file: &Path, from: &InputContext<'_>) -> Result<StoredBlob> {
    from.cancel.check()?;
    let watch = from.watch(file.display().to_string());
    let expected = ExpectedBytes::Unverified {
        reason: "a file of the recipe's own folder".into(),
    };
    from.store
        .admit(AdmitCandidate::Local(file.into()), expected, &watch)
}

/// Combines several errors into one with the kind of the first and the messages of all.
pub fn merge_errors(mut errors: Vec<Error>) -> Error {
    if errors.len() == 1 {
        return errors.remove(0);
    }
    let kind = errors.first().map_or(Kind::Failed, Error::kind);
    let fact = format!("{} inputs could not be fetched", errors.len());
    Error::from_several(kind, fact, &errors)
}
