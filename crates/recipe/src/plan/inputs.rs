//! What the recipe alone decides about its inputs, said before anything is fetched: downloads over plain http, components
//! that no step uses, and Windows from evaluation media.
//!
//! Pure. Knows an evaluation medium by its digest only; what the medium itself says is read by the build.

use crate::recipe::{InputSource, Origin, ProofSpec, Recipe, Step, Verb};
use winimg_base::diag::{Diagnostic, Diagnostics};
use winimg_base::text::{Located, Place};
use winimg_formats::wim::{Release, evaluation};

/// Adds all that is to be said.
pub fn judge(recipe: &Recipe, complaints: &mut Diagnostics) {
    for input in recipe.inputs() {
        let what = input.id.described();
        match input.source {
            InputSource::Medium(origin) => download(&what, origin, complaints),
            InputSource::Component(component) => download(&what, &component.origin, complaints),
            // Without a digest it is refused when the recipe is read.
            InputSource::Image(image)
                if input.pinned().is_some() && image.reference.value.is_exposed() =>
            {
                complaints.push(seen(&what, &image.reference.place));
            }
            InputSource::Image(_) => {}
        }
    }
    if let Some((release, place)) = evaluated(recipe) {
        complaints.push(ends(release, place));
    }
}

/// A warning for each component that was forgotten in the steps, or left when its step went. It harms no build, so only
/// `validate` and `plan` report it.
pub fn unused(recipe: &Recipe) -> Vec<Diagnostic> {
    let undecided =
        |step: &Step| step.skipped.is_none() && matches!(step.verb, Verb::Undecided { .. });
    if recipe.steps.iter().any(undecided) {
        // What such a step uses is not known yet.
        return Vec::new();
    }
    let components = recipe.components.iter();
    let names = components.filter(|c| !c.is_used).map(|c| &c.name);
    names
        .map(|Located { value, place }| {
            Diagnostic::warning(format!("no step uses component `{value}`"))
                .at(place, "it is not fetched, and not in the image")
                .help(format!(
                    "carry it in with a step, such as `copy = {{ component = \"{value}\", to = 'C:\\…' }}`, or take it out of the recipe"
                ))
        })
        .collect()
}

fn download(what: &str, origin: &Origin, complaints: &mut Diagnostics) {
    match &origin.proof {
        ProofSpec::ChecksumFile {
            url, signatures, ..
        } if url.value.is_plain_http() && signatures.is_empty() => {
            let fact = format!("the checksum file of {what} comes over plain http");
            complaints.push(
                Diagnostic::error(fact)
                    .at(&url.place, "anyone on the way can write other digests")
                    .help("use https, or write the digest itself: `sha256 = \"…\"`")
                    .help("or, if the file is signed, who signs it: `checksum_signature = { … }`"),
            );
        }
        // A lock names the bytes.
        ProofSpec::Unverified { .. }
            if origin.url.value.is_plain_http() && origin.locked.is_none() =>
        {
            let fact = format!("{what} comes over plain http, and nothing proves it");
            complaints.push(
                Diagnostic::error(fact)
                    .at(&origin.url.place, "anyone on the way can change it")
                    .help("use https, or pin the file: `sha256 = \"…\"`"),
            );
        }
        ProofSpec::Undecided(_) if origin.url.value.is_exposed() && origin.locked.is_none() => {
            let fact = format!("{what} comes over plain http, and nothing proves it yet");
            complaints.push(
                Diagnostic::warning(fact)
                    .at(&origin.url.place, "anyone on the way can change it")
                    .help("use https before you pin it"),
            );
        }
        _ if origin.url.value.is_exposed() => complaints.push(seen(what, &origin.url.place)),
        _ => {}
    }
}

fn seen(what: &str, place: &Place) -> Diagnostic {
    Diagnostic::warning(format!("{what} comes over plain http"))
        .at(place, "anyone on the way can see and change it")
        .help("the build would refuse what was changed, because the file is proved; https keeps it as it is")
}

/// The release of the evaluation medium that Windows is installed from, where a digest names it.
pub fn evaluated(recipe: &Recipe) -> Option<(Release, &Place)> {
    let iso = &recipe.media.iso;
    let locked = iso.locked.as_ref().map(|l| (&l.digest, &iso.url.place));
    let (digest, place) = match &iso.proof {
        ProofSpec::Digest(digest) => (&digest.value, &digest.place),
        _ => locked?,
    };
    Some((evaluation::known(digest)?, place))
}

/// An image of an evaluation medium ends.
fn ends(release: Release, place: &Place) -> Diagnostic {
    Diagnostic::warning(format!(
        "this is an evaluation medium: {release} from it runs for {} days",
        evaluation::DAYS
    ))
    .at(place, "known by its digest")
    .help("for machines that stay, name volume or retail media with their digest, and a `product_key`")
}
