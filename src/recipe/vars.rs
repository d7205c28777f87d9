//! Variables: who may set them, whose word wins, and how they get into strings.
//!
//! Recipe < environment `WINIMG_VAR_x` < `--var-file` < `--var`; of two equals the later wins (Packer's order).
//! A name that the recipe does not declare is refused, but for the environment, which is shared. A variable is
//! never a secret.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::raw::{Sources, mask, read_text, user_in_url};
use super::template::{self, Part};
use super::value::{self, Data, Table, Value};
use super::words;
use super::{Options, Var};
use crate::diag::{Diagnostic, suggestion};
use crate::text::{Place, Source};

const ENV_PREFIX: &str = "WINIMG_VAR_";

/// Names with their values; `None` for a value that was complained about.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    values: BTreeMap<String, Option<Var>>,
    /// Not all files could be read: an unknown name may be declared there.
    incomplete: bool,
}

impl Scope {
    pub fn get(&self, name: &str) -> Option<&Var> {
        self.values.get(name)?.as_ref()
    }

    /// The text with its variables filled in; `None` when that failed, which `fill` has complained about.
    pub fn expand(&self, text: &str) -> Option<String> {
        let mut out = String::new();
        for part in template::parse(text).ok()? {
            match part {
                Part::Text(text) => out.push_str(&text),
                Part::Name(name) => out.push_str(&self.get(&name)?.value),
            }
        }
        Some(out)
    }

    fn with(&self, name: &str, value: Option<String>, origin: &str) -> Self {
        let mut scope = self.clone();
        scope.set(name, value, origin);
        scope
    }

    fn set(&mut self, name: &str, value: Option<String>, origin: &str) {
        let var = value.map(|value| Var {
            name: name.into(),
            value,
            origin: origin.into(),
        });
        self.values.insert(name.into(), var);
    }

    /// Fills one string; complains about every name in it that nobody declared.
    fn fill(&self, value: &mut Value, problems: &mut Vec<Diagnostic>) {
        let Data::String(text) = &value.data else {
            return;
        };
        if !template::is_template(text) {
            return;
        }
        let parts = match template::parse(text) {
            Ok(parts) => parts,
            Err(fact) => {
                problems.push(
                    Diagnostic::error(fact)
                        .at(&value.place, "")
                        .help("a literal `{{` is written `{{{{raw}}}}{{ … }}{{{{/raw}}}}`"),
                );
                value.data = Data::Unknown;
                return;
            }
        };
        let mut filled = Some(String::new());
        for part in parts {
            let piece = match part {
                Part::Text(text) => Some(text),
                Part::Name(name) => {
                    if !self.values.contains_key(&name) && !self.incomplete {
                        problems.push(self.unknown(&name, &value.place));
                    }
                    self.get(&name).map(|v| v.value.clone())
                }
            };
            filled = filled.zip(piece).map(|(all, piece)| all + &piece);
        }
        value.template = Some(text.clone());
        value.data = filled.map_or(Data::Unknown, Data::String);
    }

    fn unknown(&self, name: &str, place: &Place) -> Diagnostic {
        let names: Vec<&str> = self.values.keys().map(String::as_str).collect();
        let mut diagnostic = Diagnostic::error(format!("there is no variable `{name}`"))
            .at(&place_of_name(place, name), "not declared under [vars]");
        diagnostic = match words::is_secret(name) {
            true => diagnostic.help(words::SECRET_HELP),
            false => diagnostic.help(suggestion(name, &names, "variables")),
        };
        diagnostic
    }
}

/// Where `{{name}}` stands inside the string at `place`; the whole string when escapes hide it.
fn place_of_name(place: &Place, name: &str) -> Place {
    let text = place.source.text.get(place.span.clone()).unwrap_or("");
    let mut from = 0;
    while let Some(open) = text[from..].find("{{").map(|n| from + n + 2) {
        let inner = text[open..].trim_start_matches(['{', '~', '&', ' ']);
        let start = text.len() - inner.len();
        let ends = |rest: &str| rest.trim_start().starts_with(['}', '~']);
        if inner.strip_prefix(name).is_some_and(ends) {
            let start = place.span.start + start;
            return Place::new(&place.source, start..start + name.len());
        }
        from = open;
    }
    place.clone()
}

/// A word about a variable.
struct Said {
    text: String,
    origin: String,
    place: Place,
    /// Only the recipe's own values may name other variables; what comes from outside is taken as it is.
    template: bool,
}

/// Decides every variable.
pub fn decide(
    tree: &Table,
    options: &Options,
    sources: &mut Sources,
    incomplete: bool,
    problems: &mut Vec<Diagnostic>,
) -> (Scope, Vec<Var>) {
    let mut said = Deciding {
        order: Vec::new(),
        said: BTreeMap::new(),
        incomplete,
        problems,
    };
    said.recipe(tree);
    for (name, value) in &options.env {
        if let Some(name) = name.strip_prefix(ENV_PREFIX) {
            said.environment(name, value, sources);
        }
    }
    for path in &options.var_files {
        said.file(path, sources);
    }
    for (name, value) in &options.vars {
        said.flag(name, value, sources);
    }
    said.resolve()
}

struct Deciding<'a> {
    /// Names as first declared.
    order: Vec<String>,
    /// `None`: declared, but its value was complained about.
    said: BTreeMap<String, Option<Said>>,
    incomplete: bool,
    problems: &'a mut Vec<Diagnostic>,
}

impl Deciding<'_> {
    fn recipe(&mut self, tree: &Table) {
        let Some(value) = tree.get("vars") else {
            return;
        };
        let Some(table) = value.as_table() else {
            let fact = format!("`vars` takes a table, not {}", value.kind());
            self.problems
                .push(Diagnostic::error(fact).at(&value.place, ""));
            return;
        };
        for entry in &table.entries {
            let at = &entry.key_place;
            if let Some(problem) = refused_name(&entry.key) {
                let (fact, help) = problem;
                self.problems
                    .push(Diagnostic::error(fact).at(at, "").help(help));
            }
            let text = scalar(&entry.value).map_err(|d| self.problems.push(d)).ok();
            self.order.push(entry.key.clone());
            self.said.insert(
                entry.key.clone(),
                text.map(|text| Said {
                    text,
                    origin: entry.value.place.to_string(),
                    place: entry.value.place.clone(),
                    template: true,
                }),
            );
        }
    }

    fn environment(&mut self, name: &str, value: &str, sources: &mut Sources) {
        if !self.said.contains_key(name) || words::is_secret(name) {
            return;
        }
        let source_name = format!("environment {ENV_PREFIX}{name}");
        let source = sources.add(source_name.as_str(), value.into(), PathBuf::new());
        let said = Said {
            text: value.into(),
            origin: source_name,
            place: Place::new(&source, 0..value.len()),
            template: false,
        };
        self.said.insert(name.into(), Some(said));
    }

    fn flag(&mut self, name: &str, value: &str, sources: &mut Sources) {
        let shown = match words::is_secret(name) {
            true => "***",
            false => value,
        };
        let shown = match user_in_url(shown) {
            Some(user) => format!("{}***{}", &shown[..user.start], &shown[user.end..]),
            None => shown.to_string(),
        };
        let text = format!("{name}={shown}");
        let source = sources.add("--var", text, PathBuf::new());
        let key = Place::new(&source, 0..name.len());
        if self.declared(name, &key) {
            let said = Said {
                text: value.into(),
                origin: "--var".into(),
                place: key,
                template: false,
            };
            self.said.insert(name.into(), Some(said));
        }
    }

    /// Whether a word from outside may set `name`; complains if not.
    fn declared(&mut self, name: &str, place: &Place) -> bool {
        if words::is_secret(name) {
            let fact = format!("`{name}` would be a secret");
            self.problems.push(
                Diagnostic::error(fact)
                    .at(place, "")
                    .help(words::SECRET_HELP),
            );
            return false;
        }
        if self.said.contains_key(name) {
            return true;
        }
        if !self.incomplete {
            let names: Vec<&str> = self.order.iter().map(String::as_str).collect();
            self.problems.push(
                Diagnostic::error(format!("the recipe has no variable `{name}`"))
                    .at(place, "not declared under [vars]")
                    .help(suggestion(name, &names, "variables")),
            );
        }
        false
    }

    fn file(&mut self, path: &Path, sources: &mut Sources) {
        let name = path.display().to_string();
        let text = match read_text(path) {
            Ok(text) => text,
            Err(fact) => {
                let fact = format!("cannot read the var file {name}: {fact}");
                self.problems.push(Diagnostic::error(fact));
                return;
            }
        };
        let is_json = path
            .extension()
            .is_some_and(|e| e.eq_ignore_ascii_case("json"))
            || text
                .trim_start_matches(['\u{feff}', ' ', '\n', '\r', '\t'])
                .starts_with('{');
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let table = match is_json {
            true => self.json(&name, text, folder, sources),
            false => self.toml(&name, text, folder, sources),
        };
        for entry in table.entries {
            if !self.declared(&entry.key, &entry.key_place) {
                continue;
            }
            match scalar(&entry.value) {
                Ok(text) => {
                    let said = Said {
                        text,
                        origin: entry.key_place.to_string(),
                        place: entry.key_place.clone(),
                        template: false,
                    };
                    self.said.insert(entry.key, Some(said));
                }
                Err(diagnostic) => self.problems.push(diagnostic),
            }
        }
    }

    fn toml(&mut self, name: &str, text: String, folder: PathBuf, sources: &mut Sources) -> Table {
        let source = Arc::new(Source {
            name: name.into(),
            text,
        });
        let (table, _) = value::parse(&source);
        let mut bytes = source.text.clone().into_bytes();
        for entry in &table.entries {
            if words::is_secret(&entry.key) {
                mask(&mut bytes, entry.value.place.span.clone(), b'1');
            }
        }
        let text = String::from_utf8(bytes).unwrap_or_default();
        let source = sources.add(name, text, folder);
        let (table, problems) = value::parse(&source);
        self.problems.extend(problems);
        table
    }

    /// A flat JSON object, as image-builder's var files are.
    fn json(&mut self, name: &str, text: String, folder: PathBuf, sources: &mut Sources) -> Table {
        let text = text.trim_start_matches('\u{feff}').to_string();
        let parsed = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&text);
        let map = match parsed {
            Ok(map) => map,
            Err(error) => {
                // The text may hold a secret that could not be found: only the place is told.
                let (line, column) = (error.line(), error.column());
                let fact = format!("the var file {name} is not a JSON object: {error}");
                let fact = fact.replace(&format!(" at line {line} column {column}"), "");
                let at = format!("line {line}, column {column}");
                self.problems
                    .push(Diagnostic::error(format!("{fact} ({at})")));
                return Table::default();
            }
        };
        let mut bytes = text.clone().into_bytes();
        for key in map.keys().filter(|k| words::is_secret(k)) {
            let from = json_key(&text, key).end;
            let rest = text[from..].trim_start_matches([':', ' ', '\t']);
            let line = rest.lines().next().unwrap_or_default();
            let from = text.len() - rest.len();
            mask(&mut bytes, from..from + line.len(), b'*');
        }
        let masked = String::from_utf8(bytes).unwrap_or_default();
        let source = sources.add(name, masked, folder);
        let mut table = Table::default();
        for (key, json) in map {
            let place = Place::new(&source, json_key(&text, &key));
            let data = match json {
                serde_json::Value::String(text) => Data::String(text),
                serde_json::Value::Bool(flag) => Data::Bool(flag),
                serde_json::Value::Number(number) => Data::String(number.to_string()),
                serde_json::Value::Null => Data::Unknown,
                serde_json::Value::Array(_) => Data::Array(Vec::new()),
                serde_json::Value::Object(_) => Data::Table(Table::default()),
            };
            table.entries.push(value::Entry {
                key,
                key_place: place.clone(),
                value: Value::new(data, place),
            });
        }
        table
    }

    fn resolve(self) -> (Scope, Vec<Var>) {
        let mut resolving = Resolving {
            said: &self.said,
            scope: Scope {
                values: BTreeMap::new(),
                incomplete: self.incomplete,
            },
            stack: Vec::new(),
            problems: self.problems,
        };
        for name in &self.order {
            resolving.resolve(name);
        }
        let scope = resolving.scope;
        let vars = self.order.iter().filter_map(|n| scope.get(n).cloned());
        let vars = vars.collect();
        (scope, vars)
    }
}

struct Resolving<'a> {
    said: &'a BTreeMap<String, Option<Said>>,
    scope: Scope,
    stack: Vec<String>,
    problems: &'a mut Vec<Diagnostic>,
}

impl Resolving<'_> {
    /// Decides `name` after the variables that it names.
    fn resolve(&mut self, name: &str) {
        if self.scope.values.contains_key(name) {
            return;
        }
        let Some(Some(said)) = self.said.get(name) else {
            self.scope.set(name, None, "");
            return;
        };
        let mut value = Value::new(Data::String(said.text.clone()), said.place.clone());
        if said.template && template::is_template(&said.text) {
            self.stack.push(name.to_string());
            for part in template::parse(&said.text).unwrap_or_default() {
                let Part::Name(other) = part else { continue };
                if let Some(first) = self.stack.iter().position(|n| *n == other) {
                    let mut circle = self.stack[first..].to_vec();
                    circle.push(other.clone());
                    let fact = format!("variables go in a circle: {}", circle.join(" → "));
                    let at = place_of_name(&said.place, &other);
                    self.problems.push(Diagnostic::error(fact).at(&at, ""));
                    self.scope.set(&other, None, "");
                } else if self.said.contains_key(&other) {
                    self.resolve(&other);
                }
            }
            self.stack.pop();
            // Names not decided yet are known all the same, for the did-you-mean.
            let mut scope = self.scope.clone();
            for other in self.said.keys() {
                scope.values.entry(other.clone()).or_insert(None);
            }
            scope.fill(&mut value, self.problems);
        }
        let text = value.as_str().map(str::to_string);
        self.scope.set(name, text, &said.origin);
    }
}

/// Why a variable cannot have this name, and the cure.
fn refused_name(name: &str) -> Option<(String, String)> {
    if words::is_secret(name) {
        let fact = format!("`{name}` would be a secret");
        return Some((fact, words::SECRET_HELP.into()));
    }
    if name == "name" || name == "version" {
        let fact = format!("a variable cannot be called `{name}`");
        let help = format!(
            "`{{{{{name}}}}}` is a component's own {name}: say whose, as in `image_{name}`"
        );
        return Some((fact, help));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let reserved = [
        "true",
        "false",
        "null",
        "undefined",
        "this",
        "else",
        "as",
        "raw",
    ];
    if !starts || !name.chars().all(plain) || reserved.contains(&name) {
        let fact = format!("a variable cannot be called `{name}`");
        let help = "letters, digits and `_`, a letter first, and none of Handlebars' own words";
        return Some((fact, help.into()));
    }
    None
}

/// Strings, whole numbers and booleans as text.
fn scalar(value: &Value) -> Result<String, Diagnostic> {
    match &value.data {
        Data::String(text) => Ok(text.clone()),
        Data::Integer(number) => Ok(number.to_string()),
        Data::Bool(flag) => Ok(flag.to_string()),
        Data::Float(text) => Err(Diagnostic::error(
            "a variable takes a string, a whole number, true or false",
        )
        .at(&value.place, "a number with a fraction")
        .help(format!(
            "put it in quotes, or 1.30 would become 1.3: \"{text}\""
        ))),
        _ => Err(
            Diagnostic::error("a variable takes a string, a whole number, true or false")
                .at(&value.place, value.kind()),
        ),
    }
}

/// The key with its quotes. JSON readers let the last of two equal keys win, so the last is found.
fn json_key(text: &str, key: &str) -> std::ops::Range<usize> {
    let mut quoted = String::new();
    // Writing to a string cannot fail.
    let _ = write!(quoted, "{}", serde_json::Value::from(key));
    let found = text
        .rmatch_indices(&quoted)
        .find(|(at, _)| text[at + quoted.len()..].trim_start().starts_with(':'));
    found.map_or(0..0, |(at, _)| at..at + quoted.len())
}

/// Fills the variables into every string of the tree but `[vars]`. In a component `{{name}}` and `{{version}}` are
/// its own; everywhere `{{components.NAME.version}}` is known.
pub fn fill_in(tree: &mut Table, scope: &Scope, problems: &mut Vec<Diagnostic>) -> Scope {
    let mut scope = scope.clone();
    let mut own = BTreeMap::new();
    if let Some(Data::Table(components)) = tree.get_mut("components").map(|v| &mut v.data) {
        for entry in &mut components.entries {
            let name = entry.key.clone();
            let mut local = scope.with("name", Some(name.clone()), "the component's name");
            if let Data::Table(component) = &mut entry.value.data
                && let Some(version) = component.get_mut("version")
            {
                local.fill(version, problems);
                let text = version.as_str().or(version.loose.as_deref());
                let text = text.map(str::to_string);
                let origin = version.place.to_string();
                local.set("version", text.clone(), &origin);
                scope.set(&format!("components.{name}.version"), text, &origin);
            }
            own.insert(name, local);
        }
        for entry in &mut components.entries {
            if let Some(local) = own.get(&entry.key) {
                fill_value(&mut entry.value, local, problems);
            }
        }
    }
    for entry in &mut tree.entries {
        if entry.key != "vars" && entry.key != "components" {
            fill_value(&mut entry.value, &scope, problems);
        }
    }
    scope
}

fn fill_value(value: &mut Value, scope: &Scope, problems: &mut Vec<Diagnostic>) {
    match &mut value.data {
        Data::Array(items) => items
            .iter_mut()
            .for_each(|v| fill_value(v, scope, problems)),
        Data::Table(table) => {
            for entry in &mut table.entries {
                fill_value(&mut entry.value, scope, problems);
            }
        }
        // What was filled in already (a component's version) may hold braces that are meant.
        Data::String(_) if value.template.is_none() => scope.fill(value, problems),
        _ => {}
    }
}
