//! What came out of a build, what to do with it next, and what was found of it.

use super::super::{Found, Road, Story, Tried};
use crate::page::{finding, headed_table, prose, shown, size, text_block, within};
use winimg_base::event::Severity;
use winimg_base::text::count;

/// `2 artifacts, 12.3 GiB in all. …`
pub fn in_short(story: &Story) -> String {
    let Some(manifest) = &story.built else {
        return "Its folder held already what the recipe makes.".into();
    };
    let bytes = manifest.artifacts.iter().map(|a| a.size).sum();
    let windows = &manifest.windows;
    format!(
        "{} {}, {}: {}, {} in all.",
        windows.display_name,
        windows.build,
        windows.language,
        count(manifest.artifacts.len(), "artifact"),
        size(bytes)
    )
}

pub fn artifacts(story: &Story) -> String {
    let artifacts = story.built.iter().flat_map(|m| &m.artifacts);
    let rows: String = artifacts
        .map(|artifact| {
            format!(
                "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td><code>{}</code></td></tr>\n",
                story.linked(&artifact.file),
                shown(&artifact.kind),
                size(artifact.size),
                shown(&artifact.sha256)
            )
        })
        .collect();
    headed_table("artifacts", &["file", "kind", "size", "SHA-256"], &rows)
}

/// A trial where there was none yet, then the platforms' own commands.
pub fn next(story: &Story) -> String {
    let Some(manifest) = &story.built else {
        return String::new();
    };
    let mut out = String::new();
    if story.tries.is_empty() {
        let targets = manifest.targets.iter().map(|t| format!(" --as {t}"));
        let targets = match manifest.targets.is_empty() {
            true => " --as TARGET".into(),
            false => targets.collect::<String>(),
        };
        let line = format!("winimg try .{targets}");
        out += "<p>Start two clones of it as the platform would, before it is uploaded. <code>winimg targets</code> lists the platforms.</p>\n";
        out += &text_block(&line);
    }
    out.extend(story.roads.iter().map(road));
    if !out.is_empty() {
        out += "<p class=\"note\">To be typed in the folder of this page. What stands in capitals is yours to fill in.</p>\n";
    }
    out
}

fn road(road: &Road) -> String {
    let (title, commands) = (shown(road.title), text_block(&road.commands));
    format!("<h3>{title}</h3>\n{commands}")
}

/// Of the verification, and of trials.
pub fn findings(story: &Story) -> String {
    let course = &story.course;
    let mut out = String::new();
    for checked in &course.checked {
        out += &format!("<p>{}</p>\n", prose(checked));
    }
    out.extend(course.findings.iter().map(found));
    let tries: String = story
        .tries
        .iter()
        .map(|tried| one_try(story, tried))
        .collect();
    if !tries.is_empty() {
        out += &format!("<h3>Trials</h3>\n{}", within("ul", &tries));
    }
    out
}

fn found(found: &Found) -> String {
    let (class, word) = match found.severity {
        Severity::Error => ("error", "Error"),
        Severity::Warning => ("warning", "Warning"),
        Severity::Unknown => ("unknown", "Unknown"),
    };
    let step = found.step.iter().map(|step| ("step".into(), step.clone()));
    let parts: Vec<_> = step.chain(found.details.parts()).collect();
    let headline = format!("{word}: {}", prose(&found.details.message));
    finding(class, &headline, &parts, &found.details.lines)
}

fn one_try(story: &Story, tried: &Tried) -> String {
    let class = if tried.is_good { "fine" } else { "bad" };
    let page = tried
        .page
        .iter()
        .map(|page| format!(" {}", story.linked(page)));
    format!(
        "<li><strong class=\"{class}\">{}</strong>: {}.{}</li>\n",
        shown(&tried.outcome),
        prose(&tried.summary),
        page.collect::<String>()
    )
}
