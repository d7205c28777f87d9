//! Computes the layer keys of a build from its fetched inputs.
//!
//! Reads no file and makes no decisions about layers.

use super::inputs::{InputContext, LocalFiles};
use super::{BuildInputs, InstallMedia};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::InputId;
use winimg_recipe::plan::chain::InstallationPart;
use winimg_recipe::plan::{BuildChain, DriverFolder, PayloadEntry, key};

/// Returns the installation and every step, each with the key of the disk after it.
pub fn compute_chain(
    source: &InputContext<'_>,
    inputs: &BuildInputs,
    media: &InstallMedia,
) -> Result<BuildChain> {
    let virtio = inputs.find_file(&InputId::Virtio);
    let installation = InstallationPart {
        hypervisor: source.platform.name().into(),
        iso: inputs.require_iso()?.digest().clone(),
        virtio: virtio.map(|blob| blob.digest().clone()),
        image: media.image.name.clone(),
        answer_file: media.answer_file.clone(),
        bootstrap: media.bootstrap.clone(),
        machine: source.recipe.machine.clone(),
    };
    let known = key::build_chain(
        source.recipe,
        source.plan,
        installation,
        &|number, entry: &PayloadEntry| {
            find_digest(number, entry, inputs)
                .ok_or_else(|| format!("payload entry {number} was not fetched"))
        },
    );
    match known.unknown {
        None => Ok(known.chain),
        Some(why) => Err(Error::new(Kind::Failed, "cannot compute a layer's key").found(why)),
    }
}

/// Returns the digest of a payload entry's contents.
fn find_digest(number: usize, entry: &PayloadEntry, inputs: &BuildInputs) -> Option<Digest> {
    match entry {
        PayloadEntry::Component { component, .. }
        | PayloadEntry::Tree { component, .. }
        | PayloadEntry::Drivers {
            from: DriverFolder::Component(component),
            ..
        } => inputs
            .find_component(component)
            .map(|blob| blob.digest().clone()),
        PayloadEntry::Image { image } => {
            let image = inputs.find_image(image)?;
            Some(image.manifest.blob.digest().clone())
        }
        PayloadEntry::Local { .. }
        | PayloadEntry::Drivers {
            from: DriverFolder::Local(_),
            ..
        } => inputs.own.get(&number).map(LocalFiles::digest),
        PayloadEntry::Text { text, .. } => Some(Digest::sha256_of(text.as_bytes())),
    }
}
