//! Recipe files as written: reads them, follows `include`, and lays one over the other.
//!
//! Refuses circles, missing files, schemas it does not know, and files outside of a bundle; decides nothing else.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::merge;
use super::value::{self, Data, Table, Value};
use super::{Options, ReadFile, Root, words};
use winimg_base::diag::{Diagnostic, suggestion};
use winimg_base::io;
use winimg_base::text::{Place, Source};

/// The schema this version reads.
const SCHEMA: i64 = 1;

/// What a recipe from standard input is called.
pub const PIPED: &str = "<stdin>";

/// Every file and flag that was read, in that order, each with the folder that its relative paths start from.
#[derive(Debug, Default)]
pub struct Sources {
    said: Vec<Said>,
    /// The files that were opened or named, in that order.
    files: RefCell<Vec<ReadFile>>,
    /// Paths that stand elsewhere now.
    moved: Vec<(PathBuf, PathBuf)>,
    /// Nothing is read outside of it.
    within: Option<PathBuf>,
}

/// What is wrong with a path that leads out of a bundle.
pub const OUTSIDE: &str = "a bundle reads nothing outside of itself";
pub const OUTSIDE_HELP: &str = "put the file beside the recipe and make the bundle anew; a path given with --var or --set is refused, too";

#[derive(Debug)]
struct Said {
    source: Arc<Source>,
    folder: PathBuf,
    root: Root,
}

impl Sources {
    pub fn of(options: &Options) -> Self {
        Self {
            moved: options.moved.clone(),
            within: options.within.clone(),
            ..Self::default()
        }
    }

    /// The text of a flag or of the environment.
    pub fn add(&mut self, name: impl Into<String>, text: String, folder: PathBuf) -> Arc<Source> {
        self.add_file(name, text, folder, Root::Flag)
    }

    /// The text of a file.
    pub fn add_file(
        &mut self,
        name: impl Into<String>,
        text: String,
        folder: PathBuf,
        root: Root,
    ) -> Arc<Source> {
        let source = Arc::new(Source {
            name: name.into(),
            text,
        });
        self.said.push(Said {
            source: Arc::clone(&source),
            folder,
            root,
        });
        source
    }

    fn find(&self, place: &Place) -> Option<&Said> {
        let mut said = self.said.iter();
        said.find(|s| Arc::ptr_eq(&s.source, &place.source))
    }

    /// The folder that a path written at `place` is relative to.
    pub fn folder(&self, place: &Place) -> &Path {
        self.find(place).map_or(Path::new(""), |s| &s.folder)
    }

    /// What leads to a path that is written at `place`.
    pub fn root(&self, place: &Place, text: &str) -> Root {
        match self.find(place).map(|s| &s.root) {
            Some(root) if *root != Root::Flag && !Path::new(text).is_absolute() => root.clone(),
            _ => Root::Named(text.to_string()),
        }
    }

    /// A local path that is written at `place`, noted if it is there. It may lead [outside](Self::is_outside).
    pub fn local(&self, place: &Place, text: &str) -> PathBuf {
        let path = self.stands(self.folder(place).join(text));
        if !self.is_outside(&path) && path.exists() {
            self.note(&path, self.root(place, text));
        }
        path
    }

    /// Whether the path leads out of the bundle that the recipe came in, by itself or by a link.
    pub fn is_outside(&self, path: &Path) -> bool {
        let Some(within) = &self.within else {
            return false;
        };
        // Its text first: Windows connects to the host of `\\host\share` as soon as it is asked about such a path.
        if !tidy(path).starts_with(within) {
            return true;
        }
        match (io::canonicalize(path), io::canonicalize(within)) {
            (Ok(real), Ok(within)) => !real.starts_with(within),
            // Nothing is there.
            (Err(_), _) => false,
            (Ok(_), Err(_)) => true,
        }
    }

    /// Where an input stands that a recipe names by its path: in a bundle it comes by its digest in the lock, and whatever
    /// this machine has at such a place is not looked at.
    pub fn input(&self, path: PathBuf) -> PathBuf {
        match &self.within {
            Some(within) if self.is_outside(&path) => within
                .join("inputs")
                .join(path.file_name().unwrap_or_default()),
            _ => path,
        }
    }

    /// The path, or where it stands now.
    fn stands(&self, path: PathBuf) -> PathBuf {
        let moved = self.moved.iter().find(|(from, _)| *from == path);
        moved.map_or(path, |(_, to)| to.clone())
    }

    /// Remembers a file or folder that the recipe is read from.
    pub fn note(&self, path: &Path, root: Root) {
        let file = ReadFile {
            path: path.to_path_buf(),
            root,
        };
        let mut files = self.files.borrow_mut();
        if !files.contains(&file) {
            files.push(file);
        }
    }

    pub fn files(&self) -> Vec<ReadFile> {
        self.files.borrow().clone()
    }

    pub fn order(&self) -> Vec<Arc<Source>> {
        self.said.iter().map(|s| Arc::clone(&s.source)).collect()
    }
}

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

/// `a/b/../c` is `a/c`, without asking the file system.
pub fn tidy(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(out.components().next_back(), Some(Component::Normal(_))) =>
            {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

/// With `/` everywhere, as the recipe writes it.
fn shown(path: &Path) -> String {
    path.display().to_string().replace('\\', "/")
}

/// UTF-8, with or without a byte order mark.
pub fn read_text(path: &Path) -> Result<String, String> {
    decoded(fs::read(path).map_err(|error| error.to_string())?)
}

fn decoded(bytes: Vec<u8>) -> Result<String, String> {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err("it is UTF-16; save it as UTF-8".into());
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("byte {at} is not UTF-8")
    })
}

/// The text with the values of `[vars]` that would be secrets, users' passwords, and the user names in URLs, overwritten byte for byte,
/// so that no complaint about that file can show them.
fn mask_secrets(name: &str, text: String) -> String {
    let source = Arc::new(Source {
        name: name.into(),
        text,
    });
    let (table, broken) = value::parse(&source);
    let mut bytes = source.text.clone().into_bytes();
    if !broken.is_empty() {
        mask_lines(&source.text, &mut bytes);
    }
    let vars = table.get("vars").and_then(Value::as_table);
    for entry in vars.iter().flat_map(|t| &t.entries) {
        if words::is_secret(&entry.key) {
            mask_value(&entry.value, &mut bytes);
        }
    }
    for password in user_passwords(&table) {
        mask_value(password, &mut bytes);
    }
    mask_urls(&table, &mut bytes);
    String::from_utf8(bytes).unwrap_or_default()
}

/// What `user` steps have for a password that is neither made in the guest nor known to everybody: refused later on.
fn user_passwords(table: &Table) -> Vec<&Value> {
    let steps = match table.get("steps").map(|steps| &steps.data) {
        Some(Data::Array(steps)) => steps.as_slice(),
        _ => &[],
    };
    let users = steps.iter().filter_map(|step| step.as_table()?.get("user"));
    let given = users.filter_map(|user| user.as_table()?.get("password"));
    let allowed = |value: &&Value| match &value.data {
        Data::String(text) => text == "random" || text.starts_with("published:"),
        _ => false,
    };
    given.filter(|value| !allowed(value)).collect()
}

/// Where the syntax is broken, the lines that look as if they gave a secret a value.
pub fn mask_lines(text: &str, bytes: &mut [u8]) {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if let Some((key, value)) = line.split_once('=')
            && words::is_secret(key.trim().trim_matches(['"', '\'']))
        {
            let value = start + line.len() - value.trim_start().len();
            mask(bytes, value..start + line.len(), b'*');
        }
        start += line.len();
    }
}

fn mask_urls(table: &Table, bytes: &mut [u8]) {
    for entry in &table.entries {
        mask_urls_in(&entry.key, &entry.value, bytes);
    }
}

fn mask_urls_in(key: &str, value: &Value, bytes: &mut [u8]) {
    match &value.data {
        Data::Table(inner) => mask_urls(inner, bytes),
        Data::Array(items) => items.iter().for_each(|item| mask_urls_in(key, item, bytes)),
        Data::String(_) if holds_url(key) => {
            let place = &value.place;
            let text = place.source.text.get(place.span.clone()).unwrap_or("");
            if let Some(user) = user_in_url(text) {
                let start = place.span.start;
                mask(bytes, start + user.start..start + user.end, b'*');
            }
        }
        _ => {}
    }
}

/// Whether a key's value is an address.
pub fn holds_url(key: &str) -> bool {
    key.ends_with("url") || ["certificate", "log", "catalog"].contains(&key)
}

/// Where the user name and password of a URL stand.
pub fn user_in_url(text: &str) -> Option<std::ops::Range<usize>> {
    let start = text.find("://")? + 3;
    let host = text[start..].split(['/', '?', '#']).next()?;
    let end = start + host.rfind('@')?;
    Some(start..end)
}

fn mask_value(value: &Value, bytes: &mut [u8]) {
    match &value.data {
        Data::Array(items) => items.iter().for_each(|v| mask_value(v, bytes)),
        Data::Table(table) => table
            .entries
            .iter()
            .for_each(|e| mask_value(&e.value, bytes)),
        Data::String(_) => mask(bytes, value.place.span.clone(), b'*'),
        _ => mask(bytes, value.place.span.clone(), b'1'),
    }
}

/// Overwrites all but quotes and line ends.
pub fn mask(bytes: &mut [u8], span: std::ops::Range<usize>, with: u8) {
    for byte in bytes.get_mut(span).into_iter().flatten() {
        if !matches!(byte, b'"' | b'\'' | b'\r' | b'\n') {
            *byte = with;
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn within(folder: &Path) -> Sources {
        Sources {
            within: Some(folder.to_path_buf()),
            ..Sources::default()
        }
    }

    #[test]
    fn paths_lead_out_of_a_bundle_by_their_text_and_by_links() {
        let folder = tempfile::tempdir().unwrap();
        let bundle = folder.path().join("bundle");
        fs::create_dir(&bundle).unwrap();
        fs::write(bundle.join("own"), "").unwrap();
        fs::write(folder.path().join("host"), "").unwrap();
        symlink("../host", bundle.join("link")).unwrap();
        // A link to the bundle from outside: its text leads elsewhere, so nothing is asked about it.
        symlink("bundle/own", folder.path().join("in")).unwrap();
        let sources = within(&bundle);
        for inside in ["own", "none", "a/../own", "."] {
            assert!(!sources.is_outside(&bundle.join(inside)), "{inside}");
        }
        for outside in ["../host", "../none", "link", "../in", "/etc/passwd", ""] {
            let path = match outside {
                "" => PathBuf::new(),
                _ => bundle.join(outside),
            };
            assert!(sources.is_outside(&path), "{outside}");
        }
    }

    #[test]
    fn bundles_below_a_link_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().join("large-disk");
        fs::create_dir_all(real.join("key")).unwrap();
        fs::write(real.join("key/own"), "").unwrap();
        symlink(&real, folder.path().join("bundles")).unwrap();
        let place = folder.path().join("bundles/key");
        let sources = within(&place);
        assert!(!sources.is_outside(&place.join("own")));
        assert!(sources.is_outside(&place.join("../../host")));
    }
}
