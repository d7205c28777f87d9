//! Pins of certificates that are none: told where the recipe says them, before anything is fetched.

use std::fs;
use support::complaints::facts;

use winimg_recipe::{ReadOptions, read};

fn complaints(pins: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("recipe.toml");
    let text = format!(
        "schema = 1\nname = \"signed\"\n[components.a]\nurl = \"https://example.com/a.exe\"\n\
         [components.a.signature]\nkind = \"authenticode\"\nroots = \"microsoft-root-2010\"\n{pins}\n\
         [media]\nimage = \"datacenter-core\"\n[media.iso]\nurl = \"https://example.com/x.iso\"\n\
         unverified = \"test\"\n[outputs]\nraw = {{}}\n"
    );
    fs::write(&path, text).unwrap();
    let (recipe, diagnostics) = read(&path, &ReadOptions::default());
    assert_eq!(
        recipe.is_none(),
        diagnostics.render(false).contains("error")
    );
    let folder = dir.path().display().to_string();
    diagnostics.render(false).replace(&format!("{folder}/"), "")
}

#[test]
fn a_subject_that_is_no_name_and_a_use_that_many_have() {
    let rendered: String = [
        "subject = \"Example Corp\"",
        "subject = \"CN=Example Corp,\"",
        "eku = \"1.3.6.1.5.5.7.3.3\"",
        "subject = \"C=US\"",
        "subject = \"CN=A\"\nmin_version = \"latest\"",
    ]
    .map(complaints)
    .join("\n");
    insta::assert_snapshot!(facts(&rendered));
    for good in [
        "subject = \"CN=Example Corp\"",
        "subject = \"O=Example Corp\"\nproduct = \"Example\"\noriginal_filename = \"a.exe\"\nmin_version = \"1.2\"",
        "eku = \"1.3.6.1.4.1.311.97.1.2.3\"",
        "eku = \"1.3.6.1.5.5.7.3.3\"\nsubject = \"CN=Example Corp\"",
    ] {
        let rendered = complaints(good);
        assert!(!rendered.contains("error"), "{good}: {rendered}");
    }
}
