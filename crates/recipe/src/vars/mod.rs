//! Values of variables and their substitution in strings.
//!
//! Refuses unknown names at their place; never substitutes an empty text for them.

pub mod alias;
pub mod declaration;
pub mod image_builder;
pub mod precedence;
pub mod template;
pub mod unused;
pub mod var_file;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::ResolvedVariable;
use crate::document::value::MissingVariable;
use crate::document::value::{TomlData, TomlTable, TomlValue};
use crate::keys::names;
use crate::trust_rules;
use template::TemplatePart;
use winimg_base::diag::{Diagnostic, suggest};
use winimg_base::text::Place;

/// Maximum size of a text after substitution, in bytes.
const MAX_TEXT_SIZE: usize = 64 << 10;
/// Maximum total size of such texts in a recipe, in bytes: a few lines could use a long variable
/// very often.
const MAX_TOTAL_SIZE: usize = 16 << 20;

/// Maximum number of unknown names reported per text, because finding their places is quadratic.
const MAX_UNKNOWN: usize = 20;
/// Number of problems after which no names are suggested: each suggestion compares all names.
const MAX_PROBLEMS_WITH_SUGGESTION: usize = 200;

/// Names with their values. Cheap to clone, because all downloads share most of it.
#[derive(Clone, Debug, Default)]
pub struct VariableScope {
    shared: Arc<VariableTable>,
    /// Names of one download, which take precedence.
    own: VariableTable,
    /// Names that will be resolved later, and are not unknown.
    announced: Arc<BTreeSet<String>>,
    /// Some files could not be read: an unknown name may be declared there.
    incomplete: bool,
    /// Bytes substituted so far.
    substituted: Arc<AtomicUsize>,
}

#[derive(Clone, Debug, Default)]
struct VariableTable {
    /// `None` for a value with an error.
    values: BTreeMap<String, Option<ResolvedVariable>>,
    /// The place of each value, which is the base of a relative path.
    places: BTreeMap<String, Place>,
    /// Variables without a value, with those that must be set: itself, or all that it refers to.
    required: BTreeMap<String, Vec<MissingVariable>>,
}

impl VariableTable {
    fn set(&mut self, name: &str, value: Option<String>, origin: &str) {
        let var = value.map(|value| ResolvedVariable {
            name: name.into(),
            value,
            origin: origin.into(),
        });
        self.values.insert(name.into(), var);
    }
}

impl VariableScope {
    /// Creates an empty scope. With `incomplete`, unknown names are not reported.
    pub fn new(incomplete: bool) -> Self {
        Self {
            incomplete,
            ..Self::default()
        }
    }

    /// Returns true if the name was resolved, even to nothing.
    pub fn contains(&self, name: &str) -> bool {
        self.own.values.contains_key(name) || self.shared.values.contains_key(name)
    }

    /// Announces names that will be resolved later.
    pub fn announce(&mut self, names: impl IntoIterator<Item = String>) {
        self.announced = Arc::new(names.into_iter().collect());
    }

    /// Keeps every text with the variable undecided until all of `missing` are set.
    pub fn require(&mut self, name: &str, missing: Vec<MissingVariable>) {
        let shared = Arc::make_mut(&mut self.shared);
        shared.required.insert(name.into(), missing);
    }

    /// Sets the place whose folder is the base of relative paths in the variable's value.
    pub fn set_place(&mut self, name: &str, place: Place) {
        Arc::make_mut(&mut self.shared)
            .places
            .insert(name.into(), place);
    }

    pub fn get(&self, name: &str) -> Option<&ResolvedVariable> {
        let own = self.own.values.get(name);
        own.or_else(|| self.shared.values.get(name))?.as_ref()
    }

    fn is_known(&self, name: &str) -> bool {
        self.contains(name) || self.announced.contains(name)
    }

    fn find_place(&self, name: &str) -> Option<&Place> {
        let own = self.own.places.get(name);
        own.or_else(|| self.shared.places.get(name))
    }

    fn find_required(&self, name: &str) -> Option<&Vec<MissingVariable>> {
        let own = self.own.required.get(name);
        own.or_else(|| self.shared.required.get(name))
    }

    /// Substitutes the variables in a text; `None` if that fails, which `fill` has reported.
    pub fn expand(&self, text: &str) -> Option<String> {
        let mut out = String::new();
        for part in template::parse(text).ok()? {
            match part {
                TemplatePart::Text(text) => out.push_str(&text),
                TemplatePart::Name(name) => out.push_str(&self.get(&name)?.value),
            }
        }
        Some(out)
    }

    /// Returns a scope with the names of one download.
    fn with_download(&self, own: VariableTable) -> Self {
        Self {
            own,
            ..self.clone()
        }
    }

    pub fn set(&mut self, name: &str, value: Option<String>, origin: &str) {
        Arc::make_mut(&mut self.shared).set(name, value, origin);
    }

    /// Substitutes the variables in a string, and reports undeclared names.
    pub fn fill(&self, value: &mut TomlValue, problems: &mut Vec<Diagnostic>) {
        let TomlData::String(text) = &value.data else {
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
                value.template = Some(text.clone());
                value.data = TomlData::Unknown;
                return;
            }
        };
        if let Some(TemplatePart::Name(first)) = parts.first() {
            value.base = self.find_place(first).cloned();
        }
        let mut filled = Some(String::new());
        let mut undecided: Vec<MissingVariable> = Vec::new();
        let mut unknown = 0;
        for part in parts {
            let piece = match part {
                TemplatePart::Text(text) => Some(text),
                TemplatePart::Name(name) => {
                    if let Some(missing) = self.find_required(&name) {
                        for variable in missing {
                            if !undecided.contains(variable) {
                                undecided.push(variable.clone());
                            }
                        }
                    } else if !self.is_known(&name) && !self.incomplete {
                        unknown += 1;
                        if unknown <= MAX_UNKNOWN {
                            let suggest = problems.len() < MAX_PROBLEMS_WITH_SUGGESTION;
                            problems.push(self.make_unknown_error(&name, &value.place, suggest));
                        }
                    }
                    self.get(&name).map(|v| v.value.clone())
                }
            };
            filled = filled.zip(piece).map(|(all, piece)| all + &piece);
            if let Err(problem) = self.check_size(filled.as_deref(), value) {
                problems.extend(problem);
                filled = None;
                break;
            }
        }
        let size = filled.as_ref().map_or(0, String::len);
        self.substituted.fetch_add(size, Ordering::Relaxed);
        value.template = Some(text.clone());
        value.data = if undecided.is_empty() {
            filled.map_or(TomlData::Unknown, TomlData::String)
        } else {
            TomlData::Undecided(undecided)
        };
    }

    /// Refuses a text that is too long, and reports once if all texts together are.
    fn check_size(&self, text: Option<&str>, value: &TomlValue) -> Result<(), Option<Diagnostic>> {
        let (size, before) = (
            text.map_or(0, str::len),
            self.substituted.load(Ordering::Relaxed),
        );
        if size > MAX_TEXT_SIZE {
            let fact = format!(
                "the text exceeds {} KiB after variable substitution",
                MAX_TEXT_SIZE >> 10
            );
            return Err(Some(Diagnostic::error(fact).at(&value.place, "")));
        }
        if before + size <= MAX_TOTAL_SIZE {
            return Ok(());
        }
        self.substituted.store(usize::MAX / 2, Ordering::Relaxed);
        let fact = format!(
            "the recipe's texts exceed {} MiB after variable substitution",
            MAX_TOTAL_SIZE >> 20
        );
        let is_first = before <= MAX_TOTAL_SIZE;
        let label = "the limit is exceeded here";
        Err(is_first.then(|| Diagnostic::error(fact).at(&value.place, label)))
    }

    fn make_unknown_error(&self, name: &str, place: &Place, suggests: bool) -> Diagnostic {
        let diagnostic = Diagnostic::error(format!("there is no variable `{name}`"))
            .at(&find_name_place(place, name), "not declared under [vars]");
        if names::is_secret(name) {
            return diagnostic.help(names::SECRET_HELP);
        }
        if !suggests {
            return diagnostic;
        }
        let names: BTreeSet<&str> = self
            .shared
            .values
            .keys()
            .chain(self.own.values.keys())
            .chain(self.announced.iter())
            .map(String::as_str)
            .collect();
        let names: Vec<&str> = names.into_iter().collect();
        diagnostic.help(suggest(name, &names, "variables"))
    }
}

/// Finds `{{name}}` inside the string at `place`; returns the whole string if escapes hide it.
pub fn find_name_place(place: &Place, name: &str) -> Place {
    let text = place.source.text.get(place.span.clone()).unwrap_or("");
    let mut from = 0;
    while let Some(open) = text[from..].find("{{").map(|n| from + n + 2) {
        let inner = text[open..].trim_start_matches(['{', '~', '&', ' ']);
        let start = text.len() - inner.len();
        let is_found = inner
            .strip_prefix(name)
            .is_some_and(|rest| rest.trim_start().starts_with(['}', '~']));
        if is_found {
            let start = place.span.start + start;
            return Place::new(&place.source, start..start + name.len());
        }
        from = open;
    }
    place.clone()
}

/// Substitutes the variables in every string of the tree, except in `[vars]` and in `[trust]`,
/// whose rules are applied to the downloads first. A component has its own `{{name}}` and
/// `{{version}}`, every download `{{url}}`; `{{components.NAME.version}}` is known everywhere.
pub fn fill_in(
    tree: &mut TomlTable,
    mut scope: VariableScope,
    problems: &mut Vec<Diagnostic>,
) -> VariableScope {
    let rules = trust_rules::TrustRules::from_tree(tree);
    let mut own = BTreeMap::new();
    if let Some(TomlData::Table(components)) = tree.get_mut("components").map(|v| &mut v.data) {
        for entry in &mut components.entries {
            let name = entry.key.clone();
            let mut names = VariableTable::default();
            names.set("name", Some(name.clone()), "the component's name");
            if let TomlData::Table(component) = &mut entry.value.data
                && let Some(version) = component.get_mut("version")
            {
                scope.with_download(names.clone()).fill(version, problems);
                let text = version
                    .as_str()
                    .or(version.loose.as_deref())
                    .map(str::to_string);
                let origin = version.place.to_string();
                names.set("version", text.clone(), &origin);
                scope.set(&format!("components.{name}.version"), text, &origin);
            }
            own.insert(name, names);
        }
        for entry in &mut components.entries {
            if let Some(names) = own.remove(&entry.key) {
                fill_download(
                    &mut entry.value,
                    scope.with_download(names),
                    &rules,
                    problems,
                );
            }
        }
    }
    for entry in &mut tree.entries {
        match (entry.key.as_str(), &mut entry.value.data) {
            // Rules are substituted in the downloads.
            ("vars" | "components" | "trust", _) => {}
            ("media", TomlData::Table(media)) => fill_media(media, &scope, &rules, problems),
            _ => fill_value(&mut entry.value, &scope, problems),
        }
    }
    scope
}

fn fill_media(
    media: &mut TomlTable,
    scope: &VariableScope,
    rules: &trust_rules::TrustRules,
    problems: &mut Vec<Diagnostic>,
) {
    for entry in &mut media.entries {
        match entry.key.as_str() {
            "iso" | "virtio" => fill_download(&mut entry.value, scope.clone(), rules, problems),
            _ => fill_value(&mut entry.value, scope, problems),
        }
    }
}

/// Sets `{{url}}` to the download's own, for the addresses of its checksum file or signature. A
/// variable named `url` in the recipe keeps its meaning.
fn fill_download(
    value: &mut TomlValue,
    mut scope: VariableScope,
    rules: &trust_rules::TrustRules,
    problems: &mut Vec<Diagnostic>,
) {
    if let TomlData::Table(table) = &mut value.data
        && let Some(url) = table.get_mut("url")
    {
        scope.fill(url, problems);
        let text = url.as_str().map(str::to_string);
        if !scope.contains("url") {
            scope.own.set("url", text.clone(), &url.place.to_string());
            let place = url.base.as_ref().unwrap_or(&url.place).clone();
            scope.own.places.insert("url".into(), place);
        }
        if let Some(text) = text {
            rules.apply(table, &text);
        }
    }
    fill_value(value, &scope, problems);
}

fn fill_value(value: &mut TomlValue, scope: &VariableScope, problems: &mut Vec<Diagnostic>) {
    match &mut value.data {
        TomlData::Array(items) => items
            .iter_mut()
            .for_each(|v| fill_value(v, scope, problems)),
        TomlData::Table(table) => {
            for entry in &mut table.entries {
                fill_value(&mut entry.value, scope, problems);
            }
        }
        // A substituted text (a component's version) may contain literal braces.
        TomlData::String(_) if value.template.is_none() => scope.fill(value, problems),
        _ => {}
    }
}
