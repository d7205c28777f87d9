//! How the code is cut: no circle between modules, no long file, no module included from elsewhere, and no call of Unix outside
//! of what is marked for it. Reads every file of `src/` and `crates/`; Cargo itself keeps the order of the crates.

mod imports;
mod unix;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use support::tree;

/// A module's path below its crate: `["disk", "vhdx"]`; the crate itself is empty.
type Module = Vec<String>;

/// The folders with a crate's modules, by name.
fn crates() -> Vec<(String, PathBuf)> {
    let root = tree::root();
    let mut found = vec![("winimg".to_owned(), root.join("src"))];
    for entry in fs::read_dir(root.join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        found.push((name, folder.join("src")));
    }
    found.sort();
    assert!(found.len() > 6, "{found:?}");
    found
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.ends_with("target") {
            } else {
                found.extend(rust_files(&path))
            }
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path)
        }
    }
    found.sort();
    found
}

fn module_of(file: &Path, src: &Path) -> Module {
    let inside = file.strip_prefix(src).unwrap().with_extension("");
    let mut module: Module = inside
        .iter()
        .map(|part| part.to_str().unwrap().to_owned())
        .collect();
    let is_folder = |name: &String| ["mod", "lib", "main"].contains(&name.as_str());
    module.pop_if(|last| is_folder(last));
    module
}

/// Which sibling needs which, below each module that has several: `(parent, needs, needed)`.
fn needs(files: &BTreeMap<Module, String>) -> BTreeSet<(Module, String, String)> {
    let mut found = BTreeSet::new();
    for (module, text) in files {
        for path in imports::paths(text) {
            let target = resolve(module, &path, files);
            let both = module.iter().zip(&target);
            let shared = both.take_while(|(a, b)| a == b).count();
            if let (Some(from), Some(to)) = (module.get(shared), target.get(shared)) {
                found.insert((module[..shared].to_vec(), from.clone(), to.clone()));
            }
        }
    }
    found
}

/// The innermost module that a path goes through.
fn resolve(from: &Module, path: &[String], files: &BTreeMap<Module, String>) -> Module {
    let mut at = match path[0].as_str() {
        "crate" => Vec::new(),
        _ => from.clone(),
    };
    for name in path {
        match name.as_str() {
            "crate" | "self" => {}
            "super" => {
                at.pop();
            }
            name => {
                at.push(name.to_owned());
                if !files.contains_key(&at) {
                    at.pop();
                    break;
                }
            }
        }
    }
    at
}

/// The modules that need each other, each circle once: `vm: bugcheck, screen`.
fn circles(needs: &BTreeSet<(Module, String, String)>) -> BTreeSet<String> {
    let reach = |parent: &Module, from: &str| {
        let mut seen = BTreeSet::new();
        let mut open = vec![from.to_owned()];
        while let Some(at) = open.pop() {
            for (_, _, to) in needs.iter().filter(|(p, a, _)| p == parent && *a == at) {
                if seen.insert(to.clone()) {
                    open.push(to.clone());
                }
            }
        }
        seen
    };
    let mut found = BTreeSet::new();
    for (parent, from, _) in needs {
        let reached = reach(parent, from);
        if reached.contains(from) {
            let circle = reached.iter().filter(|b| reach(parent, b).contains(from));
            let circle: Vec<&str> = circle.map(String::as_str).collect();
            found.insert(format!("{}: {}", parent.join("::"), circle.join(", ")));
        }
    }
    found
}

#[test]
fn no_modules_need_each_other_in_a_circle() {
    let mut all = Vec::new();
    for (name, src) in crates() {
        let files = rust_files(&src).into_iter();
        let files: BTreeMap<Module, String> = files
            .filter(|file| !file.ends_with("main.rs"))
            .map(|file| (module_of(&file, &src), fs::read_to_string(&file).unwrap()))
            .filter(|(module, _)| module.last().is_none_or(|m| m != "tests"))
            .collect();
        let needs = needs(&files);
        all.extend(circles(&needs).iter().map(|c| format!("{name}: {c}")));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn a_circle_is_seen_behind_groups_tests_and_other_names() {
    let module = |path: &str| path.split("::").map(String::from).collect::<Module>();
    let files = BTreeMap::from([
        (Vec::new(), "mod a; mod b; mod c;".to_owned()),
        (module("a"), "use crate::{c::{self as other, D}};".into()),
        (
            module("b"),
            "#[cfg(test)]\nuse crate::a::E;\nfn f() {}".into(),
        ),
        (module("c"), "fn f() -> super::d::G { todo!() }".into()),
        (
            module("d"),
            "/// [`crate::b`]\nfn f() { \"crate::b\"; }".into(),
        ),
        (module("d::e"), "use super::super::a::{E, F};".into()),
    ]);
    let found = circles(&needs(&files));
    assert_eq!(found, BTreeSet::from([": a, c, d".to_owned()]));
}

/// Lines; what is longer is hard to read at one sitting.
const LONGEST: usize = 450;

#[test]
fn no_file_is_too_long() {
    let mut long = Vec::new();
    for (_, src) in crates() {
        for file in rust_files(&src) {
            let lines = fs::read_to_string(&file).unwrap().lines().count();
            if lines > LONGEST {
                let name = file.strip_prefix(tree::root()).unwrap();
                long.push(format!("{}: {lines} lines", name.display()));
            }
        }
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}

/// The public types that a line declares: `pub struct Volume`, also within a crate.
fn public_type(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(scoped) => scoped.split_once(')')?.1,
        None => rest,
    };
    let mut words = rest.split_whitespace();
    let is_type = ["struct", "enum", "trait"].contains(&words.next()?);
    let name = words.next().filter(|_| is_type)?;
    name.split(|c: char| !c.is_alphanumeric() && c != '_')
        .next()
}

#[test]
fn public_type_names_are_unique() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (_, src) in crates() {
        for file in rust_files(&src) {
            let place = file
                .strip_prefix(tree::root())
                .unwrap()
                .display()
                .to_string();
            let text = fs::read_to_string(&file).unwrap();
            for name in text.lines().filter_map(public_type) {
                places
                    .entry(name.to_owned())
                    .or_default()
                    .push(place.clone());
            }
        }
    }
    let shared: Vec<String> = places
        .iter()
        .filter(|(_, files)| files.len() > 1)
        .map(|(name, files)| format!("{name}: {}", files.join(", ")))
        .collect();
    assert!(places.len() > 500, "{}", places.len());
    assert!(shared.is_empty(), "{}", shared.join("\n"));
}

/// Every request goes the way of `fetch/client.rs`, which has the policy.
#[test]
fn one_client_makes_all_requests() {
    let clients = [
        "reqwest::Client",
        "ClientBuilder",
        "reqwest::get",
        "hyper::client",
    ];
    let mut makers = BTreeSet::new();
    for (name, src) in crates() {
        for file in rust_files(&src) {
            let text = fs::read_to_string(&file).unwrap();
            if clients.iter().any(|client| text.contains(client)) {
                let file = file.strip_prefix(&src).unwrap().display().to_string();
                makers.insert(format!("{name} {file}"));
            }
        }
    }
    // The one beside it adds the proxies.
    let known = ["supply fetch/client.rs", "supply fetch/proxy.rs"];
    assert_eq!(makers, known.map(str::to_owned).into());
}

#[test]
fn no_module_is_included_from_elsewhere() {
    let attribute = ["#[", "path"].concat();
    for folder in ["src", "crates", "tests", "fuzz", "benches", "examples"] {
        for file in rust_files(&tree::root().join(folder)) {
            let text = fs::read_to_string(&file).unwrap();
            assert!(!text.contains(&attribute), "{}", file.display());
        }
    }
}

/// Where no comment holds an example, cargo does not look for one: that costs half a minute a crate.
#[test]
fn an_example_in_a_comment_is_run() {
    let mut unrun = Vec::new();
    for (_, src) in crates() {
        let manifest = fs::read_to_string(src.with_file_name("Cargo.toml")).unwrap();
        if !manifest.contains("doctest = false") {
            continue;
        }
        for file in rust_files(&src) {
            let text = fs::read_to_string(&file).unwrap();
            let fences = text
                .lines()
                .filter_map(|line| line.trim_start().split_once("```"));
            let fences = fences.filter(|(before, _)| ["/// ", "//! "].contains(before));
            let opening = fences.step_by(2).map(|(_, language)| language);
            if opening.into_iter().any(|language| language != "text") {
                unrun.push(file.display().to_string());
            }
        }
    }
    assert!(unrun.is_empty(), "{}", unrun.join("\n"));
}

#[test]
fn each_crate_says_what_it_is_for() {
    for (name, src) in crates().into_iter().filter(|(name, _)| name != "winimg") {
        let readme = src.with_file_name("README.md");
        let text = fs::read_to_string(&readme).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(text.lines().count() >= 5, "{}", readme.display());
    }
}

/// Every crate, and every module of the tool itself.
#[test]
fn the_architecture_names_every_crate_and_module() {
    let text = fs::read_to_string(tree::root().join("docs/architecture.md")).unwrap();
    let mut missing = Vec::new();
    for (name, src) in crates() {
        let top = |file: &PathBuf| module_of(file, &src).into_iter().next();
        let modules: BTreeSet<String> = match name.as_str() {
            "winimg" => rust_files(&src).iter().filter_map(top).collect(),
            name => BTreeSet::from([format!("crates/{name}")]),
        };
        missing.extend(
            modules
                .into_iter()
                .filter(|m| !text.contains(&format!("`{m}`"))),
        );
    }
    assert!(
        missing.is_empty(),
        "not in docs/architecture.md: {missing:?}"
    );
}
