//! Container images, from the recipe's text to the script that imports them.

use support::complaints::facts;
use winimg_recipe::{ReadOptions, Recipe, read};

use crate::plan::plan_of;

fn written(more: &str) -> (Option<Recipe>, String) {
    let text = format!(
        r#"schema = 1
name = "images"
[media]
image = "datacenter-core"
[media.iso]
url = "https://example.com/x.iso"
unverified = "test"
[outputs]
raw = {{}}
{more}"#
    );
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("recipe.toml");
    std::fs::write(&path, text).expect("a recipe");
    let (recipe, found) = read(&path, &ReadOptions::default());
    let folder = format!("{}/", dir.path().display());
    (recipe, found.render(false).replace(&folder, ""))
}

const DIGEST: &str = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

/// Two images and a step for each; the second one's containerd has this root.
fn two(root: &str) -> (Option<Recipe>, String) {
    written(&format!(
        r#"
[images.pause]
reference = "registry.k8s.io/pause:3.10.2"
digest = "{DIGEST}"

[images.base]
reference = "mcr.microsoft.com/windows/nanoserver:ltsc2022@{DIGEST}"
os_version = "10.0.20348"

[[steps]]
name = "pause image"
image = "pause"

[[steps]]
name = "base image"
image = {{ image = "base", ctr = 'C:\k\ctr.exe', root = '{root}', namespace = "build" }}

[[steps]]
name = "seal"
generalize = {{}}
"#
    ))
}

#[test]
fn images_are_imported_from_the_disc_and_looked_for() {
    let (recipe, said) = two(r"D:\containerd");
    assert!(recipe.is_none());
    insta::assert_snapshot!(said);
    let (recipe, said) = two(r"C:\containerd");
    assert_eq!(said, "");
    let plan = plan_of(recipe.expect("a recipe"));
    let (plan, _) = plan.split_once("003  seal").expect("the last step");
    let (_, plan) = plan.split_once("Payload").expect("the payload");
    // Columns are as wide as the folder's name was long.
    let places = regex::Regex::new(r" {2,}(\w+) {2,}/\S*/recipe\.toml").expect("a pattern");
    insta::assert_snapshot!("images", &places.replace_all(plan, "  $1  recipe.toml"));
}

#[test]
fn what_is_wrong_with_images_is_reported_at_once() {
    let (_, said) = written(&format!(
        r#"
[images.pause]
reference = "pause:3.10.2"
digest = "sha256:12"

[images."-x"]
reference = "registry.k8s.io/pause:3.10.2@{DIGEST}"
unverified = "twice"

[images.none]
reference = "registry.k8s.io/pause:3.10.2"

[images.plain]
reference = "http://registry.example.com/pause:3.10.2"
unverified = "over http"

[images.old]
reference = "registry.k8s.io/pause:3.10.2"
digest = "{DIGEST}"
os_version = "ltsc2022"

[[steps]]
name = "no such image"
image = "puase"
"#
    ));
    insta::assert_snapshot!(facts(&said));
}
