//! What `docs/parity.md` cites exists: files below `recipes/`, and in each pack the steps that are named after it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

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
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
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
