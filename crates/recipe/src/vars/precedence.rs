//! Variable precedence.
//!
//! Recipe < environment `WINIMG_VAR_x` < `--image-builder-vars` < `--var-file` < `--var` < a
//! matrix; at the same level the later one wins (Packer's order). An undeclared name is an error,
//! except in the environment, which is shared; so is a value that the declaration does not allow.
//! A variable is never a secret.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::document::mask::user_in_url;
use crate::document::sources::RecipeSources;
use crate::document::value::{self, MissingVariable, TomlData, TomlTable, TomlValue};
use crate::keys::names;
use crate::keys::names::{OWN_VERSION, refused_name};
use crate::vars::alias;
use crate::vars::declaration::{Assignment, AssignmentLevel, VariableDeclaration};
use crate::vars::image_builder;
use crate::vars::template::{self, TemplatePart};
use crate::vars::unused::VariableUsage;
use crate::vars::var_file;
use crate::vars::{VariableScope, find_name_place};
use crate::{ReadOptions, ResolvedVariable};
use winimg_base::diag::{Diagnostic, suggest};
use winimg_base::text::{Located, Place, SourceText};

/// Maximum nesting of variables whose values refer to other variables.
const MAX_DEPTH: usize = 32;
const ENV_PREFIX: &str = "WINIMG_VAR_";

/// Resolves every variable. `root` is the recipe itself, without its includes.
pub fn resolve_variables(
    tree: &TomlTable,
    root: &Arc<SourceText>,
    options: &ReadOptions,
    sources: &mut RecipeSources,
    incomplete: bool,
    problems: &mut Vec<Diagnostic>,
) -> (VariableScope, Vec<ResolvedVariable>, VariableUsage) {
    let mut said = VariableDecider {
        order: Vec::new(),
        said: BTreeMap::new(),
        required: BTreeMap::new(),
        declared: BTreeMap::new(),
        given: VariableUsage::default(),
        incomplete,
        problems,
    };
    said.read_recipe(tree, root);
    said.given.aliases = alias::list(&said.declared, said.problems);
    for (name, value) in &options.env {
        if let Some(name) = name.strip_prefix(ENV_PREFIX) {
            said.read_environment(name, value, sources);
        }
    }
    for path in &options.image_builder_vars {
        said.image_builder(path, sources);
    }
    for path in &options.var_files {
        said.read_var_file(path, sources);
    }
    for (name, value) in &options.vars {
        said.flag(name, value, sources);
    }
    for (name, value) in &options.overlay.vars {
        said.apply_overlay(name, value);
    }
    said.resolve()
}

struct VariableDecider<'a> {
    /// Names in order of declaration.
    order: Vec<String>,
    /// `None`: declared, but its value has an error.
    said: BTreeMap<String, Option<Assignment>>,
    /// Descriptions of the variables without a default.
    required: BTreeMap<String, String>,
    declared: BTreeMap<String, VariableDeclaration>,
    given: VariableUsage,
    incomplete: bool,
    problems: &'a mut Vec<Diagnostic>,
}

impl VariableDecider<'_> {
    fn read_recipe(&mut self, tree: &TomlTable, root: &Arc<SourceText>) {
        let Some(value) = tree.get("vars") else {
            return;
        };
        let Some(table) = value.as_table() else {
            let fact = format!("`vars` takes a table, not {}", value.kind_name());
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
            self.read_variable(&entry.key, &entry.value, root);
        }
    }

    /// Reads a value, a declaration, or a value that was merged over a declaration.
    fn read_variable(&mut self, name: &str, value: &TomlValue, root: &Arc<SourceText>) {
        let (declared, value) = match value.as_table() {
            Some(_) => (Some(value), None),
            None => (value.declared.as_deref(), Some(value)),
        };
        let mut declaration = VariableDeclaration::default();
        if let Some((table, place)) = declared.and_then(|d| Some((d.as_table()?, &d.place))) {
            declaration = VariableDeclaration::read(name, table, place, self.problems);
        }
        let level = match value {
            None => AssignmentLevel::Default,
            Some(value) if Arc::ptr_eq(&value.place.source, root) => AssignmentLevel::Recipe,
            Some(_) => AssignmentLevel::Include,
        };
        if let (None, Some(why)) = (value, &declaration.required) {
            self.required.insert(name.into(), why.clone());
        }
        let said = value.or(declaration.default.as_ref()).and_then(|value| {
            let text = to_scalar_text(value)
                .map_err(|d| self.problems.push(d))
                .ok()?;
            Some(Assignment {
                text,
                origin: value.place.to_string(),
                place: value.place.clone(),
                level,
                template: true,
            })
        });
        let earlier = value.map_or(&[][..], |value| &value.earlier);
        let before = declaration.default.iter().chain(earlier);
        let mut words: Vec<Assignment> = before
            .filter_map(|value| {
                Some(Assignment {
                    text: to_scalar_text(value).ok()?,
                    origin: value.place.to_string(),
                    place: value.place.clone(),
                    level: AssignmentLevel::Include,
                    template: true,
                })
            })
            .collect();
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

    fn read_environment(&mut self, name: &str, value: &str, sources: &mut RecipeSources) {
        if !self.is_known(name) || names::is_secret(name) {
            return;
        }
        let source_name = format!("environment {ENV_PREFIX}{name}");
        let source = sources.add(source_name.as_str(), value.into(), PathBuf::new());
        let place = Place::new(&source, 0..value.len());
        self.set_external(
            name,
            value.into(),
            source_name,
            place,
            AssignmentLevel::Environment,
        );
    }

    fn flag(&mut self, name: &str, value: &str, sources: &mut RecipeSources) {
        let shown = if names::is_secret(name) { "***" } else { value };
        let shown = match user_in_url(shown) {
            Some(user) => format!("{}***{}", &shown[..user.start], &shown[user.end..]),
            None => shown.to_string(),
        };
        let text = format!("{name}={shown}");
        let source = sources.add("--var", text, PathBuf::new());
        let key = Place::new(&source, 0..name.len());
        if self.check_settable(name, &key) {
            self.note(name, &key);
            self.set_external(
                name,
                value.into(),
                "--var".into(),
                key,
                AssignmentLevel::Flag,
            );
        }
    }

    /// Applies a value of a matrix, which counts as one from the command line.
    fn apply_overlay(&mut self, name: &str, value: &Located<String>) {
        let place = &value.place;
        if self.check_settable(name, place) {
            self.note(name, place);
            let (text, origin) = (value.value.clone(), place.to_string());
            self.set_external(name, text, origin, place.clone(), AssignmentLevel::Flag);
        }
    }

    /// Returns true if `name` may be set from outside; complains if not.
    fn check_settable(&mut self, name: &str, place: &Place) -> bool {
        if names::is_secret(name) {
            let fact = format!("`{name}` looks like a secret");
            let problem = Diagnostic::error(fact).at(place, "");
            self.problems.push(problem.help(names::SECRET_HELP));
            return false;
        }
        if self.is_known(name) {
            return true;
        }
        if !self.incomplete {
            let aliases = self.given.aliases.keys();
            let aliases = aliases.filter(|alias| !self.order.contains(alias));
            let names: Vec<&str> = self
                .order
                .iter()
                .chain(aliases)
                .map(String::as_str)
                .collect();
            self.problems.push(
                Diagnostic::error(format!("the recipe has no variable `{name}`"))
                    .at(place, "not declared under [vars]")
                    .help(suggest(name, &names, "variables")),
            );
        }
        false
    }

    fn read_var_file(&mut self, path: &Path, sources: &mut RecipeSources) {
        let table = var_file::read(path, sources, self.problems);
        for entry in table.entries {
            if self.check_settable(&entry.key, &entry.key_place) {
                self.note(&entry.key, &entry.key_place);
                self.take(entry, AssignmentLevel::VarFile);
            }
        }
    }

    /// Reads a var file of image-builder: variables that this recipe does not declare are ignored.
    fn image_builder(&mut self, path: &Path, sources: &mut RecipeSources) {
        let table = var_file::read(path, sources, self.problems);
        let (entries, remarks) = image_builder::translate_entries(path, table, |name| {
            self.is_known(name) && !names::is_secret(name)
        });
        self.problems.extend(remarks);
        for entry in entries {
            self.take(entry, AssignmentLevel::ImageBuilder);
        }
    }

    fn take(&mut self, entry: value::TomlEntry, level: AssignmentLevel) {
        match to_scalar_text(&entry.value) {
            Ok(text) => {
                let origin = entry.key_place.to_string();
                self.set_external(&entry.key, text, origin, entry.key_place, level);
            }
            Err(diagnostic) => self.problems.push(diagnostic),
        }
    }

    /// Sets a value from outside the recipe. Only image-builder's may refer to other variables.
    fn set_external(
        &mut self,
        name: &str,
        text: String,
        origin: String,
        place: Place,
        level: AssignmentLevel,
    ) {
        let said = Assignment {
            text,
            origin,
            place,
            level,
            template: level == AssignmentLevel::ImageBuilder,
        };
        let words = self.given.words.entry(name.into()).or_default();
        words.push(said.clone());
        self.said.insert(name.into(), Some(said));
    }

    fn resolve(mut self) -> (VariableScope, Vec<ResolvedVariable>, VariableUsage) {
        let twice = alias::resolve_aliases(&mut self.said, &self.given.aliases);
        for (alias, variable) in &self.given.aliases {
            if let Some(why) = self.required.get(variable).cloned() {
                self.required.insert(alias.clone(), why);
            }
        }
        let mut resolving = VariableResolver {
            said: &self.said,
            declared: &self.declared,
            named: BTreeMap::new(),
            scope: VariableScope::new(self.incomplete),
            stack: Vec::new(),
            problems: self.problems,
        };
        for (name, why) in &self.required {
            if matches!(self.said.get(name), Some(None)) {
                let wanting = MissingVariable {
                    name: name.clone(),
                    why: why.clone(),
                };
                resolving.scope.require(name, vec![wanting]);
            }
        }
        // Names not resolved yet are known, too.
        resolving.scope.announce(self.said.keys().cloned());
        let own = Some(env!("CARGO_PKG_VERSION").into());
        resolving.scope.set(OWN_VERSION, own, "winimg");
        for name in self.order.iter().chain(self.given.aliases.keys()) {
            resolving.resolve(name);
        }
        for (name, other) in &twice {
            let variable = self.given.aliases.get(name).unwrap_or(other);
            let declaration = self.declared.get(variable);
            let found =
                alias::check_same_value(name, other, declaration, &resolving.scope, &self.said);
            resolving.problems.extend(found);
        }
        self.given.named = resolving.named;
        self.given.known = self.said.keys().cloned().collect();
        let mut scope = resolving.scope;
        scope.announce([]);
        let vars = self
            .order
            .iter()
            .filter_map(|name| scope.get(name).cloned())
            .collect();
        self.given.said = self.said;
        self.given.prefixes = self
            .declared
            .into_iter()
            .map(|(name, declaration)| (name, declaration.prefix))
            .collect();
        (scope, vars, self.given)
    }
}

struct VariableResolver<'a> {
    said: &'a BTreeMap<String, Option<Assignment>>,
    declared: &'a BTreeMap<String, VariableDeclaration>,
    /// The variables that each variable's value refers to.
    named: BTreeMap<String, Vec<String>>,
    scope: VariableScope,
    stack: Vec<String>,
    problems: &'a mut Vec<Diagnostic>,
}

impl VariableResolver<'_> {
    /// Resolves `name` after the variables that it refers to.
    fn resolve(&mut self, name: &str) {
        if self.scope.contains(name) {
            return;
        }
        let Some(Some(said)) = self.said.get(name) else {
            self.scope.set(name, None, "");
            return;
        };
        let mut value = TomlValue::new(TomlData::String(said.text.clone()), said.place.clone());
        if said.template && template::is_template(&said.text) {
            self.stack.push(name.to_string());
            for part in template::parse(&said.text).unwrap_or_default() {
                let TemplatePart::Name(other) = part else {
                    continue;
                };
                let named = self.named.entry(name.into()).or_default();
                named.push(other.clone());
                if let Some(first) = self.stack.iter().position(|n| *n == other) {
                    let mut circle = self.stack[first..].to_vec();
                    circle.push(other.clone());
                    let fact = format!(
                        "variables refer to each other in a cycle: {}",
                        circle.join(" → ")
                    );
                    let at = find_name_place(&said.place, &other);
                    self.problems.push(Diagnostic::error(fact).at(&at, ""));
                    self.scope.set(&other, None, "");
                } else if self.stack.len() >= MAX_DEPTH {
                    let fact = format!("variables are nested more than {MAX_DEPTH} levels deep");
                    let at = find_name_place(&said.place, &other);
                    self.problems.push(Diagnostic::error(fact).at(&at, ""));
                    self.scope.set(&other, None, "");
                } else if self.said.contains_key(&other) {
                    self.resolve(&other);
                }
            }
            self.stack.pop();
            self.scope.fill(&mut value, self.problems);
        }
        if let TomlData::Undecided(wanting) = &value.data {
            self.scope.require(name, wanting.clone());
        }
        let text = value.as_str().map(str::to_string);
        let text = text.and_then(|text| self.check_allowed(name, text, &said.place));
        self.scope.set(name, text, &said.origin);
        self.scope
            .set_place(name, value.base.unwrap_or(value.place));
    }

    /// Completes the value by its declaration; complains if the declaration does not allow it.
    fn check_allowed(&mut self, name: &str, text: String, place: &Place) -> Option<String> {
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

/// Converts a string, whole number or boolean to text.
pub fn to_scalar_text(value: &TomlValue) -> Result<String, Diagnostic> {
    let refused = Diagnostic::error("a variable takes a string, a whole number, true or false");
    match &value.data {
        TomlData::String(text) => Ok(text.clone()),
        TomlData::Integer(number) => Ok(number.to_string()),
        TomlData::Bool(flag) => Ok(flag.to_string()),
        TomlData::Float(text) => {
            Err(refused
                .at(&value.place, "a number with a fraction")
                .help(format!(
                    "put it in quotes, or 1.30 would become 1.3: \"{text}\""
                )))
        }
        _ => Err(refused.at(&value.place, value.kind_name())),
    }
}
