//! Reads and writes the lock file. Its text is canonical: any other text for the same content is
//! refused. Schema 3 is written; schemas 1 and 2 are also read.
//! Line ends, a byte order mark and trailing empty lines are ignored, as editors and git change
//! them.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::{LockEntry, LockFile, RecipeLock, SCHEMA, schema1, schema2};
use winimg_base::diag::{Diagnostic, Diagnostics};
use winimg_base::digest::{Algorithm, Digest};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_base::text::{Place, SourceText};

/// Maximum size in bytes. A lock with a thousand inputs has less than 1 MiB.
const LIMIT: u64 = 4 << 20;

const HEAD: &str = "# Written by `winimg lock`. Commit it, and do not edit it by hand.\n";

const RESTORE: &str = "restore the committed lock, or delete it and run `winimg lock`, which \
    resolves every input again";

/// The document that is written.
#[derive(Serialize)]
struct LockDocument<'a> {
    schema: i64,
    recipe: &'a str,
    serial: u64,
    /// Digest of the whole text, with zeros in place of the digest itself.
    content: &'a Digest,
    #[serde(skip_serializing_if = "<[LockEntry]>::is_empty")]
    inputs: &'a [LockEntry],
}

/// The document that is read, with entries of a known schema.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ParsedLock<E> {
    #[serde(rename = "schema")]
    _schema: i64,
    recipe: Spanned<String>,
    serial: Spanned<u64>,
    content: Spanned<Digest>,
    // With a plain `default`, serde would require `E: Default`.
    #[serde(default = "Vec::new")]
    inputs: Vec<Spanned<E>>,
}

/// Reads only the schema number, of any version.
#[derive(Deserialize)]
struct LockSchemaProbe {
    schema: Option<Spanned<toml::Value>>,
}

impl RecipeLock {
    /// Renders the file's canonical text in the current schema.
    pub fn render(&self) -> Result<String> {
        let unsealed = self.render_with(&zero_digest())?;
        self.render_with(&Digest::sha256_of(unsealed.as_bytes()))
    }

    fn render_with(&self, content: &Digest) -> Result<String> {
        let written = LockDocument {
            schema: SCHEMA,
            recipe: &self.recipe,
            serial: self.serial,
            content,
            inputs: &self.inputs,
        };
        toml::to_string(&written)
            .map(|text| format!("{HEAD}{text}"))
            .map_err(|e| Error::new(Kind::Failed, "cannot serialize the lock").because(e))
    }
}

impl LockFile {
    /// Reads a lock. Each diagnostic points at its line.
    pub fn read(path: &Path) -> Result<Self, Diagnostics> {
        let name = path.display().to_string();
        let text = io::read_text_limited(path, LIMIT).map_err(|e| {
            let fact = format!("cannot read the lock {name}: {e}");
            Diagnostics(vec![Diagnostic::error(fact)])
        })?;
        let file = path.file_name().unwrap_or_default();
        let mut source = SourceText::new(name, as_written(&text));
        // The lock of an untrusted recipe may be a symlink to any file on the host, whose text must
        // not be quoted.
        if io::is_link(path) {
            source = source.into_unquotable();
        }
        let reading = LockReader {
            path: path.to_path_buf(),
            name: file.to_string_lossy().into_owned(),
            source: Arc::new(source),
        };
        reading.lock().map_err(Diagnostics)
    }
}

/// Returns the text as `winimg lock` wrote it: undoes changes by git or an editor to line ends, a
/// byte order mark or trailing empty lines.
fn as_written(text: &str) -> String {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = text.replace("\r\n", "\n");
    format!("{}\n", text.trim_end_matches('\n'))
}

struct LockReader {
    path: PathBuf,
    /// The file's own name.
    name: String,
    source: Arc<SourceText>,
}

impl LockReader {
    fn place(&self, span: Range<usize>) -> Place {
        Place::new(&self.source, span)
    }

    fn lock(&self) -> Result<LockFile, Vec<Diagnostic>> {
        match self.read_schema()? {
            1 => self.read_inputs::<schema1::Schema1Entry>(1),
            2 => self.read_inputs::<schema2::Schema2Entry>(2),
            schema => self.read_inputs::<LockEntry>(schema),
        }
    }

    fn read_inputs<E: DeserializeOwned + Into<LockEntry>>(
        &self,
        schema: i64,
    ) -> Result<LockFile, Vec<Diagnostic>> {
        let text = self.source.text.as_str();
        let read: ParsedLock<E> = toml::from_str(text).map_err(|e| self.report_syntax_error(&e))?;
        let mut problems = Vec::new();
        if *read.content.get_ref() != content_of(text, &read.content) {
            problems.push(
                Diagnostic::error(format!(
                    "{} was edited or merged after `winimg lock` wrote it",
                    self.name
                ))
                .at(&self.place(read.content.span()), "does not match the text")
                .help(RESTORE),
            );
        }
        if *read.serial.get_ref() == 0 {
            let fact = format!("the serial of {} must be at least 1", self.name);
            problems.push(Diagnostic::error(fact).at(&self.place(read.serial.span()), ""));
        }
        let places: Vec<Place> = read
            .inputs
            .iter()
            .map(|entry| self.place(first_line(text, entry)))
            .collect();
        let inputs: Vec<LockEntry> = read
            .inputs
            .into_iter()
            .map(|entry| entry.into_inner().into())
            .collect();
        for (at, entry) in inputs.iter().enumerate() {
            problems.extend(self.check_entry(&inputs[..at], entry, &places[at]));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(LockFile {
            lock: RecipeLock {
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

    /// Reads the schema before anything else, because each schema has its own keys.
    fn read_schema(&self) -> Result<i64, Vec<Diagnostic>> {
        let any: LockSchemaProbe =
            toml::from_str(&self.source.text).map_err(|e| self.report_syntax_error(&e))?;
        let Some(schema) = any.schema else {
            let fact = format!("{} has no schema", self.name);
            return Err(vec![
                Diagnostic::error(fact)
                    .at(&self.place(0..0), "")
                    .help("check that it is a lock file written by winimg"),
            ]);
        };
        match schema.get_ref() {
            toml::Value::Integer(known @ 1..=SCHEMA) => Ok(*known),
            other => Err(vec![
                Diagnostic::error(format!(
                    "schema {other} of {} is not supported by this version",
                    self.name
                ))
                .at(&self.place(schema.span()), "")
                .help(format!(
                    "this version reads schemas 1 to {SCHEMA}: use the winimg that wrote it, or a \
                     later one"
                )),
            ]),
        }
    }

    fn check_entry(
        &self,
        earlier: &[LockEntry],
        entry: &LockEntry,
        place: &Place,
    ) -> Vec<Diagnostic> {
        let mut facts = Vec::new();
        if earlier.iter().any(|e| e.id == entry.id) {
            facts.push(format!("{} has {} twice", self.name, entry.id));
        }
        let digests = std::iter::once(&entry.digest)
            .chain(entry.evidence.iter().map(|evidence| &evidence.digest));
        for digest in digests.filter(|d| d.algorithm != Algorithm::Sha256) {
            let (name, algorithm) = (&entry.id, digest.algorithm.name());
            facts.push(format!(
                "{name} is locked by {algorithm}; a lock must use SHA-256"
            ));
        }
        facts
            .into_iter()
            .map(|fact| Diagnostic::error(fact).at(place, ""))
            .collect()
    }

    fn report_syntax_error(&self, error: &toml::de::Error) -> Vec<Diagnostic> {
        let fact = format!("{} is not a lock: {}", self.name, error.message());
        let place = self.place(error.span().unwrap_or(0..0));
        let conflict = ["<<<<<<<", "=======", ">>>>>>>"];
        let mut lines = self.source.text.lines();
        let merged = lines.any(|line| conflict.iter().any(|mark| line.starts_with(mark)));
        let help = if merged {
            "two branches changed it: keep one side unchanged, then run `winimg lock`"
        } else {
            RESTORE
        };
        vec![Diagnostic::error(fact).at(&place, "").help(help)]
    }
}

/// Returns the first line of an entry, which is its table header.
fn first_line<E>(text: &str, entry: &Spanned<E>) -> Range<usize> {
    let span = entry.span();
    let tail = text.get(span.clone()).unwrap_or_default();
    span.start..span.start + tail.find('\n').unwrap_or(tail.len())
}

/// Computes the digest of the text, with zeros in place of the recorded digest.
fn content_of(text: &str, recorded: &Spanned<Digest>) -> Digest {
    let Range { start, end } = recorded.span();
    let (Some(before), Some(after)) = (text.get(..start), text.get(end..)) else {
        return zero_digest();
    };
    Digest::sha256_of(format!("{before}\"{}\"{after}", zero_digest()).as_bytes())
}

/// Returns a SHA-256 of 64 zeros.
fn zero_digest() -> Digest {
    // Cannot fail: 64 digits are a SHA-256.
    Digest::from_hex(&"0".repeat(64)).unwrap_or_else(|_| Digest::sha256_of(b""))
}
