//! Merges files, and `--set` over them.
//!
//! Tables merge key by key, and the later value wins; `[[steps]]` and `[[clone]]` are appended; a
//! new proof of a download replaces the earlier one.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::RecipeSetting;
use crate::document::mask::{holds_url, mask, user_in_url};
use crate::document::sources::RecipeSources;
use crate::document::value::{self, TomlData, TomlEntry, TomlTable, TomlValue};
use winimg_base::diag::{Diagnostic, suggest};
use winimg_base::text::{Place, SourceText};

/// The four proofs of a download, of which exactly one applies.
pub const PROOFS: &[&str] = &["sha256", "sha512", "checksum_url", "unverified"];

/// Proofs that are a digest.
pub const DIGESTS: [&str; 2] = ["sha256", "sha512"];

/// The keys of a download that say who must have signed. They are replaced as a whole: merging the
/// subject of one signature with the root of another would trust an unintended signer.
pub const SIGNATURES: [&str; 2] = ["signature", "checksum_signature"];

/// Merges `over` into `base`.
pub fn merge_tables(base: &mut TomlTable, over: TomlTable, problems: &mut Vec<Diagnostic>) {
    merge_at(base, over, &mut Vec::new(), problems);
}

fn merge_at(
    base: &mut TomlTable,
    over: TomlTable,
    path: &mut Vec<String>,
    problems: &mut Vec<Diagnostic>,
) {
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
        let is_replaced = is_rule || is_download && SIGNATURES.contains(&entry.key.as_str());
        let at_root = path.is_empty();
        let Some(place) = places.get(&entry.key).copied() else {
            places.insert(entry.key.clone(), base.entries.len());
            base.entries.push(entry);
            continue;
        };
        let old = &mut base.entries[place].value;
        match (&mut old.data, entry.value.data) {
            (TomlData::Table(old), TomlData::Table(new)) if !is_replaced && !in_vars => {
                path.push(entry.key);
                merge_at(old, new, path, problems);
                path.pop();
            }
            (TomlData::Array(old), TomlData::Array(new)) if at_root && entry.key == "steps" => {
                append_steps(old, new);
            }
            (TomlData::Array(old), TomlData::Array(new)) if at_root && entry.key == "clone" => {
                old.extend(new);
            }
            (_, data) => {
                let (mut declared, mut earlier) = (None, Vec::new());
                if in_vars {
                    declared = take_declaration(old, &data);
                    earlier = std::mem::take(&mut old.earlier);
                    earlier.push(old.clone());
                }
                *old = TomlValue {
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

/// Returns the declaration of a variable, which a new value keeps and a new declaration replaces.
fn take_declaration(old: &mut TomlValue, new: &TomlData) -> Option<Box<TomlValue>> {
    match (&old.data, new) {
        (_, TomlData::Table(_)) => None,
        (TomlData::Table(_), _) => Some(Box::new(old.clone())),
        _ => old.declared.take(),
    }
}

/// Appends steps to those of an included file. An image is sealed once, in the last step: an
/// included `generalize` is moved behind the new steps, or replaced by another one.
fn append_steps(steps: &mut Vec<TomlValue>, more: Vec<TomlValue>) {
    let seal = steps.pop_if(|step| is_generalize(step));
    let replaced = more.iter().any(is_generalize);
    steps.extend(more);
    steps.extend(seal.filter(|_| !replaced));
}

fn is_generalize(step: &TomlValue) -> bool {
    step.as_table().is_some_and(|t| t.contains("generalize"))
}

/// Returns true for the path of a table that describes a download.
pub fn is_download(path: &[String]) -> bool {
    match path {
        [first, _] if first == "components" => true,
        [first, second] if first == "media" => second == "iso" || second == "virtio",
        _ => false,
    }
}

/// The proofs of a container image.
const IMAGE_PROOFS: [&str; 2] = ["digest", "unverified"];

/// Removes the earlier proof of a container image if there is a new one.
fn replace_image_proof(base: &mut TomlTable, over: &TomlTable) {
    if IMAGE_PROOFS.iter().any(|p| over.contains(p)) {
        for key in IMAGE_PROOFS {
            base.remove(key);
        }
    }
}

/// Returns true for `checksum_url = false`, which drops the checksum file of an included file.
fn drops_checksum_file(table: &TomlTable) -> bool {
    let value = table.get("checksum_url");
    value.is_some_and(|value| matches!(value.data, TomlData::Bool(false)))
}

/// Removes `checksum_url = false` from every download after the merge.
pub fn drop_checksum_files(tree: &mut TomlTable) {
    for outer in &mut tree.entries {
        let TomlData::Table(tables) = &mut outer.value.data else {
            continue;
        };
        for entry in &mut tables.entries {
            if is_download(&[outer.key.clone(), entry.key.clone()])
                && let TomlData::Table(table) = &mut entry.value.data
                && drops_checksum_file(table)
            {
                table.remove("checksum_url");
            }
        }
    }
}

/// Keys of a checksum file.
const CHECKSUM_FILE_KEYS: [&str; 3] = ["checksum_url", "checksum_entry", "checksum_signature"];

/// Returns true if `over` has another URL and a signature: then an inherited checksum file does not
/// apply.
fn replaces_checksum_file(base: &TomlTable, over: &TomlTable) -> bool {
    let kind = over.get("signature").and_then(TomlValue::as_table);
    let is_none = kind.is_some_and(|t| t.get("kind").and_then(TomlValue::as_str) == Some("none"));
    let old_url = base.get("url").and_then(TomlValue::as_str);
    let new_url = over.get("url").and_then(TomlValue::as_str);
    let has_other_url = over.contains("url") && old_url != new_url;
    has_other_url && over.contains("signature") && !is_none
}

fn replace_proof(
    base: &mut TomlTable,
    over: &TomlTable,
    path: &[String],
    problems: &mut Vec<Diagnostic>,
) {
    // The condition belongs to the earlier signature.
    if over.contains("signature") && !over.contains("signature_when") {
        base.remove("signature_when");
    }
    if drops_checksum_file(over) || replaces_checksum_file(base, over) {
        for key in CHECKSUM_FILE_KEYS {
            base.remove(key);
        }
    }
    let has_proof = PROOFS
        .iter()
        .any(|key| over.contains(key) && !(*key == "checksum_url" && drops_checksum_file(over)));
    if has_proof {
        for key in PROOFS.iter().chain(&["checksum_entry"]) {
            base.remove(key);
        }
        // It belongs to the checksum file, and also applies to another one.
        if !over.contains("checksum_url") {
            base.remove("checksum_signature");
        }
        return;
    }
    // A new URL with the old digest is fine: a mirror. A new version cannot have the old digest.
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
                "`{dotted}` has a new version, but still the {key} of {was}"
            ))
            .at(&new.place, "")
            .help(format!(
                "set the {key} of the new version, or a `checksum_url`"
            )),
        );
    }
}

/// Applies `--set path=value` in order. `lower` finds unknown sections and keys inside a known
/// path, and points into the flag's text.
pub fn apply_sets(
    tree: &mut TomlTable,
    sets: &[String],
    sources: &mut RecipeSources,
    incomplete: bool,
    problems: &mut Vec<Diagnostic>,
) {
    for set in sets {
        let source = sources.add("--set", mask_set(set), PathBuf::new());
        if let Err(problem) = apply_set(tree, &source, incomplete, problems) {
            problems.push(problem);
        }
    }
}

/// Masks the user name and password of a URL.
fn mask_set(set: &str) -> String {
    let path = set.split('=').next().unwrap_or_default();
    let user = user_in_url(set).filter(|_| holds_url(path.rsplit('.').next().unwrap_or_default()));
    let mut bytes = set.as_bytes().to_vec();
    if let Some(user) = user {
        mask(&mut bytes, user, b'*');
    }
    String::from_utf8(bytes).unwrap_or_default()
}

fn apply_set(
    tree: &mut TomlTable,
    source: &Arc<SourceText>,
    incomplete: bool,
    problems: &mut Vec<Diagnostic>,
) -> Result<(), Diagnostic> {
    let (path, value) = parse_set(source)?;
    apply_setting(tree, &RecipeSetting { path, value }, incomplete, problems)
}

/// Applies a setting that was already parsed.
pub fn apply_setting(
    tree: &mut TomlTable,
    setting: &RecipeSetting,
    incomplete: bool,
    problems: &mut Vec<Diagnostic>,
) -> Result<(), Diagnostic> {
    let (path, value) = (&setting.path, setting.value.clone());
    let names: Vec<&str> = path.iter().map(|(key, _)| key.as_str()).collect();
    match names.as_slice() {
        ["vars", name, ..] => {
            return Err(Diagnostic::error("`--set` cannot set variables")
                .at(&path[0].1, "")
                .help(format!("use `--var {name}=…`")));
        }
        ["include" | "schema", ..] => {
            let fact = format!("`{}` cannot be set from the command line", names[0]);
            return Err(Diagnostic::error(fact).at(&path[0].1, ""));
        }
        ["clone", ..] => {
            let fact = "clone checks cannot be set from the command line";
            let help = "write a `[[clone]]` into the recipe: it overrides one of a pack";
            return Err(Diagnostic::error(fact).at(&path[0].1, "").help(help));
        }
        ["steps"] => {
            return Err(Diagnostic::error("`--set steps` would replace every step")
                .at(&path[0].1, "")
                .help("set one key of one step: `--set 'steps.\"step name\".timeout=1h'`"));
        }
        ["steps", name, rest @ ..] => {
            let Some(step) = find_step(tree, name) else {
                let steps = step_names(tree);
                return report_unknown("step", name, &steps, &path[1].1, incomplete);
            };
            let TomlData::Table(over) =
                wrap_in_tables(&path[path.len() - rest.len()..], value).data
            else {
                let fact = format!("`--set` cannot replace the whole step `{name}`");
                return Err(Diagnostic::error(fact).at(&path[1].1, ""));
            };
            merge_at(step, over, &mut vec!["steps".into()], problems);
            return Ok(());
        }
        ["components", name, _, ..] => {
            let components = tree.get("components").and_then(TomlValue::as_table);
            let entries = components.iter().flat_map(|t| &t.entries);
            let known: Vec<&str> = entries.map(|e| e.key.as_str()).collect();
            if !known.contains(name) {
                return report_unknown("component", name, &known, &path[1].1, incomplete);
            }
        }
        _ => {}
    }
    if let TomlData::Table(over) = wrap_in_tables(path, value).data {
        merge_at(tree, over, &mut Vec::new(), problems);
    }
    Ok(())
}

/// Reports an unknown name in `--set`, unless it may be in a file that could not be read.
fn report_unknown(
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
    Err(error.help(suggest(name, known, &format!("{what}s"))))
}

type SettingPath = Vec<(String, Place)>;

/// Splits `a.b."c d"=value`.
fn parse_set(source: &Arc<SourceText>) -> Result<(SettingPath, TomlValue), Diagnostic> {
    let text = source.text.as_str();
    let whole_text = Place::new(source, 0..text.len());
    let Some(equals) = equals_outside_quotes(text) else {
        return Err(Diagnostic::error("`--set` takes PATH=VALUE")
            .at(&whole_text, "there is no `=`")
            .help("for example `--set machine.cpus=8`"));
    };
    // The path is parsed as a TOML key.
    let keys = Arc::new(SourceText::new(
        source.name.clone(),
        format!("{}=0", &text[..equals]),
    ));
    let (table, broken) = value::parse(&keys);
    let mut path = SettingPath::new();
    let mut inner_table = &table;
    while let Some(entry) = inner_table.entries.first() {
        let place = Place::new(source, entry.key_place.span.clone());
        path.push((entry.key.clone(), place));
        match &entry.value.data {
            TomlData::Table(inner) => inner_table = inner,
            _ => break,
        }
    }
    if !broken.is_empty() || path.is_empty() {
        return Err(Diagnostic::error("`--set` takes PATH=VALUE")
            .at(&Place::new(source, 0..equals), "not a path")
            .help("a path is keys separated by dots; quote keys with other characters"));
    }
    let rest = &text[equals + 1..];
    let value = value::parse_value(rest, equals + 1, source).unwrap_or_else(|| {
        let place = Place::new(source, equals + 1..text.len());
        TomlValue::new(TomlData::String(rest.to_string()), place)
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

/// Wraps the value in one table for each key of the path.
fn wrap_in_tables(path: &[(String, Place)], value: TomlValue) -> TomlValue {
    path.iter().rev().fold(value, |value, (key, place)| {
        let entry = TomlEntry {
            key: key.clone(),
            key_place: place.clone(),
            value,
        };
        let table = TomlTable {
            entries: vec![entry],
        };
        TomlValue::new(TomlData::Table(table), place.clone())
    })
}

fn step_names(tree: &TomlTable) -> Vec<&str> {
    let steps = match tree.get("steps").map(|v| &v.data) {
        Some(TomlData::Array(steps)) => steps.as_slice(),
        _ => &[],
    };
    let steps = steps.iter().filter_map(TomlValue::as_table);
    steps.filter_map(|t| t.get("name")?.as_str()).collect()
}

fn find_step<'a>(tree: &'a mut TomlTable, name: &str) -> Option<&'a mut TomlTable> {
    let Some(TomlData::Array(steps)) = tree.get_mut("steps").map(|v| &mut v.data) else {
        return None;
    };
    steps.iter_mut().find_map(|step| match &mut step.data {
        TomlData::Table(table) if table.get("name").and_then(TomlValue::as_str) == Some(name) => {
            Some(table)
        }
        _ => None,
    })
}
