//! Var files of image-builder (kubernetes-sigs/image-builder: images/capi/packer/config/*.json).
//!
//! They contain variables of every image that image-builder makes. Those that a recipe does not
//! declare are ignored and listed; those that would change the image are listed in a table with
//! the replacement (`image_builder.toml`). null counts as unset. ``{{user `x`}}`` is the only
//! supported function of Packer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

use crate::document::value::{TomlData, TomlEntry, TomlTable, TomlValue};
use crate::keys::names;
use winimg_base::diag::Diagnostic;
use winimg_base::text::count;

/// The variables of image-builder for Windows that change the image.
const NAMES: &str = include_str!("image_builder.toml");

/// A variable of image-builder that most recipes do not declare.
#[derive(Deserialize)]
struct KnownVariable {
    /// The equivalent in winimg.
    instead: String,
    /// Values that do not change the image, besides an empty one, `false` and `none`.
    #[serde(default)]
    harmless: Vec<String>,
}

fn load_known_variables() -> BTreeMap<String, KnownVariable> {
    toml::from_str(NAMES).unwrap_or_default()
}

/// Maximum nesting of variables.
const DEPTH: usize = 16;

/// Returns the entries that set a declared variable, with ``{{user `x`}}`` translated to `{{x}}`,
/// and warnings about the others.
pub fn translate_entries(
    path: &Path,
    table: TomlTable,
    declared: impl Fn(&str) -> bool,
) -> (Vec<TomlEntry>, Vec<Diagnostic>) {
    let texts: BTreeMap<String, String> = table
        .entries
        .iter()
        .filter(|e| !names::is_secret(&e.key))
        .filter_map(|e| Some((e.key.clone(), e.value.as_str()?.to_string())))
        .collect();
    let mut taken = Vec::new();
    let mut remarks = Vec::new();
    let mut passed = Vec::new();
    for entry in table.entries {
        // In Packer's files comments are values of unused keys.
        if !declared(&entry.key) {
            passed.push(entry);
            continue;
        }
        if let TomlData::Unknown = &entry.value.data {
            continue;
        }
        let TomlData::String(text) = &entry.value.data else {
            taken.push(entry);
            continue;
        };
        match translate(text, &texts, &declared, 0) {
            Ok(text) if is_unchecked(&entry.key, &text) => remarks.push(warn_unchecked(&entry)),
            Ok(text) => taken.push(TomlEntry {
                value: TomlValue::new(TomlData::String(text), entry.value.place.clone()),
                ..entry
            }),
            Err(function) => remarks.push(
                Diagnostic::warning(format!(
                    "`{}` keeps the recipe's value: only Packer can compute this one",
                    entry.key
                ))
                .at(&entry.key_place, format!("`{function}`"))
                .help(format!("set it: --var {}=…", entry.key)),
            ),
        }
    }
    let listed: Vec<&str> = passed.iter().map(|e| e.key.as_str()).collect();
    if !listed.is_empty() {
        let count = listed.len();
        let what = match count {
            1 => "variable",
            _ => "variables",
        };
        remarks.push(
            Diagnostic::warning(format!(
                "this recipe does not declare {count} {what} of {}",
                path.display()
            ))
            .help(format!("ignored: {}", listed.join(", "))),
        );
    }
    remarks.extend(warn_ignored(path, &passed, &texts));
    (taken, remarks)
}

/// Returns true if Packer would not check the file: winimg then keeps the recipe's value.
fn is_unchecked(key: &str, text: &str) -> bool {
    key.ends_with("checksum") && text.trim().eq_ignore_ascii_case("none")
}

fn warn_unchecked(entry: &TomlEntry) -> Diagnostic {
    let key = &entry.key;
    let fact = format!("`{key}` is \"none\": the recipe's own digest is kept");
    let help = format!(
        "\"none\" turns Packer's check off; for another file than the recipe's set its digest \
         (`--var {key}=…`; sha256sum FILE), or `unverified = \"why\"` in its table"
    );
    let warning = Diagnostic::warning(fact).at(&entry.value.place, "");
    warning.help(help)
}

/// An ignored variable that would have changed the image.
struct IgnoredVariable<'a> {
    name: &'a str,
    line: usize,
    value: String,
    known: &'a KnownVariable,
}

/// Warns about ignored variables that would have changed the image, with a table and TOML to paste
/// into the recipe.
fn warn_ignored(
    path: &Path,
    passed: &[TomlEntry],
    texts: &BTreeMap<String, String>,
) -> Option<Diagnostic> {
    let names = load_known_variables();
    let mut all = Vec::new();
    for entry in passed {
        let Some(known) = names.get(&entry.key) else {
            continue;
        };
        let value = match &entry.value.data {
            TomlData::String(text) => {
                translate(text, texts, &|_| false, 0).unwrap_or_else(|function| function)
            }
            TomlData::Bool(flag) => flag.to_string(),
            TomlData::Integer(number) => number.to_string(),
            TomlData::Unknown => continue,
            _ => entry.value.kind_name().to_string(),
        };
        let value = value.trim();
        let empty = ["", "false", "none"];
        if empty.iter().any(|e| value.eq_ignore_ascii_case(e))
            || known.harmless.iter().any(|h| h == value)
        {
            continue;
        }
        all.push(IgnoredVariable {
            name: &entry.key,
            line: entry.key_place.line_column().0,
            value: value.to_owned(),
            known,
        });
    }
    if all.is_empty() {
        return None;
    }
    let fact = format!(
        "winimg ignores {} of {} that would change the image or its machine",
        count(all.len(), "variable"),
        path.display(),
    );
    let warning = Diagnostic::warning(fact).help(render_table(&all));
    Some(match render_toml(&all) {
        Some(toml) => warning.help(toml),
        None => warning,
    })
}

/// Renders a table with the line, the name and the replacement of each variable.
fn render_table(all: &[IgnoredVariable<'_>]) -> String {
    let name = all.iter().map(|one| one.name.len()).max();
    let name = name.unwrap_or(0).max("variable".len());
    let line = all.iter().map(|one| one.line.to_string().len()).max();
    let line = line.unwrap_or(0).max("line".len());
    let mut text = format!("{:<line$}  {:<name$}  instead", "line", "variable");
    for one in all {
        let instead = &one.known.instead;
        text += &format!("\n{:<line$}  {:<name$}  {instead}", one.line, one.name);
    }
    text
}

/// Renders TOML for the recipe, for those variables that have a direct equivalent.
fn render_toml(all: &[IgnoredVariable<'_>]) -> Option<String> {
    let packs: BTreeSet<&str> = all.iter().filter_map(|one| one.known.pack()).collect();
    let machine: Vec<String> = all
        .iter()
        .filter_map(IgnoredVariable::render_machine_line)
        .collect();
    let mut text = Vec::new();
    if !packs.is_empty() {
        let packs: Vec<String> = packs.iter().map(|pack| format!("\"{pack}\"")).collect();
        text.push(format!("include = [{}]", packs.join(", ")));
    }
    if !machine.is_empty() {
        text.push(format!("[machine]\n{}", machine.join("\n")));
    }
    let what = "add to the recipe:";
    (!text.is_empty()).then(|| format!("{what}\n{}", text.join("\n")))
}

impl KnownVariable {
    /// Returns the pack that declares the variable under the same name.
    fn pack(&self) -> Option<&str> {
        self.instead
            .strip_prefix("include ")
            .filter(|pack| !pack.contains([',', ' ']))
    }
}

impl IgnoredVariable<'_> {
    /// Renders its line under `[machine]`.
    fn render_machine_line(&self) -> Option<String> {
        let number: Option<u64> = self.value.parse().ok();
        match self.name {
            "cpu" => number.map(|n| format!("cpus = {n}")),
            // Packer counts both in MiB.
            "memory" => number.map(|n| format!("memory = \"{n} MiB\"")),
            "disk_size" => number.map(|n| format!("disk_size = \"{n} MiB\"")),
            "vtpm" if self.value == "true" => Some("tpm = true".into()),
            "firmware" if self.value.starts_with("efi") => Some("firmware = \"uefi\"".into()),
            "firmware" if self.value == "bios" => Some("firmware = \"bios\"".into()),
            _ => None,
        }
    }
}

/// Translates the text to a template of winimg. The error is the unsupported function of Packer.
fn translate(
    text: &str,
    texts: &BTreeMap<String, String>,
    declared: &impl Fn(&str) -> bool,
    depth: usize,
) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(open) = rest.find("{{") {
        let end = rest[open..].find("}}").map(|n| open + n + 2);
        let function = &rest[open..end.unwrap_or(rest.len())];
        let user = function
            .trim_start_matches("{{")
            .trim_end_matches("}}")
            .trim()
            .strip_prefix("user ")
            .map(|name| name.trim().trim_matches(['`', '"']));
        out.push_str(&rest[..open]);
        match user {
            Some(name) if declared(name) => out.push_str(&format!("{{{{{name}}}}}")),
            Some(name) if depth < DEPTH && texts.contains_key(name) => {
                out.push_str(&translate(&texts[name], texts, declared, depth + 1)?);
            }
            _ => return Err(function.to_string()),
        }
        rest = &rest[end.unwrap_or(rest.len())..];
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_packs_that_are_named_declare_the_variable() {
        let names: BTreeMap<String, KnownVariable> = toml::from_str(NAMES).expect("TOML");
        let packs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes");
        let mut checked = 0;
        for (name, passed) in &names {
            let Some((_, rest)) = passed.instead.split_once("include packs/") else {
                continue;
            };
            let pack = rest.split_once(".toml").expect("a pack").0;
            let file = packs.join("packs").join(format!("{pack}.toml"));
            let text = fs::read_to_string(file).expect("a pack");
            let table: toml::Table = text.parse().expect("TOML");
            let vars = table.get("vars").and_then(|vars| vars.as_table());
            let vars = vars.expect("variables");
            let is_alias = vars.values().any(|value| {
                let aliases = value.get("alias").and_then(|alias| alias.as_array());
                aliases.is_some_and(|all| all.iter().any(|one| one.as_str() == Some(name)))
            });
            let is_declared = vars.contains_key(name) || is_alias;
            assert!(is_declared, "packs/{pack}.toml has no `{name}`");
            checked += 1;
        }
        assert!(checked > 20, "{checked} of {}", names.len());
    }
}
