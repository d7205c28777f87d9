//! How a build went: bars on one axis of time; what the cache had for it; its warnings.

use std::fmt::Write as _;

use super::super::{Row, RowKind, Story};
use crate::page::{clock, prose, shown, size, within};
use winimg_base::text::duration;

/// So many steps are all shown; of more, those that took their part of the whole.
const STEPS: usize = 24;
const PART: f64 = 0.02;

pub fn timeline(story: &Story) -> String {
    let course = &story.course;
    let all = course.seconds().max(1e-3);
    let steps = course.rows.iter().filter(|row| is_step(row)).count();
    let is_short = |row: &&Row| {
        let seconds = row.seconds.unwrap_or(f64::INFINITY);
        is_step(row) && steps > STEPS && seconds < all * PART
    };
    let (short, long): (Vec<&Row>, Vec<&Row>) = course.rows.iter().partition(is_short);
    if long.is_empty() && short.is_empty() {
        return String::new();
    }
    let list = |rows: &[&Row]| {
        let items: String = rows.iter().map(|row| item(row, all)).collect();
        format!("<ol class=\"course\">\n{items}</ol>\n")
    };
    let mut out = format!(
        "<p class=\"note\">Each bar lies between the first event and the last one, {} later.</p>\n",
        duration(all)
    );
    out += &list(&long);
    if !short.is_empty() {
        let seconds = short.iter().filter_map(|row| row.seconds).sum();
        let _ = write!(
            out,
            "<details>\n<summary>{} shorter steps, {} in all</summary>\n{}</details>\n",
            short.len(),
            duration(seconds),
            list(&short)
        );
    }
    out
}

fn is_step(row: &Row) -> bool {
    matches!(row.kind, RowKind::Step(_))
}

fn item(row: &Row, all: f64) -> String {
    let class = match (row.kind, row.seconds) {
        (RowKind::Restart, _) => "mark",
        (_, None) => "open",
        (RowKind::Phase(_), _) => "phase",
        (RowKind::Step(_), _) => "step",
        (RowKind::Pause, _) => "pause",
        (RowKind::Sealed, _) => "sealed",
    };
    let took = match (row.kind, row.seconds) {
        (RowKind::Restart, _) => String::new(),
        (_, Some(seconds)) => duration(seconds),
        (_, None) => "did not end".into(),
    };
    let inner = if matches!(row.kind, RowKind::Phase(_)) {
        ""
    } else {
        " inner"
    };
    let share = |seconds: f64| (seconds / all * 100.0).clamp(0.0, 100.0);
    // What began with the last event is seen, too.
    let left = share(row.after).min(99.5);
    let width = match row.kind {
        RowKind::Restart => 0.0,
        _ => share(row.seconds.unwrap_or(all - row.after)).min(100.0 - left),
    };
    format!(
        "<li class=\"{class}{inner}\"><span class=\"at\">{}</span> <span class=\"what\">{}</span> \
         <span class=\"bar\"><i style=\"left:{left:.2}%;width:{width:.2}%\"></i></span> <span class=\"took\">{took}</span></li>\n",
        clock(row.after),
        prose(&row.what)
    )
}

pub fn warnings(story: &Story) -> String {
    let items = story.course.warnings.iter();
    let items = items.map(|text| format!("<li>{}</li>\n", prose(text)));
    within("ul", &items.collect::<String>())
}

/// What layers the build had, why no later one, and what it sealed.
pub fn cache(story: &Story) -> String {
    let layers = &story.course.layers;
    let mut out = String::new();
    if let Some(used) = &layers.used {
        let _ = write!(
            out,
            "<p>Resumed from the layer after {}: {} of {} parts were done before.</p>\n<p class=\"source\">{}</p>\n",
            prose(&used.after),
            used.parts,
            used.of,
            shown(&used.key)
        );
    }
    let stale = layers.stale.iter();
    let stale = stale.map(|why| format!("<li>{}</li>\n", prose(why)));
    let stale = within("ul", &stale.collect::<String>());
    if !stale.is_empty() {
        let _ = write!(out, "<h3>Why no later layer</h3>\n{stale}");
    }
    let sealed = layers.sealed.iter();
    let sealed = sealed.map(|layer| {
        format!(
            "<li>after {}, {} <span class=\"source\">{}</span></li>\n",
            prose(&layer.after),
            size(layer.bytes),
            shown(&layer.key)
        )
    });
    let sealed = within("ul", &sealed.collect::<String>());
    if !sealed.is_empty() {
        let _ = write!(out, "<h3>Layers sealed</h3>\n{sealed}");
    }
    out
}
