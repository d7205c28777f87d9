//! The source tree, the programs that are built from it, and folders for tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// The top of the source tree.
pub fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("tests/support is two below")
}

/// The files with one of these endings, in whatever case, in a folder of the source tree (`""`: all of it) and below, from the top of the tree, sorted. What is built
/// there and what npm installs is passed over.
pub fn files(folder: &str, endings: &[&str]) -> Vec<String> {
    let built = ["target", "out", ".git"].map(|name| root().join(name));
    let mut found = Vec::new();
    let mut todo = vec![root().join(folder)];
    while let Some(at) = todo.pop() {
        for entry in std::fs::read_dir(&at).expect("a folder").flatten() {
            let path = entry.path();
            let ending = path.extension().and_then(|ending| ending.to_str());
            if path.is_dir() {
                if built.contains(&path) || path.ends_with("node_modules") {
                } else {
                    todo.push(path)
                }
            } else if ending.is_some_and(|e| endings.contains(&e.to_ascii_lowercase().as_str())) {
                let inside = path.strip_prefix(root()).expect("below the root");
                found.push(inside.to_str().expect("UTF-8").to_owned());
            }
        }
    }
    found.sort();
    found
}

/// The Makefile with what it includes.
pub fn makefile() -> String {
    ["Makefile", "nightly.mk"]
        .map(|name| std::fs::read_to_string(root().join(name)).expect("a makefile"))
        .concat()
}

/// The winimg under test: this tree's, unless `WINIMG_UNDER_TEST` names another.
pub fn winimg() -> PathBuf {
    match std::env::var_os("WINIMG_UNDER_TEST") {
        Some(path) => path.into(),
        None => program("winimg"),
    }
}

/// A program of the workspace, which cargo puts beside the folder of the running test.
pub fn program(name: &str) -> PathBuf {
    let path = built().join(name);
    assert!(
        path.exists(),
        "cargo build --workspace makes {}",
        path.display()
    );
    path
}

/// `target/debug`
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("this test's path");
    let built = test.ancestors().nth(2).expect("target/debug/deps/TEST");
    built.to_owned()
}

/// An empty folder for one test in `target/tmp`, removed with it: on a disk, which `/tmp` need not be.
pub fn folder() -> TempDir {
    let folder = temporary();
    std::fs::create_dir_all(&folder).expect("target/tmp");
    tempfile::tempdir_in(folder).expect("a folder")
}

/// A command in this folder, which is its home and has its cache. Of the caller's environment it
/// has PATH alone.
pub fn alone<'c>(command: &'c mut Command, folder: &Path) -> &'c mut Command {
    command
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder)
        .env("WINIMG_CACHE_DIR", folder.join("cache"))
        .stdin(Stdio::null())
}

/// A folder in `target/tmp` for what takes long to make: it is kept from run to run, and not made here.
pub fn kept_folder(name: &str) -> PathBuf {
    temporary().join(name)
}

/// Cargo's own folder for tests.
fn temporary() -> PathBuf {
    built().with_file_name("tmp")
}

/// This test program once more, for one ignored test that plays another process. `module` is the caller's `module_path!()`.
pub fn this_program_as(module: &str, test: &str) -> Command {
    let (_, module) = module.split_once("::").expect("a module of the program");
    let mut command = Command::new(std::env::current_exe().expect("this test's path"));
    command.arg(format!("{module}::{test}")).args([
        "--exact",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    command
}

/// The text of a snapshot in the source tree, without the head that insta gives it.
pub fn snapshot(path: &str) -> String {
    let path = root().join(path);
    let file = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let text = file.splitn(3, "---\n").nth(2);
    text.unwrap_or_else(|| panic!("{}: no head of a snapshot", path.display()))
        .to_owned()
}

/// A folder with these files, by their paths in it; the first file's own path.
pub fn with_files(files: &[(&str, &str)]) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
    let first = dir.path().join(files[0].0);
    (dir, first)
}
