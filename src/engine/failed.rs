//! Ends a failed build: stops its VM, saves the diagnostics, and adds their location to the error.

use super::session::BuildSession;
use super::{ScratchDirs, evidence, media, resume};
use winimg_base::error::{Error, Kind};
use winimg_base::text::Secret;
use winimg_formats::disk::DiskImage;
use winimg_recipe::Recipe;

/// Stops the VM, saves the diagnostics, and adds their paths and those of kept files to the error.
pub fn finish_failed(error: Error, mut session: BuildSession, scratch: &mut ScratchDirs) -> Error {
    // Drop the details of an interrupt: it does not matter where it was noticed.
    let error = match error.kind() {
        Kind::Cancelled => Error::cancelled(),
        _ => error,
    };
    session.stop();
    let error = with_evidence(error, &session, scratch);
    if session.request.pauses.should_keep() {
        error.lines(keep_files(session, scratch))
    } else {
        error
    }
}

/// Returns the secrets to redact from everything that is saved or shown.
pub fn collect_secrets(recipe: &Recipe, password: &Secret) -> Vec<Secret> {
    let key = recipe
        .media
        .product_key
        .as_ref()
        .filter(|key| !key.value.eq_ignore_ascii_case("kms"))
        .map(|key| Secret::new(key.value.clone()));
    [password.clone()].into_iter().chain(key).collect()
}

/// Saves the diagnostics. The VM is already stopped, so its disk can be read.
fn with_evidence(error: Error, session: &BuildSession, scratch: &ScratchDirs) -> Error {
    let request = session.request;
    let sink = request.sink.as_ref();
    if error.kind() == Kind::Cancelled {
        return error;
    }
    let debug = scratch.run().join(evidence::DEBUG);
    if let Err(e) = request.recording.write(&debug) {
        sink.warn(format!("could not write {}: {e}", evidence::DEBUG));
    }
    let chain = session.chain.as_ref();
    let (disk, layers) = (session.disk(), request.store.layers_folder());
    let disk = disk.as_deref().filter(|disk| disk.exists());
    let scene = evidence::FailureScene {
        output: &request.output,
        run_dir: scratch.run(),
        disk: disk.map(|disk| DiskImage::with_layers(disk, &layers)),
        phase: session.phase,
        step: session.step.as_ref(),
        recipe: &request.recipe.name.value,
        next: &chain.map_or_else(String::new, |chain| resume::next(request, chain)),
        secrets: &collect_secrets(request.recipe, &request.password),
    };
    evidence::keep(error, &scene, sink, request.cancel)
}

/// Keeps the discs and the VM's disk for the user, and returns a line about each.
fn keep_files(session: BuildSession, scratch: &mut ScratchDirs) -> Vec<String> {
    let kept = scratch.keep().to_path_buf();
    let mut lines = vec![format!("the build's discs are kept in {}", kept.display())];
    lines.extend(session.keep().map(|disk| match disk {
        Ok(disk) => format!("the VM's disk is kept: {}", disk.display()),
        Err(error) => format!("could not keep the VM's disk: {error}"),
    }));
    // answer.iso is deleted once Windows is installed; until then, warn that it holds the password.
    if kept.join(media::ANSWER_DISC).exists() {
        let warning = "answer.iso in that folder contains this build's Administrator password";
        lines.push(warning.into());
    }
    lines
}
