//! The one error type: the fact, the place, expected and found, then the cure.
//!
//! Never a bare string: every error has a kind, which is the exit status.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;
use crate::text::Place;

/// Kind of a failure. The number is the process's exit status (`docs/exit-status.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A file could not be read or written, or winimg has a bug.
    Failed = 1,
    /// The recipe or the command line is wrong.
    Recipe = 2,
    /// Something is missing on the host: a program, firmware, space, permissions.
    Host = 3,
    /// An input could not be fetched.
    Fetch = 4,
    /// An input does not match the recipe.
    Unproved = 5,
    /// Windows Setup stopped.
    Setup = 6,
    /// A step of the recipe failed in the guest.
    Step = 7,
    /// The virtual machine or its agent failed.
    Machine = 8,
    /// An artifact could not be written or did not pass its check.
    Export = 9,
    /// A finished image did not pass verification.
    Verify = 10,
    /// A clone of a finished image did not start as its target requires.
    Trial = 11,
    /// A finished image could not be published.
    Publish = 15,
    /// Ctrl-C or SIGTERM.
    Cancelled = 130,
}

impl Kind {
    pub fn exit_status(self) -> u8 {
        self as u8
    }
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error, built by chaining methods: `Error::new(Kind::Fetch, "…").at(url).cure("…")`.
pub struct Error(Box<ErrorBody>);

struct ErrorBody {
    kind: Kind,
    problem: Problem,
    reported: bool,
    absent: bool,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// `fact` is one sentence without a full stop.
    pub fn new(kind: Kind, fact: impl Into<String>) -> Self {
        Self::from_problem(kind, Problem::new(fact))
    }

    /// Creates an error of [`Kind::Failed`].
    pub fn failed(fact: impl Into<String>) -> Self {
        Self::new(Kind::Failed, fact)
    }

    pub fn from_problem(kind: Kind, problem: Problem) -> Self {
        Self(Box::new(ErrorBody {
            kind,
            problem,
            reported: false,
            absent: false,
            source: None,
        }))
    }

    /// Combines several errors under one fact.
    pub fn from_several(kind: Kind, fact: impl Into<String>, errors: &[Self]) -> Self {
        Self::new(kind, fact).lines(errors.iter().flat_map(|error| {
            let text = error.to_string();
            text.lines().map(String::from).collect::<Vec<_>>()
        }))
    }

    /// Creates an I/O error on `path` during an action: `Error::io("write", path, e)`.
    pub fn io(doing: &str, path: impl AsRef<std::path::Path>, source: std::io::Error) -> Self {
        let kind = match source.kind() {
            std::io::ErrorKind::StorageFull
            | std::io::ErrorKind::QuotaExceeded
            | std::io::ErrorKind::ReadOnlyFilesystem
            | std::io::ErrorKind::PermissionDenied => Kind::Host,
            _ => Kind::Failed,
        };
        Self::new(kind, format!("cannot {doing} {}", path.as_ref().display())).because(source)
    }

    /// Creates the error that every wait returns when cancelled.
    pub fn cancelled() -> Self {
        Self::new(Kind::Cancelled, "interrupted")
    }

    /// Sets a file, URL, offset or other place outside the recipe.
    #[must_use]
    pub fn at(mut self, at: impl fmt::Display) -> Self {
        self.0.problem.at = Some(at.to_string());
        self
    }

    /// Sets the place unless there is one already.
    #[must_use]
    pub fn or_at(mut self, at: impl fmt::Display) -> Self {
        self.0.problem.at.get_or_insert_with(|| at.to_string());
        self
    }

    /// Sets the place in the recipe, unless there is one already.
    #[must_use]
    pub fn or_place(mut self, place: &Place) -> Self {
        self.0.problem.place.get_or_insert_with(|| place.clone());
        self
    }

    #[must_use]
    pub fn expected(mut self, expected: impl fmt::Display) -> Self {
        self.0.problem.expected = Some(expected.to_string());
        self
    }

    #[must_use]
    pub fn found(mut self, found: impl fmt::Display) -> Self {
        self.0.problem.found = Some(found.to_string());
        self
    }

    #[must_use]
    pub fn cure(mut self, cure: impl Into<String>) -> Self {
        self.0.problem.cures = vec![cure.into()];
        self
    }

    /// Sets the cure unless there is one already.
    #[must_use]
    pub fn or_cure(self, cure: impl Into<String>) -> Self {
        match self.cure_text() {
            Some(_) => self,
            None => self.cure(cure),
        }
    }

    /// Adds lines shown below the error: the last output of a step, a listing of existing items.
    #[must_use]
    pub fn lines(mut self, lines: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.0
            .problem
            .lines
            .extend(lines.into_iter().map(Into::into));
        self
    }

    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Marks the error as already shown, such as diagnostics about a recipe, so it is not shown
    /// again.
    #[must_use]
    pub fn mark_reported(mut self) -> Self {
        self.0.reported = true;
        self
    }

    /// Marks that a program or file is not installed on the host, so installing its package is the
    /// fix.
    #[must_use]
    pub fn mark_absent(mut self) -> Self {
        self.0.absent = true;
        self
    }

    /// Changes the kind: the kind of a missing file depends on its purpose.
    #[must_use]
    pub fn with_kind(mut self, kind: Kind) -> Self {
        self.0.kind = kind;
        self
    }

    /// Updates the error after files were moved: paths below `from` become paths below `to`.
    #[must_use]
    pub fn with_moved_paths(mut self, from: &std::path::Path, to: &std::path::Path) -> Self {
        let (from, to) = (from.display().to_string(), to.display().to_string());
        let problem = &mut self.0.problem;
        for text in problem.at.iter_mut().chain(&mut problem.lines) {
            *text = text.replace(&from, &to);
        }
        self
    }

    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    pub fn fact(&self) -> &str {
        &self.0.problem.fact
    }

    pub fn place(&self) -> Option<&Place> {
        self.0.problem.place.as_ref()
    }

    /// Returns the problem, without the kind and the causes.
    pub fn problem(&self) -> &Problem {
        &self.0.problem
    }

    /// Returns true if the error was already shown.
    pub fn is_reported(&self) -> bool {
        self.0.reported
    }

    /// Returns true if something is not installed.
    pub fn is_absent(&self) -> bool {
        self.0.absent
    }

    /// Returns the first line of the message: the fact, followed by its causes.
    pub fn fact_with_causes(&self) -> String {
        let e = &self.0;
        let mut text = e.problem.fact.clone();
        if let Some(source) = &e.source {
            text += &format!(": {source}");
            // Our own errors already include their causes.
            let is_own = source.is::<Error>();
            let mut next = source.source().filter(|_| !is_own);
            while let Some(cause) = next {
                text += &format!(": {cause}");
                next = cause.source();
            }
        }
        text
    }

    pub fn cure_text(&self) -> Option<&str> {
        self.0.problem.cures.first().map(String::as_str)
    }
}

/// Formats the whole message, several lines, without a trailing newline:
///
/// ```text
/// kubelet.exe is not the file that the recipe names
///   at: https://…
///   recipe: recipe.toml:12:3
///   expected: sha256:…
///   found: sha256:…
///   cure: …
/// ```
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fact_with_causes())?;
        self.0.problem.write_details(f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|s| s as _)
    }
}
