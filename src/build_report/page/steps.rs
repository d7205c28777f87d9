//! The steps, collapsed: commands, exit codes, the end of the output.

use std::fmt::Write as _;

use super::super::{BuildReport, ReportStep, ReportStepEnd};
use crate::engine::run::exit_code;
use crate::page::{escape_html, render_text_block};
use winimg_base::text::format_duration;
use winimg_machine::vm::symptoms::find_code_cause;

pub fn render_steps(report: &BuildReport) -> String {
    report
        .steps
        .iter()
        .map(|step| render_step(report, step))
        .collect()
}

fn render_step(report: &BuildReport, step: &ReportStep) -> String {
    let class = match step.end {
        ReportStepEnd::Open => " class=\"bad\"",
        ReportStepEnd::Skipped(_) => " class=\"note\"",
        ReportStepEnd::Done | ReportStepEnd::Layer => "",
    };
    let mut out = format!(
        "<details>\n<summary{class}>{}. {}: {}</summary>\n",
        step.number,
        escape_html(&step.name),
        escape_html(&describe_end(step))
    );
    let verb = step.verb.iter().map(|verb| format!("{verb}, "));
    let about = format!("{}{}", verb.collect::<String>(), step.place);
    let _ = writeln!(out, "<p class=\"source\">{}</p>", escape_html(&about));
    if !step.commands.is_empty() {
        out += &render_text_block(&step.commands.join("\n"));
    }
    if let Some((file, end)) = &step.log {
        let file = report.render_link(file);
        let _ = write!(
            out,
            "<p class=\"source\">The end of its log; full text in {file}</p>\n{}",
            render_text_block(end)
        );
    }
    out += "</details>\n";
    out
}

/// Describes a step's end, such as `3.2 s, exit code 0`.
fn describe_end(step: &ReportStep) -> String {
    let took = step.seconds.map(format_duration);
    let end = match &step.end {
        ReportStepEnd::Open => Some("failed or unfinished".to_owned()),
        ReportStepEnd::Layer => Some("in a layer of an earlier build".into()),
        ReportStepEnd::Skipped(when) => return format!("skipped, when = {when}"),
        ReportStepEnd::Done => None,
    };
    let code = step
        .exit_codes
        .last()
        .copied()
        .flatten()
        .map(|code| match find_code_cause(code) {
            Some(meaning) => format!("exit code {}: {meaning}", exit_code(code)),
            None => format!("exit code {}", exit_code(code)),
        });
    let words: Vec<String> = [end, took, code].into_iter().flatten().collect();
    if words.is_empty() {
        "no command".into()
    } else {
        words.join(", ")
    }
}
