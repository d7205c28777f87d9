//! The one error type: the fact, the place, expected and found, then the cure.
//!
//! Refuses to be a bare string: every error has a kind, and the kind is the exit status.

use std::fmt;

use serde::Serialize;

use crate::event::Event;
use crate::text::Place;

/// What sort of failure it was. The number is the process's exit status (`docs/exit-status.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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
    fact: String,
    at: Option<String>,
    place: Option<Place>,
    expected: Option<String>,
    found: Option<String>,
    cure: Option<String>,
    lines: Vec<String>,
    told: bool,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// `fact` is one sentence without a full stop.
    pub fn new(kind: Kind, fact: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            fact: fact.into(),
            at: None,
            place: None,
            expected: None,
            found: None,
            cure: None,
            lines: Vec::new(),
            told: false,
            source: None,
        }))
    }

    /// An I/O error on `path`, with what was being done: `Error::io("write", path, e)`.
    pub fn io(doing: &str, path: impl AsRef<std::path::Path>, source: std::io::Error) -> Self {
        let kind = match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::PermissionDenied => Kind::Host,
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
        self.0.at = Some(at.to_string());
        self
    }

    /// The same, unless a place was named already.
    #[must_use]
    pub fn or_at(mut self, at: impl fmt::Display) -> Self {
        self.0.at.get_or_insert_with(|| at.to_string());
        self
    }

    /// The line of TOML that asked for it.
    #[must_use]
    pub fn from_place(mut self, place: &Place) -> Self {
        self.0.place.get_or_insert_with(|| place.clone());
        self
    }

    #[must_use]
    pub fn expected(mut self, expected: impl fmt::Display) -> Self {
        self.0.expected = Some(expected.to_string());
        self
    }

    #[must_use]
    pub fn found(mut self, found: impl fmt::Display) -> Self {
        self.0.found = Some(found.to_string());
        self
    }

    #[must_use]
    pub fn cure(mut self, cure: impl Into<String>) -> Self {
        self.0.cure = Some(cure.into());
        self
    }

    /// Further lines shown under the error: the last output of a step, a listing of what is there.
    #[must_use]
    pub fn lines(mut self, lines: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.0.lines.extend(lines.into_iter().map(Into::into));
        self
    }

    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What it says was shown already, as the complaints about a recipe are; people need not read it twice.
    #[must_use]
    pub fn told(mut self) -> Self {
        self.0.told = true;
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
        self.0.at.iter_mut().for_each(moved);
        self.0.lines.iter_mut().for_each(moved);
        self
    }

    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    pub fn fact(&self) -> &str {
        &self.0.fact
    }

    pub fn place(&self) -> Option<&Place> {
        self.0.place.as_ref()
    }

    /// The event that ends a command.
    pub fn event(&self) -> Event {
        let e = &self.0;
        Event::Failed {
            kind: e.kind,
            status: e.kind.exit_status(),
            message: e.fact.clone(),
            at: e.at.clone(),
            recipe: e.place.as_ref().map(Place::to_string),
            expected: e.expected.clone(),
            found: e.found.clone(),
            lines: e.lines.clone(),
            cure: e.cure.clone(),
            text: self.to_string(),
            told: e.told,
        }
    }

    pub fn cure_text(&self) -> Option<&str> {
        self.0.cure.as_deref()
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
        let e = &self.0;
        f.write_str(&e.fact)?;
        if let Some(source) = &e.source {
            write!(f, ": {source}")?;
            // Our own errors have said their causes already.
            let own = source.is::<Error>();
            let mut next = source.source().filter(|_| !own);
            while let Some(cause) = next {
                write!(f, ": {cause}")?;
                next = cause.source();
            }
        }
        let place = e.place.as_ref().map(Place::to_string);
        for (name, value) in [
            ("at", &e.at),
            ("recipe", &place),
            ("expected", &e.expected),
            ("found", &e.found),
        ] {
            if let Some(value) = value {
                write!(f, "\n  {name}: {value}")?;
            }
        }
        for line in &e.lines {
            write!(f, "\n  | {line}")?;
        }
        if let Some(cure) = &e.cure {
            write!(f, "\n  cure: {cure}")?;
        }
        Ok(())
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
