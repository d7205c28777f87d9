//! Whose word about a variable wins.
//!
//! Recipe < environment `WINIMG_VAR_x` < `--image-builder-vars` < `--var-file` < `--var` < a matrix; of two equals the later wins (Packer's order).
//! A name that the recipe does not declare is refused, but for the environment, which is shared; so is a value that the
//! declaration does not allow. A variable is never a secret.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::declare::{Declaration, Level, Said};
use super::mask::user_in_url;
use super::sources::Sources;
use super::template::{self, Part};
use super::unread::Given;
use super::value::{self, Data, Table, Value, Wanting};
use super::vars::{Scope, place_of_name};
use super::words::{OWN_VERSION, refused_name};
use super::{Options, Var, alias, image_builder, var_file, words};
use winimg_base::diag::{Diagnostic, suggestion};
use winimg_base::text::{Located, Place, Source};

/// A variable whose value names another, and so on.
const DEEPEST: usize = 32;
const ENV_PREFIX: &str = "WINIMG_VAR_";

/// Decides every variable. `root` is the recipe itself, without its includes.
pub fn decide(
    tree: &Table,
    root: &Arc<Source>,
    options: &Options,
    sources: &mut Sources,
    incomplete: bool,
    problems: &mut Vec<Diagnostic>,
) -> (Scope, Vec<Var>, Given) {
    let mut said = Deciding {
        order: Vec::new(),
        said: BTreeMap::new(),
        required: BTreeMap::new(),
        declared: BTreeMap::new(),
        given: Given::default(),
        incomplete,
        problems,
    };
    said.recipe(tree, root);
    said.given.aliases = alias::list(&said.declared, said.problems);
    for (name, value) in &options.env {
        if let Some(name) = name.strip_prefix(ENV_PREFIX) {
            said.environment(name, value, sources);
        }
    }
    for path in &options.image_builder_vars {
        said.image_builder(path, sources);
    }
    for path in &options.var_files {
        said.file(path, sources);
    }
    for (name, value) in &options.vars {
        said.flag(name, value, sources);
    }
    for (name, value) in &options.overlay.vars {
        said.overlay(name, value);
    }
    said.resolve()
}

struct Deciding<'a> {
    /// Names as first declared.
    order: Vec<String>,
    /// `None`: declared, but its value was complained about.
    said: BTreeMap<String, Option<Said>>,
    /// What a variable without a value of its own is for.
    required: BTreeMap<String, String>,
    declared: BTreeMap<String, Declaration>,
    given: Given,
    incomplete: bool,
    problems: &'a mut Vec<Diagnostic>,
}

impl Deciding<'_> {
    fn recipe(&mut self, tree: &Table, root: &Arc<Source>) {
        let Some(value) = tree.get("vars") else {
            return;
        };
        let Some(table) = value.as_table() else {
            let fact = format!("`vars` takes a table, not {}", value.kind());
            let problem = Diagnostic::error(fact).at(&value.place, "");
            return self.problems.push(problem);
        };
        for entry in &table.entries {
            let at = &entry.key_place;
            if let Some((fact, help)) = refused_name(&entry.key) {
                let problem = Diagnostic::error(fact).at(at, "").help(help);
                self.problems.push(problem);
            } else if Arc::ptr_eq(&at.source, root) {
                self.given.places.insert(entry.key.clone(), at.clone());
            }
            self.order.push(entry.key.clone());
            self.variable(&entry.key, &entry.value, root);
        }
    }

    /// A value, or a declaration, or a value that was laid over a declaration.
    fn variable(&mut self, name: &str, value: &Value, root: &Arc<Source>) {
        let (declared, value) = match value.as_table() {
            Some(_) => (Some(value), None),
            None => (value.declared.as_deref(), Some(value)),
        };
        let mut declaration = Declaration::default();
        if let Some((table, place)) = declared.and_then(|d| Some((d.as_table()?, &d.place))) {
            declaration = Declaration::read(name, table, place, self.problems);
        }
        let level = match value {
            None => Level::Default,
            Some(value) if Arc::ptr_eq(&value.place.source, root) => Level::Recipe,
            Some(_) => Level::Include,
        };
        if let (None, Some(why)) = (value, &declaration.required) {
            self.required.insert(name.into(), why.clone());
        }
        let said = value.or(declaration.default.as_ref()).and_then(|value| {
            let text = scalar(value).map_err(|d| self.problems.push(d)).ok()?;
            Some(Said {
                text,
                origin: value.place.to_string(),
                place: value.place.clone(),
                level,
                template: true,
            })
        });
        let mut words: Vec<Said> = Vec::new();
        let earlier = value.map_or(&[][..], |value| &value.earlier);
        let before = declaration.default.iter().chain(earlier);
        words.extend(before.filter_map(|value| {
            Some(Said {
                text: scalar(value).ok()?,
                origin: value.place.to_string(),
                place: value.place.clone(),
                level: Level::Include,
                template: true,
            })
        }));
        words.extend(said.clone());
        self.given.words.insert(name.into(), words);
        self.said.insert(name.into(), said);
        self.declared.insert(name.into(), declaration);
    }

    fn is_known(&self, name: &str) -> bool {
        self.said.contains_key(name) || self.given.aliases.contains_key(name)
    }

    /// Notes that the user gave `name` a value.
    fn note(&mut self, name: &str, place: &Place) {
        let places = &mut self.given.places;
        places.entry(name.into()).or_insert_with(|| place.clone());
    }

    fn environment(&mut self, name: &str, value: &str, sources: &mut Sources) {
        if !self.is_known(name) || words::is_secret(name) {
            return;
        }
        let source_name = format!("environment {ENV_PREFIX}{name}");
        let source = sources.add(source_name.as_str(), value.into(), PathBuf::new());
        let place = Place::new(&source, 0..value.len());
        self.outside(name, value.into(), source_name, place, Level::Environment);
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
            self.note(name, &key);
            self.outside(name, value.into(), "--var".into(), key, Level::Flag);
        }
    }

    /// A matrix stands for the command line.
    fn overlay(&mut self, name: &str, value: &Located<String>) {
        let place = &value.place;
        if self.declared(name, place) {
            self.note(name, place);
            let (text, origin) = (value.value.clone(), place.to_string());
            self.outside(name, text, origin, place.clone(), Level::Flag);
        }
    }

    /// Whether a word from outside may set `name`; complains if not.
    fn declared(&mut self, name: &str, place: &Place) -> bool {
        if words::is_secret(name) {
            let fact = format!("`{name}` would be a secret");
            let problem = Diagnostic::error(fact).at(place, "");
            self.problems.push(problem.help(words::SECRET_HELP));
            return false;
        }
        if self.is_known(name) {
            return true;
        }
        if !self.incomplete {
            let aliases = self.given.aliases.keys();
            let aliases = aliases.filter(|alias| !self.order.contains(alias));
            let names = self.order.iter().chain(aliases);
            let names: Vec<&str> = names.map(String::as_str).collect();
            self.problems.push(
                Diagnostic::error(format!("the recipe has no variable `{name}`"))
                    .at(place, "not declared under [vars]")
                    .help(suggestion(name, &names, "variables")),
            );
        }
        false
    }

    fn file(&mut self, path: &Path, sources: &mut Sources) {
        let table = var_file::read(path, sources, self.problems);
        for entry in table.entries {
            if self.declared(&entry.key, &entry.key_place) {
                self.note(&entry.key, &entry.key_place);
                self.take(entry, Level::VarFile);
            }
        }
    }

    /// image-builder's own: what this recipe does not declare is passed over.
    fn image_builder(&mut self, path: &Path, sources: &mut Sources) {
        let table = var_file::read(path, sources, self.problems);
        let declared = |name: &str| self.is_known(name) && !words::is_secret(name);
        let (entries, remarks) = image_builder::entries(path, table, declared);
        self.problems.extend(remarks);
        for entry in entries {
            self.take(entry, Level::ImageBuilder);
        }
    }

    fn take(&mut self, entry: value::Entry, level: Level) {
        match scalar(&entry.value) {
            Ok(text) => {
                let origin = entry.key_place.to_string();
                self.outside(&entry.key, text, origin, entry.key_place, level);
            }
            Err(diagnostic) => self.problems.push(diagnostic),
        }
    }

    /// Takes a value from outside of the recipe. image-builder's alone may name other variables.
    fn outside(&mut self, name: &str, text: String, origin: String, place: Place, level: Level) {
        let said = Said {
            text,
            origin,
            place,
            level,
            template: level == Level::ImageBuilder,
        };
        let words = self.given.words.entry(name.into()).or_default();
        words.push(said.clone());
        self.said.insert(name.into(), Some(said));
    }

    fn resolve(mut self) -> (Scope, Vec<Var>, Given) {
        let twice = alias::settle(&mut self.said, &self.given.aliases);
        for (alias, variable) in &self.given.aliases {
            if let Some(why) = self.required.get(variable).cloned() {
                self.required.insert(alias.clone(), why);
            }
        }
        let mut resolving = Resolving {
            said: &self.said,
            declared: &self.declared,
            named: BTreeMap::new(),
            scope: Scope::new(self.incomplete),
            stack: Vec::new(),
            problems: self.problems,
        };
        for (name, why) in &self.required {
            if matches!(self.said.get(name), Some(None)) {
                let wanting = Wanting {
                    name: name.clone(),
                    why: why.clone(),
                };
                resolving.scope.require(name, vec![wanting]);
            }
        }
        // Names not decided yet are known all the same.
        resolving.scope.announce(self.said.keys().cloned());
        let own = Some(env!("CARGO_PKG_VERSION").into());
        resolving.scope.set(OWN_VERSION, own, "winimg");
        for name in self.order.iter().chain(self.given.aliases.keys()) {
            resolving.resolve(name);
        }
        for (name, other) in &twice {
            let variable = self.given.aliases.get(name).unwrap_or(other);
            let declaration = self.declared.get(variable);
            let found = alias::differ(name, other, declaration, &resolving.scope, &self.said);
            resolving.problems.extend(found);
        }
        self.given.named = resolving.named;
        self.given.known = self.said.keys().cloned().collect();
        let mut scope = resolving.scope;
        scope.announce([]);
        let vars = self.order.iter().filter_map(|n| scope.get(n).cloned());
        let vars = vars.collect();
        self.given.said = self.said;
        self.given.prefixes = self
            .declared
            .into_iter()
            .map(|(name, declaration)| (name, declaration.prefix))
            .collect();
        (scope, vars, self.given)
    }
}

struct Resolving<'a> {
    said: &'a BTreeMap<String, Option<Said>>,
    declared: &'a BTreeMap<String, Declaration>,
    /// Names of variables with those that their values name.
    named: BTreeMap<String, Vec<String>>,
    scope: Scope,
    stack: Vec<String>,
    problems: &'a mut Vec<Diagnostic>,
}

impl Resolving<'_> {
    /// Decides `name` after the variables that it names.
    fn resolve(&mut self, name: &str) {
        if self.scope.contains(name) {
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
                let named = self.named.entry(name.into()).or_default();
                named.push(other.clone());
                if let Some(first) = self.stack.iter().position(|n| *n == other) {
                    let mut circle = self.stack[first..].to_vec();
                    circle.push(other.clone());
                    let fact = format!("variables go in a circle: {}", circle.join(" → "));
                    let at = place_of_name(&said.place, &other);
                    self.problems.push(Diagnostic::error(fact).at(&at, ""));
                    self.scope.set(&other, None, "");
                } else if self.stack.len() >= DEEPEST {
                    let fact = format!("variables name each other more than {DEEPEST} deep");
                    let at = place_of_name(&said.place, &other);
                    self.problems.push(Diagnostic::error(fact).at(&at, ""));
                    self.scope.set(&other, None, "");
                } else if self.said.contains_key(&other) {
                    self.resolve(&other);
                }
            }
            self.stack.pop();
            self.scope.fill(&mut value, self.problems);
        }
        if let Data::Undecided(wanting) = &value.data {
            self.scope.require(name, wanting.clone());
        }
        let text = value.as_str().map(str::to_string);
        let text = text.and_then(|text| self.allowed(name, text, &said.place));
        self.scope.set(name, text, &said.origin);
        self.scope.said_at(name, value.base.unwrap_or(value.place));
    }

    /// The value as its declaration has it; complains about one that it does not allow.
    fn allowed(&mut self, name: &str, text: String, place: &Place) -> Option<String> {
        let Some(declaration) = self.declared.get(name) else {
            return Some(text);
        };
        let text = declaration.complete(text);
        let refused = declaration.refuse(name, &text, place);
        let allowed = refused.is_none();
        self.problems.extend(refused);
        allowed.then_some(text)
    }
}

/// Strings, whole numbers and booleans as text.
pub fn scalar(value: &Value) -> Result<String, Diagnostic> {
    let refused = Diagnostic::error("a variable takes a string, a whole number, true or false");
    match &value.data {
        Data::String(text) => Ok(text.clone()),
        Data::Integer(number) => Ok(number.to_string()),
        Data::Bool(flag) => Ok(flag.to_string()),
        Data::Float(text) => {
            Err(refused
                .at(&value.place, "a number with a fraction")
                .help(format!(
                    "put it in quotes, or 1.30 would become 1.3: \"{text}\""
                )))
        }
        _ => Err(refused.at(&value.place, value.kind())),
    }
}
