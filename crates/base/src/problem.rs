//! Description of a problem and its fix: the common part of errors, diagnostics, findings, refusals
//! and their events.
//!
//! Only data: the types that contain a problem add its severity and rendering; in events it is
//! `event::ProblemDetails`.

use std::fmt;

use crate::text::Place;

/// The fact, the place, expected and found, further lines, the cure.
#[must_use]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// One sentence without a full stop.
    pub fact: String,
    /// A file, URL, offset or other place outside the recipe.
    pub at: Option<String>,
    /// The related line of TOML: `recipe.toml:12:3`.
    pub place: Option<Place>,
    pub expected: Option<String>,
    pub found: Option<String>,
    /// The last output of a step, or a listing of existing items.
    pub lines: Vec<String>,
    /// The fix, or several alternatives.
    pub cures: Vec<String>,
}

impl Problem {
    pub fn new(fact: impl Into<String>) -> Self {
        Self {
            fact: fact.into(),
            ..Self::default()
        }
    }

    /// Prepends text to the fact: `with_prefix("the signature of kubelet: ")`.
    pub fn with_prefix(mut self, words: impl fmt::Display) -> Self {
        self.fact = format!("{words}{}", self.fact);
        self
    }

    pub fn expected(mut self, expected: impl fmt::Display) -> Self {
        self.expected = Some(expected.to_string());
        self
    }

    pub fn found(mut self, found: impl fmt::Display) -> Self {
        self.found = Some(found.to_string());
        self
    }

    pub fn cure(mut self, cure: impl Into<String>) -> Self {
        self.cures.push(cure.into());
        self
    }

    pub fn lines(mut self, lines: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.lines.extend(lines.into_iter().map(Into::into));
        self
    }

    /// Renders one line: `there is no signature (expected …, found …)`.
    pub fn in_one_line(&self) -> String {
        let expected = self.expected.as_ref().map(|e| format!("expected {e}"));
        let found = self.found.as_ref().map(|f| format!("found {f}"));
        let seen: Vec<String> = expected.into_iter().chain(found).collect();
        if seen.is_empty() {
            self.fact.clone()
        } else {
            format!("{} ({})", self.fact, seen.join(", "))
        }
    }

    /// Returns `at`, `recipe`, `expected` and `found`, if known, with their names.
    pub fn list_details(&self) -> Vec<(&'static str, String)> {
        let place = self.place.as_ref().map(Place::to_string);
        [
            ("at", self.at.clone()),
            ("recipe", place),
            ("expected", self.expected.clone()),
            ("found", self.found.clone()),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }

    /// Writes everything except the fact, each part on its own line.
    pub fn write_details(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in self.list_details() {
            write!(f, "\n  {name}: {value}")?;
        }
        for line in &self.lines {
            write!(f, "\n  | {line}")?;
        }
        for cure in &self.cures {
            write!(f, "\n  cure: {cure}")?;
        }
        Ok(())
    }
}
