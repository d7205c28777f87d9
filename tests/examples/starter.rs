//! What `winimg init` writes, as it is and with its examples taken out of their remarks.

use std::path::Path;
use support::tree;

use crate::examples::judge::winimg;
use crate::examples::read;
use support::media;

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
    let folder = tree::folder();
    for medium in ["SERVER_EVAL_x64FRE_en-us.iso", "virtio-win.iso"] {
        media::put(folder.path(), medium, b"a stand-in for a medium\n");
    }
    folder
}

fn said(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = winimg(folder, arguments);
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    (output.status.code(), said)
}

#[test]
fn the_starter_is_planned_with_its_example_and_without() {
    let folder = folder();
    let starter = read(&tree::root().join("recipes/starter.toml"));
    let whole = with_examples(&starter);
    assert!(whole.contains("\n[components.kubelet]\n"), "{whole}");
    for text in [&starter, &whole] {
        media::put(folder.path(), "recipe.toml", text.as_bytes());
        let (status, said) = said(folder.path(), &["plan", "recipe.toml"]);
        assert_eq!(status, Some(0), "{said}");
    }
}

/// The starter asks for the digest of the agent's medium, and takes it in each of the ways that it names.
#[test]
fn the_digest_that_the_starter_asks_for_is_taken_where_it_says() {
    let folder = folder();
    let digest = "0".repeat(64);
    let starter = read(&tree::root().join("recipes/starter.toml"));
    let line = starter.lines().find(|l| l.starts_with("virtio_sha256"));
    let line = line.expect("the starter's line `virtio_sha256`");
    let replaced = starter.replace(line, &format!("virtio_sha256 = \"{digest}\""));
    media::put(folder.path(), "replaced.toml", replaced.as_bytes());
    media::put(folder.path(), "starter.toml", starter.as_bytes());
    let open = "To be decided before a build";
    let (_, asked) = said(folder.path(), &["plan", "starter.toml"]);
    assert!(asked.contains(open), "{asked}");
    let var = format!("virtio_sha256={digest}");
    for arguments in [
        &["plan", "replaced.toml"][..],
        &["plan", "starter.toml", "--var", &var],
    ] {
        let (status, said) = said(folder.path(), arguments);
        assert_eq!(status, Some(0), "{arguments:?}: {said}");
        assert!(!said.contains(open), "{arguments:?}: {said}");
    }
}

#[test]
fn the_examples_in_what_init_writes_are_right() {
    let folder = folder();
    let mut tried = 0;
    for recipe in std::fs::read_dir(tree::root().join("recipes"))
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
        // What is still to be decided is no mistake.
        let (status, said) = said(folder.path(), &["validate", &own]);
        assert_eq!(status, Some(0), "{name}: {said}");
        tried += 1;
    }
    assert!(tried >= 10, "{tried} recipes");
}
