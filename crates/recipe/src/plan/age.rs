//! How old the updates are that an image's Windows has, as far as the recipe says.
//!
//! Pure: today is given. Says nothing where nothing is known of a medium or of packages.

use jiff::civil::Date;

use super::inputs::evaluated;
use crate::recipe::verb::Update;
use crate::recipe::{Recipe, Verb};
use winimg_base::diag::Diagnostic;
use winimg_base::text::Place;
use winimg_formats::wim::evaluation;

/// Days after which updates are old: three of Microsoft's monthly rounds were missed.
const OLD: i32 = 90;

/// A warning where the newest updates are old.
pub fn aged(recipe: &Recipe, today: Date) -> Option<Diagnostic> {
    let (date, place) = newest(recipe)?;
    let days = date.until(today).ok()?.get_days();
    if days <= OLD {
        return None;
    }
    let fact = format!("Windows gets no updates after {date}, which is more than {OLD} days ago");
    Some(
        Diagnostic::warning(fact)
            .at(place, "")
            .help("carry later ones in: `updates_folder` and `updates_date` of packs/updates.toml, or a newer medium")
            .help("`windows_at_least` of the same pack refuses an image without them"),
    )
}

/// The day of the newest updates and where it is from; nothing where it is not known.
fn newest(recipe: &Recipe) -> Option<(Date, &Place)> {
    let steps = recipe.steps.iter().filter(|step| step.skipped.is_none());
    let updates = steps.filter_map(|step| match &step.verb {
        Verb::Update(update) => Some(Some(update)),
        // An update, perhaps, of a folder that has no value yet.
        Verb::Undecided { verb: "update", .. } => Some(None),
        _ => None,
    });
    let dates = updates.map(|update| match update {
        Some(Update::Offline { date, .. }) => date.as_ref(),
        Some(Update::Online { .. }) | None => None,
    });
    let dates: Option<Vec<_>> = dates.collect();
    let medium = evaluated(recipe).map(|(release, place)| (evaluation::date(release), place));
    let carried = dates?.into_iter().map(|date| (date.value, &date.place));
    carried.chain(medium).max_by_key(|(date, _)| *date)
}
