//! Reads the imports of `src/` and fails on one that points up: `docs/architecture.md`, "Floors".

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use support::tree;

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

const TEST_MARKS: [&str; 2] = ["#[cfg(test)]", "#[cfg(all(test, unix))]"];

/// The text without the items that are compiled for tests alone, which may reach anywhere. As rustfmt lays an item out:
/// to a line that ends with a semicolon before any brace opens, or to a closing brace below the item's first column.
fn without_tests(text: &str) -> String {
    let mut kept = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if !TEST_MARKS.contains(&line.trim()) {
            kept += line;
            kept.push('\n');
            continue;
        }
        let column = &line[..line.len() - line.trim_start().len()];
        let end = format!("{column}}}");
        let mut opened = false;
        for line in lines.by_ref() {
            opened |= line.ends_with('{');
            if line.trim_end_matches(',') == end || !opened && line.ends_with([';', ',', '}']) {
                break;
            }
        }
    }
    kept
}

#[test]
fn no_import_points_up() {
    let src = tree::root().join("src");
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
        for name in imports(&without_tests(&text)) {
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
    let root = tree::root();
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

#[test]
fn the_reader_of_imports_goes_on_behind_tests() {
    let text = "use crate::text;\n#[cfg(test)]\nuse crate::cmd;\n#[cfg(test)]\nmod tests;\nuse crate::io;\n\
                #[cfg(test)]\nmod more {\n    fn f() {\n        crate::cli::f('{')\n    }\n}\nfn g() { crate::vm::start() }\n\
                mod below {\n    #[cfg(test)]\n    fn f() {\n        crate::main::f()\n    }\n    use crate::disk;\n}\n";
    assert_eq!(imports(&without_tests(text)), ["text", "io", "vm", "disk"]);
}

const UNIX_MARKS: [&str; 3] = [
    "#[cfg(unix)]",
    "#[cfg(all(test, unix))]",
    "#[cfg(target_os = \"linux\")]",
];

/// The text without the items that stand below `#[cfg(unix)]` or a narrower word for it.
fn without_unix_items(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::new();
    while let Some((at, mark)) = UNIX_MARKS
        .iter()
        .filter_map(|mark| Some((rest.find(mark)?, mark)))
        .min()
    {
        kept += &rest[..at];
        rest = &rest[at + mark.len()..];
        // To the end of the item: a semicolon, or the brace that closes its first one.
        let mut depth = 0;
        let end = rest.char_indices().find(|(_, c)| {
            match c {
                '{' | '(' | '[' => depth += 1,
                '}' | ')' | ']' => depth -= 1,
                _ => {}
            }
            depth == 0 && matches!(c, ';' | '}' | ',')
        });
        rest = end.map_or("", |(at, _)| &rest[at + 1..]);
    }
    kept + rest
}

/// The modules that a file declares for Unix alone, as the paths of their files without `.rs`.
fn unix_modules(file: &Path, text: &str) -> Vec<PathBuf> {
    let is_folder = file
        .file_stem()
        .is_some_and(|s| s == "mod" || s == "lib" || s == "main");
    let below = match is_folder {
        true => file.parent().unwrap().to_path_buf(),
        false => file.with_extension(""),
    };
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines
        .windows(2)
        .filter(|pair| UNIX_MARKS.contains(&pair[0]))
        .filter_map(|pair| pair[1].trim_start_matches("pub ").strip_prefix("mod "))
        .map(|name| below.join(name.trim_end_matches(';')))
        .collect()
}

/// winimg.exe is built from the same source: `docs/windows.md`.
#[test]
fn what_only_unix_has_is_marked_so() {
    let src = tree::root().join("src");
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    let read = |file: &PathBuf| fs::read_to_string(file).unwrap();
    let unix: Vec<PathBuf> = files
        .iter()
        .flat_map(|file| unix_modules(file, &read(file)))
        .collect();
    let names: Vec<_> = unix.iter().map(|m| m.strip_prefix(&src).unwrap()).collect();
    for known in ["vm/qemu", "guest/agent", "build/console/serve"] {
        assert!(names.contains(&Path::new(known)), "{known} in {names:?}");
    }
    let mut unmarked = Vec::new();
    for file in &files {
        let own = file.with_extension("");
        if unix.iter().any(|module| own.starts_with(module)) {
            continue;
        }
        let text = without_unix_items(&read(file));
        for word in ["os::unix", "os::fd", "nix::", "libc::", "signal_hook"] {
            if text.contains(word) {
                unmarked.push(format!(
                    "{}: {word}",
                    file.strip_prefix(&src).unwrap().display()
                ));
            }
        }
    }
    assert!(unmarked.is_empty(), "{}", unmarked.join("\n"));
}

#[test]
fn the_reader_of_marks_takes_whole_items() {
    let text = "a\n#[cfg(unix)]\nfn f(x: u8) -> [u8; 2] { if x > 0 { nix::g() }; [x, 2] }\nb\n\
                #[cfg(target_os = \"linux\")]\nuse std::os::unix::fs::FileExt;\nc";
    assert_eq!(without_unix_items(text), "a\n\nb\n\nc");
}
