//! The chain of a build, from its fetched inputs: what every layer's key is made from.
//!
//! Reads no file. Decides nothing about layers.

use super::inputs::{Own, Source};
use super::{Inputs, Media};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::plan::chain::Installation;
use winimg_recipe::plan::{Chain, DriverFolder, Entry, key};
use winimg_recipe::recipe::InputId;

/// The installation and every step, each with the key of the disk after it.
pub fn of(source: &Source<'_>, inputs: &Inputs, media: &Media) -> Result<Chain> {
    let virtio = inputs.file(&InputId::Virtio);
    let installation = Installation {
        hypervisor: source.platform.name().into(),
        iso: inputs.iso()?.digest().clone(),
        virtio: virtio.map(|blob| blob.digest().clone()),
        image: media.image.name.clone(),
        answer_file: media.answer_file.clone(),
        bootstrap: media.bootstrap.clone(),
        machine: source.recipe.machine.clone(),
    };
    let digest_of = |number, entry: &Entry| {
        digest(number, entry, inputs)
            .ok_or_else(|| format!("payload entry {number} was not fetched"))
    };
    let known = key::chain(source.recipe, source.plan, installation, &digest_of);
    match known.unknown {
        None => Ok(known.chain),
        Some(why) => Err(Error::new(Kind::Failed, "a layer's key cannot be made").found(why)),
    }
}

/// Of what a payload entry holds.
fn digest(number: usize, entry: &Entry, inputs: &Inputs) -> Option<Digest> {
    match entry {
        Entry::Component { component, .. }
        | Entry::Tree { component, .. }
        | Entry::Drivers {
            from: DriverFolder::Component(component),
            ..
        } => inputs
            .component(component)
            .map(|blob| blob.digest().clone()),
        Entry::Image { image } => {
            let image = inputs.image(image)?;
            Some(image.manifest.blob.digest().clone())
        }
        Entry::Local { .. }
        | Entry::Drivers {
            from: DriverFolder::Local(_),
            ..
        } => inputs.own.get(&number).map(Own::digest),
        Entry::Text { text, .. } => Some(Digest::sha256_of(text.as_bytes())),
    }
}
