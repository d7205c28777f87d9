//! What a check found when it does not hold, and the count of all.

use winimg_base::error::Error;
use winimg_base::event::{Details, Event, Severity};
use winimg_base::problem::Problem;

/// A check that does not hold, or whose outcome cannot be known.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    pub problem: Problem,
    /// The step that asked for it, and the step's place in the recipe.
    pub step: Option<(String, String)>,
}

/// What a check gives.
pub type Verdict = Result<(), Box<Finding>>;

impl Finding {
    fn new(severity: Severity, what: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            severity,
            problem: Problem::new(what),
            step: None,
        })
    }

    pub fn error(what: impl Into<String>) -> Box<Self> {
        Self::new(Severity::Error, what)
    }

    pub fn warning(what: impl Into<String>) -> Box<Self> {
        Self::new(Severity::Warning, what)
    }

    pub fn unknown(what: impl Into<String>) -> Box<Self> {
        Self::new(Severity::Unknown, what)
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

    /// Both are errors, and differ in the step at most.
    fn says_the_same(&self, other: &Self) -> bool {
        let both = [self, other].map(|f| f.severity == Severity::Error);
        let (a, b) = (&self.problem, &other.problem);
        both == [true; 2] && (&a.fact, &a.expected, &a.found) == (&b.fact, &b.expected, &b.found)
    }

    /// Its line of TOML is its step's.
    pub fn details(&self) -> Details {
        let place = self.step.as_ref().map(|(_, place)| place);
        Details {
            recipe: place.and_then(|place| place.parse().ok()),
            ..Details::from(&self.problem)
        }
    }

    pub fn event(&self) -> Event {
        Event::Finding {
            severity: self.severity,
            problem: Box::new(self.details()),
            step: self.step.clone().map(|(step, _)| step),
            text: self.to_string(),
        }
    }
}

/// What can't be read is not what it should be.
impl From<Error> for Box<Finding> {
    fn from(error: Error) -> Self {
        let problem = Problem {
            fact: error.with_causes(),
            // A finding's line of TOML is its step's.
            place: None,
            ..error.problem().clone()
        };
        Box::new(Finding {
            severity: Severity::Error,
            problem,
            step: None,
        })
    }
}

/// ```text
/// error: C:\k\tool.exe is another file
///   step: the tool (recipe.toml:12:1)
///   expected: …
///   found: …
///   cure: …
/// ```
impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.severity.name(), self.problem.fact)?;
        if let Some((step, place)) = &self.step {
            write!(f, "\n  step: {step} ({place})")?;
        }
        self.problem.write_details(f)
    }
}

/// All findings of one image, the gravest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub holds: usize,
    pub findings: Vec<Finding>,
}

impl Report {
    /// One fault is reported once, for the first that asks: a hive that is damaged answers none of a hundred questions, and a
    /// `Path` that is not expanded helps none of the steps that put a folder there. What is unknown is counted each time.
    pub fn add(&mut self, verdict: Verdict, step: Option<(&str, &str)>) {
        match verdict {
            Ok(()) => self.holds += 1,
            Err(finding) if self.findings.iter().any(|f| f.says_the_same(&finding)) => {}
            Err(mut finding) => {
                finding.step = step.map(|(name, place)| (name.to_owned(), place.to_owned()));
                self.findings.push(*finding);
            }
        }
    }

    /// Takes what another report has, the gravest first.
    pub fn join(&mut self, other: Self) {
        self.holds += other.holds;
        self.findings.extend(other.findings);
        self.findings.sort_by_key(|f| f.severity);
    }

    pub fn count(&self, severity: Severity) -> usize {
        let of = |f: &&Finding| f.severity == severity;
        self.findings.iter().filter(of).count()
    }

    pub fn is_good(&self) -> bool {
        self.count(Severity::Error) == 0
    }

    pub fn checks(&self) -> usize {
        self.holds + self.findings.len()
    }

    /// `312 checks: 310 hold, 1 does not, 1 only Windows can tell`
    pub fn summary(&self) -> String {
        let many = |n: usize, one: &str, more: &str| match n {
            1 => format!("1 {one}"),
            n => format!("{n} {more}"),
        };
        let mut text = format!(
            "{}: {}",
            many(self.checks(), "check", "checks"),
            many(self.holds, "holds", "hold")
        );
        for (severity, one, more) in [
            (Severity::Error, "does not", "do not"),
            (Severity::Warning, "is doubtful", "are doubtful"),
            (
                Severity::Unknown,
                "only Windows can tell",
                "only Windows can tell",
            ),
        ] {
            match self.count(severity) {
                0 => {}
                n => text += &format!(", {}", many(n, one, more)),
            }
        }
        text
    }

    pub fn event(&self, image: &str) -> Event {
        Event::Checked {
            image: image.to_owned(),
            checks: self.checks(),
            hold: self.holds,
            errors: self.count(Severity::Error),
            warnings: self.count(Severity::Warning),
            unknown: self.count(Severity::Unknown),
            text: format!("{image}: {}", self.summary()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use winimg_base::error::Kind;
    use winimg_base::text::{Place, Source};

    #[test]
    fn an_event_names_one_line_of_the_recipe() {
        let source = Arc::new(Source::new("recipe.toml", "name = 1\n"));
        let error = Error::new(Kind::Verify, "the hive cannot be read").at("SYSTEM");
        let error = error.from_place(&Place::new(&source, 0..4));
        let mut report = Report::default();
        report.add(Err(error.into()), Some(("kubelet", "recipe.toml:31:1")));
        let event = serde_json::to_string(&report.findings[0].event()).expect("JSON");
        assert_eq!(
            event,
            r#"{"event":"finding","severity":"error","message":"the hive cannot be read","at":"SYSTEM","recipe":"recipe.toml:31:1","step":"kubelet","text":"error: the hive cannot be read\n  step: kubelet (recipe.toml:31:1)\n  at: SYSTEM"}"#
        );
    }
}
