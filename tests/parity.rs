//! What `docs/parity.md` cites exists: files below `recipes/`, and in each pack the steps that are named after it. And it is in
//! a recipe that winimg ships, or its row says that it is opt-in.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use support::tree;

/// What a table's last column names, in its order.
#[derive(Debug, PartialEq)]
enum Cited {
    File(String),
    Step(String),
}

/// Backticks hold a file when it has a name of one; double quotes hold a step.
fn cited(cell: &str) -> Vec<Cited> {
    let mut found = Vec::new();
    let mut rest = cell;
    while let Some(at) = rest.find(['`', '"']) {
        let mark = &rest[at..at + 1];
        let Some((inner, after)) = rest[at + 1..].split_once(mark) else {
            panic!("an open {mark} in: {cell}");
        };
        let kinds = [".toml", ".ps1", ".xml", ".yaml", ".md", ".cmd"];
        match mark {
            "\"" => found.push(Cited::Step(inner.to_owned())),
            _ if kinds.iter().any(|k| inner.ends_with(k)) => {
                found.push(Cited::File(inner.to_owned()));
            }
            _ => {}
        }
        rest = after;
    }
    found
}

fn steps(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).expect("a recipe");
    let table: toml::Table = text.parse().expect("TOML");
    let steps = table.get("steps").and_then(|s| s.as_array());
    steps
        .into_iter()
        .flatten()
        .filter_map(|s| Some(s.get("name")?.as_str()?.to_owned()))
        .collect()
}

/// The demo is made for a stand-in, and the starter is a text of `winimg init`: neither is a node that somebody runs.
const NO_NODES: [&str; 2] = ["demo.toml", "starter.toml"];

/// What the shipped recipes include, and the files that those name, as paths below `recipes/`.
fn reached(recipes: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(recipes).expect("recipes") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy();
        if path.extension().is_some_and(|e| e == "toml") && !NO_NODES.contains(&&*name) {
            reach(recipes, &path, &mut found);
        }
    }
    found
}

fn reach(recipes: &Path, file: &Path, found: &mut BTreeSet<String>) {
    let below = file.strip_prefix(recipes).expect("a file below recipes/");
    if !found.insert(below.display().to_string()) {
        return;
    }
    let text = fs::read_to_string(file).expect("a recipe");
    let table: toml::Table = text.parse().expect("TOML");
    let folder = file.parent().expect("a folder");
    let mut strings = Vec::new();
    strings_of(&toml::Value::Table(table), &mut strings);
    for string in strings {
        let other: PathBuf = folder.join(&string);
        match other.extension() {
            Some(kind) if kind == "toml" && other.is_file() => reach(recipes, &other, found),
            Some(_) if other.is_file() => {
                let below = other.strip_prefix(recipes).expect("a file below recipes/");
                found.insert(below.display().to_string());
            }
            _ => {}
        }
    }
}

fn strings_of(value: &toml::Value, found: &mut Vec<String>) {
    match value {
        toml::Value::String(text) => found.push(text.clone()),
        toml::Value::Array(items) => items.iter().for_each(|item| strings_of(item, found)),
        toml::Value::Table(table) => table.values().for_each(|item| strings_of(item, found)),
        _ => {}
    }
}

/// Recipes are named by the user; what lies beside them goes into the cluster, not into the image.
fn is_pack(file: &str) -> bool {
    file.starts_with("packs/")
}

#[test]
fn a_cited_pack_is_in_a_shipped_recipe_or_its_row_says_opt_in() {
    let root = tree::root();
    let text = fs::read_to_string(root.join("docs/parity.md")).expect("docs/parity.md");
    let reached = reached(&root.join("recipes"));
    let mut wrong = Vec::new();
    let (mut cited_packs, mut opt_in) = (BTreeSet::new(), 0);
    for (number, line) in text.lines().enumerate() {
        let Some(row) = line.strip_prefix('|').and_then(|l| l.strip_suffix('|')) else {
            continue;
        };
        let cell = row.rsplit('|').next().unwrap_or(row);
        let says = cell.contains("opt-in");
        let mut outside = Vec::new();
        for what in cited(cell) {
            if let Cited::File(file) = what
                && is_pack(&file)
            {
                if !reached.contains(&file) {
                    outside.push(file.clone());
                }
                cited_packs.insert(file);
            }
        }
        opt_in += usize::from(says);
        let place = format!("docs/parity.md:{}", number + 1);
        if !says && let Some(file) = outside.first() {
            wrong.push(format!("{place}: {file} is in no shipped recipe"));
        }
        if says && outside.is_empty() {
            wrong.push(format!("{place}: opt-in, but every pack is in a recipe"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let counts = (cited_packs.len(), opt_in);
    assert!(counts.0 > 30 && counts.1 > 5, "{counts:?}");
}

#[test]
fn the_columns_marks_are_understood() {
    let cell = r#"checked: `packs/a.toml` "one", "it's two" with `config.toml`; `C:\k`"#;
    let file = |f: &str| Cited::File(f.to_owned());
    let step = |s: &str| Cited::Step(s.to_owned());
    assert_eq!(
        cited(cell),
        [
            file("packs/a.toml"),
            step("one"),
            step("it's two"),
            file("config.toml")
        ]
    );
}

#[test]
fn every_file_and_step_in_the_parity_tables_exists() {
    let root = tree::root();
    let text = fs::read_to_string(root.join("docs/parity.md")).expect("docs/parity.md");
    let mut known: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut missing = Vec::new();
    let (mut rows, mut named) = (0, 0);
    for (number, line) in text.lines().enumerate() {
        let Some(row) = line.strip_prefix('|').and_then(|l| l.strip_suffix('|')) else {
            continue;
        };
        rows += 1;
        let cell = row.rsplit('|').next().unwrap_or(row);
        let mut last = None;
        for what in cited(cell) {
            let place = format!("docs/parity.md:{}", number + 1);
            match what {
                Cited::File(file) => {
                    let path = root.join("recipes").join(&file);
                    if !path.is_file() {
                        missing.push(format!("{place}: no file recipes/{file}"));
                    } else if file.ends_with(".toml") {
                        let of = || steps(&path);
                        known.entry(file.clone()).or_insert_with(of);
                    }
                    last = file.ends_with(".toml").then_some(file);
                }
                Cited::Step(step) => {
                    named += 1;
                    let of = last.as_ref().and_then(|f| known.get(f));
                    if !of.is_some_and(|steps| steps.contains(&step)) {
                        let file = last.as_deref().unwrap_or("no file");
                        missing.push(format!("{place}: no step \"{step}\" in {file}"));
                    }
                }
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    assert!(rows > 150 && named > 150, "{rows} rows, {named} steps");
}
