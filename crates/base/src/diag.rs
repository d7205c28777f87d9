//! Diagnostics about the user's input: each at its line and column, all of them at once.
//!
//! Only collects and renders diagnostics; the parsing modules create them.

mod excerpt;
mod similar;

use std::sync::Arc;

use annotate_snippets::{Group, Level, Renderer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;
use crate::text::{Place, SourceText, count};
use excerpt::Excerpt;

pub use similar::{find_most_similar, find_nearest, suggest};

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

/// One error or warning.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub severity: Severity,
    pub problem: Problem,
    /// A few words under the caret; may be empty.
    pub label: String,
    /// The line could not be parsed, so other diagnostics about it may be consequences.
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

    /// Adds a cure, or a did-you-mean.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.problem.cures.push(help.into());
        self
    }

    /// Renders the snippet like rustc, without a trailing newline.
    fn render(&self, renderer: &Renderer) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let mut group = Group::with_title(level.primary_title(self.problem.fact.as_str()));
        let excerpt = self.problem.place.as_ref().map(Excerpt::from_place);
        if let Some(excerpt) = &excerpt {
            group = excerpt.show(group, &self.label);
        }
        for help in &self.problem.cures {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        renderer.render(&[group])
    }
}

/// Maximum number of diagnostics shown; the others are counted.
const MAX_SHOWN: usize = 500;

/// All diagnostics of one run of a parser.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.0.push(diagnostic);
    }

    /// Prevents the diagnostics from showing lines of their sources.
    #[must_use]
    pub fn hide_sources(mut self) -> Self {
        let mut hidden: Vec<(Arc<SourceText>, Arc<SourceText>)> = Vec::new();
        for place in self.0.iter_mut().filter_map(|d| d.problem.place.as_mut()) {
            let to = match hidden.iter().find(|(from, _)| *from == place.source) {
                Some((_, to)) => Arc::clone(to),
                None => {
                    let to = Arc::new(SourceText::clone(&place.source).into_unquotable());
                    hidden.push((Arc::clone(&place.source), Arc::clone(&to)));
                    to
                }
            };
            place.source = to;
        }
        self
    }

    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|d| d.severity == Severity::Error)
    }

    /// Counts errors and warnings.
    pub fn count(&self) -> (usize, usize) {
        let errors = self
            .0
            .iter()
            .filter(|d| d.severity == Severity::Error)
            .count();
        (errors, self.0.len() - errors)
    }

    /// Sorts: diagnostics without a place first, then by source (in the given order, other sources
    /// after them in order of appearance), each from top to bottom. Duplicates are removed.
    pub fn sort(&mut self, order: &[Arc<SourceText>]) {
        let mut sources = order.to_vec();
        for place in self.0.iter().filter_map(|d| d.problem.place.as_ref()) {
            if !sources.contains(&place.source) {
                sources.push(Arc::clone(&place.source));
            }
        }
        self.0.sort_by_cached_key(|d| sort_key(d, &sources));
        let mut kept: Vec<Diagnostic> = Vec::with_capacity(self.0.len());
        for diagnostic in self.0.drain(..) {
            // Duplicates have the same place, so they are adjacent now.
            let at = sort_key(&diagnostic, &sources);
            let mut same_place = kept
                .iter()
                .rev()
                .take_while(|other| sort_key(other, &sources) == at);
            if !same_place.any(|other| *other == diagnostic) {
                kept.push(diagnostic);
            }
        }
        self.0 = kept;
    }

    /// Renders every diagnostic with its line and a caret, errors last so that they stay visible on
    /// a terminal, and a final line with the counts. Empty if there are none.
    pub fn render(&self, color: bool) -> String {
        let mut sorted = self.clone();
        sorted.sort(&[]);
        sorted.0.sort_by_key(|d| d.severity == Severity::Error);
        if sorted.0.is_empty() {
            return String::new();
        }
        let renderer = if color {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        let mut out = String::new();
        // The first errors are shown; warnings only up to the remaining limit.
        let (errors, warnings) = sorted.count();
        let shown_errors = errors.min(MAX_SHOWN);
        let shown_warnings = warnings.min(MAX_SHOWN - shown_errors);
        let (all_warnings, all_errors) = sorted.0.split_at(warnings);
        for (all, shown, word) in [
            (all_warnings, shown_warnings, "warning"),
            (all_errors, shown_errors, "error"),
        ] {
            for diagnostic in &all[..shown] {
                out.push_str(&diagnostic.render(&renderer));
                out.push_str("\n\n");
            }
            if let Some(more @ 1..) = all.len().checked_sub(shown) {
                out.push_str(&format!("… and {more} more {word}s\n\n"));
            }
        }
        out.push_str(&sorted.summarize());
        out.push('\n');
        out
    }

    /// Returns a line such as `12 errors, 1 warning in recipe.toml, packs/x.toml`.
    pub fn summarize(&self) -> String {
        let (errors, warnings) = self.count();
        let mut line = [(errors, "error"), (warnings, "warning")]
            .into_iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, noun)| count(n, noun))
            .collect::<Vec<_>>()
            .join(", ");
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

/// Returns the sort key of a diagnostic: source, start and end of its place.
fn sort_key(
    diagnostic: &Diagnostic,
    sources: &[Arc<SourceText>],
) -> Option<(Option<usize>, usize, usize)> {
    let place = diagnostic.problem.place.as_ref()?;
    let source = sources.iter().position(|s| *s == place.source);
    Some((source, place.span.start, place.span.end))
}

/// All diagnostics of one run of a parser in the form of events, sorted by line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Complaints")]
pub struct DiagnosticsRecord {
    pub errors: usize,
    pub warnings: usize,
    pub diagnostics: Vec<DiagnosticRecord>,
}

/// A [`Diagnostic`] without its source text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Complaint")]
pub struct DiagnosticRecord {
    pub severity: Severity,
    pub message: String,
    pub place: Option<LineRange>,
    /// A few words about the place; may be empty.
    pub label: String,
    /// Cures.
    pub help: Vec<String>,
}

/// Start and end of a place. Lines and columns are counted from 1, columns in characters; the end
/// is after the last character.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Lines")]
pub struct LineRange {
    /// The file's name in messages.
    pub source: String,
    pub line: usize,
    pub column: usize,
    pub end_line: usize,
    pub end_column: usize,
}

impl From<&Diagnostics> for DiagnosticsRecord {
    fn from(all: &Diagnostics) -> Self {
        let mut sorted = all.clone();
        sorted.sort(&[]);
        let (errors, warnings) = sorted.count();
        Self {
            errors,
            warnings,
            diagnostics: sorted.0.iter().map(DiagnosticRecord::from).collect(),
        }
    }
}

impl From<&Diagnostic> for DiagnosticRecord {
    fn from(diagnostic: &Diagnostic) -> Self {
        let problem = &diagnostic.problem;
        Self {
            severity: diagnostic.severity,
            message: problem.fact.clone(),
            place: problem.place.as_ref().map(LineRange::from),
            label: diagnostic.label.clone(),
            help: problem.cures.clone(),
        }
    }
}

impl DiagnosticRecord {
    /// Renders a log entry: `warning: … (recipe.toml:3:1)`, and a line for each cure.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}: {}", self.severity.name(), self.message);
        if let Some(p) = &self.place {
            text += &format!(" ({}:{}:{})", p.source, p.line, p.column);
        }
        for help in &self.help {
            text += &format!("\n  {help}");
        }
        text
    }
}

impl From<&Place> for LineRange {
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

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    fn place(text: &str, span: Range<usize>) -> Place {
        let source = Arc::new(SourceText::new("recipe.toml", text));
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
    fn errors_come_last_and_no_number_of_warnings_hides_one() {
        let source = Arc::new(SourceText::new("recipe.toml", "x = 1\n".repeat(700)));
        let at = |n: usize| Place::new(&source, n * 6..n * 6 + 1);
        let mut all = Diagnostics::default();
        all.push(Diagnostic::error("wrong").at(&at(0), ""));
        for n in 1..=600 {
            all.push(Diagnostic::warning(format!("odd {n}")).at(&at(n), ""));
        }
        let shown = all.render(false);
        assert!(shown.starts_with("warning: odd 1\n"), "{shown}");
        let end = "… and 101 more warnings\n\n\
                   error: wrong\n --> recipe.toml:1:1\n  |\n1 | x = 1\n  | ^\n\n\
                   1 error, 600 warnings in recipe.toml\n";
        assert!(shown.ends_with(end), "{}", &shown[shown.len() - 300..]);
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
    fn no_line_is_shown_of_a_source_that_is_not_quotable_nor_of_a_very_long_one() {
        let secret = SourceText::new(
            "/root/.docker/config.json",
            "{\n  \"auth\": \"c2VjcmV0\"\n}",
        );
        let place = Place::new(&Arc::new(secret), 4..10);
        let mut all = Diagnostics::default();
        all.push(Diagnostic::error("this is not a recipe").at(&place, "here"));
        assert!(all.render(false).contains("c2VjcmV0"));
        let hidden = "\
error: this is not a recipe
--> /root/.docker/config.json:2:3

1 error in /root/.docker/config.json
";
        assert_eq!(all.hide_sources().render(false), hidden);
        let long = SourceText::new("long.toml", format!("a = \"{}\"\n", "x".repeat(5000)));
        let mut all = Diagnostics::default();
        all.push(Diagnostic::error("too long").at(&Place::new(&Arc::new(long), 0..1), ""));
        assert_eq!(
            all.render(false),
            "error: too long\n--> long.toml:1:1\n\n1 error in long.toml\n"
        );
    }

    #[test]
    fn many_complaints_are_counted_and_take_no_time() {
        let text = "x = 1\n".repeat(50_000);
        let source = Arc::new(SourceText::new("recipe.toml", text.clone()));
        let mut all = Diagnostics::default();
        for n in (0..50_000).rev() {
            let at = Place::new(&source, n * 6..n * 6 + 1);
            all.push(Diagnostic::error(format!("unknown key `x` ({n})")).at(&at, ""));
        }
        let shown = all.render(false);
        assert!(shown.starts_with("error: unknown key `x` (0)\n --> recipe.toml:1:1\n"));
        assert!(
            shown.ends_with("… and 49500 more errors\n\n50000 errors in recipe.toml\n"),
            "{}",
            &shown[shown.len() - 200..]
        );
    }
}
