//! `[trust]`: whose signature downloads have to have that do not say so themselves.

use std::fs;
use support::complaints::facts;

use winimg_recipe::{ReadOptions, Recipe, read};

const PUBLIC: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";

/// The recipe with these lines, and what is said of it.
fn recipe(text: &str) -> (Option<Recipe>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("recipe.toml");
    let whole = format!(
        "schema = 1\nname = \"node\"\npolicy = \"signed\"\n[media]\nimage = \"datacenter-core\"\n\
         [media.iso]\nurl = \"windows.iso\"\nunverified = \"a test\"\n[outputs]\nraw = {{}}\n\
         [vars]\nversion_of_tool = \"1.2\"\n{text}"
    );
    fs::write(&path, whole).expect("the recipe");
    let (recipe, found) = read(&path, &ReadOptions::default());
    let folder = folder.path().display().to_string();
    (recipe, found.render(false).replace(&folder, "DIR"))
}

/// Each component with what it has to be signed with, and where the signature is.
fn asked(recipe: &Recipe) -> Vec<String> {
    let one = |c: &winimg_recipe::ComponentSpec| {
        let all = c.origin.signatures.iter().flatten();
        let all = all.map(|s| {
            let url = s.url.as_ref().map(|url| url.value.to_string());
            format!(
                "{} {}",
                s.words.split(',').next().unwrap_or_default(),
                url.unwrap_or_default()
            )
        });
        format!("{}: {}", c.name.value, all.collect::<Vec<_>>().join("; "))
    };
    recipe.components.iter().map(one).collect()
}

#[test]
fn a_rule_is_the_signature_of_each_download_that_has_none_of_its_own() {
    let (recipe, said) = recipe(&format!(
        r#"
[trust]
"https://a.example/" = {{ kind = "minisign", key = "{PUBLIC}" }}
"https://a.example/deep/" = {{ kind = "minisign", key = "{PUBLIC}", url = "{{{{url}}}}.of.{{{{name}}}}" }}
[components.one]
url = "https://a.example/{{{{version_of_tool}}}}/one.exe"
[components.two]
url = "https://a.example/deep/two.exe"
unverified = "no longer"
[components.three]
url = "https://a.example/three.exe"
signature = {{ kind = "minisign", key = "{PUBLIC}", url = "https://b.example/three" }}
"#
    ));
    assert_eq!(said, "");
    let recipe = recipe.expect("a recipe");
    assert_eq!(
        asked(&recipe),
        [
            "one: minisign https://a.example/1.2/one.exe.minisig",
            "two: minisign https://a.example/deep/two.exe.of.two",
            "three: minisign https://b.example/three",
        ]
    );
    // The lock holds it as the download's own.
    assert!(recipe.lock_requests[1].rules.is_some());
}

#[test]
fn mistakes_in_rules_are_shown_where_they_stand() {
    let (recipe, said) = recipe(&format!(
        r#"
[trust]
"https://a.example" = {{ kind = "minisign", key = "{PUBLIC}" }}
"oci://a.example/" = {{ kind = "minisign", key = "{PUBLIC}" }}
"https://b.example/" = "minisign"
"https://c.example/" = {{ kind = "minisign", key = "{PUBLIC}" }}
"https://d.example/" = {{ kind = "minisign", keey = "{PUBLIC}" }}
[components.one]
url = "https://d.example/one.exe"
[components.two]
url = "https://other.example/two.exe"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
"#
    ));
    assert!(recipe.is_none());
    insta::assert_snapshot!(facts(&said));
}
