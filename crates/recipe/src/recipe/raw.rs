//! Recipe files as written: reads them, follows `include`, and lays one over the other.
//!
//! Refuses circles, missing files, schemas it does not know, and files outside of a bundle; decides nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use super::mask::mask_secrets;
use super::merge;
use super::sources::{Sources, decoded, read_text};
use super::value::{self, Data, Table, Value};
use super::{Options, Root};
use winimg_base::diag::Diagnostic;
use winimg_base::text::{Place, Source};

/// The schema this version reads.
const SCHEMA: i64 = 1;

/// What a recipe from standard input is called.
pub const PIPED: &str = "<stdin>";

/// An include of an include, and so on.
const DEEPEST: usize = 32;
const MOST_FILES: usize = 256;
/// Bytes of all files together.
const LONGEST: usize = 8 << 20;
/// Of a list, or of a table of tables, that is read entry by entry.
const MOST: [(&str, usize); 8] = [
    ("vars", 10_000),
    ("trust", 1_000),
    ("mirrors", 1_000),
    ("unsigned", 1_000),
    ("steps", 5_000),
    ("clone", 5_000),
    ("components", 25_000),
    ("images", 1_000),
];

/// What the files say together.
pub struct Raw {
    pub tree: Table,
    /// The start of the recipe, for what is said nowhere.
    pub start: Place,
    pub sources: Sources,
    pub problems: Vec<Diagnostic>,
    /// Something could not be read: what is missing may be there.
    pub incomplete: bool,
}

/// Reads the recipe and all that it includes. `None` when the recipe itself cannot be read.
pub fn load(path: &Path, options: &Options) -> (Option<Raw>, Vec<Diagnostic>) {
    let mut loader = Loader {
        sources: Sources::of(options, path),
        problems: Vec::new(),
        edited: options.edited.clone(),
        stack: Vec::new(),
        done: Vec::new(),
        size: 0,
        incomplete: false,
    };
    let read = match &options.piped {
        Some(bytes) => loader.piped(bytes),
        None => loader.file(path, &path.display().to_string(), Root::Recipe, None),
    };
    let Some((mut tree, start)) = read else {
        return (None, loader.problems);
    };
    for (key, most) in MOST {
        if let Some(value) = tree.get_mut(key) {
            loader.problems.extend(shortened(key, value, most));
        }
    }
    let raw = Raw {
        tree,
        start,
        sources: loader.sources,
        problems: loader.problems,
        incomplete: loader.incomplete,
    };
    (Some(raw), Vec::new())
}

/// Leaves away what is too much of a list or a table, with the complaint about it.
fn shortened(key: &str, value: &mut Value, most: usize) -> Option<Diagnostic> {
    let (count, place) = match &mut value.data {
        Data::Array(items) => {
            let (count, place) = (items.len(), items.get(most).map(|item| item.place.clone()));
            items.truncate(most);
            (count, place)
        }
        Data::Table(table) => {
            let entry = table.entries.get(most);
            let (count, place) = (
                table.entries.len(),
                entry.map(|entry| entry.key_place.clone()),
            );
            table.entries.truncate(most);
            (count, place)
        }
        _ => return None,
    };
    let fact = format!("a recipe has at most {most} {key}, and this one has {count}");
    Some(Diagnostic::error(fact).at(&place?, "this is one too many"))
}

struct Loader {
    sources: Sources,
    problems: Vec<Diagnostic>,
    /// What stands in for the first file's text, until that is read.
    edited: Option<String>,
    /// The files being read, each with its shown name.
    stack: Vec<(PathBuf, String)>,
    done: Vec<PathBuf>,
    /// Bytes that were read.
    size: usize,
    incomplete: bool,
}

impl Loader {
    fn problem(&mut self, diagnostic: Diagnostic, at: Option<&Place>) {
        self.incomplete = true;
        self.problems.push(match at {
            Some(place) => diagnostic.at(place, "included here"),
            None => diagnostic,
        });
    }

    /// `None`: not read, or read already.
    fn file(
        &mut self,
        path: &Path,
        name: &str,
        root: Root,
        at: Option<&Place>,
    ) -> Option<(Table, Place)> {
        let real = match fs::canonicalize(path) {
            Ok(real) => real,
            Err(error) => {
                self.problem(
                    Diagnostic::error(format!("cannot read {name}: {error}")),
                    at,
                );
                return None;
            }
        };
        if let Some(first) = self.stack.iter().position(|(p, _)| *p == real) {
            let mut circle: Vec<&str> = self.stack[first..].iter().map(|(_, n)| &**n).collect();
            circle.push(name);
            let fact = format!("includes go in a circle: {}", circle.join(" → "));
            self.problem(Diagnostic::error(fact), at);
            return None;
        }
        if self.done.contains(&real) {
            return None;
        }
        if self.stack.len() >= DEEPEST || self.done.len() >= MOST_FILES {
            let fact = if self.stack.len() >= DEEPEST {
                format!("includes are nested more than {DEEPEST} deep")
            } else {
                format!("a recipe has at most {MOST_FILES} files")
            };
            let help = "include fewer files, each with more in it";
            self.problem(Diagnostic::error(fact).help(help), at);
            return None;
        }
        let read = match self.edited.take() {
            Some(edited) => Ok(edited),
            None => read_text(path),
        };
        let text = match read {
            Ok(text) => text,
            Err(fact) => {
                self.problem(Diagnostic::error(format!("cannot read {name}: {fact}")), at);
                return None;
            }
        };
        self.size += text.len();
        if self.size > LONGEST {
            let fact = format!(
                "a recipe has at most {} MiB with all that it includes",
                LONGEST >> 20
            );
            self.problem(Diagnostic::error(fact), at);
            return None;
        }
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        self.sources.note(path, root.clone());
        let text = mask_secrets(name, text);
        let source = self.sources.source_of(name, text, (&real, &root));
        Some(self.text(source, (real, folder), root, at.is_some()))
    }

    /// The recipe from standard input; its paths start from the current folder.
    fn piped(&mut self, bytes: &[u8]) -> Option<(Table, Place)> {
        match decoded(bytes.to_vec()) {
            Ok(text) => {
                let places = (PathBuf::from(PIPED), PathBuf::new());
                let source = Source::new(PIPED, mask_secrets(PIPED, text));
                Some(self.text(source, places, Root::Recipe, false))
            }
            Err(fact) => {
                let fact = format!("cannot read {PIPED}: {fact}");
                self.problem(Diagnostic::error(fact), None);
                None
            }
        }
    }

    /// Reads the text of a file that is `real`, and whose paths start from `folder`.
    fn text(
        &mut self,
        source: Source,
        (real, folder): (PathBuf, PathBuf),
        root: Root,
        is_included: bool,
    ) -> (Table, Place) {
        let source = self.sources.add_source(source, folder, root);
        let (mut own, problems) = value::parse(&source);
        self.incomplete |= !problems.is_empty();
        self.problems.extend(problems);
        let start = Place::new(&source, 0..0);
        self.schema(&mut own, &start);

        self.stack.push((real.clone(), source.name.clone()));
        let mut tree = Table::default();
        if let Some(entry) = own.remove("include") {
            for included in self.includes(&entry.value) {
                merge::lay_over(&mut tree, included, &mut self.problems);
            }
        }
        self.stack.pop();
        self.done.push(real);

        if is_included {
            // A pack's name is its own.
            own.remove("name");
            own.remove("description");
        }
        merge::lay_over(&mut tree, own, &mut self.problems);
        (tree, start)
    }

    fn schema(&mut self, table: &mut Table, start: &Place) {
        let Some(entry) = table.remove("schema") else {
            if !self.incomplete {
                let fact = format!("{} does not say its schema", start.source.name);
                self.problems.push(
                    Diagnostic::error(fact)
                        .at(start, "")
                        .help(format!("begin the file with `schema = {SCHEMA}`")),
                );
            }
            return;
        };
        let value = entry.value;
        match value.data {
            Data::Integer(SCHEMA) => {}
            Data::Integer(other) => self.problems.push(
                Diagnostic::error(format!("schema {other} is not known to this version"))
                    .at(&value.place, "")
                    .help(format!("this version reads schema {SCHEMA}")),
            ),
            _ => self.problems.push(
                Diagnostic::error(format!(
                    "`schema` takes a whole number, not {}",
                    value.kind()
                ))
                .at(&value.place, "")
                .help(format!("write `schema = {SCHEMA}`")),
            ),
        }
    }

    fn includes(&mut self, value: &Value) -> Vec<Table> {
        let Data::Array(items) = &value.data else {
            let fact = format!("`include` takes a list of files, not {}", value.kind());
            self.incomplete = true;
            self.problems.push(
                Diagnostic::error(fact)
                    .at(&value.place, "")
                    .help("write `include = [\"packs/containerd.toml\"]`"),
            );
            return Vec::new();
        };
        let mut tables = Vec::new();
        for item in items {
            let Some(wanted) = item.as_str() else {
                let fact = format!("`include` takes file names, not {}", item.kind());
                self.problem(Diagnostic::error(fact), Some(&item.place));
                continue;
            };
            if wanted.contains("{{") {
                let fact = "variables are not filled in in `include`";
                self.problem(Diagnostic::error(fact), Some(&item.place));
                continue;
            }
            match self.sources.look_up(wanted, &item.place) {
                Ok(found) => {
                    let read = self.file(&found.path, &found.name, found.root, Some(&item.place));
                    tables.extend(read.map(|(table, _)| table));
                }
                Err(problem) => self.problem(problem, Some(&item.place)),
            }
        }
        tables
    }
}
