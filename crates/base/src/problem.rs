//! What went wrong, and what to do about it: the one body under errors, complaints about a recipe, findings, refusals and
//! their events.
//!
//! Holds alone. The type that carries a problem adds its severity and how it is shown; in events it is `event::Details`.

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
    /// The TOML that asked for it: `recipe.toml:12:3`.
    pub place: Option<Place>,
    pub expected: Option<String>,
    pub found: Option<String>,
    /// The last output of a step, a listing of what is there.
    pub lines: Vec<String>,
    /// What to do about it; several where there are several ways.
    pub cures: Vec<String>,
}

impl Problem {
    pub fn new(fact: impl Into<String>) -> Self {
        Self {
            fact: fact.into(),
            ..Self::default()
        }
    }

    /// The same with words before its fact, which fits after them: `prefixed("the signature of kubelet: ")`.
    pub fn prefixed(mut self, words: impl fmt::Display) -> Self {
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

    /// `there is no signature (expected …, found …)`
    pub fn in_one_line(&self) -> String {
        let expected = self.expected.as_ref().map(|e| format!("expected {e}"));
        let found = self.found.as_ref().map(|f| format!("found {f}"));
        let seen: Vec<String> = expected.into_iter().chain(found).collect();
        match seen.is_empty() {
            true => self.fact.clone(),
            false => format!("{} ({})", self.fact, seen.join(", ")),
        }
    }

    /// `at`, `recipe`, `expected` and `found` as far as they are known, with their names.
    pub fn details(&self) -> Vec<(&'static str, String)> {
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

    /// All but the fact, each part on a line of its own below it.
    pub fn write_details(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in self.details() {
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
