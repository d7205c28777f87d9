//! Estimates from the recipe how old the updates in an image's Windows are.
//!
//! Pure: the current date is an argument. Reports nothing if the age of the medium or of a package
//! is unknown.

use jiff::civil::Date;

use super::inputs::find_evaluation_release;
use crate::verbs::UpdateSpec;
use crate::{Recipe, Verb};
use winimg_base::diag::Diagnostic;
use winimg_base::text::Place;
use winimg_formats::wim::evaluation;

/// Days after which updates are old: three of Microsoft's monthly releases were missed.
const OLD: i32 = 90;

/// Returns a warning if the newest updates are old.
pub fn warn_old_updates(recipe: &Recipe, today: Date) -> Option<Diagnostic> {
    let (date, place) = find_newest(recipe)?;
    let days = date.until(today).ok()?.get_days();
    if days <= OLD {
        return None;
    }
    let fact = format!("Windows gets no updates after {date}, which is more than {OLD} days ago");
    Some(
        Diagnostic::warning(fact)
            .at(place, "")
            .help(
                "add later ones with `updates_folder` and `updates_date` of packs/updates.toml, or \
                 use a newer medium",
            )
            .help("`windows_at_least` of the same pack rejects an image without them"),
    )
}

/// Returns the date of the newest updates and its place in the recipe; `None` if it is unknown.
fn find_newest(recipe: &Recipe) -> Option<(Date, &Place)> {
    let dates: Option<Vec<_>> = recipe
        .steps
        .iter()
        .filter(|step| step.skipped.is_none())
        .filter_map(|step| match &step.verb {
            Verb::Update(UpdateSpec::Offline { date, .. }) => Some(date.as_ref()),
            // The folder of the update may have no value yet.
            Verb::Update(UpdateSpec::Online { .. }) | Verb::Undecided { verb: "update", .. } => {
                Some(None)
            }
            _ => None,
        })
        .collect();
    let medium =
        find_evaluation_release(recipe).map(|(release, place)| (evaluation::date(release), place));
    let carried = dates?.into_iter().map(|date| (date.value, &date.place));
    carried.chain(medium).max_by_key(|(date, _)| *date)
}
