//! A failure: the error, its likely causes, Windows' own logs, and the next step.

use std::fmt::Write as _;

use super::super::{BuildReport, BuildState};
use crate::engine::evidence::{ErrorRecord, FOLDER, LogExcerpt};
use crate::page::{
    escape_html, render_definitions, render_prose, render_text_block, to_sentence, wrap_tag,
};

pub fn render_causes(report: &BuildReport) -> String {
    let mut out = String::new();
    for cause in report.failure.iter().flat_map(|failure| &failure.causes) {
        let _ = write!(
            out,
            "<div class=\"cause\">\n<p><strong>{}</strong></p>\n<p>{}</p>\n{}\
             <p class=\"source\">{}</p>\n</div>\n",
            render_prose(&to_sentence(&cause.cause)),
            render_prose(&to_sentence(&cause.cure)),
            render_text_block(&cause.line),
            escape_html(&cause.source.to_string()),
        );
    }
    out
}

pub fn render_error(report: &BuildReport) -> String {
    let BuildState::Failed(problem) = &report.state else {
        return String::new();
    };
    match &report.failure {
        Some(failure) => render_fault(&failure.error),
        None => render_fault(&ErrorRecord {
            fact: problem.message.clone(),
            parts: problem.list_parts(),
            lines: problem.lines.clone(),
            around: Vec::new(),
        }),
    }
}

fn render_fault(error: &ErrorRecord) -> String {
    let mut out = render_definitions(&error.parts);
    if !error.lines.is_empty() {
        out += &render_text_block(&error.lines.join("\n"));
    }
    if !error.around.is_empty() {
        out.push_str("<h3>In the recipe</h3>\n<pre>");
        for (number, line, own) in &error.around {
            let line = format!("{number:>4}  {}", escape_html(line));
            let _ = if *own {
                writeln!(out, "<mark>{line}</mark>")
            } else {
                writeln!(out, "{line}")
            };
        }
        out.push_str("</pre>\n");
    }
    out
}

/// Renders the command line for another attempt, and the point where that build resumes.
pub fn render_next_attempt(report: &BuildReport) -> String {
    if report.state == BuildState::Built {
        return String::new();
    }
    let timeline = &report.timeline;
    let line = match (&timeline.line, &timeline.recipe_path) {
        (Some(line), _) => line.clone(),
        (None, Some(path)) => format!("winimg build {path}"),
        (None, None) => return String::new(),
    };
    let next = report
        .failure
        .as_ref()
        .map(|failure| failure.next.clone())
        .filter(|next| !next.is_empty());
    let resumes = next
        .or_else(|| {
            let sealed = timeline.layers.sealed.last().map(|sealed| &sealed.after);
            let used = timeline.layers.used.as_ref().map(|used| &used.after);
            let after = sealed.or(used)?;
            Some(format!(
                "the next build resumes from the layer after {after}"
            ))
        })
        .unwrap_or_else(|| "no layer is sealed yet: it starts from the beginning".into());
    format!(
        "{}<p>{}</p>\n",
        render_text_block(&line),
        render_prose(&to_sentence(&resumes))
    )
}

pub fn render_windows_logs(report: &BuildReport) -> String {
    let Some(failure) = &report.failure else {
        return String::new();
    };
    let mut out = String::new();
    if let Some(reading) = &failure.reading {
        let headline = escape_html(&reading.headline);
        let _ = writeln!(out, "<p><strong>{headline}.</strong></p>");
        let lines: String = reading
            .lines
            .iter()
            .map(|line| format!("<li>{}</li>\n", escape_html(line)))
            .collect();
        out += &wrap_tag("ul", &lines);
    }
    if !failure.errors.is_empty() {
        out.push_str("<h3>Last errors in its logs</h3>\n");
        for of_log in failure.errors.chunk_by(|a, b| a.0 == b.0) {
            let lines: Vec<&str> = of_log.iter().map(|(_, line)| line.as_str()).collect();
            let (log, lines) = (
                escape_html(&of_log[0].0),
                render_text_block(&lines.join("\n")),
            );
            let _ = write!(out, "<p class=\"source\">{log}</p>\n{lines}");
        }
    }
    if !failure.bootstrap.is_empty() {
        out.push_str("<h3>winimg's first commands in the guest</h3>\n");
        out.extend(failure.bootstrap.iter().map(|p| render_log_part(report, p)));
    }
    if !failure.logs.is_empty() {
        out.push_str("<h3>Logs read from the disk</h3>\n<ul>\n");
        for (file, phase, cut) in &failure.logs {
            let cut = if *cut { "; its end only" } else { "" };
            let file = report.render_link(&format!("{FOLDER}/{file}"));
            let _ = writeln!(out, "<li>{file}: {}{cut}</li>", escape_html(phase));
        }
        out.push_str("</ul>\n");
    }
    out
}

/// Renders the output of the step that ran last.
pub fn render_output(report: &BuildReport) -> String {
    report
        .failure
        .as_ref()
        .and_then(|f| f.step_output.as_ref())
        .map_or_else(String::new, |output| render_log_part(report, output))
}

/// Renders the end of a text, with a link to the whole file.
pub fn render_log_part(report: &BuildReport, part: &LogExcerpt) -> String {
    let all = report.render_link(&format!("{FOLDER}/{}", part.file));
    format!(
        "<p class=\"source\">{}; full text in {all}</p>\n{}",
        escape_html(&part.title),
        render_text_block(&part.text)
    )
}
