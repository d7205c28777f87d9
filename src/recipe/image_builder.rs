//! image-builder's var files, read as they are (kubernetes-sigs/image-builder: images/capi/packer/config/*.json).
//!
//! They hold variables of every image that image-builder makes: what a recipe does not declare is passed over, and
//! said once. Of Packer's functions only ``{{user `x`}}`` is understood; the others are computed by Packer alone.

use std::collections::BTreeMap;
use std::path::Path;

use super::value::{Data, Entry, Table, Value};
use super::words;
use crate::diag::Diagnostic;

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
            passed.push(entry.key);
            continue;
        }
        let Data::String(text) = &entry.value.data else {
            taken.push(entry);
            continue;
        };
        match translate(text, &texts, &declared, 0) {
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
    if !passed.is_empty() {
        let count = passed.len();
        let (what, are) = match count {
            1 => ("variable", "is"),
            _ => ("variables", "are"),
        };
        remarks.push(
            Diagnostic::warning(format!(
                "{count} {what} of {} {are} not of this recipe",
                path.display()
            ))
            .help(format!("passed over: {}", passed.join(", "))),
        );
    }
    (taken, remarks)
}

/// The text as winimg's own template; the function that cannot be told as an error.
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
