//! The one error type: the fact, the place, expected and found, then the cure.
//!
//! Refuses to be a bare string: every error has a kind, and the kind is the exit status.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;
use crate::text::Place;

/// What sort of failure it was. The number is the process's exit status (`docs/exit-status.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A file could not be read or written, or winimg itself is wrong.
    Failed = 1,
    /// The recipe or the command line is wrong.
    Recipe = 2,
    /// The host lacks something: a program, firmware, space, rights.
    Host = 3,
    /// An input could not be fetched.
    Fetch = 4,
    /// An input is not what the recipe says it is.
    Unproved = 5,
    /// Windows Setup stopped.
    Setup = 6,
    /// A step of the recipe failed in the guest.
    Step = 7,
    /// The virtual machine or its agent failed.
    Machine = 8,
    /// An artifact could not be written or did not pass its check.
    Export = 9,
    /// A finished image is not what it should be.
    Verify = 10,
    /// A clone of a finished image did not come up as its target needs it.
    Trial = 11,
    /// A finished image could not be handed over to where it is used.
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

/// Built with the chain methods: `Error::new(Kind::Fetch, "…").at(url).cure("…")`.
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    problem: Problem,
    reported: bool,
    absent: bool,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// `fact` is one sentence without a full stop.
    pub fn new(kind: Kind, fact: impl Into<String>) -> Self {
        Self::of(kind, Problem::new(fact))
    }

    /// [`Kind::Failed`]: what is wrong with a file is said by the fact.
    pub fn failed(fact: impl Into<String>) -> Self {
        Self::new(Kind::Failed, fact)
    }

    pub fn of(kind: Kind, problem: Problem) -> Self {
        Self(Box::new(Inner {
            kind,
            problem,
            reported: false,
            absent: false,
            source: None,
        }))
    }

    /// One error for several: all that they say, under one fact.
    pub fn of_several(kind: Kind, fact: impl Into<String>, errors: &[Self]) -> Self {
        let texts = errors.iter().map(Self::to_string);
        let lines = texts.flat_map(|text| text.lines().map(String::from).collect::<Vec<_>>());
        Self::new(kind, fact).lines(lines)
    }

    /// An I/O error on `path`, with what was being done: `Error::io("write", path, e)`.
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

    /// The interrupt that every wait returns.
    pub fn cancelled() -> Self {
        Self::new(Kind::Cancelled, "interrupted")
    }

    /// A file, URL, offset or other place outside the recipe.
    #[must_use]
    pub fn at(mut self, at: impl fmt::Display) -> Self {
        self.0.problem.at = Some(at.to_string());
        self
    }

    /// The same, unless a place was named already.
    #[must_use]
    pub fn or_at(mut self, at: impl fmt::Display) -> Self {
        self.0.problem.at.get_or_insert_with(|| at.to_string());
        self
    }

    /// The line of TOML that asked for it.
    #[must_use]
    pub fn from_place(mut self, place: &Place) -> Self {
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

    /// The same, unless there is a cure already.
    #[must_use]
    pub fn or_cure(self, cure: impl Into<String>) -> Self {
        match self.cure_text() {
            Some(_) => self,
            None => self.cure(cure),
        }
    }

    /// Further lines shown under the error: the last output of a step, a listing of what is there.
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

    /// What it says was shown already, as the complaints about a recipe are; people need not read it twice.
    #[must_use]
    pub fn reported(mut self) -> Self {
        self.0.reported = true;
        self
    }

    /// The fact is that a program or file of the host is not installed: its package mends it.
    #[must_use]
    pub fn absent(mut self) -> Self {
        self.0.absent = true;
        self
    }

    /// The same error as another kind: what a missing file is depends on what it was wanted for.
    #[must_use]
    pub fn of_kind(mut self, kind: Kind) -> Self {
        self.0.kind = kind;
        self
    }

    /// The same error after what it points at was moved: paths below `from` become paths below `to`.
    #[must_use]
    pub fn moved(mut self, from: &std::path::Path, to: &std::path::Path) -> Self {
        let (from, to) = (from.display().to_string(), to.display().to_string());
        let moved = |text: &mut String| *text = text.replace(&from, &to);
        self.0.problem.at.iter_mut().for_each(moved);
        self.0.problem.lines.iter_mut().for_each(moved);
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

    /// All of it but its kind and its causes.
    pub fn problem(&self) -> &Problem {
        &self.0.problem
    }

    /// Whether it was shown already.
    pub fn is_reported(&self) -> bool {
        self.0.reported
    }

    /// Whether something is not installed, and not merely wrong.
    pub fn is_absent(&self) -> bool {
        self.0.absent
    }

    /// The fact with its causes: the first line of the whole message.
    pub fn with_causes(&self) -> String {
        let e = &self.0;
        let mut text = e.problem.fact.clone();
        if let Some(source) = &e.source {
            text += &format!(": {source}");
            // Our own errors have said their causes already.
            let own = source.is::<Error>();
            let mut next = source.source().filter(|_| !own);
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

/// The whole message, several lines, without a trailing newline:
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
        f.write_str(&self.with_causes())?;
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
