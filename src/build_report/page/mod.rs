//! `report.html`: one page for a build, successful or failed, without scripts and external
//! resources.
//!
//! Pure. Text may come from the guest or from a publisher, so all of it is escaped; the page's
//! policy forbids scripts as well. A new section is a function here and a line in `page`.

mod failure;
mod inputs;
mod machine;
mod results;
mod screens;
mod steps;
mod timeline;

use std::fmt::Write as _;

use super::{BuildReport, BuildState};
use crate::page::{
    self, HtmlPage, PageSection, escape_html, format_second, render_prose, to_sentence,
};
use winimg_base::text::format_duration;

pub fn render_page(report: &BuildReport) -> HtmlPage {
    let sections = [
        ("causes", "Likely causes", failure::render_causes(report)),
        ("what", "Error", failure::render_error(report)),
        ("artifacts", "Artifacts", results::render_artifacts(report)),
        ("next", "Next steps", results::next(report)),
        (
            "again",
            "Run it again",
            failure::render_next_attempt(report),
        ),
        ("findings", "Findings", results::render_findings(report)),
        ("timeline", "Timeline", timeline::render_timeline(report)),
        ("screens", "Screens", screens::render_screens(report)),
        (
            "windows",
            "Windows logs",
            failure::render_windows_logs(report),
        ),
        (
            "output",
            "Output of the step",
            failure::render_output(report),
        ),
        ("components", "Components", inputs::render_inputs(report)),
        ("steps", "Steps", steps::render_steps(report)),
        ("usage", "Disk usage", machine::render_usage(report)),
        ("warnings", "Warnings", timeline::render_warnings(report)),
        ("cache", "Cache", timeline::render_cache(report)),
        (
            "machine",
            "Machine and versions",
            machine::render_machine(report),
        ),
        ("files", "Files", machine::render_files(report)),
    ]
    .map(|(id, title, body)| PageSection { id, title, body });
    let headline = render_headline(report);
    let head = format!(
        "<p class=\"build\">{}</p>\n<h1 class=\"{}\">{}</h1>\n{}",
        build(report),
        choose_class(&report.state),
        render_prose(&headline),
        explain_outcome(report)
    );
    let title = format!("{}: {headline}", report.recipe);
    HtmlPage::new(title, head, sections)
}

fn choose_class(state: &BuildState) -> &'static str {
    match state {
        BuildState::Built => "good",
        BuildState::Failed(_) => "bad",
        BuildState::Open | BuildState::Interrupted => "unknown",
    }
}

/// Returns the outcome in one sentence without a full stop, with the name of a failed step.
fn render_headline(report: &BuildReport) -> String {
    match &report.state {
        BuildState::Built => format!("{} is built", report.recipe),
        BuildState::Interrupted => format!("the build of {} was interrupted", report.recipe),
        BuildState::Open => format!("the build of {} is not finished", report.recipe),
        BuildState::Failed(problem) => match &report.failure {
            Some(failure) => {
                let fact = &failure.error.fact;
                match &failure.failed_step {
                    Some(step) => format!("{}: {fact}", to_sentence(step).trim_end_matches('.')),
                    None => fact.clone(),
                }
            }
            None => problem.message.clone(),
        },
    }
}

/// Describes the build, its phase and step, and its time.
fn build(report: &BuildReport) -> String {
    let mut text = format!("Build of {}", escape_html(&report.recipe));
    if report.state != BuildState::Built {
        if let Some(phase) = report.timeline.phase {
            let _ = write!(text, ", in the phase {phase}");
        }
        let step = report.failure.as_ref().and_then(|f| f.step.as_ref());
        if let Some((number, name)) = step {
            let _ = write!(text, ", at step {number}, {}", escape_html(name));
        }
    }
    if let Some(time) = report.timeline.last {
        let _ = write!(text, ". {}", format_second(time));
    }
    let seconds = report.timeline.compute_duration();
    if seconds > 0.0 {
        let _ = write!(text, ", after {}", format_duration(seconds));
    }
    text
}

/// Explains the outcome in a sentence or two.
fn explain_outcome(report: &BuildReport) -> String {
    let next = report.failure.as_ref().map_or("", |f| f.next.as_str());
    let text = match &report.state {
        BuildState::Built => results::in_short(report),
        BuildState::Failed(_) if !next.is_empty() => to_sentence(next),
        BuildState::Failed(_) => return String::new(),
        BuildState::Interrupted => "Only its layers and this page remain.".into(),
        BuildState::Open => "Still running, or killed: no end was recorded.".into(),
    };
    format!("<p class=\"next\">{}</p>\n", render_prose(&text))
}

impl BuildReport {
    /// Renders a link to a file in the output folder.
    fn render_link(&self, file: &str) -> String {
        let to = page::encode_link(&format!("{}{file}", self.base));
        format!("<a href=\"{to}\">{}</a>", escape_html(file))
    }
}
