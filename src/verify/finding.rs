//! What a check found when it does not hold, and the count of all.

use winimg_base::error::Error;
use winimg_base::event::Event;

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The image is not what it should be.
    Error,
    /// It may be meant so, or may be harmless.
    Warning,
    /// Nothing outside of a running Windows can tell.
    Unknown,
}

impl Severity {
    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Unknown => "unknown",
        }
    }
}

/// A check that does not hold, or whose outcome is not to be known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    /// One sentence without a full stop.
    pub what: String,
    pub expected: Option<String>,
    pub found: Option<String>,
    pub cure: Option<String>,
    /// The step that asked for it, and the step's place in the recipe.
    pub step: Option<(String, String)>,
}

/// What a check gives.
pub type Verdict = Result<(), Box<Finding>>;

impl Finding {
    fn new(severity: Severity, what: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            severity,
            what: what.into(),
            expected: None,
            found: None,
            cure: None,
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

    #[must_use]
    pub fn expected(mut self: Box<Self>, text: impl ToString) -> Box<Self> {
        self.expected = Some(text.to_string());
        self
    }

    #[must_use]
    pub fn found(mut self: Box<Self>, text: impl ToString) -> Box<Self> {
        self.found = Some(text.to_string());
        self
    }

    #[must_use]
    pub fn cure(mut self: Box<Self>, text: impl Into<String>) -> Box<Self> {
        self.cure = Some(text.into());
        self
    }

    /// Both are errors, and differ in the step at most.
    fn says_the_same(&self, other: &Self) -> bool {
        if self.severity != Severity::Error {
            return false;
        }
        let parts = |f: &Self| {
            (
                f.severity,
                f.what.clone(),
                f.expected.clone(),
                f.found.clone(),
            )
        };
        parts(self) == parts(other)
    }

    pub fn event(&self) -> Event {
        let (step, place) = self.step.clone().unzip();
        Event::Finding {
            severity: self.severity.word(),
            what: self.what.clone(),
            step,
            recipe: place,
            expected: self.expected.clone(),
            found: self.found.clone(),
            cure: self.cure.clone(),
            text: self.to_string(),
        }
    }
}

/// What can't be read is not what it should be.
impl From<Error> for Box<Finding> {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        let mut lines = text.lines().map(str::trim);
        let what = lines.next().unwrap_or_default().to_owned();
        let mut finding = Finding::error(what);
        let mut rest = Vec::new();
        for line in lines {
            match line.split_once(": ") {
                Some(("expected", text)) => finding.expected = Some(text.to_owned()),
                Some(("found", text)) => rest.insert(0, text),
                Some(("cure", text)) => finding.cure = Some(text.to_owned()),
                _ => rest.push(line.trim_start_matches("| ").trim_start()),
            }
        }
        if !rest.is_empty() {
            finding.found = Some(rest.join("; "));
        }
        finding
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
        write!(f, "{}: {}", self.severity.word(), self.what)?;
        if let Some((step, place)) = &self.step {
            write!(f, "\n  step: {step} ({place})")?;
        }
        for (name, text) in [
            ("expected", &self.expected),
            ("found", &self.found),
            ("cure", &self.cure),
        ] {
            if let Some(text) = text {
                write!(f, "\n  {name}: {text}")?;
            }
        }
        Ok(())
    }
}

/// All findings of one image, the gravest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub holds: usize,
    pub findings: Vec<Finding>,
}

impl Report {
    /// One fault is told once, for the first that asks: a hive that is damaged answers none of a hundred questions, and a
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
