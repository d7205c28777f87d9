//! Predicts which parts of a build others can share, before anything is fetched.
//!
//! Its keys are not layer keys: digests that need a fetched medium are replaced by the recipe's and
//! its lock's data about that medium. If two outlines start with the same keys, the layers of the
//! two builds have the same keys as well; the reverse is not always true.

use serde_json::json;

use crate::answer;
use crate::engine::guest_commands::collect_commands;
use winimg_base::digest::Digest;
use winimg_base::error::Result;
use winimg_machine::vm::HypervisorKind;
use winimg_recipe::plan::chain::InstallationPart;
use winimg_recipe::plan::{BuildPlan, DriverFolder, PayloadEntry, key};
use winimg_recipe::{FileAddress, InputId, Recipe};

/// Computes one key per part: the installation, then each step as far as the recipe decides it.
pub fn compute_keys(
    recipe: &Recipe,
    plan: &BuildPlan,
    platform: HypervisorKind,
) -> Result<Vec<Digest>> {
    let installation = InstallationPart {
        hypervisor: platform.name().into(),
        iso: hash_input(recipe, &InputId::Iso),
        virtio: recipe
            .media
            .virtio
            .as_ref()
            .map(|_| hash_input(recipe, &InputId::Virtio)),
        image: recipe.media.image.value.clone(),
        answer_file: hash_answer_file(recipe)?,
        bootstrap: Digest::of_json(&collect_commands(recipe, platform)?.render_json()),
        machine: recipe.machine.clone(),
    };
    let known = key::build_chain(recipe, plan, installation, &|_, entry| {
        Ok(hash_entry(recipe, entry))
    });
    let links = known.chain.links().iter();
    Ok(links.map(|link| link.key.clone()).collect())
}

fn hash_entry(recipe: &Recipe, entry: &PayloadEntry) -> Digest {
    match entry {
        PayloadEntry::Component { component, .. }
        | PayloadEntry::Tree { component, .. }
        | PayloadEntry::Drivers {
            from: DriverFolder::Component(component),
            ..
        } => hash_input(recipe, &InputId::Component(component.clone())),
        PayloadEntry::Image { image } => hash_input(recipe, &InputId::Image(image.clone())),
        // The path only: builds on one host read the same file.
        PayloadEntry::Local { path }
        | PayloadEntry::Drivers {
            from: DriverFolder::Local(path),
            ..
        } => Digest::of_json(&json!({ "path": path })),
        PayloadEntry::Text { text, .. } => Digest::sha256_of(text.as_bytes()),
    }
}

/// Returns the digest of an input from the recipe or the lock, or else a hash of its definition.
fn hash_input(recipe: &Recipe, id: &InputId) -> Digest {
    let found = recipe.find_input(id);
    let known = found
        .as_ref()
        .and_then(|i| i.pinned_digest().or(i.locked_digest()));
    if let Some(digest) = known {
        return digest.clone();
    }
    let origin = found.as_ref().and_then(|input| input.origin());
    let path = origin.and_then(|origin| match &origin.url.value {
        FileAddress::Local(path) => Some(path),
        FileAddress::Remote(_) => None,
    });
    let asked = recipe
        .lock_requests
        .iter()
        .find(|ask| ask.id == *id)
        .map(|ask| &ask.digest);
    Digest::of_json(&json!({ "input": id, "asked": asked, "path": path }))
}

/// Hashes everything in the answer file that does not come from the medium.
fn hash_answer_file(recipe: &Recipe) -> Result<Digest> {
    let (media, setup) = (&recipe.media, &recipe.setup);
    let own = setup.answer_file.as_ref();
    let template = own.map(answer::read_template).transpose()?;
    Ok(Digest::of_json(&json!({
        "template": template.map(|template| template.text.clone()),
        "product_key": media.product_key.as_ref().map(|key| &key.value),
        "language": media.language.value,
        "time_zone": media.time_zone.value,
        "computer_name": setup.computer_name,
        "drivers": setup.drivers,
        "own_drivers": setup.own_drivers,
    })))
}
