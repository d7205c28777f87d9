//! `failure.html`: one page without scripts and without a network that says what failed and shows what there is.
//!
//! Pure. Everything that it shows is foreign text and is escaped; the
//! page's own policy forbids scripts as well.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::DEBUG;
use super::causes::Cause;
use super::reading::Reading;
use super::timeline::{Row, RowKind};
use crate::page::{self, Section, clock, linked, second, sentence, shown, size, within};
use winimg_base::text::duration;

/// All that the page shows; redacted already.
#[derive(Debug, Default)]
pub struct Page {
    pub recipe: String,
    pub phase: Option<&'static str>,
    pub step: Option<(usize, String)>,
    /// ``step 3, `kubelet` ``, where a step failed.
    pub failed_step: Option<String>,
    /// From where the next build resumes; empty where that is not known.
    pub next: String,
    pub failed_at: Option<Timestamp>,
    pub error: Fault,
    pub causes: Vec<Cause>,
    /// Newest first.
    pub screens: Vec<Screen>,
    pub screens_in_all: usize,
    pub reading: Option<Reading>,
    /// Error lines of Windows: the log, the line.
    pub errors: Vec<(String, String)>,
    /// The logs that were read from the disk: where each lies in the evidence, its phase, whether it was cut.
    pub logs: Vec<(String, String, bool)>,
    /// What winimg's own commands left in the guest.
    pub bootstrap: Vec<Part>,
    pub step_output: Option<Part>,
    pub agent: Option<Part>,
    pub machine: Vec<Part>,
    pub timeline: Vec<Row>,
    /// Files beside the page, with their bytes.
    pub files: Vec<(String, u64)>,
}

#[derive(Debug, Default)]
pub struct Fault {
    pub fact: String,
    /// Name and value: at, recipe, expected, found.
    pub parts: Vec<(&'static str, String)>,
    pub lines: Vec<String>,
    pub cure: Option<String>,
    /// Lines of the recipe around the place: number, text, whether it is the one.
    pub around: Vec<(usize, String, bool)>,
}

#[derive(Debug)]
pub struct Screen {
    pub file: String,
    pub time: Option<String>,
    pub after: Option<f64>,
    pub stage: Option<String>,
    /// The picture in base64; none where it is too large for a page.
    pub png: Option<String>,
}

/// The end of a text, and the file that holds all of it.
#[derive(Debug)]
pub struct Part {
    pub title: String,
    pub file: String,
    pub text: String,
}

pub fn page(page: &Page) -> String {
    let sections = [
        ("what", "What failed", what(page)),
        ("causes", "Likely causes", causes(page)),
        ("screens", "Screens", screens(page)),
        ("windows", "What Windows says", windows(page)),
        (
            "output",
            "The step's output",
            part(page.step_output.as_ref()),
        ),
        (
            "agent",
            "The guest agent's last exchanges",
            part(page.agent.as_ref()),
        ),
        ("machine", "The machine", machine(page)),
        ("timeline", "The build", timeline(page)),
        ("files", "Files beside this page", files(page)),
    ];
    let sections = sections.map(|(id, title, body)| Section { id, title, body });
    let head = format!(
        "<p class=\"build\">{}</p>\n<h1>{}</h1>\n{}",
        build(page),
        shown(&headline(page)),
        next(page)
    );
    let title = format!("{}: {}", page.recipe, headline(page));
    page::Page::new(title, head, sections).html()
}

/// The failed step, and what was wrong.
fn headline(page: &Page) -> String {
    let fact = &page.error.fact;
    match &page.failed_step {
        Some(step) => format!("{}: {fact}", sentence(step).trim_end_matches('.')),
        None => fact.clone(),
    }
}

fn next(page: &Page) -> String {
    match page.next.as_str() {
        "" => String::new(),
        next => format!("<p class=\"next\">{}</p>\n", shown(&sentence(next))),
    }
}

/// Which build it was, and where it stood.
fn build(page: &Page) -> String {
    let mut text = format!("Build of {}", shown(&page.recipe));
    if let Some(phase) = page.phase {
        let _ = write!(text, ", in the phase {phase}");
    }
    if let Some((number, name)) = &page.step {
        let _ = write!(text, ", at step {number}, {}", shown(name));
    }
    if let Some(time) = page.failed_at {
        let _ = write!(text, ". {}", second(time));
    }
    text
}

fn what(page: &Page) -> String {
    let error = &page.error;
    let cure = error.cure.iter().map(|cure| ("cure", cure));
    let parts = error.parts.iter().map(|(name, value)| (*name, value));
    let row = |(name, value): (&str, &String)| {
        let value = shown(value);
        format!("<dt>{name}</dt><dd>{value}</dd>\n")
    };
    let mut out = within("dl", &parts.chain(cure).map(row).collect::<String>());
    if !error.lines.is_empty() {
        out += &page::text_block(&error.lines.join("\n"));
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

fn causes(page: &Page) -> String {
    let mut out = String::new();
    for cause in &page.causes {
        let _ = write!(
            out,
            "<div class=\"cause\">\n<p><strong>{}</strong></p>\n<p>{}</p>\n<pre>{}</pre>\n<p class=\"source\">{}</p>\n</div>\n",
            shown(&sentence(cause.cause)),
            shown(&sentence(cause.cure)),
            shown(&cause.line),
            shown(&cause.source.to_string()),
        );
    }
    out
}

fn screens(page: &Page) -> String {
    if page.screens.is_empty() {
        return String::new();
    }
    let mut out = String::from("<div class=\"screens\">\n");
    for screen in &page.screens {
        let after = |seconds| format!("{} after power-on", duration(seconds));
        let caption = [
            Some(shown(&screen.file)),
            screen.stage.as_deref().map(shown),
            screen.after.map(after),
            screen.time.as_deref().map(shown),
        ];
        let caption: Vec<String> = caption.into_iter().flatten().collect();
        let caption = caption.join(", ");
        let alt = "The machine's screen";
        out += &page::figure(&screen.file, screen.png.as_deref(), alt, &caption);
    }
    out.push_str("</div>\n");
    let more = page.screens_in_all.saturating_sub(page.screens.len());
    if more > 0 {
        let _ = writeln!(
            out,
            "<p class=\"note\">{more} earlier in <a href=\"screens\">screens</a>.</p>"
        );
    }
    out
}

fn windows(page: &Page) -> String {
    let mut out = String::new();
    if let Some(reading) = &page.reading {
        let headline = shown(&reading.headline);
        let _ = writeln!(out, "<p><strong>{headline}.</strong></p>");
        let lines = reading.lines.iter();
        let lines = lines.map(|line| format!("<li>{}</li>\n", shown(line)));
        out += &within("ul", &lines.collect::<String>());
    }
    if !page.errors.is_empty() {
        out.push_str("<h3>The last errors in its logs</h3>\n");
        for of_log in page.errors.chunk_by(|a, b| a.0 == b.0) {
            let lines: Vec<&str> = of_log.iter().map(|(_, line)| line.as_str()).collect();
            let (log, lines) = (shown(&of_log[0].0), page::text_block(&lines.join("\n")));
            let _ = write!(out, "<p class=\"source\">{log}</p>\n{lines}");
        }
    }
    if !page.bootstrap.is_empty() {
        out.push_str("<h3>winimg's first commands in the guest</h3>\n");
        out.extend(page.bootstrap.iter().map(|p| part(Some(p))));
    }
    if !page.logs.is_empty() {
        out.push_str("<h3>Logs read from the disk</h3>\n<ul>\n");
        for (file, phase, cut) in &page.logs {
            let cut = if *cut { "; its end only" } else { "" };
            let (file, phase) = (linked(file), shown(phase));
            let _ = writeln!(out, "<li>{file}: {phase}{cut}</li>");
        }
        out.push_str("</ul>\n");
    }
    out
}

fn part(part: Option<&Part>) -> String {
    let Some(part) = part else {
        return String::new();
    };
    let (title, text) = (shown(&part.title), page::text_block(&part.text));
    let all = linked(&part.file);
    format!("<p class=\"source\">{title}; all of it in {all}</p>\n{text}")
}

fn machine(page: &Page) -> String {
    page.machine.iter().map(|p| part(Some(p))).collect()
}

fn timeline(page: &Page) -> String {
    let Some(first) = page.timeline.first() else {
        return String::new();
    };
    let mut out = String::from("<table>\n<tr><th>after</th><th>what</th><th>took</th></tr>\n");
    for row in &page.timeline {
        let after = clock(row.time.duration_since(first.time).as_secs_f64());
        let class = match row.kind {
            RowKind::Phase(_) => "phase",
            RowKind::Step(_) | RowKind::Remark => "step",
        };
        let (open, took) = match (row.kind, row.seconds) {
            (RowKind::Remark, _) => ("", String::new()),
            (_, Some(seconds)) => ("", duration(seconds)),
            (_, None) => (" class=\"open\"", "did not end".into()),
        };
        let _ = writeln!(
            out,
            "<tr{open}><td>{after}</td><td class=\"{class}\">{}</td><td>{took}</td></tr>",
            shown(&row.what)
        );
    }
    out.push_str("</table>\n");
    if page.files.iter().any(|(file, _)| file == DEBUG) {
        let _ = writeln!(
            out,
            "<p class=\"source\">What was decided, requested and answered on the way: <a href=\"{DEBUG}\">{DEBUG}</a></p>"
        );
    }
    out
}

fn files(page: &Page) -> String {
    let row = |(file, bytes): &(String, u64)| {
        let (file, size) = (linked(file), size(*bytes));
        format!("<tr><td class=\"files\">{file}</td><td>{size}</td></tr>\n")
    };
    within("table", &page.files.iter().map(row).collect::<String>())
}
