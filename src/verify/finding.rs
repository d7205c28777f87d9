//! Findings of failed checks, and the report of all.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use winimg_base::error::Error;
use winimg_base::event::{Event, FindingSeverity, ProblemDetails};
use winimg_base::problem::Problem;
use winimg_base::text::count;

/// A failed check, or one whose outcome is unknown.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyFinding {
    pub severity: FindingSeverity,
    pub problem: Problem,
    /// The step with this check, and the step's place in the recipe.
    pub step: Option<(String, String)>,
}

/// A finding in records and reports: a failed check, or one that needs a running Windows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReportedFinding {
    /// `error`, `warning` or `unknown`.
    pub severity: FindingSeverity,
    #[serde(flatten)]
    pub details: ProblemDetails,
    /// The step that requires it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

/// Result of a check.
pub type Verdict = Result<(), Box<VerifyFinding>>;

impl VerifyFinding {
    fn new(severity: FindingSeverity, what: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            severity,
            problem: Problem::new(what),
            step: None,
        })
    }

    pub fn error(what: impl Into<String>) -> Box<Self> {
        Self::new(FindingSeverity::Error, what)
    }

    pub fn warning(what: impl Into<String>) -> Box<Self> {
        Self::new(FindingSeverity::Warning, what)
    }

    pub fn unknown(what: impl Into<String>) -> Box<Self> {
        Self::new(FindingSeverity::Unknown, what)
    }

    pub fn expected(mut self: Box<Self>, text: impl ToString) -> Box<Self> {
        self.problem.expected = Some(text.to_string());
        self
    }

    pub fn found(mut self: Box<Self>, text: impl ToString) -> Box<Self> {
        self.problem.found = Some(text.to_string());
        self
    }

    pub fn cure(mut self: Box<Self>, text: impl Into<String>) -> Box<Self> {
        self.problem.cures = vec![text.into()];
        self
    }

    pub fn lines(
        mut self: Box<Self>,
        lines: impl IntoIterator<Item = impl Into<String>>,
    ) -> Box<Self> {
        self.problem.lines.extend(lines.into_iter().map(Into::into));
        self
    }

    /// Returns true if both are errors that differ only in their step.
    fn is_same_error(&self, other: &Self) -> bool {
        let both = [self, other].map(|f| f.severity == FindingSeverity::Error);
        let (a, b) = (&self.problem, &other.problem);
        both == [true; 2] && (&a.fact, &a.expected, &a.found) == (&b.fact, &b.expected, &b.found)
    }

    /// Returns the details; the place in the recipe is that of the step.
    pub fn to_details(&self) -> ProblemDetails {
        let place = self.step.as_ref().map(|(_, place)| place);
        ProblemDetails {
            recipe: place.and_then(|place| place.parse().ok()),
            ..ProblemDetails::from(&self.problem)
        }
    }

    pub fn to_event(&self) -> Event {
        Event::Finding {
            severity: self.severity,
            problem: Box::new(self.to_details()),
            step: self.step.clone().map(|(step, _)| step),
            text: self.to_string(),
        }
    }
}

impl From<&VerifyFinding> for ReportedFinding {
    fn from(finding: &VerifyFinding) -> Self {
        Self {
            severity: finding.severity,
            details: finding.to_details(),
            step: finding.step.clone().map(|(step, _)| step),
        }
    }
}

/// An unreadable image fails the check.
impl From<Error> for Box<VerifyFinding> {
    fn from(error: Error) -> Self {
        let problem = Problem {
            fact: error.fact_with_causes(),
            // A finding's place in the recipe is that of its step.
            place: None,
            ..error.problem().clone()
        };
        Box::new(VerifyFinding {
            severity: FindingSeverity::Error,
            problem,
            step: None,
        })
    }
}

/// ```text
/// error: C:\k\tool.exe has other content
///   step: the tool (recipe.toml:12:1)
///   expected: …
///   found: …
///   cure: …
/// ```
impl std::fmt::Display for VerifyFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.severity.name(), self.problem.fact)?;
        if let Some((step, place)) = &self.step {
            write!(f, "\n  step: {step} ({place})")?;
        }
        self.problem.write_details(f)
    }
}

/// All findings of one image, most severe first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Number of checks that passed.
    pub passed: usize,
    pub findings: Vec<VerifyFinding>,
}

impl VerifyReport {
    /// Adds a verdict. One fault is reported once, for the first step: a damaged hive fails a
    /// hundred checks, and an unexpanded `Path` fails for each folder. Unknown outcomes are all
    /// counted.
    pub fn add(&mut self, verdict: Verdict, step: Option<(&str, &str)>) {
        match verdict {
            Ok(()) => self.passed += 1,
            Err(finding) if self.findings.iter().any(|f| f.is_same_error(&finding)) => {}
            Err(mut finding) => {
                finding.step = step.map(|(name, place)| (name.to_owned(), place.to_owned()));
                self.findings.push(*finding);
            }
        }
    }

    /// Adds the findings of another report, most severe first.
    pub fn join(&mut self, other: Self) {
        self.passed += other.passed;
        self.findings.extend(other.findings);
        self.findings.sort_by_key(|f| f.severity);
    }

    pub fn count(&self, severity: FindingSeverity) -> usize {
        self.findings
            .iter()
            .filter(|f| f.severity == severity)
            .count()
    }

    pub fn is_good(&self) -> bool {
        self.count(FindingSeverity::Error) == 0
    }

    pub fn count_checks(&self) -> usize {
        self.passed + self.findings.len()
    }

    /// Summarizes the report: `310 of 312 checks passed, 1 failed, 1 can only be checked on a
    /// running Windows`.
    pub fn summarize(&self) -> String {
        let mut text = format!("{} of {} checks passed", self.passed, self.count_checks());
        let errors = self.count(FindingSeverity::Error);
        if errors > 0 {
            text += &format!(", {errors} failed");
        }
        let warnings = self.count(FindingSeverity::Warning);
        if warnings > 0 {
            text += &format!(", {}", count(warnings, "warning"));
        }
        let unknown = self.count(FindingSeverity::Unknown);
        if unknown > 0 {
            text += &format!(", {unknown} can only be checked on a running Windows");
        }
        text
    }

    pub fn to_event(&self, image: &str) -> Event {
        Event::Checked {
            image: image.to_owned(),
            checks: self.count_checks(),
            hold: self.passed,
            errors: self.count(FindingSeverity::Error),
            warnings: self.count(FindingSeverity::Warning),
            unknown: self.count(FindingSeverity::Unknown),
            text: format!("{image}: {}", self.summarize()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use winimg_base::error::Kind;
    use winimg_base::text::{Place, SourceText};

    #[test]
    fn an_event_names_one_line_of_the_recipe() {
        let source = Arc::new(SourceText::new("recipe.toml", "name = 1\n"));
        let error = Error::new(Kind::Verify, "the hive cannot be read").at("SYSTEM");
        let error = error.or_place(&Place::new(&source, 0..4));
        let mut report = VerifyReport::default();
        report.add(Err(error.into()), Some(("kubelet", "recipe.toml:31:1")));
        let event = serde_json::to_string(&report.findings[0].to_event()).expect("JSON");
        assert_eq!(
            event,
            r#"{"event":"finding","severity":"error","message":"the hive cannot be read","at":"SYSTEM","recipe":"recipe.toml:31:1","step":"kubelet","text":"error: the hive cannot be read\n  step: kubelet (recipe.toml:31:1)\n  at: SYSTEM"}"#
        );
    }
}
