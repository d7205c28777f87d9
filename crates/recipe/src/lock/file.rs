//! The file: one text for one content, and no other text is taken. Schema 3 is written; schemas 1 and 2 are read, too.
//! Line ends, a byte order mark and empty lines at the end do not count: editors and git change them.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::{Entry, Lock, LockFile, SCHEMA, schema1, schema2};
use winimg_base::diag::{Diagnostic, Diagnostics};
use winimg_base::digest::{Algorithm, Digest};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_base::text::{Place, Source};

/// Bytes. A lock of a thousand inputs has less than one.
const LIMIT: u64 = 4 << 20;

const HEAD: &str = "# Written by `winimg lock`. Commit it, and do not edit it by hand.\n";

const RESTORE: &str = "restore the committed one, or delete it and run `winimg lock`, which resolves every input again";

/// As it is written.
#[derive(Serialize)]
struct Written<'a> {
    schema: i64,
    recipe: &'a str,
    serial: u64,
    /// Over the whole text, with zeros in its own place.
    content: &'a Digest,
    #[serde(skip_serializing_if = "<[Entry]>::is_empty")]
    inputs: &'a [Entry],
}

/// As it is read, when its schema is known.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AsRead<E> {
    #[serde(rename = "schema")]
    _schema: i64,
    recipe: Spanned<String>,
    serial: Spanned<u64>,
    content: Spanned<Digest>,
    // Without a path serde would ask for a default of `E`.
    #[serde(default = "Vec::new")]
    inputs: Vec<Spanned<E>>,
}

/// The schema of any version.
#[derive(Deserialize)]
struct AnySchema {
    schema: Option<Spanned<toml::Value>>,
}

impl Lock {
    /// The file's text in the present schema: the same for the same content.
    pub fn text(&self) -> Result<String> {
        let text = |content: &Digest| {
            let written = Written {
                schema: SCHEMA,
                recipe: &self.recipe,
                serial: self.serial,
                content,
                inputs: &self.inputs,
            };
            toml::to_string(&written)
                .map(|text| format!("{HEAD}{text}"))
                .map_err(|e| Error::new(Kind::Failed, "a lock cannot be written").because(e))
        };
        text(&Digest::sha256_of(text(&zeros())?.as_bytes()))
    }
}

impl LockFile {
    /// Reads a lock; every complaint at its line.
    pub fn read(path: &Path) -> Result<Self, Diagnostics> {
        let name = path.display().to_string();
        let unreadable = |why: String| {
            let fact = format!("cannot read the lock {name}: {why}");
            Diagnostics(vec![Diagnostic::error(fact)])
        };
        let text = io::read_text_limited(path, LIMIT).map_err(|e| unreadable(e.to_string()))?;
        let file = path.file_name().unwrap_or_default();
        let mut source = Source::new(name, as_written(&text));
        // The lock of a stranger's recipe may be a link to any file of the host.
        if io::is_link(path) {
            source = source.unquotable();
        }
        let reading = Reading {
            path: path.to_path_buf(),
            name: file.to_string_lossy().into_owned(),
            source: Arc::new(source),
        };
        reading.lock().map_err(Diagnostics)
    }
}

/// Returns the text as `winimg lock` wrote it, where git or an editor changed its line ends, put a byte order mark before
/// it or empty lines after it.
fn as_written(text: &str) -> String {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = text.replace("\r\n", "\n");
    format!("{}\n", text.trim_end_matches('\n'))
}

struct Reading {
    path: PathBuf,
    /// The file's own name.
    name: String,
    source: Arc<Source>,
}

impl Reading {
    fn place(&self, span: Range<usize>) -> Place {
        Place::new(&self.source, span)
    }

    fn lock(&self) -> Result<LockFile, Vec<Diagnostic>> {
        match self.schema()? {
            1 => self.inputs::<schema1::Entry>(1),
            2 => self.inputs::<schema2::Entry>(2),
            schema => self.inputs::<Entry>(schema),
        }
    }

    fn inputs<E: DeserializeOwned + Into<Entry>>(
        &self,
        schema: i64,
    ) -> Result<LockFile, Vec<Diagnostic>> {
        let text = self.source.text.as_str();
        let read: AsRead<E> = toml::from_str(text).map_err(|e| self.broken(&e))?;
        let mut problems = Vec::new();
        if *read.content.get_ref() != content_of(text, &read.content) {
            problems.push(
                Diagnostic::error(format!(
                    "{} is not as `winimg lock` wrote it: it was edited, or merged from two",
                    self.name
                ))
                .at(&self.place(read.content.span()), "over another text")
                .help(RESTORE),
            );
        }
        if *read.serial.get_ref() == 0 {
            let fact = format!("the serial of {} begins at 1", self.name);
            problems.push(Diagnostic::error(fact).at(&self.place(read.serial.span()), ""));
        }
        let places = read.inputs.iter().map(|e| self.place(first_line(text, e)));
        let places: Vec<Place> = places.collect();
        let inputs = read.inputs.into_iter();
        let inputs: Vec<Entry> = inputs.map(|entry| entry.into_inner().into()).collect();
        for (at, entry) in inputs.iter().enumerate() {
            problems.extend(self.entry(&inputs[..at], entry, &places[at]));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(LockFile {
            lock: Lock {
                recipe: read.recipe.into_inner(),
                serial: read.serial.into_inner(),
                inputs,
            },
            path: self.path.clone(),
            name: self.name.clone(),
            schema,
            text: text.to_string(),
            places,
        })
    }

    /// Before anything else: another schema has other keys.
    fn schema(&self) -> Result<i64, Vec<Diagnostic>> {
        let any: AnySchema = toml::from_str(&self.source.text).map_err(|e| self.broken(&e))?;
        let Some(schema) = any.schema else {
            let fact = format!("{} does not say its schema", self.name);
            return Err(vec![
                Diagnostic::error(fact)
                    .at(&self.place(0..0), "")
                    .help("is it a lock of winimg's?"),
            ]);
        };
        match schema.get_ref() {
            toml::Value::Integer(known @ 1..=SCHEMA) => Ok(*known),
            other => Err(vec![
                Diagnostic::error(format!(
                    "schema {other} of {} is not known to this version",
                    self.name
                ))
                .at(&self.place(schema.span()), "")
                .help(format!(
                    "this version reads schemas 1 to {SCHEMA}: use the winimg that wrote it, or a later one"
                )),
            ]),
        }
    }

    fn entry(&self, before: &[Entry], entry: &Entry, place: &Place) -> Vec<Diagnostic> {
        let mut facts = Vec::new();
        if before.iter().any(|e| e.id == entry.id) {
            facts.push(format!("{} has {} twice", self.name, entry.id));
        }
        let evidence = entry.evidence.iter().map(|e| &e.digest);
        let digests = std::iter::once(&entry.digest).chain(evidence);
        for digest in digests.filter(|d| d.algorithm != Algorithm::Sha256) {
            let (name, algorithm) = (&entry.id, digest.algorithm.name());
            facts.push(format!(
                "{name} is locked by a {algorithm}; a lock holds SHA-256"
            ));
        }
        let complaint = |fact: String| Diagnostic::error(fact).at(place, "");
        facts.into_iter().map(complaint).collect()
    }

    fn broken(&self, error: &toml::de::Error) -> Vec<Diagnostic> {
        let fact = format!("{} is not a lock: {}", self.name, error.message());
        let place = self.place(error.span().unwrap_or(0..0));
        let conflict = ["<<<<<<<", "=======", ">>>>>>>"];
        let mut lines = self.source.text.lines();
        let merged = lines.any(|line| conflict.iter().any(|mark| line.starts_with(mark)));
        let help = match merged {
            true => "two branches changed it: take either side whole, then run `winimg lock`",
            false => RESTORE,
        };
        vec![Diagnostic::error(fact).at(&place, "").help(help)]
    }
}

/// The table's header, or the line that it begins with.
fn first_line<E>(text: &str, entry: &Spanned<E>) -> Range<usize> {
    let span = entry.span();
    let tail = text.get(span.clone()).unwrap_or_default();
    span.start..span.start + tail.find('\n').unwrap_or(tail.len())
}

/// The digest over the text with zeros in place of the one that it says.
fn content_of(text: &str, said: &Spanned<Digest>) -> Digest {
    let Range { start, end } = said.span();
    let (Some(before), Some(after)) = (text.get(..start), text.get(end..)) else {
        return zeros();
    };
    Digest::sha256_of(format!("{before}\"{}\"{after}", zeros()).as_bytes())
}

/// 64 of them.
fn zeros() -> Digest {
    // Never an error: it is a SHA-256 by its length.
    Digest::from_hex(&"0".repeat(64)).unwrap_or_else(|_| Digest::sha256_of(b""))
}
