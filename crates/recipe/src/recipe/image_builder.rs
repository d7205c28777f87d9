//! image-builder's var files, read as they are (kubernetes-sigs/image-builder: images/capi/packer/config/*.json).
//!
//! They hold variables of every image that image-builder makes: what a recipe does not declare is
//! passed over and listed; those with a value that makes another image stand in a table with what to
//! write instead (`image_builder.toml`). What is null is not said. Of Packer's functions only ``{{user `x`}}`` is understood; the others are computed by Packer alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

use super::value::{Data, Entry, Table, Value};
use super::words;
use winimg_base::diag::Diagnostic;
use winimg_base::text::count;

/// What else image-builder's variables for Windows put into an image.
const NAMES: &str = include_str!("image_builder.toml");

/// A variable of image-builder that most recipes do not declare.
#[derive(Deserialize)]
struct Passed {
    /// What to write for winimg.
    instead: String,
    /// Values that make no other image, besides an empty one, `false` and `none`.
    #[serde(default)]
    harmless: Vec<String>,
}

fn names() -> BTreeMap<String, Passed> {
    toml::from_str(NAMES).unwrap_or_default()
}

/// How many variables may name one another in a chain.
const DEPTH: usize = 16;

/// The entries that set a declared variable, ``{{user `x`}}`` written as winimg's `{{x}}`, and what there is to say
/// about the others.
pub fn entries(
    path: &Path,
    table: Table,
    declared: impl Fn(&str) -> bool,
) -> (Vec<Entry>, Vec<Diagnostic>) {
    let texts: BTreeMap<String, String> = table
        .entries
        .iter()
        .filter(|e| !words::is_secret(&e.key))
        .filter_map(|e| Some((e.key.clone(), e.value.as_str()?.to_string())))
        .collect();
    let mut taken = Vec::new();
    let mut remarks = Vec::new();
    let mut passed = Vec::new();
    for entry in table.entries {
        // Packer writes comments as values of a key without a meaning.
        if !declared(&entry.key) {
            passed.push(entry);
            continue;
        }
        if let Data::Unknown = &entry.value.data {
            continue;
        }
        let Data::String(text) = &entry.value.data else {
            taken.push(entry);
            continue;
        };
        match translate(text, &texts, &declared, 0) {
            Ok(text) if is_unchecked(&entry.key, &text) => remarks.push(unchecked(&entry)),
            Ok(text) => taken.push(Entry {
                value: Value::new(Data::String(text), entry.value.place.clone()),
                ..entry
            }),
            Err(function) => remarks.push(
                Diagnostic::warning(format!(
                    "`{}` keeps the recipe's value: Packer computes this one",
                    entry.key
                ))
                .at(&entry.key_place, format!("`{function}`"))
                .help(format!("say what it should be: --var {}=…", entry.key)),
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
            .help(format!("passed over: {}", listed.join(", "))),
        );
    }
    remarks.extend(missed(path, &passed, &texts));
    (taken, remarks)
}

/// Whether Packer would check nothing: winimg then keeps what the recipe says.
fn is_unchecked(key: &str, text: &str) -> bool {
    key.ends_with("checksum") && text.trim().eq_ignore_ascii_case("none")
}

fn unchecked(entry: &Entry) -> Diagnostic {
    let key = &entry.key;
    let fact = format!("`{key}` is \"none\", and the recipe's own digest is kept");
    let help = format!(
        "Packer checks nothing then; for another file than the recipe's give its digest (`--var {key}=…`; sha256sum FILE), or \
         `unverified = \"why\"` in its table"
    );
    let warning = Diagnostic::warning(fact).at(&entry.value.place, "");
    warning.help(help)
}

/// A variable that was passed over and would have changed the image.
struct Missed<'a> {
    name: &'a str,
    line: usize,
    value: String,
    known: &'a Passed,
}

/// The warning about those that were passed over and would have changed the image: a table, and what
/// can be pasted into the recipe.
fn missed(path: &Path, passed: &[Entry], texts: &BTreeMap<String, String>) -> Option<Diagnostic> {
    let names = names();
    let mut all = Vec::new();
    for entry in passed {
        let Some(known) = names.get(&entry.key) else {
            continue;
        };
        let value = match &entry.value.data {
            Data::String(text) => {
                translate(text, texts, &|_| false, 0).unwrap_or_else(|function| function)
            }
            Data::Bool(flag) => flag.to_string(),
            Data::Integer(number) => number.to_string(),
            Data::Unknown => continue,
            _ => entry.value.kind().to_string(),
        };
        let value = value.trim();
        let empty = ["", "false", "none"];
        if empty.iter().any(|e| value.eq_ignore_ascii_case(e))
            || known.harmless.iter().any(|h| h == value)
        {
            continue;
        }
        all.push(Missed {
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
        "{} of {} would change the image or its machine, and {} passed over",
        count(all.len(), "variable"),
        path.display(),
        if all.len() == 1 { "is" } else { "are" }
    );
    let warning = Diagnostic::warning(fact).help(table(&all));
    Some(match paste(&all) {
        Some(toml) => warning.help(toml),
        None => warning,
    })
}

/// A line for each: where it is, its name, and what to write for it.
fn table(all: &[Missed<'_>]) -> String {
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

/// TOML for the recipe, as far as a variable says by itself what to write.
fn paste(all: &[Missed<'_>]) -> Option<String> {
    let packs: BTreeSet<&str> = all.iter().filter_map(|one| one.known.pack()).collect();
    let machine: Vec<String> = all.iter().filter_map(Missed::machine).collect();
    let mut text = Vec::new();
    if !packs.is_empty() {
        let packs: Vec<String> = packs.iter().map(|pack| format!("\"{pack}\"")).collect();
        text.push(format!("include = [{}]", packs.join(", ")));
    }
    if !machine.is_empty() {
        text.push(format!("[machine]\n{}", machine.join("\n")));
    }
    let what = "for the recipe, joined with what it has:";
    (!text.is_empty()).then(|| format!("{what}\n{}", text.join("\n")))
}

impl Passed {
    /// The pack that takes the variable as it is.
    fn pack(&self) -> Option<&str> {
        self.instead
            .strip_prefix("include ")
            .filter(|pack| !pack.contains([',', ' ']))
    }
}

impl Missed<'_> {
    /// Its line under `[machine]`.
    fn machine(&self) -> Option<String> {
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

/// The text as winimg's own template. The error is the function that only Packer computes.
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
        let names: BTreeMap<String, Passed> = toml::from_str(NAMES).expect("TOML");
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
