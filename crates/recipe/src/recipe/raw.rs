//! Recipe files as written: reads them, follows `include`, and lays one over the other.
//!
//! Refuses circles, missing files, schemas it does not know, and files outside of a bundle; decides nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use super::mask::mask_secrets;
use super::merge;
use super::sources::{OUTSIDE, OUTSIDE_HELP, Sources, decoded, read_text, tidy};
use super::value::{self, Data, Table, Value};
use super::{Options, Root};
use winimg_base::diag::{Diagnostic, suggestion};
use winimg_base::text::Place;

/// The schema this version reads.
const SCHEMA: i64 = 1;

/// What a recipe from standard input is called.
pub const PIPED: &str = "<stdin>";

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
        search: &options.search,
        shipped: &options.shipped,
        sources: Sources::of(options),
        problems: Vec::new(),
        stack: Vec::new(),
        done: Vec::new(),
        incomplete: false,
    };
    let read = match &options.piped {
        Some(bytes) => loader.piped(bytes),
        None => loader.file(path, &path.display().to_string(), Root::Recipe, None),
    };
    let Some((tree, start)) = read else {
        return (None, loader.problems);
    };
    let raw = Raw {
        tree,
        start,
        sources: loader.sources,
        problems: loader.problems,
        incomplete: loader.incomplete,
    };
    (Some(raw), Vec::new())
}

struct Loader<'a> {
    search: &'a [PathBuf],
    /// Those of `search` that come with winimg.
    shipped: &'a [PathBuf],
    sources: Sources,
    problems: Vec<Diagnostic>,
    /// The files being read, each with its shown name.
    stack: Vec<(PathBuf, String)>,
    done: Vec<PathBuf>,
    incomplete: bool,
}

impl Loader<'_> {
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
        let text = match read_text(path) {
            Ok(text) => text,
            Err(fact) => {
                self.problem(Diagnostic::error(format!("cannot read {name}: {fact}")), at);
                return None;
            }
        };
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        self.sources.note(path, root.clone());
        Some(self.text(text, name, (real, folder), root, at.is_some()))
    }

    /// The recipe from standard input; its paths start from the current folder.
    fn piped(&mut self, bytes: &[u8]) -> Option<(Table, Place)> {
        match decoded(bytes.to_vec()) {
            Ok(text) => {
                let places = (PathBuf::from(PIPED), PathBuf::new());
                Some(self.text(text, PIPED, places, Root::Recipe, false))
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
        text: String,
        name: &str,
        (real, folder): (PathBuf, PathBuf),
        root: Root,
        is_included: bool,
    ) -> (Table, Place) {
        let text = mask_secrets(name, text);
        let source = self.sources.add_file(name, text, folder, root);
        let (mut own, problems) = value::parse(&source);
        self.incomplete |= !problems.is_empty();
        self.problems.extend(problems);
        let start = Place::new(&source, 0..0);
        self.schema(&mut own, &start);

        self.stack.push((real.clone(), name.into()));
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
            if let Some((found, root)) = self.find(wanted, &item.place) {
                let name = self.called(&found, &root);
                let read = self.file(&found, &name, root, Some(&item.place));
                tables.extend(read.map(|(table, _)| table));
            }
        }
        tables
    }

    /// `winimg:packs/x.toml` for what comes with winimg, wherever that lies; else the path.
    fn called(&self, path: &Path, root: &Root) -> String {
        let folder = match root {
            Root::Search(number) => self.search.get(*number),
            _ => None,
        };
        let own = folder.filter(|folder| self.shipped.contains(folder));
        match own.and_then(|folder| path.strip_prefix(tidy(folder)).ok()) {
            Some(within) => format!("winimg:{}", shown(within)),
            None => shown(path),
        }
    }

    /// Beside the including file first, then in the folders of the options.
    fn find(&mut self, wanted: &str, place: &Place) -> Option<(PathBuf, Root)> {
        let own = self.sources.folder(place).to_path_buf();
        let folders: Vec<PathBuf> = std::iter::once(own).chain(self.search.to_vec()).collect();
        let candidates = folders.iter().map(|f| tidy(&f.join(wanted)));
        let candidates: Vec<PathBuf> = candidates.map(|p| self.sources.stands(p)).collect();
        let (outside, inside): (Vec<_>, Vec<_>) =
            (0..candidates.len()).partition(|at| self.sources.is_outside(&candidates[*at]));
        if let Some(found) = inside.into_iter().find(|at| candidates[*at].is_file()) {
            let root = match self.sources.root(place, wanted) {
                Root::Named(text) => Root::Named(text),
                _ if found > 0 => Root::Search(found - 1),
                own => own,
            };
            return Some((candidates[found].clone(), root));
        }
        if !outside.is_empty() {
            self.problem(Diagnostic::error(OUTSIDE).help(OUTSIDE_HELP), Some(place));
            return None;
        }
        let mut diagnostic = Diagnostic::error(format!("there is no file {wanted}"));
        let siblings: Vec<String> = candidates
            .iter()
            .flat_map(|p| siblings(p, wanted))
            .collect();
        let siblings: Vec<&str> = siblings.iter().map(String::as_str).collect();
        if !siblings.is_empty() {
            diagnostic = diagnostic.help(suggestion(wanted, &siblings, "files there"));
        }
        let looked = (0..).zip(&candidates).map(|(n, path)| match n {
            0 => shown(path),
            n => self.called(path, &Root::Search(n - 1)),
        });
        let looked: Vec<String> = looked.collect();
        diagnostic = diagnostic.help(format!("looked for {}", looked.join(", ")));
        self.problem(diagnostic, Some(place));
        None
    }
}

/// The TOML files in the folder of a candidate, written as the include would be.
fn siblings(candidate: &Path, wanted: &str) -> Vec<String> {
    let prefix = wanted.rfind('/').map_or("", |at| &wanted[..=at]);
    let folder = match candidate.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|e| e.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|n| n.ends_with(".toml")).collect();
    names.sort();
    names.iter().map(|n| format!("{prefix}{n}")).collect()
}

/// With `/` everywhere, as the recipe writes it.
fn shown(path: &Path) -> String {
    path.display().to_string().replace('\\', "/")
}
