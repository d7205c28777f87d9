//! What failed, what is likely behind it, what Windows says of it, and how to go on.

use std::fmt::Write as _;

use super::super::{State, Story};
use crate::engine::evidence::{FOLDER, Fault, Part};
use crate::page::{definitions, prose, sentence, shown, text_block, within};

pub fn causes(story: &Story) -> String {
    let mut out = String::new();
    for cause in story.failure.iter().flat_map(|failure| &failure.causes) {
        let _ = write!(
            out,
            "<div class=\"cause\">\n<p><strong>{}</strong></p>\n<p>{}</p>\n{}<p class=\"source\">{}</p>\n</div>\n",
            prose(&sentence(&cause.cause)),
            prose(&sentence(&cause.cure)),
            text_block(&cause.line),
            shown(&cause.source.to_string()),
        );
    }
    out
}

pub fn what(story: &Story) -> String {
    let State::Failed(problem) = &story.state else {
        return String::new();
    };
    match &story.failure {
        Some(failure) => described(&failure.error),
        None => described(&Fault {
            fact: problem.message.clone(),
            parts: problem.parts(),
            lines: problem.lines.clone(),
            around: Vec::new(),
        }),
    }
}

fn described(error: &Fault) -> String {
    let mut out = definitions(&error.parts);
    if !error.lines.is_empty() {
        out += &text_block(&error.lines.join("\n"));
    }
    if !error.around.is_empty() {
        out.push_str("<h3>In the recipe</h3>\n<pre>");
        for (number, line, own) in &error.around {
            let line = format!("{number:>4}  {}", shown(line));
            let _ = match own {
                true => writeln!(out, "<mark>{line}</mark>"),
                false => writeln!(out, "{line}"),
            };
        }
        out.push_str("</pre>\n");
    }
    out
}

/// The line to type, and from where that build resumes.
pub fn again(story: &Story) -> String {
    if story.state == State::Built {
        return String::new();
    }
    let course = &story.course;
    let path = course.recipe_path.as_ref();
    let line = course.line.clone();
    let line = line.or_else(|| Some(format!("winimg build {}", path?)));
    let Some(line) = line else {
        return String::new();
    };
    let next = story.failure.as_ref().map(|failure| failure.next.clone());
    let next = next.filter(|next| !next.is_empty());
    let resumes = next.or_else(|| {
        let sealed = course.layers.sealed.last().map(|sealed| &sealed.after);
        let used = course.layers.used.as_ref().map(|used| &used.after);
        let after = sealed.or(used)?;
        Some(format!(
            "the next build resumes from the layer after {after}"
        ))
    });
    let resumes =
        resumes.unwrap_or_else(|| "no layer is sealed yet: it starts from the beginning".into());
    format!(
        "{}<p>{}</p>\n",
        text_block(&line),
        prose(&sentence(&resumes))
    )
}

pub fn windows(story: &Story) -> String {
    let Some(failure) = &story.failure else {
        return String::new();
    };
    let mut out = String::new();
    if let Some(reading) = &failure.reading {
        let headline = shown(&reading.headline);
        let _ = writeln!(out, "<p><strong>{headline}.</strong></p>");
        let lines = reading.lines.iter();
        let lines = lines.map(|line| format!("<li>{}</li>\n", shown(line)));
        out += &within("ul", &lines.collect::<String>());
    }
    if !failure.errors.is_empty() {
        out.push_str("<h3>The last errors in its logs</h3>\n");
        for of_log in failure.errors.chunk_by(|a, b| a.0 == b.0) {
            let lines: Vec<&str> = of_log.iter().map(|(_, line)| line.as_str()).collect();
            let (log, lines) = (shown(&of_log[0].0), text_block(&lines.join("\n")));
            let _ = write!(out, "<p class=\"source\">{log}</p>\n{lines}");
        }
    }
    if !failure.bootstrap.is_empty() {
        out.push_str("<h3>winimg's first commands in the guest</h3>\n");
        out.extend(failure.bootstrap.iter().map(|p| part(story, p)));
    }
    if !failure.logs.is_empty() {
        out.push_str("<h3>Logs read from the disk</h3>\n<ul>\n");
        for (file, phase, cut) in &failure.logs {
            let cut = if *cut { "; its end only" } else { "" };
            let file = story.linked(&format!("{FOLDER}/{file}"));
            let _ = writeln!(out, "<li>{file}: {}{cut}</li>", shown(phase));
        }
        out.push_str("</ul>\n");
    }
    out
}

/// Of the step that ran last.
pub fn output(story: &Story) -> String {
    let output = story.failure.as_ref().and_then(|f| f.step_output.as_ref());
    output.map_or_else(String::new, |output| part(story, output))
}

/// The end of a text, with a link to all of it.
pub fn part(story: &Story, part: &Part) -> String {
    let all = story.linked(&format!("{FOLDER}/{}", part.file));
    format!(
        "<p class=\"source\">{}; all of it in {all}</p>\n{}",
        shown(&part.title),
        text_block(&part.text)
    )
}
