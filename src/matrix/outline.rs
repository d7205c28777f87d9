//! What of a build others may share, known before anything is fetched.
//!
//! Its keys are no layer's: digests that only a fetched medium could give are replaced by what the recipe and its lock say of it. Where
//! two outlines begin with the same keys, the layers of the two builds have the same keys as well; the reverse need not hold.

use serde_json::json;

use crate::answer;
use crate::engine::outside::outside;
use winimg_base::digest::Digest;
use winimg_base::error::Result;
use winimg_machine::vm::Platform;
use winimg_recipe::plan::chain::Installation;
use winimg_recipe::plan::{DriverFolder, Entry, Plan, key};
use winimg_recipe::recipe::{Address, InputId, Recipe};

/// One key a part: the installation, then each step as far as the recipe decides it.
pub fn keys(recipe: &Recipe, plan: &Plan, platform: Platform) -> Result<Vec<Digest>> {
    let installation = Installation {
        hypervisor: platform.name().into(),
        iso: input(recipe, &InputId::Iso),
        virtio: recipe
            .media
            .virtio
            .as_ref()
            .map(|_| input(recipe, &InputId::Virtio)),
        image: recipe.media.image.value.clone(),
        answer_file: answer_file(recipe)?,
        bootstrap: Digest::of_json(&outside(recipe, platform)?.json()),
        machine: recipe.machine.clone(),
    };
    let digest_of = |_: usize, entry: &Entry| {
        Ok(match entry {
            Entry::Component { component, .. }
            | Entry::Tree { component, .. }
            | Entry::Drivers {
                from: DriverFolder::Component(component),
                ..
            } => input(recipe, &InputId::Component(component.clone())),
            Entry::Image { image } => input(recipe, &InputId::Image(image.clone())),
            // The same file of this host, whatever is in it.
            Entry::Local { path }
            | Entry::Drivers {
                from: DriverFolder::Local(path),
                ..
            } => Digest::of_json(&json!({ "path": path })),
            Entry::Text { text, .. } => Digest::sha256_of(text.as_bytes()),
        })
    };
    let known = key::chain(recipe, plan, installation, &digest_of);
    let links = known.chain.links().iter();
    Ok(links.map(|link| link.key.clone()).collect())
}

/// What stands for an input: its digest where the recipe or the lock has one, else what is asked of it.
fn input(recipe: &Recipe, id: &InputId) -> Digest {
    let found = recipe.input(id);
    let known = found.as_ref().and_then(|i| i.pinned().or(i.locked()));
    if let Some(digest) = known {
        return digest.clone();
    }
    let origin = found.as_ref().and_then(|input| input.origin());
    let path = origin.and_then(|origin| match &origin.url.value {
        Address::Local(path) => Some(path),
        Address::Remote(_) => None,
    });
    let asked = recipe.asks.iter().find(|ask| ask.id == *id);
    let asked = asked.map(|ask| &ask.digest);
    Digest::of_json(&json!({ "input": id, "asked": asked, "path": path }))
}

/// Of all that goes into the answer file and does not come from the medium.
fn answer_file(recipe: &Recipe) -> Result<Digest> {
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
