//! The film strip: the last screen large, the earlier ones small and in order. Each links to its
//! file.

use super::super::{BuildReport, ReportScreen};
use crate::page::{escape_html, render_figure};
use winimg_base::text::format_duration;

pub fn render_screens(report: &BuildReport) -> String {
    let Some((last, earlier)) = report.screens.split_last() else {
        return String::new();
    };
    let mut out = format!(
        "<div class=\"end\">\n{}</div>\n",
        render_screen(report, last)
    );
    let strip: String = earlier
        .iter()
        .map(|screen| render_screen(report, screen))
        .collect();
    if !strip.is_empty() {
        out += &format!(
            "<div class=\"strip\" tabindex=\"0\" role=\"group\" \
             aria-label=\"Earlier screens\">\n{strip}</div>\n"
        );
    }
    out
}

fn render_screen(report: &BuildReport, screen: &ReportScreen) -> String {
    let name = screen.file.rsplit('/').next().unwrap_or(&screen.file);
    let after = screen
        .after
        .map(|seconds| format!("{} after power-on", format_duration(seconds)));
    let caption: Vec<String> = [
        Some(name.to_owned()),
        screen.stage.clone(),
        after,
        screen.time.clone(),
    ]
    .into_iter()
    .flatten()
    .map(|s| escape_html(&s))
    .collect();
    let alt = match &screen.stage {
        Some(stage) => format!("The machine's screen: {}", escape_html(stage)),
        None => "The machine's screen".into(),
    };
    let file = format!("{}{}", report.base, screen.file);
    render_figure(&file, screen.png.as_deref(), &alt, &caption.join(", "))
}
