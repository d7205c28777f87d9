//! The timeline of a build as bars, its layers and its warnings.

use std::fmt::Write as _;

use super::super::{BuildReport, TimelineRow, TimelineRowKind};
use crate::page::{escape_html, format_clock, render_prose, wrap_tag};
use winimg_base::text::{format_duration, format_size};

/// Number of steps up to which all are shown.
const STEPS: usize = 24;
/// Fraction of the whole time from which a step is always shown.
const PART: f64 = 0.02;

pub fn render_timeline(report: &BuildReport) -> String {
    let timeline = &report.timeline;
    let all = timeline.compute_duration().max(1e-3);
    let steps = timeline.rows.iter().filter(|row| is_step(row)).count();
    let (short, long): (Vec<&TimelineRow>, Vec<&TimelineRow>) =
        timeline.rows.iter().partition(|row| {
            let seconds = row.seconds.unwrap_or(f64::INFINITY);
            is_step(row) && steps > STEPS && seconds < all * PART
        });
    if long.is_empty() && short.is_empty() {
        return String::new();
    }
    let mut out = format!("<p class=\"note\">{} in total</p>\n", format_duration(all));
    out += &list(&long, all);
    if !short.is_empty() {
        let seconds = short.iter().filter_map(|row| row.seconds).sum();
        let _ = write!(
            out,
            "<details>\n<summary>{} shorter steps, {} in total</summary>\n{}</details>\n",
            short.len(),
            format_duration(seconds),
            list(&short, all)
        );
    }
    out
}

fn list(rows: &[&TimelineRow], all: f64) -> String {
    let items: String = rows.iter().map(|row| render_row(row, all)).collect();
    format!("<ol class=\"course\">\n{items}</ol>\n")
}

fn is_step(row: &TimelineRow) -> bool {
    matches!(row.kind, TimelineRowKind::Step(_))
}

fn render_row(row: &TimelineRow, all: f64) -> String {
    let class = match (row.kind, row.seconds) {
        (TimelineRowKind::Restart, _) => "mark",
        (_, None) => "open",
        (TimelineRowKind::Phase(_), _) => "phase",
        (TimelineRowKind::Step(_), _) => "step",
        (TimelineRowKind::Pause, _) => "pause",
        (TimelineRowKind::Sealed, _) => "sealed",
    };
    let took = match (row.kind, row.seconds) {
        (TimelineRowKind::Restart, _) => String::new(),
        (_, Some(seconds)) => format_duration(seconds),
        (_, None) => "unfinished".into(),
    };
    let inner = if matches!(row.kind, TimelineRowKind::Phase(_)) {
        ""
    } else {
        " inner"
    };
    // A row that starts at the last event has to be visible, too.
    let left = to_percentage(row.after, all).min(99.5);
    let width = match row.kind {
        TimelineRowKind::Restart => 0.0,
        _ => to_percentage(row.seconds.unwrap_or(all - row.after), all).min(100.0 - left),
    };
    format!(
        "<li class=\"{class}{inner}\"><span class=\"at\">{}</span> <span class=\"what\">{}</span> \
         <span class=\"bar\"><i style=\"left:{left:.2}%;width:{width:.2}%\"></i></span> \
         <span class=\"took\">{took}</span></li>\n",
        format_clock(row.after),
        render_prose(&row.what)
    )
}

fn to_percentage(seconds: f64, all: f64) -> f64 {
    (seconds / all * 100.0).clamp(0.0, 100.0)
}

pub fn render_warnings(report: &BuildReport) -> String {
    let items: String = report
        .timeline
        .warnings
        .iter()
        .map(|text| format!("<li>{}</li>\n", render_prose(text)))
        .collect();
    wrap_tag("ul", &items)
}

/// Renders the layer that the build started from, why no later one was used, and the layers it
/// sealed.
pub fn render_cache(report: &BuildReport) -> String {
    let layers = &report.timeline.layers;
    let mut out = String::new();
    if let Some(used) = &layers.used {
        let _ = write!(
            out,
            "<p>Resumed from the layer after {}: {} of {} parts were already done.</p>\n\
             <p class=\"source\">{}</p>\n",
            render_prose(&used.after),
            used.parts,
            used.of,
            escape_html(&used.key)
        );
    }
    let stale: String = layers
        .stale
        .iter()
        .map(|why| format!("<li>{}</li>\n", render_prose(why)))
        .collect();
    if !stale.is_empty() {
        let stale = wrap_tag("ul", &stale);
        let _ = write!(out, "<h3>Why no later layer was used</h3>\n{stale}");
    }
    let sealed: String = layers
        .sealed
        .iter()
        .map(|layer| {
            format!(
                "<li>after {}, {} <span class=\"source\">{}</span></li>\n",
                render_prose(&layer.after),
                format_size(layer.bytes),
                escape_html(&layer.key)
            )
        })
        .collect();
    if !sealed.is_empty() {
        let sealed = wrap_tag("ul", &sealed);
        let _ = write!(out, "<h3>Sealed layers</h3>\n{sealed}");
    }
    out
}
