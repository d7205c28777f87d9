//! The program away from its source tree.

use std::process::Command;
use support::tree::{self, root};

use winimg_recipe::recipe::{Options, Undecided};

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
        let options = Options {
            search: vec![root().join("recipes")],
            vars: vec![("iso_url".into(), "windows.iso".into())],
            ..Options::default()
        };
        let recipe = winimg_recipe::recipe::read(&path, &options)
            .0
            .expect("a recipe");
        let text = std::fs::read_to_string(&path).expect("the recipe");
        for open in &recipe.undecided {
            let variable = match open {
                Undecided::Proof(missing) => missing.variable.clone().expect("a variable"),
                Undecided::Variable { variable, .. } => variable.clone(),
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
    assert!(said.contains("never overwritten"), "{said}");
}
