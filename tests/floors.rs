//! Reads the imports of `src/` and fails on one that points up: `docs/architecture.md`, "Floors".

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const FLOORS: &[(&str, &[&str])] = &[
    (
        "words",
        &[
            "argv", "text", "digest", "diag", "error", "event", "filename", "markup",
        ],
    ),
    (
        "bytes",
        &[
            "io", "disk", "hive", "iso", "udf", "wim", "trust", "archive", "store",
        ],
    ),
    ("meaning", &["recipe", "lock", "bundle", "plan"]),
    ("world", &["fetch", "answer", "guest", "vm"]),
    ("stages", &["verify", "export", "build", "record"]),
    ("face", &["report", "cli", "cmd", "main", "lib"]),
];

/// The floor that each module stands on, counted from the lowest.
fn rank() -> BTreeMap<&'static str, usize> {
    let floors = FLOORS.iter().enumerate();
    floors
        .flat_map(|(floor, (_, modules))| modules.iter().map(move |m| (*m, floor)))
        .collect()
}

fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// Module names after `crate::`, also inside braces: `use crate::{error::Error, text::Place};`
fn imports(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in text.match_indices("crate::") {
        if text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &text[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 1;
            let mut word = String::new();
            let mut start = true;
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    ',' if depth == 1 => start = true,
                    _ => {}
                }
                if start && (c.is_alphanumeric() || c == '_') {
                    word.push(c);
                } else if !word.is_empty() {
                    names.push(std::mem::take(&mut word));
                    start = false;
                }
                if depth == 0 {
                    break;
                }
            }
        } else {
            names.push(
                rest.chars()
                    .take_while(|c| c.is_alphanumeric() || *c == '_')
                    .collect(),
            );
        }
    }
    names
}

/// Tests inside a module may reach anywhere.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or(text)
}

#[test]
fn no_import_points_up() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let ranks = rank();
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    assert!(
        files.len() > 20,
        "found only {} files under src/",
        files.len()
    );
    let mut upward = Vec::new();
    for file in files {
        let inside = file.strip_prefix(&src).unwrap();
        let module = inside
            .components()
            .next()
            .unwrap()
            .as_os_str()
            .to_str()
            .unwrap();
        let module = module.trim_end_matches(".rs");
        let Some(own) = ranks.get(module) else {
            upward.push(format!(
                "{}: the module {module} stands on no floor",
                inside.display()
            ));
            continue;
        };
        let text = fs::read_to_string(&file).unwrap();
        for name in imports(without_tests(&text)) {
            let Some(other) = ranks.get(name.as_str()) else {
                continue;
            };
            if other > own {
                upward.push(format!("{}: {module} imports {name}", inside.display()));
            }
        }
    }
    assert!(
        upward.is_empty(),
        "imports that point up:\n{}",
        upward.join("\n")
    );
}

/// Every module of `src/` is in the table, on its floor, and no other.
#[test]
fn the_architecture_names_every_module_on_its_floor() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("docs/architecture.md")).unwrap();
    for (floor, modules) in FLOORS {
        let row = text
            .lines()
            .find(|l| l.starts_with(&format!("| {floor} |")))
            .unwrap_or_else(|| panic!("no row for the floor {floor}"));
        let told: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        let there = |module: &&&str| {
            let src = root.join("src");
            src.join(module).is_dir() || src.join(format!("{module}.rs")).is_file()
        };
        // `lib` is the table itself.
        let there = modules.iter().filter(there).filter(|m| **m != "lib");
        let mut there: Vec<&str> = there.copied().collect();
        let mut sorted = told.clone();
        there.sort_unstable();
        sorted.sort_unstable();
        assert_eq!(sorted, there, "the floor {floor}");
    }
}

#[test]
fn the_reader_of_imports_sees_groups_and_paths() {
    let text = "use crate::{error::{Error, Result}, text::Place};\nfn f() { crate::vm::start() }";
    assert_eq!(imports(text), ["error", "text", "vm"]);
}
