//! `matrix.html`: one page over all variants, with a link to each one's own.
//!
//! Pure. What it shows may come from a guest: it is foreign text and is escaped.

use winimg_base::event::Severity;
use winimg_base::text::{count, duration};

use crate::page::{self, Page, Section, headed_table, link, prose, sentence, shown, size};
use crate::story::{State, Story};

/// The page's name, beside the variants' output folders.
pub const PAGE: &str = "matrix.html";

/// A variant and what is known of its last build.
pub struct Row {
    pub name: String,
    /// `None`: it was never built.
    pub story: Option<Story>,
}

/// How a variant stands, in the order in which the page says it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Failed,
    Interrupted,
    Open,
    Built,
    Never,
}

impl Standing {
    fn of(row: &Row) -> Self {
        match row.story.as_ref().map(|story| &story.state) {
            None => Self::Never,
            Some(State::Built) => Self::Built,
            Some(State::Failed(_)) => Self::Failed,
            Some(State::Interrupted) => Self::Interrupted,
            Some(State::Open) => Self::Open,
        }
    }

    fn word(self) -> &'static str {
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

/// `file`: the matrix, as it is called.
pub fn page(file: &str, rows: &[Row]) -> Page {
    let headline = headline(rows);
    let class = match rows.len() {
        _ if number(rows, Standing::Failed) > 0 => "bad",
        all if number(rows, Standing::Built) == all => "good",
        _ => "unknown",
    };
    let head = format!(
        "<p class=\"build\">{}</p>\n<h1 class=\"{class}\">{}</h1>\n",
        shown(&format!("Builds of {file}")),
        prose(&headline)
    );
    let sections = [
        ("variants", "Variants", variants(rows)),
        ("failed", "What failed", failed(rows)),
        ("findings", "Findings", findings(rows)),
    ];
    let sections = sections.map(|(id, title, body)| Section { id, title, body });
    Page::new(format!("{file}: {headline}"), head, sections)
}

fn number(rows: &[Row], wanted: Standing) -> usize {
    let rows = rows.iter();
    rows.filter(|row| Standing::of(row) == wanted).count()
}

/// `1 of 6 variants failed, 5 are built`
fn headline(rows: &[Row]) -> String {
    let all = count(rows.len(), "variant");
    let built = number(rows, Standing::Built);
    match number(rows, Standing::Failed) {
        0 if built == rows.len() => format!("{all}: all are built"),
        0 => format!("{built} of {all} are built"),
        failed => format!("{failed} of {all} failed, {built} are built"),
    }
}

fn variants(rows: &[Row]) -> String {
    let row = |row: &Row| {
        let standing = Standing::of(row);
        let story = row.story.as_ref();
        let name = match story {
            Some(_) => format!("<a href=\"{}\">{}</a>", report(&row.name), shown(&row.name)),
            None => shown(&row.name),
        };
        let took = story.map(|s| s.course.seconds()).filter(|s| *s > 0.0);
        let built = story.and_then(|s| s.built.as_ref());
        let bytes = built.map(|m| m.artifacts.iter().map(|a| a.size).sum());
        format!(
            "<tr><th scope=\"row\">{name}</th><td><span class=\"{}\">{}</span></td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            standing.class(),
            standing.word(),
            took.map(duration).unwrap_or_default(),
            bytes.map(size).unwrap_or_default(),
            story.map(counted).unwrap_or_default(),
        )
    };
    let rows: String = rows.iter().map(row).collect();
    headed_table(
        "artifacts",
        &["variant", "state", "took", "size", "findings"],
        &rows,
    )
}

/// `1 error, 2 warnings`
fn counted(story: &Story) -> String {
    let of = |severity| {
        let found = story.course.findings.iter();
        found.filter(|found| found.severity == severity).count()
    };
    let words = [
        (of(Severity::Error), "error"),
        (of(Severity::Warning), "warning"),
    ];
    let words = words.iter().filter(|(number, _)| *number > 0);
    let words: Vec<String> = words.map(|(number, word)| count(*number, word)).collect();
    match words.is_empty() {
        true if story.course.checked.is_empty() => String::new(),
        true => "none".into(),
        false => words.join(", "),
    }
}

/// The fact of each failed build, and what follows from it.
fn failed(rows: &[Row]) -> String {
    let one = |row: &Row| {
        let story = row.story.as_ref()?;
        let State::Failed(problem) = &story.state else {
            return None;
        };
        let next = story.failure.as_ref().map_or("", |failure| &failure.next);
        let mut parts = problem.parts();
        if !next.is_empty() {
            parts.push(("next".into(), sentence(next)));
        }
        let headline = format!(
            "<a href=\"{}\">{}</a>: {}",
            report(&row.name),
            shown(&row.name),
            prose(&problem.message)
        );
        Some(page::finding("error", &headline, &parts, &problem.lines))
    };
    rows.iter().filter_map(one).collect()
}

fn findings(rows: &[Row]) -> String {
    let of = |row: &Row| {
        let story = row.story.as_ref()?;
        let found = story.course.findings.iter();
        let found = found.filter(|found| found.severity != Severity::Unknown);
        let items: String = found
            .map(|found| format!("<li>{}</li>\n", prose(&found.details.message)))
            .collect();
        let title = format!(
            "<h3><a href=\"{}\">{}</a></h3>\n",
            report(&row.name),
            shown(&row.name)
        );
        (!items.is_empty()).then(|| title + &page::within("ul", &items))
    };
    rows.iter().filter_map(of).collect()
}

/// The address of a variant's own page.
fn report(name: &str) -> String {
    link(&format!("{name}/{}", page::REPORT))
}
