//! The tables of docs/recipe.md, docs/host.md, docs/matrix.md and docs/pipelines.md, made of the
//! rows that the reader reads by (`src/recipe/keys.toml` and the files of verbs).

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use support::{golden, tree};

use serde_json::Value;
use winimg_recipe::keys::{self, KeyKind, KeySpec, TableSpec};

#[test]
fn the_tables_of_the_references_are_made_of_the_rows() {
    made_of_the_rows("docs/recipe.md", 9);
    made_of_the_rows("docs/host.md", 4);
    made_of_the_rows("docs/matrix.md", 3);
    made_of_the_rows("docs/pipelines.md", 4);
}

fn made_of_the_rows(path: &str, least: usize) {
    let was = fs::read_to_string(tree::root().join(path)).expect("the reference");
    let mut text = String::new();
    let mut rest = was.as_str();
    let mut tables = 0;
    while let Some((before, after)) = rest.split_once("<!-- keys of ") {
        let (name, after) = after.split_once(" -->\n").expect("the marker's end");
        let (_, after) = after.split_once("<!-- end -->").expect("an end");
        write!(
            text,
            "{before}<!-- keys of {name} -->\n{}<!-- end -->",
            rows_of(name)
        )
        .expect("text");
        rest = after;
        tables += 1;
    }
    assert!(tables >= least, "the markers are gone");
    golden::whole(path, &(text + rest));
}

/// The table for people that goes between the markers of this name.
fn rows_of(name: &str) -> String {
    let tables_of = |kind: &'static KeyKind| match kind {
        KeyKind::Table(name) => Some(keys::find_table(name)),
        KeyKind::Either(kinds) => kinds.iter().find_map(|kind| match kind {
            KeyKind::Table(name) => Some(keys::find_table(name)),
            _ => None,
        }),
        _ => None,
    };
    let group = |key: &'static KeySpec| (key.name.clone(), key.doc.clone(), tables_of(&key.takes));
    let (head, groups): (&str, Vec<_>) = match name {
        "verbs" => {
            let verbs = keys::find_table("step")
                .keys
                .iter()
                .filter(|key| key.one_of);
            ("verb", verbs.map(group).collect())
        }
        // What a step has too stands with the verbs.
        "claims" => {
            let claims = keys::find_table("clone")
                .keys
                .iter()
                .filter(|key| key.one_of);
            let claims = claims.map(|key| {
                let own = tables_of(&key.takes).filter(|spec| spec.name.starts_with("clone."));
                (key.name.clone(), key.doc.clone(), own)
            });
            ("claim", claims.collect())
        }
        "outputs" => (
            "format",
            keys::find_table(name).keys.iter().map(group).collect(),
        ),
        "signatures" => {
            let kinds = keys::find_table("signature").find("kind").expect("a row");
            let kinds = kinds.takes.words().iter().map(|kind| {
                let spec = match kind.as_str() {
                    "openpgp" => keys::find_table("checksum_signature.openpgp"),
                    _ => keys::find_table(&format!("signature.{kind}")),
                };
                (kind.clone(), spec.doc.clone(), Some(spec))
            });
            ("kind", kinds.collect())
        }
        _ => return plain_rows(keys::find_table(name)),
    };
    let mut text = format!("| {head} | key | | default |\n|---|---|---|---|\n");
    for (name, doc, spec) in groups {
        writeln!(text, "| `{name}` | | {doc} | |").expect("text");
        for key in spec.iter().flat_map(|spec| &spec.keys) {
            if head != "kind" || key.name != "kind" {
                writeln!(text, "| | `{}` {}", key.name, cells(key)).expect("text");
            }
            if let KeyKind::Table(inner) = &key.takes
                && inner != "exit_codes"
            {
                for row in &keys::find_table(inner).keys {
                    writeln!(text, "| | `{}`: `{}` {}", key.name, row.name, cells(row))
                        .expect("text");
                }
            }
        }
    }
    text
}

/// A table of one kind, without what stands elsewhere: the keys of a table that it shares, verbs,
/// tables with headers.
fn plain_rows(spec: &TableSpec) -> String {
    let shared = spec.with.as_ref().map(|with| keys::find_table(with));
    let own = spec.keys.iter().filter(|key| {
        let is_shared = shared.is_some_and(|shared| shared.find(&key.name).is_some());
        let is_verb = ["step", "clone"].contains(&&*spec.name) && key.one_of;
        let has_section = ["recipe", "host"].contains(&&*spec.name) && key.takes.has_header();
        !is_shared && !is_verb && !has_section
    });
    let mut text = "| key | | default |\n|---|---|---|\n".to_owned();
    for key in own {
        writeln!(text, "| `{}` {}", key.name, cells(key)).expect("text");
    }
    text
}

/// What it takes, and what is meant where it is left out.
fn cells(key: &KeySpec) -> String {
    let words: Vec<String> = key.takes.words().iter().map(|w| format!("`{w}`")).collect();
    let takes = match &key.takes {
        KeyKind::Integer(least, most) if least == most => format!(": `{least}`"),
        KeyKind::Integer(least, most) => format!(": {least} to {most}"),
        _ if !words.is_empty() => format!(": {}", words.join(", ")),
        _ => String::new(),
    };
    let default = match (&key.default, &key.unless_given, &key.needed) {
        (Some(default), ..) => format!("`{default}`"),
        (_, Some(meant), _) => meant.clone(),
        (_, _, Some(_)) => "needed".to_owned(),
        _ => String::new(),
    };
    format!("| {}{takes} | {default} |", key.doc)
}

#[test]
fn the_reference_names_every_key() {
    let path = tree::root().join("docs/recipe.md");
    let reference = fs::read_to_string(path).expect("docs/recipe.md");
    let mut names = BTreeSet::new();
    let schema = tree::root().join("schemas/recipe-1.json");
    let schema = fs::read_to_string(schema).expect("the schema");
    collect(&serde_json::from_str(&schema).expect("JSON"), &mut names);
    assert!(names.len() > 60, "{names:?}");
    let written = |n: &&String| {
        [
            "`{n}`", "`{n} =", " {n} =", "[{n}]", ".{n}]", "{n} = [", "[{n}.",
        ]
        .iter()
        .any(|shape| reference.contains(&shape.replace("{n}", n)))
    };
    let missing: Vec<&String> = names.iter().filter(|n| !written(n)).collect();
    assert_eq!(missing, Vec::<&String>::new());
}

fn collect(schema: &Value, names: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            for (key, value) in map {
                match value.as_object() {
                    Some(properties) if key == "properties" => {
                        names.extend(properties.keys().cloned());
                        properties.values().for_each(|v| collect(v, names));
                    }
                    _ => collect(value, names),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|v| collect(v, names)),
        _ => {}
    }
}
