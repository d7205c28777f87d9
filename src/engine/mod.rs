//! The main job, from a plan to artifacts. Reads as a table of contents; the chapters are the modules.

mod boot;
mod chain;
mod checkpoint;
pub mod console;
pub mod earlier;
pub mod evidence;
mod expected;
mod failed;
mod finish;
pub mod forecast;
mod image_state;
pub mod inputs;
mod leftovers;
mod media;
pub mod outside;
pub mod pause;
pub mod payload;
pub mod phase;
mod provision;
mod request;
mod resume;
pub mod run;
mod scratch;
mod seal;
mod session;
pub mod shell;
#[cfg(test)]
mod standing;
mod step_log;

use winimg_base::digest::Digest;
use winimg_base::error::Result;
use winimg_base::event::Phase;
use winimg_base::io;
use winimg_machine::vm::Hypervisor;
use winimg_recipe::plan::{Chain, Expected};
use winimg_supply::store::Lease;

use tracing::{debug, debug_span};

use provision::Course;
use session::Session;

pub use checkpoint::Layers;
pub use failed::secrets;
pub use inputs::Inputs;
pub use leftovers::run_dirs;
pub use media::{Media, windows_build};
pub use request::{Built, Outcome, Request};
pub use run::StepRecord;
pub use scratch::Scratch;

/// Builds the image. On failure the evidence is in `<output>/failure` and the error says so; an
/// earlier image that lay in the folder is set aside.
pub fn run(
    request: &Request,
    scratch: &mut Scratch,
    hypervisor: &dyn Hypervisor,
) -> Result<Outcome> {
    let _span = debug_span!("build", recipe = request.recipe.name.value).entered();
    let mut session = Session::new(request, hypervisor, scratch);
    chapters(&mut session).map_err(|error| {
        if let Err(e) = earlier::set_aside(&request.output) {
            let fact = e.problem().in_one_line();
            request
                .sink
                .warn(format!("the earlier image was not set aside: {fact}"));
        }
        failed::explained(error, session, scratch)
    })
}

fn chapters(session: &mut Session) -> Result<Outcome> {
    let request = session.request;
    let (inputs, media, expected, chain) = prepared(session)?;
    let _lease = held(request, &inputs, &chain)?;
    let resumed = resume::from(request, &chain)?;
    let key = request.output_key(&chain);
    let (held, all) = (resumed.as_ref().map(|r| r.links), chain.links().len());
    debug!(%key, held, of = all, "the layers were looked at");
    let is_whole = held == Some(all);
    if request.from_cache && !is_whole {
        return Err(resume::unfinished(request, held.unwrap_or(0), all));
    }
    if let Some(whole) = resumed.as_ref().filter(|_| is_whole) {
        finish::share(request, &whole.layer)?;
    }
    if is_whole && is_unchanged(request, &key)? {
        return Ok(Outcome::Unchanged);
    }
    earlier::set_aside(&request.output)?;
    leftovers::clear_earlier(&request.output)?;
    inputs.share(request.recipe, request.fetch.shared.as_deref())?;

    let mut warnings = request.warnings(&inputs, &media);
    let (disk, below) = match &resumed {
        Some(whole) if is_whole => {
            session.notes = whole.notes_for(request.plan);
            (whole.layer.disk(), whole.layer.record().parent.clone())
        }
        part => {
            let course = Course {
                request,
                links: chain.links(),
                inputs: &inputs,
                media: &media,
            };
            warnings.extend(course.run(session, part.as_ref())?);
            (session.disk().unwrap_or_default(), session.below())
        }
    };
    warnings.extend(session.notes.warnings.iter().cloned());
    let by_hand = request.pauses.by_hand();
    let keeps = request.layers != Layers::None && by_hand.is_empty();
    warnings.extend(by_hand);

    let verified = finish::verify(session, &disk, below, &expected)?;
    warnings.extend(verified.warnings);
    let layer = match keeps {
        true => finish::seal(session, &chain)?,
        false => None,
    };
    let disk = layer.map_or(disk, |layer| layer.disk());
    let artifacts = finish::export(session, &media, &disk)?;
    finish::keep_screens(session);
    let notes = std::mem::take(&mut session.notes);
    Ok(Outcome::Built(Box::new(Built {
        key: keeps.then_some(key),
        inputs,
        media,
        probe: notes.probe.unwrap_or_default(),
        steps: notes.steps,
        resumed: resumed.map(|resumed| resumed.layer.record().clone()),
        artifacts,
        usage: verified.usage,
        expected,
        warnings,
    })))
}

/// Returns true if the folder holds what this build would make. What a failed build set aside is
/// put back for that.
fn is_unchanged(request: &Request, key: &Digest) -> Result<bool> {
    let (store, output) = (request.store, &request.output);
    if store.output_is(output, key) {
        return Ok(true);
    }
    let [own, aside] = earlier::folders(output);
    if own.join(earlier::MANIFEST).exists() {
        return Ok(false);
    }
    let Some(files) = store.moved_output(output, &aside, key) else {
        return Ok(false);
    };
    earlier::put_back(output)?;
    io::remove_folder_if_there(&output.join(evidence::FOLDER))?;
    store.record_output(output, key, &files)?;
    Ok(true)
}

/// What goes in, what the finished disk has to hold, and the key of every layer: known before a machine starts.
fn prepared(session: &mut Session) -> Result<(Inputs, Media, Vec<Expected>, Chain)> {
    let source = session.request.source(session.platform());
    let mut inputs = session.in_phase(Phase::Fetch, |_| inputs::fetch(&source))?;
    let (media, expected, chain) = session.in_phase(Phase::Media, |_| {
        let media = media::read(&source, &inputs)?;
        inputs::fetch_images(&mut inputs, &source, &media.base_build())?;
        let expected = expected::resolve(source.plan, &inputs)?;
        let chain = chain::of(&source, &inputs, &media)?;
        Ok((media, expected, chain))
    })?;
    inputs.report(source.recipe, source.sink.as_ref());
    for link in chain.links() {
        debug!(part = link.name, key = %link.key, "layer key");
    }
    session.chain = Some(chain.clone());
    Ok((inputs, media, expected, chain))
}

/// Inputs and layers are held before the layers are looked for: no prune takes away what is found.
fn held(request: &Request, inputs: &Inputs, chain: &Chain) -> Result<Lease> {
    let lease = request.store.lease()?;
    lease.hold(&inputs.digests())?;
    let keys: Vec<_> = chain.links().iter().map(|link| link.key.clone()).collect();
    lease.hold(&keys)?;
    Ok(lease)
}
