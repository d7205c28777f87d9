//! The steps, folded: commands, exit codes, the end of the output.

use std::fmt::Write as _;

use super::super::{Step, StepEnd, Story};
use crate::engine::evidence::known_code;
use crate::engine::run::exit_code;
use crate::page::{shown, text_block};
use winimg_base::text::duration;

pub fn steps(story: &Story) -> String {
    story.steps.iter().map(|step| folded(story, step)).collect()
}

fn folded(story: &Story, step: &Step) -> String {
    let class = match step.end {
        StepEnd::Open => " class=\"bad\"",
        StepEnd::Skipped(_) => " class=\"note\"",
        StepEnd::Done | StepEnd::Layer => "",
    };
    let mut out = format!(
        "<details>\n<summary{class}>{}. {}: {}</summary>\n",
        step.number,
        shown(&step.name),
        shown(&ended(step))
    );
    let verb = step.verb.iter().map(|verb| format!("{verb}, "));
    let about = format!("{}{}", verb.collect::<String>(), step.place);
    let _ = writeln!(out, "<p class=\"source\">{}</p>", shown(&about));
    if !step.commands.is_empty() {
        out += &text_block(&step.commands.join("\n"));
    }
    if let Some((file, end)) = &step.log {
        let file = story.linked(file);
        let _ = write!(
            out,
            "<p class=\"source\">The end of its log; all of it in {file}</p>\n{}",
            text_block(end)
        );
    }
    out += "</details>\n";
    out
}

/// `3.2 s, exit code 0`
fn ended(step: &Step) -> String {
    let took = step.seconds.map(duration);
    let end = match &step.end {
        StepEnd::Open => Some("did not end well".to_owned()),
        StepEnd::Layer => Some("in a layer of an earlier build".into()),
        StepEnd::Skipped(when) => return format!("skipped, when = {when}"),
        StepEnd::Done => None,
    };
    let last = step.exit_codes.last().copied().flatten();
    let code = last.map(|code| match known_code(code) {
        Some(meaning) => format!("exit code {}: {meaning}", exit_code(code)),
        None => format!("exit code {}", exit_code(code)),
    });
    let words: Vec<String> = [end, took, code].into_iter().flatten().collect();
    match words.is_empty() {
        true => "no command".into(),
        false => words.join(", "),
    }
}
