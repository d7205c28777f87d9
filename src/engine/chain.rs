//! The chain of a build, from its fetched inputs: what every layer's key is made from.
//!
//! Reads files beside the recipe once more, as the payload disc does. Decides nothing about layers.

use std::path::Path;

use super::{Inputs, Media};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_machine::vm::Platform;
use winimg_recipe::plan::key::{self, Installation};
use winimg_recipe::plan::{Chain, Entry, Plan};
use winimg_recipe::recipe::Recipe;

/// The installation and every step, each with the key of the disk after it.
pub fn of(
    recipe: &Recipe,
    plan: &Plan,
    inputs: &Inputs,
    media: &Media,
    platform: Platform,
) -> Result<Chain> {
    let installation = Installation {
        hypervisor: platform.name(),
        iso: inputs.iso.digest().clone(),
        virtio: inputs.virtio.as_ref().map(|blob| blob.digest().clone()),
        image: media.image.name.clone(),
        answer_file: media.answer_file.clone(),
        bootstrap: media.bootstrap.clone(),
    };
    let digest_of = |_, entry: &Entry| digest(entry, inputs).map_err(|e| e.to_string());
    let known = key::chain(recipe, plan, &installation, &digest_of);
    match known.unknown {
        None => Ok(known.chain),
        Some(why) => Err(Error::new(Kind::Failed, "a layer's key cannot be made").found(why)),
    }
}

fn digest(entry: &Entry, inputs: &Inputs) -> Result<Digest> {
    match entry {
        Entry::Component { component, .. } | Entry::Tree { component, .. } => {
            let blob = inputs.component(component);
            blob.map(|blob| blob.digest().clone())
                .ok_or_else(|| super::payload::missing(component))
        }
        Entry::Image { image: name } => {
            let image = inputs.image(name);
            image
                .map(|image| image.manifest.blob.digest().clone())
                .ok_or_else(|| super::payload::missing(name))
        }
        Entry::Local { path } => local(path),
        Entry::Text { text, .. } => Ok(Digest::sha256_of(text.as_bytes())),
    }
}

/// A file's digest; of a folder, that of its files' names and digests.
fn local(path: &Path) -> Result<Digest> {
    if !path.is_dir() {
        return Ok(io::sha256(path)?.0);
    }
    let mut listed = String::new();
    for file in io::files_below(path).map_err(|e| Error::io("read", path, e))? {
        let (digest, _) = io::sha256(&path.join(&file))?;
        listed += &format!("{file} {}\n", digest.hex());
    }
    Ok(Digest::sha256_of(listed.as_bytes()))
}
