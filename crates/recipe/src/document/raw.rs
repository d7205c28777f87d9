//! Reads recipe files, follows `include`, and merges the files.
//!
//! Refuses cycles, missing files, unknown schemas, and files outside a bundle.

use std::fs;
use std::path::{Path, PathBuf};

use crate::document::mask::mask_secrets;
use crate::document::merge;
use crate::document::sources::{RecipeSources, decode, read_text};
use crate::document::value::{self, TomlData, TomlTable, TomlValue};
use crate::{PathRoot, ReadOptions};
use winimg_base::diag::Diagnostic;
use winimg_base::text::{Place, SourceText};

/// The supported schema.
const SCHEMA: i64 = 1;

/// Name of a recipe from standard input.
pub const PIPED: &str = "<stdin>";

/// Maximum nesting of includes.
const DEEPEST: usize = 32;
const MOST_FILES: usize = 256;
/// Maximum total size of all files, in bytes.
const LONGEST: usize = 8 << 20;
/// Maximum number of entries in lists and in tables of tables.
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

/// The merged files.
pub struct RawRecipe {
    pub tree: TomlTable,
    /// The start of the recipe, for problems without a place.
    pub start: Place,
    pub sources: RecipeSources,
    pub problems: Vec<Diagnostic>,
    /// Some files could not be read, so nothing is reported as missing.
    pub incomplete: bool,
}

/// Reads the recipe and everything it includes. Returns `None` if the recipe itself cannot be read.
pub fn load(path: &Path, options: &ReadOptions) -> (Option<RawRecipe>, Vec<Diagnostic>) {
    let mut loader = RecipeLoader {
        sources: RecipeSources::from_options(options, path),
        problems: Vec::new(),
        edited: options.edited.clone(),
        stack: Vec::new(),
        done: Vec::new(),
        size: 0,
        incomplete: false,
    };
    let read = match &options.piped {
        Some(bytes) => loader.load_piped(bytes),
        None => loader.load_file(path, &path.display().to_string(), PathRoot::Recipe, None),
    };
    let Some((mut tree, start)) = read else {
        return (None, loader.problems);
    };
    for (key, most) in MOST {
        if let Some(value) = tree.get_mut(key) {
            loader.problems.extend(truncate(key, value, most));
        }
    }
    let raw = RawRecipe {
        tree,
        start,
        sources: loader.sources,
        problems: loader.problems,
        incomplete: loader.incomplete,
    };
    (Some(raw), Vec::new())
}

/// Truncates a list or a table that is too long, and returns an error about it.
fn truncate(key: &str, value: &mut TomlValue, most: usize) -> Option<Diagnostic> {
    let (count, place) = match &mut value.data {
        TomlData::Array(items) => {
            let (count, place) = (items.len(), items.get(most).map(|item| item.place.clone()));
            items.truncate(most);
            (count, place)
        }
        TomlData::Table(table) => {
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
    let fact = format!("a recipe has at most {most} {key}, but this one has {count}");
    Some(Diagnostic::error(fact).at(&place?, "this is one too many"))
}

struct RecipeLoader {
    sources: RecipeSources,
    problems: Vec<Diagnostic>,
    /// Replaces the text of the first file; taken when that is read.
    edited: Option<String>,
    /// The files being read, with their names in messages.
    stack: Vec<(PathBuf, String)>,
    done: Vec<PathBuf>,
    /// Total size so far, in bytes.
    size: usize,
    incomplete: bool,
}

impl RecipeLoader {
    fn report(&mut self, diagnostic: Diagnostic, at: Option<&Place>) {
        self.incomplete = true;
        self.problems.push(match at {
            Some(place) => diagnostic.at(place, "included here"),
            None => diagnostic,
        });
    }

    /// Reads a file; `None` if that fails, or if it was read before.
    fn load_file(
        &mut self,
        path: &Path,
        name: &str,
        root: PathRoot,
        at: Option<&Place>,
    ) -> Option<(TomlTable, Place)> {
        let real = match fs::canonicalize(path) {
            Ok(real) => real,
            Err(error) => {
                self.report(
                    Diagnostic::error(format!("cannot read {name}: {error}")),
                    at,
                );
                return None;
            }
        };
        if let Some(first) = self.stack.iter().position(|(p, _)| *p == real) {
            let mut cycle: Vec<&str> = self.stack[first..].iter().map(|(_, n)| &**n).collect();
            cycle.push(name);
            let fact = format!("includes form a cycle: {}", cycle.join(" → "));
            self.report(Diagnostic::error(fact), at);
            return None;
        }
        if self.done.contains(&real) {
            return None;
        }
        if self.stack.len() >= DEEPEST || self.done.len() >= MOST_FILES {
            let fact = if self.stack.len() >= DEEPEST {
                format!("includes are nested more than {DEEPEST} levels deep")
            } else {
                format!("a recipe has at most {MOST_FILES} files")
            };
            let help = "combine some of the files";
            self.report(Diagnostic::error(fact).help(help), at);
            return None;
        }
        let read = match self.edited.take() {
            Some(edited) => Ok(edited),
            None => read_text(path),
        };
        let text = match read {
            Ok(text) => text,
            Err(fact) => {
                self.report(Diagnostic::error(format!("cannot read {name}: {fact}")), at);
                return None;
            }
        };
        self.size += text.len();
        if self.size > LONGEST {
            let fact = format!(
                "a recipe has at most {} MiB, including its packs",
                LONGEST >> 20
            );
            self.report(Diagnostic::error(fact), at);
            return None;
        }
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        self.sources.note(path, root.clone());
        let text = mask_secrets(name, text);
        let source = self.sources.source_of(name, text, (&real, &root));
        Some(self.load_text(source, (real, folder), root, at.is_some()))
    }

    /// Reads the recipe from standard input; its paths are relative to the current folder.
    fn load_piped(&mut self, bytes: &[u8]) -> Option<(TomlTable, Place)> {
        match decode(bytes.to_vec()) {
            Ok(text) => {
                let places = (PathBuf::from(PIPED), PathBuf::new());
                let source = SourceText::new(PIPED, mask_secrets(PIPED, text));
                Some(self.load_text(source, places, PathRoot::Recipe, false))
            }
            Err(fact) => {
                let fact = format!("cannot read {PIPED}: {fact}");
                self.report(Diagnostic::error(fact), None);
                None
            }
        }
    }

    /// Reads the text of the file at `real`, whose paths are relative to `folder`.
    fn load_text(
        &mut self,
        source: SourceText,
        (real, folder): (PathBuf, PathBuf),
        root: PathRoot,
        is_included: bool,
    ) -> (TomlTable, Place) {
        let source = self.sources.add_source(source, folder, root);
        let (mut own, problems) = value::parse(&source);
        self.incomplete |= !problems.is_empty();
        self.problems.extend(problems);
        let start = Place::new(&source, 0..0);
        self.check_schema(&mut own, &start);

        self.stack.push((real.clone(), source.name.clone()));
        let mut tree = TomlTable::default();
        if let Some(entry) = own.remove("include") {
            for included in self.load_includes(&entry.value) {
                merge::merge_tables(&mut tree, included, &mut self.problems);
            }
        }
        self.stack.pop();
        self.done.push(real);

        if is_included {
            // A pack's name is its own.
            own.remove("name");
            own.remove("description");
        }
        merge::merge_tables(&mut tree, own, &mut self.problems);
        (tree, start)
    }

    fn check_schema(&mut self, table: &mut TomlTable, start: &Place) {
        let Some(entry) = table.remove("schema") else {
            if !self.incomplete {
                let fact = format!("{} has no `schema`", start.source.name);
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
            TomlData::Integer(SCHEMA) => {}
            TomlData::Integer(other) => self.problems.push(
                Diagnostic::error(format!("schema {other} is not supported by this version"))
                    .at(&value.place, "")
                    .help(format!("this version supports schema {SCHEMA}")),
            ),
            _ => self.problems.push(
                Diagnostic::error(format!(
                    "`schema` takes a whole number, not {}",
                    value.kind_name()
                ))
                .at(&value.place, "")
                .help(format!("write `schema = {SCHEMA}`")),
            ),
        }
    }

    fn load_includes(&mut self, value: &TomlValue) -> Vec<TomlTable> {
        let TomlData::Array(items) = &value.data else {
            let fact = format!("`include` takes a list of files, not {}", value.kind_name());
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
                let fact = format!("`include` takes file names, not {}", item.kind_name());
                self.report(Diagnostic::error(fact), Some(&item.place));
                continue;
            };
            if wanted.contains("{{") {
                let fact = "`include` does not support variables";
                self.report(Diagnostic::error(fact), Some(&item.place));
                continue;
            }
            match self.sources.look_up(wanted, &item.place) {
                Ok(found) => {
                    let read =
                        self.load_file(&found.path, &found.name, found.root, Some(&item.place));
                    tables.extend(read.map(|(table, _)| table));
                }
                Err(problem) => self.report(problem, Some(&item.place)),
            }
        }
        tables
    }
}
