//! Complaints about what the user wrote: each at its line and column, all of them at once.
//!
//! Collects and shows; what is wrong is decided by the modules that read.

mod excerpt;
mod near;

use std::sync::Arc;

use annotate_snippets::{Group, Level, Renderer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;
use crate::text::{Place, Source};
use excerpt::Excerpt;

pub use near::{most_alike, nearest, suggestion};

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
        let excerpt = self.problem.place.as_ref().map(Excerpt::of);
        if let Some(excerpt) = &excerpt {
            group = excerpt.show(group, &self.label);
        }
        for help in &self.problem.cures {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        renderer.render(&[group])
    }
}

/// As many are shown; the rest is counted.
const MOST_SHOWN: usize = 500;

/// All complaints of one reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.0.push(diagnostic);
    }

    /// The same, without showing a line of the texts that they are about.
    #[must_use]
    pub fn unquotable(mut self) -> Self {
        let mut hidden: Vec<(Arc<Source>, Arc<Source>)> = Vec::new();
        for place in self.0.iter_mut().filter_map(|d| d.problem.place.as_mut()) {
            let known = hidden.iter().find(|(from, _)| *from == place.source);
            let to = match known {
                Some((_, to)) => Arc::clone(to),
                None => {
                    let to = Arc::new(Source::clone(&place.source).unquotable());
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
        self.0.sort_by_cached_key(key);
        let mut kept: Vec<Diagnostic> = Vec::with_capacity(self.0.len());
        for diagnostic in self.0.drain(..) {
            // Equal ones are at one place, and stand together now.
            let at = key(&diagnostic);
            let mut beside = kept.iter().rev().take_while(|other| key(other) == at);
            if !beside.any(|other| *other == diagnostic) {
                kept.push(diagnostic);
            }
        }
        self.0 = kept;
    }

    /// Every complaint with its line and a caret, errors last, where a terminal shows them; then one
    /// line that counts them. Empty when there are none.
    pub fn render(&self, color: bool) -> String {
        let mut sorted = self.clone();
        sorted.sort(&[]);
        sorted.0.sort_by_key(|d| d.severity == Severity::Error);
        if sorted.0.is_empty() {
            return String::new();
        }
        let renderer = match color {
            true => Renderer::styled(),
            false => Renderer::plain(),
        };
        let mut out = String::new();
        // Of errors the first ones are shown; warnings as far as these leave room.
        let (errors, warnings) = sorted.count();
        let shown_errors = errors.min(MOST_SHOWN);
        let shown_warnings = warnings.min(MOST_SHOWN - shown_errors);
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

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    fn place(text: &str, span: Range<usize>) -> Place {
        let source = Arc::new(Source::new("recipe.toml", text));
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
        let source = Arc::new(Source::new("recipe.toml", "x = 1\n".repeat(700)));
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
        let secret = Source::new(
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
        assert_eq!(all.unquotable().render(false), hidden);
        let long = Source::new("long.toml", format!("a = \"{}\"\n", "x".repeat(5000)));
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
        let source = Arc::new(Source::new("recipe.toml", text.clone()));
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
