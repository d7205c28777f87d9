//! docs/dependencies.md says of every direct dependency what it saves.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn every_dependency_has_its_sentence() {
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let listed = manifest["workspace"]["dependencies"].as_table().unwrap();
    let named: BTreeSet<&str> = listed
        .iter()
        .filter(|(_, how)| how.get("path").is_none())
        .map(|(name, _)| name.as_str())
        .collect();
    let text = read("docs/dependencies.md");
    let rows = text.lines().filter_map(|line| {
        let (name, saves) = line.strip_prefix("| `")?.split_once("` | ")?;
        Some((name, saves.trim_end_matches(" |")))
    });
    let mut explained = BTreeSet::new();
    for (name, saves) in rows {
        assert!(saves.split_whitespace().count() > 2, "{name}: {saves}");
        assert!(explained.insert(name), "{name} has two lines");
    }
    assert_eq!(
        explained, named,
        "left: docs/dependencies.md, right: Cargo.toml"
    );
}

/// The product's crates take every dependency from the list that the documents explain.
#[test]
fn no_crate_of_the_product_names_a_version_of_its_own() {
    let folders = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("crates")).unwrap();
    let crates = folders.map(|entry| format!("crates/{}/", entry.unwrap().file_name().display()));
    for folder in crates.chain([String::new()]) {
        let manifest: toml::Table = read(&format!("{folder}Cargo.toml")).parse().unwrap();
        let for_systems = manifest.get("target").and_then(toml::Value::as_table);
        let tables = [&manifest].into_iter().chain(
            for_systems
                .into_iter()
                .flat_map(|all| all.values().filter_map(toml::Value::as_table)),
        );
        for table in tables {
            for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
                let Some(named) = table.get(kind).and_then(toml::Value::as_table) else {
                    continue;
                };
                for (name, how) in named {
                    let inherited = how.get("workspace").and_then(toml::Value::as_bool);
                    assert_eq!(inherited, Some(true), "{folder}Cargo.toml: {name}");
                }
            }
        }
    }
}
