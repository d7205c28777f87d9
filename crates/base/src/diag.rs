//! Complaints about what the user wrote: each at its line and column, all of them at once.
//!
//! Collects and shows; what is wrong is decided by the modules that read.

use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;
use crate::text::{self, Place, Source};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Error,
    Warning,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// One complaint.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub severity: Severity,
    pub problem: Problem,
    /// A few words under the caret; may be empty.
    pub label: String,
    /// The line could not be read at all: what else is said about it may be an echo.
    pub is_syntax: bool,
}

impl Diagnostic {
    pub fn error(message: impl Into<String>) -> Self {
        Self::new(Severity::Error, message)
    }

    pub fn warning(message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, message)
    }

    fn new(severity: Severity, message: impl Into<String>) -> Self {
        Self {
            severity,
            problem: Problem::new(message),
            label: String::new(),
            is_syntax: false,
        }
    }

    pub fn at(mut self, place: &Place, label: impl Into<String>) -> Self {
        self.problem.place = Some(place.clone());
        self.label = label.into();
        self
    }

    /// The cure, or a did-you-mean.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.problem.cures.push(help.into());
        self
    }

    /// The snippet as rustc shows one, without a trailing newline.
    fn render(&self, renderer: &Renderer) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let mut group = Group::with_title(level.primary_title(self.problem.fact.as_str()));
        let source = self
            .problem
            .place
            .as_ref()
            .map(|p| text::masked(&p.source.text));
        if let (Some(place), Some(source)) = (&self.problem.place, &source) {
            let mark = AnnotationKind::Primary.span(shown_span(place));
            let mark = match self.label.as_str() {
                "" => mark,
                label => mark.label(label),
            };
            group = group.element(
                Snippet::source(source.as_str())
                    .path(place.source.name.as_str())
                    .annotation(mark),
            );
        }
        for help in &self.problem.cures {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        renderer.render(&[group])
    }
}

/// The span clipped to the text and to its first line: a caret under twenty lines of script helps nobody.
fn shown_span(place: &Place) -> Range<usize> {
    let text = place.source.text.as_str();
    let floor = |mut at: usize| {
        at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let start = floor(place.span.start);
    let end = floor(place.span.end).max(start);
    let line = text[start..end].find(['\r', '\n']);
    start..line.map_or(end, |n| start + n)
}

/// All complaints of one reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.0.push(diagnostic);
    }

    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|d| d.severity == Severity::Error)
    }

    /// How many errors and how many warnings.
    pub fn count(&self) -> (usize, usize) {
        let errors = self.0.iter().filter(|d| d.severity == Severity::Error);
        let errors = errors.count();
        (errors, self.0.len() - errors)
    }

    /// Complaints without a place first, then source by source (in the order given, others after them as they
    /// came), each from top to bottom. Exact repetitions are dropped.
    pub fn sort(&mut self, order: &[Arc<Source>]) {
        let mut sources = order.to_vec();
        for place in self.0.iter().filter_map(|d| d.problem.place.as_ref()) {
            if !sources.contains(&place.source) {
                sources.push(Arc::clone(&place.source));
            }
        }
        let key = |d: &Diagnostic| {
            let place = d.problem.place.as_ref()?;
            let source = sources.iter().position(|s| *s == place.source);
            Some((source, place.span.start, place.span.end))
        };
        self.0.sort_by_key(key);
        let mut kept: Vec<Diagnostic> = Vec::with_capacity(self.0.len());
        for diagnostic in self.0.drain(..) {
            if !kept.contains(&diagnostic) {
                kept.push(diagnostic);
            }
        }
        self.0 = kept;
    }

    /// Every complaint with its line and a caret, then one line that counts them. Empty when there are none.
    pub fn render(&self, color: bool) -> String {
        let mut sorted = self.clone();
        sorted.sort(&[]);
        if sorted.0.is_empty() {
            return String::new();
        }
        let renderer = match color {
            true => Renderer::styled(),
            false => Renderer::plain(),
        };
        let mut out = String::new();
        for diagnostic in &sorted.0 {
            out.push_str(&diagnostic.render(&renderer));
            out.push_str("\n\n");
        }
        out.push_str(&sorted.summary());
        out.push('\n');
        out
    }

    /// `12 errors, 1 warning in recipe.toml, packs/x.toml`
    pub fn summary(&self) -> String {
        let (errors, warnings) = self.count();
        let counted = |n: usize, word: &str| match n {
            0 => None,
            1 => Some(format!("1 {word}")),
            n => Some(format!("{n} {word}s")),
        };
        let counts = [counted(errors, "error"), counted(warnings, "warning")];
        let mut line = counts.into_iter().flatten().collect::<Vec<_>>().join(", ");
        let mut names: Vec<&str> = Vec::new();
        for place in self.0.iter().filter_map(|d| d.problem.place.as_ref()) {
            if !names.contains(&place.source.name.as_str()) {
                names.push(&place.source.name);
            }
        }
        if !names.is_empty() {
            line.push_str(" in ");
            line.push_str(&names.join(", "));
        }
        line
    }
}

/// All complaints of one reading as events have them, the first line first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Complaints {
    pub errors: usize,
    pub warnings: usize,
    pub diagnostics: Vec<Complaint>,
}

/// A [`Diagnostic`] without the text that it points into.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Complaint {
    pub severity: Severity,
    pub message: String,
    pub place: Option<Lines>,
    /// A few words about the place; may be empty.
    pub label: String,
    /// Cures.
    pub help: Vec<String>,
}

/// From where to where it reaches. Lines and columns are counted from 1, columns in characters; the end is behind the last
/// character.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lines {
    /// The file, as messages name it.
    pub source: String,
    pub line: usize,
    pub column: usize,
    pub end_line: usize,
    pub end_column: usize,
}

impl From<&Diagnostics> for Complaints {
    fn from(all: &Diagnostics) -> Self {
        let mut sorted = all.clone();
        sorted.sort(&[]);
        let (errors, warnings) = sorted.count();
        Self {
            errors,
            warnings,
            diagnostics: sorted.0.iter().map(Complaint::from).collect(),
        }
    }
}

impl From<&Diagnostic> for Complaint {
    fn from(diagnostic: &Diagnostic) -> Self {
        let problem = &diagnostic.problem;
        Self {
            severity: diagnostic.severity,
            message: problem.fact.clone(),
            place: problem.place.as_ref().map(Lines::from),
            label: diagnostic.label.clone(),
            help: problem.cures.clone(),
        }
    }
}

impl Complaint {
    /// For a log: `warning: … (recipe.toml:3:1)`, and a line for each cure.
    pub fn text(&self) -> String {
        let place = self.place.as_ref();
        let place = place.map(|p| format!(" ({}:{}:{})", p.source, p.line, p.column));
        let help = self.help.iter().map(|help| format!("\n  {help}"));
        format!(
            "{}: {}{}{}",
            self.severity.name(),
            self.message,
            place.unwrap_or_default(),
            help.collect::<String>()
        )
    }
}

impl From<&Place> for Lines {
    fn from(place: &Place) -> Self {
        let (line, column) = place.line_column();
        let end = Place::new(&place.source, place.span.end..place.span.end);
        let (end_line, end_column) = end.line_column();
        Self {
            source: place.source.name.clone(),
            line,
            column,
            end_line,
            end_column,
        }
    }
}

/// The candidate that `word` was probably meant to be, if any is near: the same but for case, `-` and `_`, or a
/// slip or two away (Damerau-Levenshtein, about one slip in three letters), or the beginning of it.
pub fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str, IntoIter: Clone>,
) -> Option<&'a str> {
    let candidates = candidates.into_iter();
    let plain = |s: &str| s.to_lowercase().replace(['-', ' '], "_");
    let wanted = plain(word);
    let limit = (wanted.chars().count() / 3).clamp(1, 3);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates.clone() {
        let distance = strsim::damerau_levenshtein(&wanted, &plain(candidate));
        let shorter = wanted.len().min(candidate.len());
        // A word of two letters is near to every other word of two letters.
        if distance > limit || (distance > 0 && shorter < 3) {
            continue;
        }
        if best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    let longer = |candidate: &&str| wanted.len() >= 3 && plain(candidate).starts_with(&wanted);
    let beginning = candidates.clone().find(longer);
    best.map(|(_, candidate)| candidate).or(beginning)
}

/// The candidate most like `word`, for names of several words, where the few slips of [`nearest`] are too strict; `None`
/// when none is like it (Jaro-Winkler, case ignored).
pub fn most_alike<T: AsRef<str>>(word: &str, candidates: impl IntoIterator<Item = T>) -> Option<T> {
    let wanted = word.to_lowercase();
    candidates
        .into_iter()
        .map(|name| {
            let near = strsim::jaro_winkler(&wanted, &name.as_ref().to_lowercase());
            (near, name)
        })
        .filter(|(near, _)| *near > 0.85)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// `did you mean `x`?`, or what is there when nothing is near; `what` as in "variables".
pub fn suggestion(word: &str, candidates: &[&str], what: &str) -> String {
    if let Some(near) = nearest(word, candidates.iter().copied()) {
        return format!("did you mean `{near}`?");
    }
    if candidates.is_empty() {
        return format!("there are no {what}");
    }
    let mut names = candidates.to_vec();
    names.sort_unstable();
    format!("{what}: {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str, span: Range<usize>) -> Place {
        let source = Arc::new(Source {
            name: "recipe.toml".into(),
            text: text.into(),
        });
        Place::new(&source, span)
    }

    #[test]
    fn a_snippet_with_caret_label_and_help() {
        let mut all = Diagnostics::default();
        let at = place("[machine]\ncpu = 4\n", 10..13);
        let complaint = Diagnostic::error("unknown key `cpu` in [machine]")
            .at(&at, "not a key here")
            .help("did you mean `cpus`?");
        all.push(complaint.clone());
        all.push(complaint);
        all.push(Diagnostic::warning("no place"));
        assert_eq!(
            all.render(false),
            "\
warning: no place

error: unknown key `cpu` in [machine]
 --> recipe.toml:2:1
  |
2 | cpu = 4
  | ^^^ not a key here
  |
  = help: did you mean `cpus`?

1 error, 1 warning in recipe.toml
"
        );
        assert!(all.render(true).contains("\u{1b}["));
    }

    #[test]
    fn spans_of_many_lines_beyond_the_text_and_inside_a_character_are_shown() {
        for span in [0..19, 90..95, 5..6, 4..5] {
            let mut all = Diagnostics::default();
            all.push(Diagnostic::error("x").at(&place("a='ä\r\nlong\nscript'", span), ""));
            assert!(all.render(false).contains("recipe.toml:"));
        }
    }

    #[test]
    fn near_words_and_no_far_ones() {
        let words = ["cpus", "memory", "disk_size", "iso"];
        for (word, want) in [
            ("cpu", Some("cpus")),
            ("Disk-Size", Some("disk_size")),
            ("memroy", Some("memory")),
            ("is", None),
            ("mem", Some("memory")),
            ("firmware", None),
        ] {
            assert_eq!(nearest(word, words), want, "{word}");
        }
    }
}
