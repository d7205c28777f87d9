//! The end of a build that failed: its machine is stopped, the evidence kept, and the error says where all of it is.

use super::session::Session;
use super::{Scratch, evidence, media, resume};
use winimg_base::error::{Error, Kind};
use winimg_base::text::Secret;
use winimg_formats::disk::Image;
use winimg_recipe::recipe::Recipe;

/// The error with the paths of the evidence and of what the user asked to keep.
pub fn explained(error: Error, mut session: Session, scratch: &mut Scratch) -> Error {
    // Where an interrupt was noticed is of no use to anybody.
    let error = match error.kind() {
        Kind::Cancelled => Error::cancelled(),
        _ => error,
    };
    session.stop();
    let error = with_evidence(error, &session, scratch);
    match session.request.pauses.keeps() {
        true => error.lines(kept(session, scratch)),
        false => error,
    }
}

/// What nothing that is kept or shown may hold.
pub fn secrets(recipe: &Recipe, password: &Secret) -> Vec<Secret> {
    let key = recipe.media.product_key.as_ref();
    let key = key.filter(|key| !key.value.eq_ignore_ascii_case("kms"));
    let key = key.map(|key| Secret::new(key.value.clone()));
    [password.clone()].into_iter().chain(key).collect()
}

/// The machine is stopped by now, so its disk can be read.
fn with_evidence(error: Error, session: &Session, scratch: &Scratch) -> Error {
    let request = session.request;
    let sink = request.sink.as_ref();
    if error.kind() == Kind::Cancelled {
        return error;
    }
    let debug = scratch.run().join(evidence::DEBUG);
    if let Err(e) = request.recording.write(&debug) {
        sink.warn(format!("{} could not be written: {e}", evidence::DEBUG));
    }
    let chain = session.chain.as_ref();
    let (disk, layers) = (session.disk(), request.store.layers_folder());
    let disk = disk.as_deref().filter(|disk| disk.exists());
    let scene = evidence::Scene {
        output: &request.output,
        run_dir: scratch.run(),
        disk: disk.map(|disk| Image::layered(disk, &layers)),
        phase: session.phase,
        step: session.step.as_ref(),
        recipe: &request.recipe.name.value,
        next: &chain.map_or_else(String::new, |chain| resume::next(request, chain)),
        secrets: &secrets(request.recipe, &request.password),
    };
    evidence::keep(error, &scene, sink, request.cancel)
}

/// Leaves the discs and the machine's disk for the user: a line for each.
fn kept(session: Session, scratch: &mut Scratch) -> Vec<String> {
    let kept = scratch.keep().to_path_buf();
    let mut lines = vec![format!("the build's discs are kept in {}", kept.display())];
    lines.extend(session.keep().map(|disk| match disk {
        Ok(disk) => format!("the machine's disk is kept: {}", disk.display()),
        Err(error) => format!("the machine's disk could not be kept: {error}"),
    }));
    // Deleted when Windows is installed; before that, a person who asks to keep everything has to know.
    if kept.join(media::ANSWER_DISC).exists() {
        lines.push("answer.iso among them holds the Administrator's password of this build".into());
    }
    lines
}
