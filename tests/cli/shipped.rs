//! The program away from its source tree.

use std::process::Command;
use support::tree::{self, root};

use winimg_recipe::{ReadOptions, UndecidedValue};

#[test]
fn packs_are_found_where_only_the_program_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("winimg");
    // By another process: what a test beside this one starts would hold a file that we write open until its exec, and
    // Linux runs no file that is open for writing (ETXTBSY).
    let copied = Command::new("cp")
        .arg(tree::winimg())
        .arg(&program)
        .status();
    assert!(copied.expect("cp").success());
    let recipe = r#"
schema = 1
name = "node"
include = ["packs/virtio.toml", "packs/windows-server-2022.toml", "packs/containerd.toml"]

[outputs]
raw = {}
"#;
    std::fs::write(folder.path().join("recipe.toml"), recipe).expect("a recipe");
    let run = || {
        Command::new(&program)
            .args(["plan", "recipe.toml", "--var", "iso_url=ws2022.iso"])
            .arg("--var")
            .arg(format!("iso_checksum={}", "0".repeat(64)))
            .current_dir(folder.path())
            .env("WINIMG_CACHE_DIR", folder.path().join("cache"))
            .output()
            .expect("the program runs")
    };
    for _ in 0..2 {
        let output = run();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let plan = String::from_utf8_lossy(&output.stdout);
        assert!(plan.contains("containerd"), "{plan}");
    }
    // What was laid down is the source tree's, byte for byte.
    let laid: Vec<_> = std::fs::read_dir(folder.path().join("cache/recipes"))
        .expect("the folder")
        .flatten()
        .collect();
    assert_eq!(laid.len(), 1);
    let compared = Command::new("diff")
        .arg("--recursive")
        .arg(laid[0].path())
        .arg(root().join("recipes"))
        .output()
        .expect("diff runs");
    assert!(
        compared.status.success(),
        "{}",
        String::from_utf8_lossy(&compared.stdout)
    );
}

#[test]
fn init_writes_a_recipe_on_top_of_one_of_winimgs() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |arguments: &[&str]| {
        let output = Command::new(tree::winimg())
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .expect("the program runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let (status, said) = run(&["init", "capi"]);
    assert_eq!(status, Some(2));
    insta::assert_snapshot!(said);
    for recipe in std::fs::read_dir(root().join("recipes"))
        .expect("the recipes")
        .flatten()
    {
        let file = recipe.file_name().into_string().expect("a name");
        let Some(name) = file.strip_suffix(".toml") else {
            continue;
        };
        if ["demo", "starter"].contains(&name) {
            continue;
        }
        let file = format!("my-{name}.toml");
        std::fs::write(folder.path().join("windows.iso"), "").expect("a medium");
        assert_eq!(run(&["init", name]), (Some(0), String::new()), "{name}");
        // What is still to be said is no mistake, and has its line in the recipe.
        let medium = "iso_url=windows.iso";
        let (status, said) = run(&["validate", &file, "--var", medium]);
        assert_eq!(status, Some(0), "{name}: {said}");
        let path = folder.path().join(&file);
        let options = ReadOptions {
            search: vec![root().join("recipes")],
            vars: vec![("iso_url".into(), "windows.iso".into())],
            ..ReadOptions::default()
        };
        let recipe = winimg_recipe::read(&path, &options).0.expect("a recipe");
        let text = std::fs::read_to_string(&path).expect("the recipe");
        for open in &recipe.undecided {
            let variable = match open {
                UndecidedValue::Proof(missing) => missing.variable.clone().expect("a variable"),
                UndecidedValue::Variable { variable, .. } => variable.clone(),
            };
            let line = text
                .lines()
                .find(|l| l.starts_with(&format!("{} = {{ required", variable.name)));
            let line = line.unwrap_or_else(|| panic!("{name}: {}\n{text}", variable.name));
            assert!(line.contains(&variable.why), "{name}: {line}");
        }
    }
    let (status, said) = run(&["init", "capi-ova"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("never overwrites"), "{said}");
}

/// A copy of the program away from the source tree, whose recipes are its own, and a recipe that includes one of its packs.
#[cfg(unix)]
fn away() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    // By another process, as above.
    let copied = Command::new("cp")
        .arg(tree::winimg())
        .arg(folder.path().join("winimg"))
        .status();
    assert!(copied.expect("cp").success());
    let recipe = r#"
schema = 1
name = "node"
include = ["packs/node-services.toml"]
[media]
image = "datacenter-core"
[media.iso]
url = "a.iso"
unverified = "a test"
[media.virtio]
url = "b.iso"
unverified = "a test"
[outputs]
raw = {}
"#;
    std::fs::write(folder.path().join("recipe.toml"), recipe).expect("a recipe");
    folder
}

#[cfg(unix)]
fn run(folder: &std::path::Path, umask: &str, command: &str) -> std::process::Output {
    let line = format!("umask {umask}; exec ./winimg {command} recipe.toml");
    Command::new("sh")
        .args(["-c", &line])
        .current_dir(folder)
        .env("WINIMG_CACHE_DIR", folder.join("cache"))
        .env("WINIMG_CONFIG", "none")
        .output()
        .expect("the program runs")
}

#[cfg(unix)]
fn all_below(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = vec![folder.to_owned()];
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        if entry.file_type().expect("its type").is_dir() {
            found.extend(all_below(&entry.path()))
        } else {
            found.push(entry.path())
        }
    }
    found
}

#[test]
#[cfg(unix)]
fn a_pack_that_was_changed_in_the_cache_is_replaced() {
    use std::os::unix::fs::symlink;

    let folder = away();
    let plan = || {
        let output = run(folder.path(), "022", "plan");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        (String::from_utf8_lossy(&output.stdout).into_owned(), said)
    };
    let (before, warnings) = plan();
    assert!(
        !warnings.contains("in the cache were modified"),
        "{warnings}"
    );
    let all = all_below(&folder.path().join("cache/recipes"));
    let pack = all
        .iter()
        .find(|path| path.ends_with("packs/node-services.toml"));
    let pack = pack.expect("the pack").clone();
    let text = std::fs::read_to_string(&pack).expect("its text");
    let step = "[[steps]]\nname = \"POISONED\"\ndirectory = { path = 'C:\\poison' }\n\n[[steps]]";
    let poisoned = text.replacen("[[steps]]", step, 1);
    let elsewhere = folder.path().join("elsewhere.toml");
    std::fs::write(&elsewhere, &poisoned).expect("a file");
    let targets = pack.with_file_name("../targets/poisoned.toml");
    let changes: [&dyn Fn(); 4] = [
        &|| std::fs::write(&pack, &poisoned).expect("written"),
        &|| {
            std::fs::remove_file(&pack).expect("removed");
            symlink(&elsewhere, &pack).expect("a link");
        },
        &|| std::fs::write(&targets, "schema = 1\n").expect("written"),
        &|| std::fs::remove_file(&pack).expect("removed"),
    ];
    for change in changes {
        change();
        let (after, said) = plan();
        assert_eq!(after, before);
        assert!(said.contains("in the cache were modified"), "{said}");
        assert_eq!(std::fs::read_to_string(&pack).expect("its text"), text);
        assert!(!targets.exists());
        assert_eq!(plan().1, warnings);
    }
    assert!(
        std::fs::read_to_string(&elsewhere)
            .expect("its text")
            .contains("POISONED")
    );
}

#[test]
#[cfg(unix)]
fn nothing_of_the_cache_can_be_written_by_everybody_under_any_umask() {
    use std::os::unix::fs::PermissionsExt as _;

    for (umask, forbidden) in [
        ("000", 0o002),
        ("002", 0o002),
        ("022", 0o022),
        ("077", 0o077),
    ] {
        let folder = away();
        for command in ["plan", "lock"] {
            run(folder.path(), umask, command);
        }
        for path in all_below(&folder.path().join("cache")) {
            let mode = std::fs::symlink_metadata(&path)
                .expect("its mode")
                .permissions()
                .mode();
            assert_eq!(
                mode & forbidden,
                0,
                "umask {umask}: {} {mode:o}",
                path.display()
            );
        }
    }
}

#[test]
#[cfg(unix)]
fn a_recipe_is_explained_where_the_cache_cannot_be_written() {
    let folder = away();
    std::fs::write(folder.path().join("cache"), "no folder").expect("a file");
    for command in ["validate", "plan"] {
        let output = run(folder.path(), "022", command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {said}");
    }
    let output = run(folder.path(), "022", "fetch");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("WINIMG_CACHE_DIR"), "{said}");
}
