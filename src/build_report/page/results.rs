//! The results of a build: its artifacts, the next steps, and the findings.

use super::super::{BuildReport, NextStep, ReportTrial};
use crate::page::{
    escape_html, render_finding, render_headed_table, render_prose, render_text_block,
    severity_word, wrap_tag,
};
use crate::verify::ReportedFinding;
use winimg_base::text::{count, format_size};

/// Summarizes the artifacts: `Windows …: 2 artifacts, 12.3 GiB in total.`
pub fn in_short(report: &BuildReport) -> String {
    let Some(manifest) = &report.built else {
        return "The folder already had the recipe's artifacts.".into();
    };
    let bytes = manifest.artifacts.iter().map(|a| a.size).sum();
    let windows = &manifest.windows;
    format!(
        "{} {}, {}: {}, {} in total.",
        windows.display_name,
        windows.build,
        windows.language,
        count(manifest.artifacts.len(), "artifact"),
        format_size(bytes)
    )
}

pub fn render_artifacts(report: &BuildReport) -> String {
    let artifacts = report.built.iter().flat_map(|m| &m.artifacts);
    let rows: String = artifacts
        .map(|artifact| {
            format!(
                "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td>\
                 <td><code>{}</code></td></tr>\n",
                report.render_link(&artifact.file),
                escape_html(&artifact.kind),
                format_size(artifact.size),
                escape_html(&artifact.sha256)
            )
        })
        .collect();
    render_headed_table("artifacts", &["file", "kind", "size", "SHA-256"], &rows)
}

/// Renders the command for a trial if there was none yet, then the platforms' own commands.
pub fn next(report: &BuildReport) -> String {
    let Some(manifest) = &report.built else {
        return String::new();
    };
    let mut out = String::new();
    if report.trials.is_empty() {
        let targets: String = if manifest.targets.is_empty() {
            " --as TARGET".into()
        } else {
            let targets = manifest.targets.iter();
            targets.map(|t| format!(" --as {t}")).collect()
        };
        let line = format!("winimg try .{targets}");
        out += "<p>Before you upload the image, boot two clones of it like the platform does. \
                <code>winimg targets</code> lists the platforms.</p>\n";
        out += &render_text_block(&line);
    }
    out.extend(report.next_steps.iter().map(render_next_step));
    if !out.is_empty() {
        out += "<p class=\"note\">Run these in this folder. Replace the words in capitals.</p>\n";
    }
    out
}

fn render_next_step(step: &NextStep) -> String {
    let (title, commands) = (escape_html(step.title), render_text_block(&step.commands));
    format!("<h3>{title}</h3>\n{commands}")
}

/// Renders the findings of the verification and the results of trials.
pub fn render_findings(report: &BuildReport) -> String {
    let timeline = &report.timeline;
    let mut out = String::new();
    for checked in &timeline.checked {
        out += &format!("<p>{}</p>\n", render_prose(checked));
    }
    out.extend(timeline.findings.iter().map(render_reported_finding));
    let trials: String = report
        .trials
        .iter()
        .map(|tried| one_try(report, tried))
        .collect();
    if !trials.is_empty() {
        out += &format!("<h3>Trials</h3>\n{}", wrap_tag("ul", &trials));
    }
    out
}

fn render_reported_finding(found: &ReportedFinding) -> String {
    let word = severity_word(found.severity);
    let step = found.step.iter().map(|step| ("step".into(), step.clone()));
    let parts: Vec<_> = step.chain(found.details.list_parts()).collect();
    let headline = format!("{word}: {}", render_prose(&found.details.message));
    render_finding(found.severity, &headline, &parts, &found.details.lines)
}

fn one_try(report: &BuildReport, tried: &ReportTrial) -> String {
    let class = if tried.is_good { "fine" } else { "bad" };
    let page = tried
        .page
        .iter()
        .map(|page| format!(" {}", report.render_link(page)));
    format!(
        "<li><strong class=\"{class}\">{}</strong>: {}.{}</li>\n",
        escape_html(&tried.outcome),
        render_prose(&tried.summary),
        page.collect::<String>()
    )
}
