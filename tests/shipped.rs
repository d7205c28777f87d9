//! Every script and document that winimg ships: PowerShell parses without a fault, XML is well-formed, recipes are accepted by
//! their schema.
//! No PowerShell runs here; the grammar is tree-sitter's.

use std::fs;
use std::path::{Path, PathBuf};
use support::tree;

use winimg_recipe::powershell::find_faults;

fn root() -> &'static Path {
    tree::root()
}

fn files(endings: &[&str]) -> Vec<PathBuf> {
    let folders = ["recipes", "unattend", "src", "crates"];
    let found = folders.map(|folder| tree::files(folder, endings)).concat();
    found.iter().map(|file| root().join(file)).collect()
}

fn name(path: &Path) -> String {
    path.strip_prefix(root())
        .expect("below the root")
        .display()
        .to_string()
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// What is wrong with a script, as `file:line:column`.
fn complaints(name: &str, script: &str) -> Vec<String> {
    let found = find_faults(script.trim_start_matches('\u{feff}'));
    let found = found
        .into_iter()
        .map(|f| format!("{name}:{}:{} {:?}", f.line, f.column, f.missing));
    found.collect()
}

#[test]
fn every_powershell_file_parses() {
    let scripts = files(&["ps1", "psm1", "psd1"]);
    assert!(!scripts.is_empty(), "there are PowerShell files");
    let wrong: Vec<String> = scripts
        .iter()
        .flat_map(|p| complaints(&name(p), &text(p)))
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
}

/// Text of `powershell = …` anywhere in a recipe or a pack.
fn inline(value: &toml::Value, found: &mut Vec<String>) {
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                match (key.as_str(), value) {
                    ("powershell", toml::Value::String(text)) => found.push(text.clone()),
                    ("powershell", toml::Value::Array(lines)) => found.push(joined(lines)),
                    ("powershell", toml::Value::Table(verb)) => {
                        for (key, value) in verb {
                            match (key.as_str(), value) {
                                ("script", toml::Value::String(text)) => found.push(text.clone()),
                                ("inline", toml::Value::Array(lines)) => found.push(joined(lines)),
                                _ => {}
                            }
                        }
                    }
                    _ => inline(value, found),
                }
            }
        }
        toml::Value::Array(items) => items.iter().for_each(|item| inline(item, found)),
        _ => {}
    }
}

fn joined(lines: &[toml::Value]) -> String {
    let lines: Vec<&str> = lines.iter().filter_map(toml::Value::as_str).collect();
    lines.join("\n")
}

#[test]
fn every_powershell_text_in_a_recipe_parses() {
    let mut wrong = Vec::new();
    for path in files(&["toml"]) {
        let value: toml::Value = toml::from_str(&text(&path)).expect("TOML");
        let mut scripts = Vec::new();
        inline(&value, &mut scripts);
        for script in scripts {
            // What a variable holds is a word of its own wherever a recipe uses one.
            let script = script.replace("{{", "").replace("}}", "");
            wrong.extend(complaints(&name(&path), &script));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// Component, pass, element and type of each setting, by winimg's own table.
#[test]
fn every_answer_file_for_a_clone_is_one() {
    let documents = files(&["xml"]);
    let mut judged = 0;
    for path in documents {
        let text = text(&path);
        if !name(&path).ends_with("seal.xml") {
            continue;
        }
        judged += 1;
        let text = text
            .replace("{{computer_name}}", "*")
            .replace("{{time_zone}}", "UTC")
            .replace("{{language}}", "en-US")
            .replace("{{disable_administrator}}", "cmd.exe /c exit 0");
        let found = winimg::answer::lint_clone(&name(&path), &text);
        assert_eq!(found.render(false), "", "{}", name(&path));
        let broken = text.replace(
            "<PersistAllDeviceInstalls>false",
            "<PersistAllDeviceInstalls>no",
        );
        let found = winimg::answer::lint_clone(&name(&path), &broken).render(false);
        assert!(
            found.contains("PersistAllDeviceInstalls is true or false"),
            "{found}"
        );
    }
    assert!(judged >= 4, "{judged}");
}

#[test]
fn every_xml_file_is_well_formed() {
    let documents = files(&["xml"]);
    assert!(documents.len() >= 2, "the answer files are among them");
    // Variables and blocks of the templates are taken out: what stays is the document around them.
    let blocks = regex::Regex::new(r"(?s)\{\{!--.*?--\}\}|\{\{.*?\}\}").expect("a pattern");
    for path in documents {
        let text = text(&path);
        let plain = blocks.replace_all(&text, "");
        if let Err(e) = roxmltree::Document::parse(&plain) {
            panic!("{}: {e}", name(&path));
        }
    }
}

#[test]
fn every_target_is_accepted_by_the_schema_for_editors() {
    let schema = serde_json::from_str(&winimg_recipe::target::render_schema()).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let folder = root().join("recipes/targets");
    let mut files = files(&["toml"]);
    files.retain(|path| path.parent() == Some(&folder));
    assert_eq!(files.len(), 13, "{files:?}");
    for path in files {
        let target: serde_json::Value = toml::from_str(&text(&path)).expect("TOML");
        let errors = validator.iter_errors(&target);
        let errors: Vec<String> = errors.map(|e| e.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new(), "{}", name(&path));
        let mut wrong = target;
        wrong["rule"] = serde_json::json!([{ "needs": { "colour": "red" }, "why": "so" }]);
        assert!(!validator.is_valid(&wrong), "a condition that nobody knows");
    }
}

/// A recipe that winimg reads has no red lines in an editor.
#[test]
fn every_recipe_is_accepted_by_the_schema_for_editors() {
    let schema = fs::read_to_string(root().join("schemas/recipe-1.json")).expect("readable");
    let schema = serde_json::from_str(&schema).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let complete = root().join("crates/recipe/tests/recipes/complete.toml");
    let mut files = files(&["toml"]);
    let recipes = root().join("recipes");
    // Targets have their own.
    files.retain(|path| path.starts_with(&recipes) && !path.starts_with(recipes.join("targets")));
    assert!(files.len() > 40, "{files:?}");
    let mut refused = Vec::new();
    for path in files.into_iter().chain([complete]) {
        let recipe: serde_json::Value = toml::from_str(&text(&path)).expect("TOML");
        let errors = validator.iter_errors(&recipe);
        refused.extend(errors.map(|e| format!("{} {}: {e}", name(&path), e.instance_path())));
    }
    assert_eq!(refused, Vec::<String>::new());
    let image = r#"{ "schema": 1, "steps": [{ "name": "pause", "image": "pause" }] }"#;
    let image = serde_json::from_str(image).expect("JSON");
    assert!(validator.is_valid(&image), "a step with the verb image");
}
