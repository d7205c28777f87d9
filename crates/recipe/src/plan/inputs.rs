//! Checks the inputs of a recipe before anything is fetched: downloads over plain http, components
//! that no step uses, and evaluation media.
//!
//! Pure. Recognizes an evaluation medium by its digest only; the build reads the medium itself.

use crate::{DownloadSpec, InputSource, ProofSpec, Recipe, RecipeStep, Verb};
use winimg_base::diag::{Diagnostic, Diagnostics};
use winimg_base::text::{Located, Place};
use winimg_formats::wim::{WindowsRelease, evaluation};

/// Reports all findings.
pub fn judge(recipe: &Recipe, complaints: &mut Diagnostics) {
    for input in recipe.inputs() {
        let what = input.id.describe();
        match input.source {
            InputSource::Medium(origin) => download(&what, origin, complaints),
            InputSource::Component(component) => download(&what, &component.origin, complaints),
            // Without a digest it is already refused when the recipe is read.
            InputSource::Image(image)
                if input.pinned_digest().is_some() && image.reference.value.is_exposed() =>
            {
                complaints.push(warn_plain_http(&what, &image.reference.place));
            }
            InputSource::Image(_) => {}
        }
    }
    if let Some((release, place)) = find_evaluation_release(recipe) {
        complaints.push(warn_expiry(release, place));
    }
}

/// Returns a warning for each component that no step uses. It harms no build, so only `validate`
/// and `plan` report it.
pub fn warn_unused(recipe: &Recipe) -> Vec<Diagnostic> {
    // It is unknown which components an undecided step uses.
    if recipe.steps.iter().any(is_undecided) {
        return Vec::new();
    }
    recipe
        .components
        .iter()
        .filter(|component| !component.is_used)
        .map(|component| &component.name)
        .map(|Located { value, place }| {
            Diagnostic::warning(format!("no step uses component `{value}`"))
                .at(place, "not fetched, and not in the image")
                .help(format!(
                    "add a step such as `copy = {{ component = \"{value}\", to = 'C:\\…' }}`, or \
                     remove the component"
                ))
        })
        .collect()
}

fn is_undecided(step: &RecipeStep) -> bool {
    step.skipped.is_none() && matches!(step.verb, Verb::Undecided { .. })
}

fn download(what: &str, origin: &DownloadSpec, complaints: &mut Diagnostics) {
    match &origin.proof {
        ProofSpec::ChecksumFile {
            url, signatures, ..
        } if url.value.is_plain_http() && signatures.is_empty() => {
            let fact = format!("the checksum file of {what} comes over plain http");
            complaints.push(
                Diagnostic::error(fact)
                    .at(
                        &url.place,
                        "anyone on the network path can change the digests",
                    )
                    .help("use https, or pin the file: `sha256 = \"…\"`")
                    .help(
                        "or, if the file is signed, name its signer: `checksum_signature = \
                        { … }`",
                    ),
            );
        }
        // A lock pins the bytes.
        ProofSpec::Unverified { .. }
            if origin.url.value.is_plain_http() && origin.locked.is_none() =>
        {
            let fact = format!("{what} comes over plain http without a digest or signature");
            complaints.push(
                Diagnostic::error(fact)
                    .at(
                        &origin.url.place,
                        "anyone on the network path can change it",
                    )
                    .help("use https, or pin the file: `sha256 = \"…\"`"),
            );
        }
        ProofSpec::Undecided(_) if origin.url.value.is_exposed() && origin.locked.is_none() => {
            let fact = format!("{what} comes over plain http, and its digest is not set yet");
            complaints.push(
                Diagnostic::warning(fact)
                    .at(
                        &origin.url.place,
                        "anyone on the network path can change it",
                    )
                    .help("use https before you pin it"),
            );
        }
        _ if origin.url.value.is_exposed() => {
            complaints.push(warn_plain_http(what, &origin.url.place))
        }
        _ => {}
    }
}

fn warn_plain_http(what: &str, place: &Place) -> Diagnostic {
    Diagnostic::warning(format!("{what} comes over plain http"))
        .at(place, "anyone on the network path can see and change it")
        .help("a changed file fails the build, because it is verified; https prevents the change")
}

/// Returns the release of the evaluation medium that Windows is installed from, if its digest is
/// known.WindowsRelease
pub fn find_evaluation_release(recipe: &Recipe) -> Option<(WindowsRelease, &Place)> {
    let iso = &recipe.media.iso;
    let locked = iso.locked.as_ref().map(|l| (&l.digest, &iso.url.place));
    let (digest, place) = match &iso.proof {
        ProofSpec::Digest(digest) => (&digest.value, &digest.place),
        _ => locked?,
    };
    Some((evaluation::find_release(digest)?, place))
}

/// Warns that an image from an evaluation medium expires.
fn warn_expiry(release: WindowsRelease, place: &Place) -> Diagnostic {
    Diagnostic::warning(format!(
        "this is an evaluation medium: {release} from it runs for {} days",
        evaluation::DAYS
    ))
    .at(place, "known by its digest")
    .help(
        "for permanent machines, use volume or retail media with their digest, and a `product_key`",
    )
}
