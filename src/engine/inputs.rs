//! Everything that goes in, fetched and proved before a machine starts; archives unpacked, the recipe's own files taken into
//! the store. What is not a [`Blob`] reaches no guest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Event, Phase, Proof, Sink};
use winimg_base::io;
use winimg_base::text::redact;
use winimg_formats::archive::{Filter, Limits};
use winimg_formats::driver::{self, Chosen};
use winimg_machine::vm::Platform;
use winimg_recipe::plan::chain::listing;
use winimg_recipe::plan::{DriverFolder, Entry, Plan};
use winimg_recipe::recipe::{
    Address, ContainerImage, ImageProof, Input, InputId, InputSource, Recipe,
};
use winimg_supply::fetch::sharing::Remote;
use winimg_supply::fetch::{self, FetchOptions, image::Image};
use winimg_supply::store::{Blob, Candidate, Expected, Store, Tree, Watch};

pub struct Inputs {
    /// The media, then the components that a step uses, in the recipe's order.
    pub files: Vec<(InputId, Blob)>,
    /// The container images that a step imports, in the recipe's order.
    pub images: Vec<Image>,
    /// The unpacked trees, by the number of their payload entry.
    pub trees: BTreeMap<usize, Tree>,
    /// The files of driver packages in unpacked trees, by the number of their payload entry.
    pub drivers: BTreeMap<usize, BTreeSet<String>>,
    /// The files beside the recipe, by the number of their payload entry.
    pub own: BTreeMap<usize, Own>,
}

/// A file or folder beside the recipe, as it was when the build began: what is hashed is what reaches the guest.
pub struct Own {
    is_folder: bool,
    /// By their paths below the entry's place on the payload disc, with slashes.
    files: BTreeMap<String, Blob>,
}

impl Own {
    pub fn files(&self) -> impl Iterator<Item = (&str, &Blob)> {
        self.files.iter().map(|(path, blob)| (path.as_str(), blob))
    }

    /// Of the file, or of the folder's listing.
    pub fn digest(&self) -> Digest {
        match self.files().next() {
            Some((_, blob)) if !self.is_folder => blob.digest().clone(),
            _ => {
                let listed =
                    |(path, blob): (&str, &Blob)| (path.into(), Some(blob.digest().clone()));
                listing(&self.files().map(listed).collect())
            }
        }
    }
}

impl Inputs {
    pub fn file(&self, id: &InputId) -> Option<&Blob> {
        let found = self.files.iter().find(|(known, _)| known == id);
        found.map(|(_, blob)| blob)
    }

    pub fn component(&self, name: &str) -> Option<&Blob> {
        self.file(&InputId::Component(name.into()))
    }

    pub fn iso(&self) -> Result<&Blob> {
        let lacking = || Error::new(Kind::Failed, "the medium of Windows was not fetched");
        self.file(&InputId::Iso).ok_or_else(lacking)
    }

    pub fn image(&self, name: &str) -> Option<&Image> {
        self.images.iter().find(|image| image.name == name)
    }

    /// Of every file that was fetched, or taken from the recipe's folder.
    pub fn digests(&self) -> Vec<Digest> {
        let files = self.files.iter().map(|(_, blob)| blob);
        let images = self.images.iter().flat_map(|image| {
            let parts = image.parts.iter();
            [&image.top, &image.manifest].into_iter().chain(parts)
        });
        files
            .chain(images.map(|part| &part.blob))
            .chain(self.own.values().flat_map(Own::files).map(|(_, blob)| blob))
            .map(|blob| blob.digest().clone())
            .collect()
    }

    /// One sentence for each input that nothing proves.
    pub fn unproved(&self) -> Vec<String> {
        let files = self.files.iter();
        files
            .filter_map(|(id, blob)| match blob.proof() {
                Expected::Unverified { reason } => Some(format!("nothing proves {id}: {reason}")),
                _ => None,
            })
            .collect()
    }

    /// Gives to the shared cache what others would ask it for: files of the network that a digest names.
    pub fn share(&self, recipe: &Recipe, remote: Option<&Remote>) -> Result<()> {
        let Some(remote) = remote else {
            return Ok(());
        };
        for (id, blob) in &self.files {
            let Some(input) = recipe.input(id) else {
                continue;
            };
            let is_named = input.locked().or(input.pinned()).is_some();
            let address = input.origin().map(|origin| &origin.url.value);
            if is_named && matches!(address, Some(Address::Remote(_))) {
                remote.push_blob(&id.to_string(), blob)?;
            }
        }
        Ok(())
    }
}

impl Inputs {
    /// Reports what proved each input.
    pub fn report(&self, recipe: &Recipe, sink: &dyn Sink) {
        for (id, blob) in &self.files {
            let asked = recipe.input(id);
            let version = asked.as_ref().and_then(|input| match input.source {
                InputSource::Component(component) => component.version.clone(),
                InputSource::Medium(_) | InputSource::Image(_) => None,
            });
            let origin = asked.as_ref().and_then(Input::origin);
            let signers = blob.signers().iter();
            sink.emit(&Event::InputProved {
                input: id.to_string(),
                version,
                url: origin.map_or_else(String::new, |origin| origin.url.value.recorded()),
                bytes: blob.size(),
                digest: blob.digest().clone(),
                proof: proof(blob.proof()),
                signers: signers.map(ToString::to_string).collect(),
            });
        }
        for image in &self.images {
            let id = InputId::Image(image.name.clone());
            let asked = recipe.input(&id).map(|input| input.source);
            let proof = match asked {
                Some(InputSource::Image(ContainerImage {
                    proof: ImageProof::Unverified { reason },
                    ..
                })) => Proof::Unverified {
                    reason: reason.value.clone(),
                },
                _ => Proof::Digest,
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

fn proof(expected: &Expected) -> Proof {
    match expected {
        Expected::Digest(_) => Proof::Digest,
        Expected::ChecksumFile { url, .. } => Proof::ChecksumFile { url: redact(url) },
        Expected::Signed => Proof::Signed,
        Expected::Unverified { reason } => Proof::Unverified {
            reason: reason.clone(),
        },
    }
}

/// What is fetched, into which store, and how.
pub struct Source<'a> {
    pub recipe: &'a Recipe,
    pub plan: &'a Plan,
    pub store: &'a Store,
    pub options: &'a FetchOptions,
    pub platform: Platform,
    pub sink: &'a Arc<dyn Sink>,
    pub cancel: &'a Cancel,
}

impl Source<'_> {
    fn watch(&self, what: String) -> Watch {
        Watch::new(what, Arc::clone(self.sink), self.cancel.clone())
    }
}

/// Fetches the media and every component that the plan's payload names, then unpacks what is to be unpacked.
pub fn fetch(from: &Source<'_>) -> Result<Inputs> {
    let needed = needed(from.recipe, from.plan, Some(from.platform));
    let requests: Vec<_> = needed.filter_map(|i| fetch::Request::of(&i)).collect();
    let ids: Vec<_> = requests.iter().map(|request| request.id.clone()).collect();
    let sink = Arc::clone(from.sink);
    let fetched = fetch::fetch(requests, from.store, sink, from.cancel, from.options);
    let fetched = fetched.map_err(together)?;
    let blobs = fetched.into_iter().map(|fetched| fetched.blob);
    let mut inputs = Inputs {
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

/// Fetches the container images that the plan imports; `build` is the medium's Windows, as `10.0.20348`.
pub fn fetch_images(inputs: &mut Inputs, from: &Source<'_>, build: &str) -> Result<()> {
    let images = needed(from.recipe, from.plan, None).filter_map(|input| match input.source {
        InputSource::Image(image) => Some(image.clone()),
        InputSource::Medium(_) | InputSource::Component(_) => None,
    });
    let wanted: Vec<ContainerImage> = images.collect();
    let (store, sink, cancel) = (from.store, from.sink, from.cancel);
    inputs.images = fetch::image::images(&wanted, build, store, sink, cancel, from.options)?;
    Ok(())
}

/// What a build on this platform takes: of the components and images those that a step that is carried out names.
/// Without a platform, what any may take.
pub fn needed<'r>(
    recipe: &'r Recipe,
    plan: &Plan,
    platform: Option<Platform>,
) -> impl Iterator<Item = Input<'r>> {
    recipe.inputs().filter(move |input| match &input.id {
        InputId::Iso => true,
        // Its drivers and its agent are for QEMU's machines.
        InputId::Virtio => platform != Some(Platform::HyperV),
        InputId::Component(name) => {
            let mut entries = plan.payload.iter();
            entries.any(|entry| entry.component() == Some(name.as_str()))
        }
        InputId::Image(name) => {
            let mut entries = plan.payload.iter();
            entries.any(|entry| matches!(entry, Entry::Image { image } if image == name))
        }
    })
}

fn unpack(inputs: &mut Inputs, from: &Source<'_>) -> Result<()> {
    for (number, entry) in from.plan.payload.iter().enumerate() {
        let (name, strip, only) = match entry {
            Entry::Tree {
                component,
                strip,
                only,
            } => (component, *strip, only),
            Entry::Drivers {
                from: DriverFolder::Component(component),
                only,
            } => (component, 0, only),
            _ => continue,
        };
        let components = &from.recipe.components;
        let Some(component) = components.iter().find(|c| c.name.value == *name) else {
            continue;
        };
        let (Some(blob), Some(format)) = (inputs.component(name), component.unpack) else {
            continue;
        };
        let filter = Filter {
            strip,
            only: only.clone(),
        };
        let watch = from.watch(name.clone());
        let tree = from
            .store
            .tree(blob, format.into(), &filter, &Limits::default(), &watch)
            .map_err(|e| e.from_place(&component.name.place))?;
        if matches!(entry, Entry::Drivers { .. }) {
            let chosen = drivers_of(&tree, name, from);
            let chosen = chosen.map_err(|e| e.from_place(&component.name.place))?;
            inputs.drivers.insert(number, chosen);
        }
        inputs.trees.insert(number, tree);
    }
    Ok(())
}

/// The files of an unpacked archive that its driver packages have.
fn drivers_of(tree: &Tree, component: &str, from: &Source<'_>) -> Result<BTreeSet<String>> {
    let files: Vec<&str> = tree.files().iter().map(|file| file.path.as_str()).collect();
    let chosen = driver::chosen(tree.path(), &files, |_| true)?;
    let chosen = chosen.map_err(|faults| {
        let problem = driver::problem(faults).cure("let `only` take every file of the package");
        Error::of(Kind::Recipe, problem).at(format!("component {component}"))
    })?;
    note_left_out(component, &chosen, from);
    Ok(chosen.paths().into_iter().map(str::to_owned).collect())
}

/// The files of a local folder that its driver packages have.
fn own_drivers(path: &Path, only: &[String], from: &Source<'_>) -> Result<Vec<String>> {
    let chosen = driver::in_folder(path, |inf| is_taken(inf, only))?;
    let chosen = chosen
        .map_err(|faults| Error::of(Kind::Recipe, driver::problem(faults)).at(path.display()))?;
    note_left_out(&path.display().to_string(), &chosen, from);
    Ok(chosen.paths().into_iter().map(str::to_owned).collect())
}

/// The plan has judged the patterns.
fn is_taken(inf: &str, only: &[String]) -> bool {
    let filter = Filter {
        strip: 0,
        only: only.to_vec(),
    };
    filter.takes(inf).unwrap_or(false)
}

fn note_left_out(what: &str, chosen: &Chosen, from: &Source<'_>) {
    if let Some(left_out) = driver::left_out_in_words(&chosen.left_out) {
        from.sink.emit(&Event::Progress {
            phase: Phase::Fetch,
            text: format!("drivers of {what}: {left_out}"),
        });
    }
}

/// Takes the files of the recipe's own folder into the store: from here on nobody reads them there.
fn take_own(inputs: &mut Inputs, from: &Source<'_>) -> Result<()> {
    for (number, entry) in from.plan.payload.iter().enumerate() {
        let (path, drivers) = match entry {
            Entry::Local { path } => (path, None),
            Entry::Drivers {
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
        let own = Own { is_folder, files };
        inputs.own.insert(number, own);
    }
    Ok(())
}

/// A file that the team keeps beside its recipe: the same people write both, so nothing else has to prove it.
pub(super) fn admit_own(file: &Path, from: &Source<'_>) -> Result<Blob> {
    from.cancel.check()?;
    let watch = from.watch(file.display().to_string());
    let expected = Expected::Unverified {
        reason: "a file of the recipe's own folder".into(),
    };
    from.store
        .admit(Candidate::Local(file.into()), expected, &watch)
}

/// One error of several: the first one's kind, all of their words.
pub fn together(mut errors: Vec<Error>) -> Error {
    if errors.len() == 1 {
        return errors.remove(0);
    }
    let kind = errors.first().map_or(Kind::Failed, Error::kind);
    let fact = format!("{} inputs could not be fetched", errors.len());
    Error::of_several(kind, fact, &errors)
}
