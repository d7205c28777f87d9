//! What `winimg init` writes, as it is and with its examples taken out of their remarks.

use std::path::Path;

use crate::judge::winimg;
use crate::{media, read, root};

/// The text with its examples: from a remark that opens a table on, the lines of that remark are no remark.
pub fn with_examples(text: &str) -> String {
    let mut out = String::new();
    let mut in_example = false;
    for line in text.lines() {
        let remark = line.strip_prefix("# ");
        in_example = match remark {
            Some(remark) => in_example || remark.starts_with('['),
            None => false,
        };
        out += match (remark, in_example) {
            (Some(remark), true) => remark,
            _ => line,
        };
        out.push('\n');
    }
    out
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    for medium in ["SERVER_EVAL_x64FRE_en-us.iso", "virtio-win.iso"] {
        media::put(folder.path(), medium, b"a stand-in for a medium\n");
    }
    folder
}

fn said(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = winimg(folder, arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}

#[test]
fn the_starter_is_planned_with_its_example_and_without() {
    let folder = folder();
    let starter = read(&root().join("recipes/starter.toml"));
    let whole = with_examples(&starter);
    assert!(whole.contains("\n[components.kubelet]\n"), "{whole}");
    for text in [&starter, &whole] {
        media::put(folder.path(), "recipe.toml", text.as_bytes());
        let (status, said) = said(folder.path(), &["plan", "recipe.toml"]);
        assert_eq!(status, Some(0), "{said}");
    }
}

/// The starter's advice for the medium that nothing proves yet: a digest in place of the line `unverified`, or given once.
#[test]
fn a_digest_takes_the_place_of_unverified_as_the_starter_says() {
    let folder = folder();
    let digest = "0".repeat(64);
    let starter = read(&root().join("recipes/starter.toml"));
    let line = starter.lines().find(|l| l.starts_with("unverified"));
    let line = line.expect("the starter's line `unverified`");
    let replaced = starter.replace(line, &format!("sha256 = \"{digest}\""));
    media::put(folder.path(), "replaced.toml", replaced.as_bytes());
    media::put(folder.path(), "starter.toml", starter.as_bytes());
    let set = format!("media.virtio.sha256={digest}");
    for arguments in [
        &["plan", "replaced.toml"][..],
        &["plan", "starter.toml", "--set", &set],
    ] {
        let (status, said) = said(folder.path(), arguments);
        assert_eq!(status, Some(0), "{arguments:?}: {said}");
        assert!(!said.contains("unverified"), "{arguments:?}: {said}");
    }
}

#[test]
fn the_examples_in_what_init_writes_are_right() {
    let folder = folder();
    let mut tried = 0;
    for recipe in std::fs::read_dir(root().join("recipes"))
        .expect("recipes")
        .flatten()
    {
        let file = recipe.file_name().into_string().expect("a name");
        let Some(name) = file.strip_suffix(".toml") else {
            continue;
        };
        if ["demo", "starter"].contains(&name) {
            continue;
        }
        let (status, text) = said(folder.path(), &["init", name]);
        assert_eq!(status, Some(0), "{text}");
        let own = format!("my-{name}.toml");
        let text = with_examples(&read(&folder.path().join(&own)));
        assert!(text.contains("\n[components."), "{name} has no example");
        media::put(folder.path(), &own, text.as_bytes());
        // What is still to be said is asked for; nothing else is wrong.
        let (_, said) = said(folder.path(), &["validate", &own]);
        let errors = said.lines().filter(|l| l.starts_with("error"));
        let other: Vec<&str> = errors.filter(|l| !l.contains("has no value")).collect();
        assert_eq!(other, Vec::<&str>::new(), "{name}: {said}");
        tried += 1;
    }
    assert!(tried >= 10, "{tried} recipes");
}
