//! The values of variables, and how they get into strings.
//!
//! An unknown name is refused where it stands; nothing is ever filled with an empty text in its stead.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Var;
use super::template::{self, Part};
use super::trust;
use super::value::Wanting;
use super::value::{Data, Table, Value};
use super::words;
use winimg_base::diag::{Diagnostic, suggestion};
use winimg_base::text::Place;

/// Bytes of a text with its variables filled in.
const LONGEST: usize = 64 << 10;
/// Bytes of all such texts of a recipe together: a few lines could name a long variable very often.
const MOST: usize = 16 << 20;

/// Unknown names of one text that are reported: they are looked for in it, each from its beginning.
const MOST_UNKNOWN: usize = 20;
/// Behind so many complaints no name is suggested: each suggestion compares all names.
const MOST_SUGGESTED: usize = 200;

/// Names with their values. Cheap to clone: what all downloads share is there once.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    shared: Arc<Names>,
    /// Those of one download, which come first.
    own: Names,
    /// Names that will be decided later; none of them is unknown.
    announced: Arc<BTreeSet<String>>,
    /// Not all files could be read: an unknown name may be declared there.
    incomplete: bool,
    /// Bytes that were filled in so far.
    filled: Arc<AtomicUsize>,
}

#[derive(Clone, Debug, Default)]
struct Names {
    /// `None` for a value that was complained about.
    values: BTreeMap<String, Option<Var>>,
    /// Where a variable's value begins to be said.
    places: BTreeMap<String, Place>,
    /// Variables without a value, each with those that have to be set for it: itself, or all that it names.
    required: BTreeMap<String, Vec<Wanting>>,
}

impl Names {
    fn set(&mut self, name: &str, value: Option<String>, origin: &str) {
        let var = value.map(|value| Var {
            name: name.into(),
            value,
            origin: origin.into(),
        });
        self.values.insert(name.into(), var);
    }
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
        self.own.values.contains_key(name) || self.shared.values.contains_key(name)
    }

    /// Makes names known whose values are not decided yet.
    pub fn announce(&mut self, names: impl IntoIterator<Item = String>) {
        self.announced = Arc::new(names.into_iter().collect());
    }

    /// Leaves every text undecided that names the variable, until all of `wanting` are set.
    pub fn require(&mut self, name: &str, wanting: Vec<Wanting>) {
        let shared = Arc::make_mut(&mut self.shared);
        shared.required.insert(name.into(), wanting);
    }

    /// Relative paths in the variable's value start from the folder of this place.
    pub fn said_at(&mut self, name: &str, place: Place) {
        Arc::make_mut(&mut self.shared)
            .places
            .insert(name.into(), place);
    }

    pub fn get(&self, name: &str) -> Option<&Var> {
        let own = self.own.values.get(name);
        own.or_else(|| self.shared.values.get(name))?.as_ref()
    }

    fn is_known(&self, name: &str) -> bool {
        self.contains(name) || self.announced.contains(name)
    }

    fn place(&self, name: &str) -> Option<&Place> {
        let own = self.own.places.get(name);
        own.or_else(|| self.shared.places.get(name))
    }

    fn required(&self, name: &str) -> Option<&Vec<Wanting>> {
        let own = self.own.required.get(name);
        own.or_else(|| self.shared.required.get(name))
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

    /// The same with names of one download.
    fn with(&self, own: Names) -> Self {
        Self {
            own,
            ..self.clone()
        }
    }

    pub fn set(&mut self, name: &str, value: Option<String>, origin: &str) {
        Arc::make_mut(&mut self.shared).set(name, value, origin);
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
            value.base = self.place(first).cloned();
        }
        let mut filled = Some(String::new());
        let mut undecided: Vec<Wanting> = Vec::new();
        let mut unknown = 0;
        for part in parts {
            let piece = match part {
                Part::Text(text) => Some(text),
                Part::Name(name) => {
                    if let Some(wanting) = self.required(&name) {
                        let new = wanting.iter().filter(|w| !undecided.contains(w));
                        let new: Vec<Wanting> = new.cloned().collect();
                        undecided.extend(new);
                    } else if !self.is_known(&name) && !self.incomplete {
                        unknown += 1;
                        if unknown <= MOST_UNKNOWN {
                            let suggest = problems.len() < MOST_SUGGESTED;
                            problems.push(self.unknown(&name, &value.place, suggest));
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
        self.filled.fetch_add(size, Ordering::Relaxed);
        value.template = Some(text.clone());
        value.data = match undecided.is_empty() {
            true => filled.map_or(Data::Unknown, Data::String),
            false => Data::Undecided(undecided),
        };
    }

    /// Refuses a text that grew too long, and says so once of all texts together.
    fn check_size(&self, text: Option<&str>, value: &Value) -> Result<(), Option<Diagnostic>> {
        let (size, before) = (
            text.map_or(0, str::len),
            self.filled.load(Ordering::Relaxed),
        );
        if size > LONGEST {
            let fact = format!(
                "the text is longer than {} KiB with its variables filled in",
                LONGEST >> 10
            );
            return Err(Some(Diagnostic::error(fact).at(&value.place, "")));
        }
        if before + size <= MOST {
            return Ok(());
        }
        self.filled.store(usize::MAX / 2, Ordering::Relaxed);
        let fact = format!(
            "the recipe's texts come to more than {} MiB with their variables filled in",
            MOST >> 20
        );
        let is_first = before <= MOST;
        Err(is_first.then(|| Diagnostic::error(fact).at(&value.place, "this is one too much")))
    }

    fn unknown(&self, name: &str, place: &Place, suggest: bool) -> Diagnostic {
        let diagnostic = Diagnostic::error(format!("there is no variable `{name}`"))
            .at(&place_of_name(place, name), "not declared under [vars]");
        if words::is_secret(name) {
            return diagnostic.help(words::SECRET_HELP);
        }
        if !suggest {
            return diagnostic;
        }
        let decided = self.shared.values.keys().chain(self.own.values.keys());
        let names = decided.chain(self.announced.iter()).map(String::as_str);
        let names: BTreeSet<&str> = names.collect();
        let names: Vec<&str> = names.into_iter().collect();
        diagnostic.help(suggestion(name, &names, "variables"))
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
            let mut names = Names::default();
            names.set("name", Some(name.clone()), "the component's name");
            if let Data::Table(component) = &mut entry.value.data
                && let Some(version) = component.get_mut("version")
            {
                scope.with(names.clone()).fill(version, problems);
                let text = version.as_str().or(version.loose.as_deref());
                let text = text.map(str::to_string);
                let origin = version.place.to_string();
                names.set("version", text.clone(), &origin);
                scope.set(&format!("components.{name}.version"), text, &origin);
            }
            own.insert(name, names);
        }
        for entry in &mut components.entries {
            if let Some(names) = own.remove(&entry.key) {
                fill_download(&mut entry.value, &scope.with(names), &rules, problems);
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
            local.own.set("url", text.clone(), &url.place.to_string());
            let said_at = url.base.as_ref().unwrap_or(&url.place).clone();
            local.own.places.insert("url".into(), said_at);
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
