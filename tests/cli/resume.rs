//! Builds after builds: what is reused, what is said of it, and what is not believed.

use std::fs;
use std::path::PathBuf;

use regex::Regex;

use crate::cli::site::{SEAL, Site};
use winimg_recipe::plan::chain::FORMAT;

pub const STEPS: &str = r#"
[[steps]]
name = "the tool"
copy = { component = "tool", to = 'C:\k\tool.exe' }

[[steps]]
name = "restart"
reboot = {}

[[steps]]
name = "site settings"
registry = { key = 'HKLM\SOFTWARE\Example', name = "Tier", type = "sz", data = "gold" }
"#;

fn site() -> Site {
    Site::new(&format!("{STEPS}\n{SEAL}"))
}

/// The lines that speak of layers, and how often a machine was installed or booted.
pub fn rendered(site: &Site, arguments: &[&str]) -> String {
    let transcript = site.path("asked.txt");
    let _ = fs::remove_file(&transcript);
    let outcome = site.build(arguments).ended_well();
    let said = outcome.whole();
    let words = [
        "layer",
        "resuming",
        "changed from",
        "was added",
        "was removed",
        "nothing changed",
        "damaged",
        "shared cache",
    ];
    let lines = said.lines().filter(|l| words.iter().any(|w| l.contains(w)));
    let sizes = Regex::new(r"[0-9.]+ [KM]?i?B, sealed in \[seconds\]").expect("a pattern");
    let lines: Vec<String> = lines
        .map(|l| sizes.replace(l, "[size]").into_owned())
        .collect();
    let asked = fs::read_to_string(&transcript).unwrap_or_default();
    let count = |word: &str| asked.lines().filter(|l| *l == word).count();
    format!(
        "{}\ninstalled {}, booted {}\n",
        lines.join("\n"),
        count("guest"),
        count("boot")
    )
}

fn layers(site: &Site) -> Vec<PathBuf> {
    let folder = site.path("cache/layers");
    let entries = fs::read_dir(folder).expect("the layers").flatten();
    let mut folders: Vec<PathBuf> = entries.map(|e| e.path()).collect();
    folders.sort();
    folders
}

#[test]
fn a_second_build_starts_no_machine() {
    let site = site();
    insta::assert_snapshot!("first", rendered(&site, &[]));
    insta::assert_snapshot!("unchanged", rendered(&site, &[]));
    // The finished disk is a layer: an artifact that is gone is written again without a machine.
    fs::remove_file(site.path("out/node.raw")).expect("an artifact");
    insta::assert_snapshot!("artifact_gone", rendered(&site, &[]));
    assert!(site.path("out/node.raw").exists());
    insta::assert_snapshot!("fresh", rendered(&site, &["--fresh"]));
}

#[test]
fn a_changed_step_is_named_and_what_stands_before_it_is_kept() {
    let site = site();
    rendered(&site, &[]);
    let recipe = site.read("recipe.toml");
    site.write("recipe.toml", &recipe.replace("\"gold\"", "\"silver\""));
    insta::assert_snapshot!("last_step", rendered(&site, &[]));
    let manifest: serde_json::Value =
        serde_json::from_str(&site.read("out/manifest.json")).expect("JSON");
    assert_eq!(manifest["layer"]["after"], "step `restart`");
    let names: Vec<&str> = manifest["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .filter_map(|s| s["name"].as_str())
        .collect();
    assert_eq!(names, ["the tool", "restart", "site settings", "seal"]);

    let recipe = site.read("recipe.toml").replace("\"1.2.0\"", "\"1.3.0\"");
    site.write("recipe.toml", &recipe);
    insta::assert_snapshot!("first_step", rendered(&site, &[]));
    site.write("recipe.toml", &recipe.replace("64 GiB", "65 GiB"));
    insta::assert_snapshot!("machine", rendered(&site, &[]));
    // Back again: nothing of the first recipe was lost.
    site.write(
        "recipe.toml",
        &recipe
            .replace("\"1.3.0\"", "\"1.2.0\"")
            .replace("silver", "gold"),
    );
    insta::assert_snapshot!("back", rendered(&site, &[]));
}

/// As a version left them whose keys were made from something else: under other names, and with another number.
#[test]
fn layers_of_an_earlier_version_are_not_used_and_one_line_says_so() {
    let site = site();
    rendered(&site, &[]);
    let old = layers(&site);
    for folder in &old {
        let record = folder.join("layer.json");
        let text = fs::read_to_string(&record).expect("a record");
        let format = format!("\"format\": {FORMAT}");
        assert!(text.contains(&format), "{text}");
        fs::write(&record, text.replace(&format, "\"format\": 1")).expect("a record");
        let name = folder.file_name().expect("a name").to_string_lossy();
        let name: String = name.chars().rev().collect();
        fs::rename(folder, folder.with_file_name(name)).expect("a layer");
    }
    let line = format!(
        "{} layers in the cache have the format of an earlier version of winimg and cannot be used: \
         remove them with `winimg cache prune --older-than AGE`",
        old.len()
    );
    let explained = site.run(&["cache", "explain", "recipe.toml"]).whole();
    assert!(explained.contains(&line), "{explained}");
    let said = rendered(&site, &[]);
    assert_eq!(said.matches(&line).count(), 1, "{said}");
    assert!(!said.contains("resuming"), "{said}");
    // From here on the new ones serve.
    fs::remove_file(site.path("out/node.raw")).expect("an artifact");
    let said = rendered(&site, &[]);
    assert!(!said.contains(&line), "{said}");
}

#[test]
fn names_and_places_are_no_ingredients() {
    let site = site();
    rendered(&site, &[]);
    let recipe = site.read("recipe.toml");
    let renamed = recipe.replace("\"site settings\"", "\"settings of the site\"");
    site.write("recipe.toml", &format!("# a line more\n{renamed}"));
    insta::assert_snapshot!("renamed", rendered(&site, &[]));
    let manifest = site.read("out/manifest.json");
    assert!(manifest.contains("settings of the site"), "{manifest}");
}

#[test]
fn a_failed_build_goes_on_from_the_last_layer() {
    let site = site();
    let fails = "[[run]]\ncommand = 'C:\\Windows\\System32\\reg.exe add *'\nexit = 1\n";
    site.machine("", fails);
    let outcome = site.build(&[]);
    assert_eq!(outcome.status(), Some(7), "{}", outcome.whole());
    // The last words of the failed build are the first of the next one.
    let said = outcome.error();
    let last: Vec<&str> = said.lines().rev().take(2).collect();
    let from = "the layer after step `restart`: 3 of 5 parts are done";
    let words = [
        format!("  | the next build resumes from {from}"),
        "  | step 3, `site settings`, failed".into(),
    ];
    assert_eq!(last, words);
    let page = site.read("out/report.html");
    let title = "<title>node: Step 3, `site settings`: a step failed in the guest</title>";
    assert!(page.contains(title), "{page}");
    site.another_machine("", "");
    let next = rendered(&site, &[]);
    assert!(next.contains(&format!("resuming from {from}")), "{next}");
    insta::assert_snapshot!("after_failure", next);
}

#[test]
fn a_damaged_layer_is_set_aside_and_the_one_before_it_serves() {
    let site = site();
    rendered(&site, &[]);
    let recipe = site.read("recipe.toml");
    site.write("recipe.toml", &recipe.replace("\"gold\"", "\"silver\""));
    let restart = layers(&site)
        .into_iter()
        .find(|folder| {
            let record = fs::read_to_string(folder.join("layer.json")).unwrap_or_default();
            let record: serde_json::Value = serde_json::from_str(&record).unwrap_or_default();
            record["links"]
                .as_array()
                .is_some_and(|links| links.len() == 3)
        })
        .expect("the layer after the restart");
    let disk = restart.join("disk.qcow2");
    let bytes = fs::read(&disk).expect("a disk");
    fs::write(&disk, &bytes[..bytes.len() / 2]).expect("half a disk");
    let said = rendered(&site, &[]);
    let key = restart.file_name().expect("a name").to_string_lossy();
    insta::assert_snapshot!("damaged", said);
    assert!(
        site.path("cache/quarantine")
            .join(format!("layer-{key}"))
            .exists()
    );
}

#[test]
fn without_layers_nothing_is_kept_and_nothing_used() {
    let site = site();
    insta::assert_snapshot!("none", rendered(&site, &["--layers", "none"]));
    let fails = "[[run]]\ncommand = 'C:\\Windows\\System32\\reg.exe add *'\nexit = 1\n";
    site.machine("", fails);
    let failed = site.build(&["--layers", "none"]).error();
    let last = "  | the next build starts from the beginning: --layers none seals no layer\n";
    let (_, after) = failed.split_once(last).expect("the line about layers");
    assert!(
        after.starts_with("  | the earlier image, finished at "),
        "{failed}"
    );
    assert_eq!(after.lines().count(), 1, "{failed}");
    assert_eq!(layers(&site), Vec::<PathBuf>::new());
}

#[test]
fn each_step_may_have_its_layer() {
    let site = site();
    insta::assert_snapshot!("each", rendered(&site, &["--layers", "each"]));
}
