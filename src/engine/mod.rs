//! The build: from a plan to artifacts. Each phase has its own module.

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
#[cfg(test)]
mod frozen_guest;
pub mod guest_commands;
mod image_state;
pub mod inputs;
mod leftovers;
mod media;
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
mod step_log;

use winimg_base::digest::Digest;
use winimg_base::error::Result;
use winimg_base::event::Phase;
use winimg_base::io;
use winimg_machine::vm::Hypervisor;
use winimg_recipe::plan::{BuildChain, StepChecks};
use winimg_supply::store::Lease;

use tracing::{debug, debug_span};

use provision::Provisioning;
use session::BuildSession;

pub use checkpoint::LayerPolicy;
pub use failed::collect_secrets;
pub use inputs::BuildInputs;
pub use leftovers::run_dirs;
pub use media::{InstallMedia, windows_build};
pub use request::{BuildRequest, EngineOutcome, FinishedBuild};
pub use run::StepRecord;
pub use scratch::ScratchDirs;

/// Builds the image. On failure the diagnostics are in `<output>/failure` and the error says so;
/// an earlier image in the output folder is set aside.
pub fn run(
    request: &BuildRequest,
    scratch: &mut ScratchDirs,
    hypervisor: &dyn Hypervisor,
) -> Result<EngineOutcome> {
    let _span = debug_span!("build", recipe = request.recipe.name.value).entered();
    let mut session = BuildSession::new(request, hypervisor, scratch);
    run_phases(&mut session).map_err(|error| {
        if let Err(e) = earlier::set_aside(&request.output) {
            let fact = e.problem().in_one_line();
            request
                .sink
                .warn(format!("could not set the earlier image aside: {fact}"));
        }
        failed::finish_failed(error, session, scratch)
    })
}

fn run_phases(session: &mut BuildSession) -> Result<EngineOutcome> {
    let request = session.request;
    let (inputs, media, expected, chain) = prepare(session)?;
    let _lease = lease_inputs(request, &inputs, &chain)?;
    let resumed = resume::from(request, &chain)?;
    let key = request.output_key(&chain);
    let (held, all) = (resumed.as_ref().map(|r| r.links), chain.links().len());
    debug!(%key, held, of = all, "checked the layers");
    let is_whole = held == Some(all);
    if request.from_cache && !is_whole {
        return Err(resume::report_unfinished(request, held.unwrap_or(0), all));
    }
    if let Some(whole) = resumed.as_ref().filter(|_| is_whole) {
        finish::share(request, &whole.layer)?;
    }
    if is_whole && is_unchanged(request, &key)? {
        return Ok(EngineOutcome::Unchanged);
    }
    earlier::set_aside(&request.output)?;
    leftovers::clear_earlier(&request.output)?;
    inputs.share(request.recipe, request.fetch.shared.as_deref())?;

    let mut warnings = request.collect_warnings(&inputs, &media);
    let (disk, below) = match &resumed {
        Some(whole) if is_whole => {
            session.notes = whole.notes_for(request.plan);
            (whole.layer.disk_path(), whole.layer.record().parent.clone())
        }
        part => {
            let provisioning = Provisioning {
                request,
                links: chain.links(),
                inputs: &inputs,
                media: &media,
            };
            warnings.extend(provisioning.run(session, part.as_ref())?);
            (session.disk().unwrap_or_default(), session.below())
        }
    };
    warnings.extend(session.notes.warnings.iter().cloned());
    let manual_changes = request.pauses.manual_changes();
    let keeps = request.layers != LayerPolicy::None && manual_changes.is_empty();
    warnings.extend(manual_changes);

    let verified = finish::verify(session, &disk, below, &expected)?;
    warnings.extend(verified.warnings);
    let layer = if keeps {
        finish::seal(session, &chain)?
    } else {
        None
    };
    let disk = layer.map_or(disk, |layer| layer.disk_path());
    let artifacts = finish::export(session, &media, &disk)?;
    finish::keep_screens(session);
    let notes = std::mem::take(&mut session.notes);
    Ok(EngineOutcome::Built(Box::new(FinishedBuild {
        key: keeps.then_some(key),
        inputs,
        media,
        platform: session.platform(),
        probe: notes.probe.unwrap_or_default(),
        steps: notes.steps,
        resumed: resumed.map(|resumed| resumed.layer.record().clone()),
        artifacts,
        usage: verified.usage,
        expected,
        warnings,
    })))
}

/// Returns true if the output folder already has what this build would produce. Results that a
/// failed build set aside are restored first.
fn is_unchanged(request: &BuildRequest, key: &Digest) -> Result<bool> {
    let (store, output) = (request.store, &request.output);
    if store.output_is(output, key) {
        return Ok(true);
    }
    let [own, aside] = earlier::list_folders(output);
    if own.join(earlier::MANIFEST).exists() {
        return Ok(false);
    }
    let Some(files) = store.moved_output(output, &aside, key) else {
        return Ok(false);
    };
    earlier::put_back(output)?;
    io::remove_folder_if_exists(&output.join(evidence::FOLDER))?;
    store.record_output(output, key, &files)?;
    Ok(true)
}

/// Fetches the inputs, reads the media and computes the expected disk contents and layer keys,
/// all before a VM starts.
fn prepare(
    session: &mut BuildSession,
) -> Result<(BuildInputs, InstallMedia, Vec<StepChecks>, BuildChain)> {
    let source = session.request.to_input_context(session.platform());
    let mut inputs = session.in_phase(Phase::Fetch, |_| inputs::fetch(&source))?;
    let (media, expected, chain) = session.in_phase(Phase::Media, |_| {
        let media = media::read(&source, &inputs)?;
        inputs::fetch_images(&mut inputs, &source, &media.base_build())?;
        let expected = expected::resolve(source.plan, &inputs)?;
        let chain = chain::compute_chain(&source, &inputs, &media)?;
        Ok((media, expected, chain))
    })?;
    inputs.report(source.recipe, source.sink.as_ref());
    for link in chain.links() {
        debug!(part = link.name, key = %link.key, "layer key");
    }
    session.chain = Some(chain.clone());
    Ok((inputs, media, expected, chain))
}

/// Leases the inputs and layers before looking for layers, so that no concurrent prune removes
/// them.
fn lease_inputs(request: &BuildRequest, inputs: &BuildInputs, chain: &BuildChain) -> Result<Lease> {
    let lease = request.store.lease()?;
    lease.add(&inputs.collect_digests())?;
    let keys: Vec<_> = chain.links().iter().map(|link| link.key.clone()).collect();
    lease.add(&keys)?;
    Ok(lease)
}
