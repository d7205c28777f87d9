//! `matrix.html`: one page over all variants, with a link to each one's own.
//!
//! Pure. Text may come from a guest, so it is untrusted and escaped.

use winimg_base::event::FindingSeverity;
use winimg_base::text::{count, format_duration, format_size};

use crate::build_report::{BuildReport, BuildState};
use crate::page::{
    self, HtmlPage, PageSection, encode_link, escape_html, render_headed_table, render_prose,
    to_sentence,
};

/// The page's name, beside the variants' output folders.
pub const PAGE: &str = "matrix.html";

/// A variant and its last build.
pub struct MatrixRow {
    pub name: String,
    /// `None`: it was never built.
    pub story: Option<BuildReport>,
}

/// Result of a variant's last build, in the order of the page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum VariantStatus {
    Failed,
    Interrupted,
    Open,
    Built,
    Never,
}

impl VariantStatus {
    fn from_row(row: &MatrixRow) -> Self {
        match row.story.as_ref().map(|story| &story.state) {
            None => Self::Never,
            Some(BuildState::Built) => Self::Built,
            Some(BuildState::Failed(_)) => Self::Failed,
            Some(BuildState::Interrupted) => Self::Interrupted,
            Some(BuildState::Open) => Self::Open,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Open => "not ended",
            Self::Built => "built",
            Self::Never => "not built",
        }
    }

    fn class(self) -> &'static str {
        match self {
            Self::Failed => "bad",
            Self::Built => "fine",
            Self::Interrupted | Self::Open | Self::Never => "note",
        }
    }
}

/// Renders the page; `file` is the name of the matrix.
pub fn render_page(file: &str, rows: &[MatrixRow]) -> HtmlPage {
    let headline = render_headline(rows);
    let class = match rows.len() {
        _ if count_rows(rows, VariantStatus::Failed) > 0 => "bad",
        all if count_rows(rows, VariantStatus::Built) == all => "good",
        _ => "unknown",
    };
    let head = format!(
        "<p class=\"build\">{}</p>\n<h1 class=\"{class}\">{}</h1>\n",
        escape_html(&format!("Builds of {file}")),
        render_prose(&headline)
    );
    let sections = [
        ("variants", "Variants", render_variants(rows)),
        ("failed", "Failures", render_failures(rows)),
        ("findings", "Findings", render_all_findings(rows)),
    ]
    .map(|(id, title, body)| PageSection { id, title, body });
    HtmlPage::new(format!("{file}: {headline}"), head, sections)
}

fn count_rows(rows: &[MatrixRow], wanted: VariantStatus) -> usize {
    rows.iter()
        .filter(|row| VariantStatus::from_row(row) == wanted)
        .count()
}

/// Renders the headline, such as `1 of 6 variants failed, 5 are built`.
fn render_headline(rows: &[MatrixRow]) -> String {
    let all = count(rows.len(), "variant");
    let built = count_rows(rows, VariantStatus::Built);
    match count_rows(rows, VariantStatus::Failed) {
        0 if built == rows.len() => format!("{all}: all are built"),
        0 => format!("{built} of {all} are built"),
        failed => format!("{failed} of {all} failed, {built} are built"),
    }
}

fn render_variants(rows: &[MatrixRow]) -> String {
    let rows: String = rows.iter().map(render_variant).collect();
    render_headed_table(
        "artifacts",
        &["variant", "state", "took", "size", "findings"],
        &rows,
    )
}

fn render_variant(row: &MatrixRow) -> String {
    let standing = VariantStatus::from_row(row);
    let story = row.story.as_ref();
    let name = match story {
        Some(_) => format!(
            "<a href=\"{}\">{}</a>",
            link_report(&row.name),
            escape_html(&row.name)
        ),
        None => escape_html(&row.name),
    };
    let took = story
        .map(|s| s.timeline.compute_duration())
        .filter(|s| *s > 0.0);
    let built = story.and_then(|s| s.built.as_ref());
    let bytes = built.map(|m| m.artifacts.iter().map(|a| a.size).sum());
    format!(
        "<tr><th scope=\"row\">{name}</th><td><span class=\"{}\">{}</span></td>\
         <td>{}</td><td>{}</td><td>{}</td></tr>\n",
        standing.class(),
        standing.label(),
        took.map(format_duration).unwrap_or_default(),
        bytes.map(format_size).unwrap_or_default(),
        story.map(count_findings).unwrap_or_default(),
    )
}

/// Counts the findings, such as `1 error, 2 warnings`.
fn count_findings(story: &BuildReport) -> String {
    let counts: Vec<String> = [
        (FindingSeverity::Error, "error"),
        (FindingSeverity::Warning, "warning"),
    ]
    .into_iter()
    .filter_map(|(severity, word)| {
        let findings = story.timeline.findings.iter();
        let number = findings.filter(|found| found.severity == severity).count();
        (number > 0).then(|| count(number, word))
    })
    .collect();
    if !counts.is_empty() {
        counts.join(", ")
    } else if story.timeline.checked.is_empty() {
        String::new()
    } else {
        "none".into()
    }
}

/// Renders the error of each failed build and the next step.
fn render_failures(rows: &[MatrixRow]) -> String {
    rows.iter().filter_map(render_failure).collect()
}

fn render_failure(row: &MatrixRow) -> Option<String> {
    let story = row.story.as_ref()?;
    let BuildState::Failed(problem) = &story.state else {
        return None;
    };
    let next = story.failure.as_ref().map_or("", |failure| &failure.next);
    let mut parts = problem.list_parts();
    if !next.is_empty() {
        parts.push(("next".into(), to_sentence(next)));
    }
    let headline = format!(
        "<a href=\"{}\">{}</a>: {}",
        link_report(&row.name),
        escape_html(&row.name),
        render_prose(&problem.message)
    );
    Some(page::render_finding(
        FindingSeverity::Error,
        &headline,
        &parts,
        &problem.lines,
    ))
}

fn render_all_findings(rows: &[MatrixRow]) -> String {
    rows.iter().filter_map(render_findings).collect()
}

fn render_findings(row: &MatrixRow) -> Option<String> {
    let story = row.story.as_ref()?;
    let items: String = story
        .timeline
        .findings
        .iter()
        .filter(|found| found.severity != FindingSeverity::Unknown)
        .map(|found| format!("<li>{}</li>\n", render_prose(&found.details.message)))
        .collect();
    let title = format!(
        "<h3><a href=\"{}\">{}</a></h3>\n",
        link_report(&row.name),
        escape_html(&row.name)
    );
    (!items.is_empty()).then(|| title + &page::wrap_tag("ul", &items))
}

/// Returns the link to a variant's own page.
fn link_report(name: &str) -> String {
    encode_link(&format!("{name}/{}", page::REPORT))
}
