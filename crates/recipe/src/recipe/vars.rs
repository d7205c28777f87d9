//! The values of variables, and how they get into strings.
//!
//! An unknown name is refused where it stands; nothing is ever filled with an empty text in its stead.

use std::collections::BTreeMap;

use super::Var;
use super::template::{self, Part};
use super::trust;
use super::value::Wanting;
use super::value::{Data, Table, Value};
use super::words;
use winimg_base::diag::{Diagnostic, suggestion};
use winimg_base::text::Place;

/// Names with their values; `None` for a value that was complained about.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    values: BTreeMap<String, Option<Var>>,
    /// Where a variable's value begins to be said.
    places: BTreeMap<String, Place>,
    /// Variables without a value, each with those that have to be set for it: itself, or all that it names.
    required: BTreeMap<String, Vec<Wanting>>,
    /// Not all files could be read: an unknown name may be declared there.
    incomplete: bool,
}

impl Scope {
    /// An empty scope. With `incomplete`, unknown names are not complained about.
    pub fn new(incomplete: bool) -> Self {
        Self {
            incomplete,
            ..Self::default()
        }
    }

    /// Whether the name was decided, be it to nothing.
    pub fn contains(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Makes a name known whose value is not decided yet.
    pub fn announce(&mut self, name: &str) {
        self.values.entry(name.into()).or_insert(None);
    }

    /// Leaves every text undecided that names the variable, until all of `wanting` are set.
    pub fn require(&mut self, name: &str, wanting: Vec<Wanting>) {
        self.required.insert(name.into(), wanting);
    }

    /// Relative paths in the variable's value start from the folder of this place.
    pub fn said_at(&mut self, name: &str, place: Place) {
        self.places.insert(name.into(), place);
    }

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

    pub fn set(&mut self, name: &str, value: Option<String>, origin: &str) {
        let var = value.map(|value| Var {
            name: name.into(),
            value,
            origin: origin.into(),
        });
        self.values.insert(name.into(), var);
    }

    /// Fills one string; complains about every name in it that nobody declared.
    pub fn fill(&self, value: &mut Value, problems: &mut Vec<Diagnostic>) {
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
                value.template = Some(text.clone());
                value.data = Data::Unknown;
                return;
            }
        };
        if let Some(Part::Name(first)) = parts.first() {
            value.base = self.places.get(first).cloned();
        }
        let mut filled = Some(String::new());
        let mut undecided: Vec<Wanting> = Vec::new();
        for part in parts {
            let piece = match part {
                Part::Text(text) => Some(text),
                Part::Name(name) => {
                    if let Some(wanting) = self.required.get(&name) {
                        let new = wanting.iter().filter(|w| !undecided.contains(w));
                        let new: Vec<Wanting> = new.cloned().collect();
                        undecided.extend(new);
                    } else if !self.values.contains_key(&name) && !self.incomplete {
                        problems.push(self.unknown(&name, &value.place));
                    }
                    self.get(&name).map(|v| v.value.clone())
                }
            };
            filled = filled.zip(piece).map(|(all, piece)| all + &piece);
        }
        value.template = Some(text.clone());
        value.data = match undecided.is_empty() {
            true => filled.map_or(Data::Unknown, Data::String),
            false => Data::Undecided(undecided),
        };
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
pub fn place_of_name(place: &Place, name: &str) -> Place {
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

/// Fills the variables into every string of the tree but `[vars]` and `[trust]`, whose rules are laid into the downloads first. In a component `{{name}}` and `{{version}}` are
/// its own, in every download `{{url}}`; everywhere `{{components.NAME.version}}` is known.
pub fn fill_in(tree: &mut Table, scope: &Scope, problems: &mut Vec<Diagnostic>) -> Scope {
    let mut scope = scope.clone();
    let rules = trust::Rules::of(tree);
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
                fill_download(&mut entry.value, local, &rules, problems);
            }
        }
    }
    for entry in &mut tree.entries {
        match (entry.key.as_str(), &mut entry.value.data) {
            // A rule is filled in where it is laid.
            ("vars" | "components" | "trust", _) => {}
            ("media", Data::Table(media)) => fill_media(media, &scope, &rules, problems),
            _ => fill_value(&mut entry.value, &scope, problems),
        }
    }
    scope
}

fn fill_media(
    media: &mut Table,
    scope: &Scope,
    rules: &trust::Rules,
    problems: &mut Vec<Diagnostic>,
) {
    for entry in &mut media.entries {
        match entry.key.as_str() {
            "iso" | "virtio" => fill_download(&mut entry.value, scope, rules, problems),
            _ => fill_value(&mut entry.value, scope, problems),
        }
    }
}

/// `{{url}}` is the download's own, so that its checksum file or signature can be named by it. A variable that the
/// recipe calls `url` keeps its meaning.
fn fill_download(
    value: &mut Value,
    scope: &Scope,
    rules: &trust::Rules,
    problems: &mut Vec<Diagnostic>,
) {
    let mut local = scope.clone();
    if let Data::Table(table) = &mut value.data
        && let Some(url) = table.get_mut("url")
    {
        local.fill(url, problems);
        let text = url.as_str().map(str::to_string);
        if !scope.contains("url") {
            local.set("url", text.clone(), &url.place.to_string());
            local.said_at("url", url.base.as_ref().unwrap_or(&url.place).clone());
        }
        if let Some(text) = text {
            rules.lay(table, &text);
        }
    }
    fill_value(value, &local, problems);
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
