//! One file laid over another, and `--set` over both.
//!
//! Tables merge key by key and the later word wins; `[[steps]]` and `[[clone]]` follow each other; the proof of a download is one
//! choice, so that naming another proof drops the earlier one.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::Setting;
use super::mask::{holds_url, mask, user_in_url};
use super::sources::Sources;
use super::value::{self, Data, Entry, Table, Value};
use winimg_base::diag::{Diagnostic, suggestion};
use winimg_base::text::{Place, Source};

/// The four ways to prove a download; one of them stands.
pub const PROOFS: &[&str] = &["sha256", "sha512", "checksum_url", "unverified"];

/// Those of them that name the very bytes.
pub const DIGESTS: [&str; 2] = ["sha256", "sha512"];

/// Replaced whole: the subject of one and the root of another would trust somebody whom nobody named.
const WHOLE: [&str; 2] = ["signature", "checksum_signature"];

/// Lays `over` over `base`.
pub fn lay_over(base: &mut Table, over: Table, problems: &mut Vec<Diagnostic>) {
    lay(base, over, &mut Vec::new(), problems);
}

fn lay(base: &mut Table, over: Table, path: &mut Vec<String>, problems: &mut Vec<Diagnostic>) {
    if is_download(path) {
        replace_proof(base, &over, path, problems);
    } else if matches!(path.as_slice(), [first, _] if first == "images") {
        replace_image_proof(base, &over);
    }
    let is_download = is_download(path);
    let in_vars = matches!(path.as_slice(), [only] if only == "vars");
    let keys = base.entries.iter().map(|entry| entry.key.clone());
    let mut places: HashMap<String, usize> = keys.zip(0..).collect();
    for entry in over.entries {
        let is_rule = matches!(path.as_slice(), [only] if only == "trust");
        let is_whole = is_rule || is_download && WHOLE.contains(&entry.key.as_str());
        let at_root = path.is_empty();
        let Some(place) = places.get(&entry.key).copied() else {
            places.insert(entry.key.clone(), base.entries.len());
            base.entries.push(entry);
            continue;
        };
        let old = &mut base.entries[place].value;
        match (&mut old.data, entry.value.data) {
            (Data::Table(old), Data::Table(new)) if !is_whole && !in_vars => {
                path.push(entry.key);
                lay(old, new, path, problems);
                path.pop();
            }
            (Data::Array(old), Data::Array(new)) if at_root && entry.key == "steps" => {
                follow(old, new);
            }
            (Data::Array(old), Data::Array(new)) if at_root && entry.key == "clone" => {
                old.extend(new);
            }
            (_, data) => {
                let (mut declared, mut earlier) = (None, Vec::new());
                if in_vars {
                    declared = declaration(old, &data);
                    earlier = std::mem::take(&mut old.earlier);
                    earlier.push(old.clone());
                }
                *old = Value {
                    data,
                    declared,
                    earlier,
                    ..entry.value
                };
                base.entries[place].key_place = entry.key_place;
            }
        }
    }
}

/// What a variable's declaration asks of its value outlives the default; another declaration replaces it.
fn declaration(old: &mut Value, new: &Data) -> Option<Box<Value>> {
    match (&old.data, new) {
        (_, Data::Table(_)) => None,
        (Data::Table(_), _) => Some(Box::new(old.clone())),
        _ => old.declared.take(),
    }
}

/// More steps after those of an included file. An image is sealed once, as the last thing: an included `generalize` stays
/// behind the steps that are added, or makes room for another one.
fn follow(steps: &mut Vec<Value>, more: Vec<Value>) {
    let seals = |step: &Value| step.as_table().is_some_and(|t| t.contains("generalize"));
    let seal = steps.pop_if(|step| seals(step));
    let replaced = more.iter().any(seals);
    steps.extend(more);
    steps.extend(seal.filter(|_| !replaced));
}

/// Tables that name something to fetch.
pub fn is_download(path: &[String]) -> bool {
    match path {
        [first, _] if first == "components" => true,
        [first, second] if first == "media" => second == "iso" || second == "virtio",
        _ => false,
    }
}

/// What proves a container image.
const IMAGE_PROOFS: [&str; 2] = ["digest", "unverified"];

/// A proof of a container image replaces the earlier one, whichever it was.
fn replace_image_proof(base: &mut Table, over: &Table) {
    if IMAGE_PROOFS.iter().any(|p| over.contains(p)) {
        for key in IMAGE_PROOFS {
            base.remove(key);
        }
    }
}

/// `checksum_url = false`: there is no checksum file, whatever an included file says.
fn is_dropped(table: &Table) -> bool {
    let value = table.get("checksum_url");
    value.is_some_and(|value| matches!(value.data, Data::Bool(false)))
}

/// Takes `checksum_url = false` out of every download once all files are laid over each other.
pub fn drop_checksum_files(tree: &mut Table) {
    let all = |name: &str, entry: &str| is_download(&[name.to_string(), entry.to_string()]);
    for outer in &mut tree.entries {
        let Data::Table(tables) = &mut outer.value.data else {
            continue;
        };
        for entry in &mut tables.entries {
            if let (true, Data::Table(table)) = (all(&outer.key, &entry.key), &mut entry.value.data)
                && is_dropped(table)
            {
                table.remove("checksum_url");
            }
        }
    }
}

/// What belongs to a checksum file.
const OF_CHECKSUM_FILE: [&str; 3] = ["checksum_url", "checksum_entry", "checksum_signature"];

/// Whether `over` takes the file from somewhere else and says who signed it: then an inherited checksum file is about
/// another file.
fn is_own_build(base: &Table, over: &Table) -> bool {
    let text =
        |table: &Table, key: &str| table.get(key).and_then(Value::as_str).map(str::to_string);
    let kind = over.get("signature").and_then(Value::as_table);
    let is_none = kind.is_some_and(|t| t.get("kind").and_then(Value::as_str) == Some("none"));
    let has_other_url = over.contains("url") && text(base, "url") != text(over, "url");
    has_other_url && over.contains("signature") && !is_none
}

fn replace_proof(base: &mut Table, over: &Table, path: &[String], problems: &mut Vec<Diagnostic>) {
    // Whether it is asked for was said of the earlier signature.
    if over.contains("signature") && !over.contains("signature_when") {
        base.remove("signature_when");
    }
    if is_dropped(over) || is_own_build(base, over) {
        for key in OF_CHECKSUM_FILE {
            base.remove(key);
        }
    }
    let is_proof =
        |key: &&&str| over.contains(key) && !(**key == "checksum_url" && is_dropped(over));
    if PROOFS.iter().any(|p| is_proof(&p)) {
        for key in PROOFS.iter().chain(&["checksum_entry"]) {
            base.remove(key);
        }
        // It belongs to a checksum file; another one has to be signed no less.
        if !over.contains("checksum_url") {
            base.remove("checksum_signature");
        }
        return;
    }
    // A changed URL with the old digest is a mirror and good. Another version cannot have the old digest.
    let (Some(old), Some(new)) = (base.get("version"), over.get("version")) else {
        return;
    };
    let digest = DIGESTS.into_iter().find(|k| base.contains(k));
    let (Some(key), Some(was)) = (digest, old.as_str()) else {
        return;
    };
    let dotted = path.join(".");
    if new.as_str() != Some(was) {
        problems.push(
            Diagnostic::warning(format!(
                "`{dotted}` has another version, but its {key} is still that of {was}"
            ))
            .at(&new.place, "")
            .help(format!(
                "give the {key} of this version too, or a `checksum_url`"
            )),
        );
    }
}

/// Applies `--set path=value` in order. Unknown sections and keys inside a known path are found by `lower`, which
/// points into the flag's text.
pub fn apply_sets(
    tree: &mut Table,
    sets: &[String],
    sources: &mut Sources,
    incomplete: bool,
    problems: &mut Vec<Diagnostic>,
) {
    for set in sets {
        let source = sources.add("--set", masked(set), PathBuf::new());
        if let Err(problem) = apply_set(tree, &source, incomplete, problems) {
            problems.push(problem);
        }
    }
}

/// A URL's user name and password must not be shown.
fn masked(set: &str) -> String {
    let path = set.split('=').next().unwrap_or_default();
    let user = user_in_url(set).filter(|_| holds_url(path.rsplit('.').next().unwrap_or_default()));
    let mut bytes = set.as_bytes().to_vec();
    if let Some(user) = user {
        mask(&mut bytes, user, b'*');
    }
    String::from_utf8(bytes).unwrap_or_default()
}

fn apply_set(
    tree: &mut Table,
    source: &Arc<Source>,
    incomplete: bool,
    problems: &mut Vec<Diagnostic>,
) -> Result<(), Diagnostic> {
    let (path, value) = read_set(source)?;
    apply_setting(tree, &Setting { path, value }, incomplete, problems)
}

/// The same, with the places that it has already.
pub fn apply_setting(
    tree: &mut Table,
    setting: &Setting,
    incomplete: bool,
    problems: &mut Vec<Diagnostic>,
) -> Result<(), Diagnostic> {
    let (path, value) = (&setting.path, setting.value.clone());
    let names: Vec<&str> = path.iter().map(|(key, _)| key.as_str()).collect();
    let at = |n: usize| &path[n].1;
    match names.as_slice() {
        ["vars", name, ..] => {
            return Err(Diagnostic::error("variables are not given with `--set`")
                .at(at(0), "")
                .help(format!("give `--var {name}=…`")));
        }
        ["include" | "schema", ..] => {
            let fact = format!("`{}` cannot be set from the command line", names[0]);
            return Err(Diagnostic::error(fact).at(at(0), ""));
        }
        ["clone", ..] => {
            let fact = "clone checks cannot be set from the command line";
            let help = "write a `[[clone]]` into the recipe: where it contradicts one of a pack, the recipe's own stands";
            return Err(Diagnostic::error(fact).at(at(0), "").help(help));
        }
        ["steps"] => {
            return Err(Diagnostic::error("`--set steps` would replace every step")
                .at(at(0), "")
                .help(
                    "name one step and one of its keys: `--set 'steps.\"step name\".timeout=1h'`",
                ));
        }
        ["steps", name, rest @ ..] => {
            let Some(step) = find_step(tree, name) else {
                let steps = step_names(tree);
                return unknown("step", name, &steps, at(1), incomplete);
            };
            let Data::Table(over) = nest(&path[path.len() - rest.len()..], value).data else {
                let fact = format!("`--set` cannot replace the whole step `{name}`");
                return Err(Diagnostic::error(fact).at(at(1), ""));
            };
            lay(step, over, &mut vec!["steps".into()], problems);
            return Ok(());
        }
        ["components", name, _, ..] => {
            let components = tree.get("components").and_then(Value::as_table);
            let entries = components.iter().flat_map(|t| &t.entries);
            let known: Vec<&str> = entries.map(|e| e.key.as_str()).collect();
            if !known.contains(name) {
                return unknown("component", name, &known, at(1), incomplete);
            }
        }
        _ => {}
    }
    if let Data::Table(over) = nest(path, value).data {
        lay(tree, over, &mut Vec::new(), problems);
    }
    Ok(())
}

/// What `--set` names is not there; where files could not be read it may be in one of them.
fn unknown(
    what: &str,
    name: &str,
    known: &[&str],
    place: &Place,
    incomplete: bool,
) -> Result<(), Diagnostic> {
    if incomplete {
        return Ok(());
    }
    let error = Diagnostic::error(format!("there is no {what} `{name}`")).at(place, "");
    Err(error.help(suggestion(name, known, &format!("{what}s"))))
}

type Path = Vec<(String, Place)>;

/// Splits `a.b."c d"=value`.
fn read_set(source: &Arc<Source>) -> Result<(Path, Value), Diagnostic> {
    let text = source.text.as_str();
    let whole = Place::new(source, 0..text.len());
    let Some(equals) = equals_outside_quotes(text) else {
        return Err(Diagnostic::error("`--set` takes PATH=VALUE")
            .at(&whole, "there is no `=`")
            .help("for example `--set machine.cpus=8`"));
    };
    // The path is read as TOML reads a key.
    let keys = Arc::new(Source::new(
        source.name.clone(),
        format!("{}=0", &text[..equals]),
    ));
    let (table, broken) = value::parse(&keys);
    let mut path = Path::new();
    let mut here = &table;
    while let Some(entry) = here.entries.first() {
        let place = Place::new(source, entry.key_place.span.clone());
        path.push((entry.key.clone(), place));
        match &entry.value.data {
            Data::Table(inner) => here = inner,
            _ => break,
        }
    }
    if !broken.is_empty() || path.is_empty() {
        return Err(Diagnostic::error("`--set` takes PATH=VALUE")
            .at(&Place::new(source, 0..equals), "not a path")
            .help(
                "a path is keys with dots between them; a key with other signs goes into quotes",
            ));
    }
    let rest = &text[equals + 1..];
    let value = value::parse_value(rest, equals + 1, source).unwrap_or_else(|| {
        let place = Place::new(source, equals + 1..text.len());
        Value::new(Data::String(rest.to_string()), place)
    });
    Ok((path, value))
}

fn equals_outside_quotes(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '=') => return Some(at),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    None
}

/// The value inside tables for each key of the path.
fn nest(path: &[(String, Place)], value: Value) -> Value {
    path.iter().rev().fold(value, |value, (key, place)| {
        let entry = Entry {
            key: key.clone(),
            key_place: place.clone(),
            value,
        };
        let table = Table {
            entries: vec![entry],
        };
        Value::new(Data::Table(table), place.clone())
    })
}

fn step_names(tree: &Table) -> Vec<&str> {
    let steps = match tree.get("steps").map(|v| &v.data) {
        Some(Data::Array(steps)) => steps.as_slice(),
        _ => &[],
    };
    let steps = steps.iter().filter_map(Value::as_table);
    steps.filter_map(|t| t.get("name")?.as_str()).collect()
}

fn find_step<'a>(tree: &'a mut Table, name: &str) -> Option<&'a mut Table> {
    let Some(Data::Array(steps)) = tree.get_mut("steps").map(|v| &mut v.data) else {
        return None;
    };
    steps.iter_mut().find_map(|step| match &mut step.data {
        Data::Table(table) if table.get("name").and_then(Value::as_str) == Some(name) => {
            Some(table)
        }
        _ => None,
    })
}
