//! The crates as `cargo package` makes them. `make packaged` installs winimg from them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use regex::Regex;
use support::tree::root;

use super::{printed, text, version};

/// The crates of the tool.
fn names() -> Vec<String> {
    let mut names = vec!["winimg".to_owned()];
    for entry in fs::read_dir(root().join("crates")).expect("crates") {
        let name = entry.expect("a crate").file_name();
        names.push(format!("winimg-{}", name.to_str().expect("UTF-8")));
    }
    names
}

/// The files of each crate's package, without its top folder.
fn packages() -> BTreeMap<String, BTreeMap<PathBuf, Vec<u8>>> {
    let folder = tempfile::tempdir().expect("a folder");
    let names = names();
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root()).args([
        "package",
        "--locked",
        "--offline",
        "--no-verify",
        "--allow-dirty",
    ]);
    command.args(["--target-dir", text(folder.path())]);
    command.args(names.iter().map(|name| format!("--package={name}")));
    printed(&command.output().expect("cargo"));
    let read = |name: &String| {
        let top = format!("{name}-{}", version());
        let file =
            fs::File::open(folder.path().join(format!("package/{top}.crate"))).expect("a package");
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
        let mut files = BTreeMap::new();
        for entry in archive.entries().expect("a tar file") {
            let mut entry = entry.expect("an entry");
            let path = entry.path().expect("a path");
            let path = path.strip_prefix(&top).expect("below the top").to_owned();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).expect("its bytes");
            files.insert(path, bytes);
        }
        (name.clone(), files)
    };
    names.iter().map(read).collect()
}

/// `src/a/../../b` as `b`; `None` where it leads out of the package.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => plain.pop().then_some(())?,
            Component::Normal(name) => plain.push(name),
            _ => return None,
        }
    }
    Some(plain)
}

#[test]
fn each_package_is_whole_and_has_its_licence() {
    let licence = fs::read(root().join("LICENSE")).expect("the licence");
    let include = Regex::new(r#"include_(?:str|bytes)!\(\s*"([^"]+)"\s*\)"#).expect("a pattern");
    let mut included = 0;
    for (name, files) in packages() {
        let of = |path: &str| {
            files
                .get(Path::new(path))
                .unwrap_or_else(|| panic!("{name} has no {path}"))
        };
        assert!(*of("LICENSE") == licence, "{name}");
        assert!(
            of("README.md").starts_with(format!("# {name}\n").as_bytes()),
            "{name}"
        );
        let manifest: toml::Table =
            toml::from_str(std::str::from_utf8(of("Cargo.toml")).expect("UTF-8")).expect("TOML");
        for key in ["description", "license", "rust-version", "readme"] {
            assert!(manifest["package"].get(key).is_some(), "{name}: {key}");
        }
        for (path, bytes) in files
            .iter()
            .filter(|(path, _)| path.extension().is_some_and(|e| e == "rs"))
        {
            let text = String::from_utf8_lossy(bytes);
            // What the tests inside of a file read is not compiled into the program.
            let text = text.split("#[cfg(test)]\nmod ").next().expect("a part");
            for found in include.captures_iter(text) {
                included += 1;
                let target = plain(&path.parent().expect("a folder").join(&found[1]));
                let there = target.is_some_and(|target| files.contains_key(&target));
                assert!(
                    there,
                    "{name}: {} includes {}, which is not packaged",
                    path.display(),
                    &found[1]
                );
            }
        }
    }
    assert!(included > 30, "{included}");
}

#[test]
fn the_recipes_in_the_package_are_those_of_the_tree() {
    let packages = packages();
    let packaged = packages["winimg"]
        .keys()
        .filter(|path| path.starts_with("recipes"));
    let packaged: BTreeSet<String> = packaged.map(|path| text(path).to_owned()).collect();
    let tracked = Command::new("git")
        .args(["ls-files", "recipes"])
        .current_dir(root())
        .output();
    let tracked = printed(&tracked.expect("git"));
    assert_eq!(packaged, tracked.lines().map(str::to_owned).collect());
}
