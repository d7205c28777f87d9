//! The JSON Schema, the reference and the reader name the same keys.

use std::collections::BTreeSet;
use std::fs;
use support::tree;

use serde_json::Value;
use winimg_recipe::recipe::{JSON_SCHEMA, Options, read};

const NO_KEY: &str = "qqqqqqqqqqqqqqqqqqqq";

fn schema() -> Value {
    serde_json::from_str(JSON_SCHEMA).expect("JSON")
}

fn keys(table: &Value) -> BTreeSet<String> {
    let properties = table["properties"].as_object().expect("properties");
    properties.keys().cloned().collect()
}

/// The keys that the reader says the table has, when given one that it does not know.
fn keys_read(text: &str) -> BTreeSet<String> {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("recipe.toml");
    fs::write(&path, text).expect("a file");
    let (_, diagnostics) = read(&path, &Options::default());
    let about = |m: &str| m.contains(&format!("`{NO_KEY}`"));
    let told = diagnostics.0.iter().find(|d| about(&d.problem.fact));
    let told = told.unwrap_or_else(|| panic!("nothing is said about {NO_KEY} in\n{text}"));
    let help = told.problem.cures.join("\n");
    let list = help
        .strip_prefix("its keys: ")
        .or(help.strip_prefix("the verbs: "));
    let list = list.into_iter().flat_map(|l| l.split(", "));
    list.map(str::to_string).collect()
}

#[test]
fn every_table_of_the_schema_has_the_keys_that_are_read() {
    let schema = schema();
    let properties = &schema["properties"];
    let component = &properties["components"]["additionalProperties"];
    let tables = [
        ("[media]", &properties["media"]),
        ("[media.iso]", &properties["media"]["properties"]["iso"]),
        (
            "[media.virtio]",
            &properties["media"]["properties"]["virtio"],
        ),
        ("[machine]", &properties["machine"]),
        ("[setup]", &properties["setup"]),
        ("[components.x]", component),
        ("[outputs]", &properties["outputs"]),
        ("[outputs.ova]", &properties["outputs"]["properties"]["ova"]),
        ("[outputs.ami]", &properties["outputs"]["properties"]["ami"]),
    ];
    for (header, table) in tables {
        let read = keys_read(&format!("schema = 1\n{header}\n{NO_KEY} = 1\n"));
        assert_eq!(read, keys(table), "{header}");
    }
    // `schema` and `include` are taken out before the rest is looked at.
    let mut top = keys_read(&format!("schema = 1\n{NO_KEY} = 1\n"));
    top.extend(["schema".to_string(), "include".to_string()]);
    assert_eq!(top, keys(&schema), "the top");

    let step = &properties["steps"]["items"];
    let mut verbs = keys(step);
    for own in ["name", "when", "timeout", "before_seal"] {
        assert!(verbs.remove(own), "{own}");
    }
    let text = format!("schema = 1\n[[steps]]\nname = \"x\"\n{NO_KEY} = 1\n");
    assert_eq!(keys_read(&text), verbs, "the verbs");
    for verb in &verbs {
        let table = &step["properties"][verb];
        let table = match table["anyOf"].as_array() {
            Some(shapes) => shapes
                .iter()
                .find(|s| s["type"] == "object")
                .expect("a table"),
            None => table,
        };
        let text = format!("schema = 1\n[[steps]]\nname = \"x\"\n{verb} = {{ {NO_KEY} = 1 }}\n");
        assert_eq!(keys_read(&text), keys(table), "{verb}");
    }
}

#[test]
fn the_reference_names_every_key() {
    let path = tree::root().join("docs/recipe.md");
    let reference = fs::read_to_string(path).expect("docs/recipe.md");
    let mut names = BTreeSet::new();
    collect(&schema(), &mut names);
    assert!(names.len() > 60, "{names:?}");
    let written = |n: &&String| {
        [
            "`{n}`", "`{n} =", " {n} =", "[{n}]", ".{n}]", "{n} = [", "[{n}.",
        ]
        .iter()
        .any(|shape| reference.contains(&shape.replace("{n}", n)))
    };
    let missing: Vec<&String> = names.iter().filter(|n| !written(n)).collect();
    assert_eq!(missing, Vec::<&String>::new());
}

fn collect(schema: &Value, names: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            for (key, value) in map {
                match value.as_object() {
                    Some(properties) if key == "properties" => {
                        names.extend(properties.keys().cloned());
                        properties.values().for_each(|v| collect(v, names));
                    }
                    _ => collect(value, names),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|v| collect(v, names)),
        _ => {}
    }
}

/// Whatever is cut off or left out: no panic, and a recipe or a complaint, never neither.
#[test]
fn a_damaged_recipe_is_read_or_complained_about() {
    let fixtures = tree::root().join("crates/recipe/tests/recipes");
    let dir = tempfile::tempdir().expect("a folder");
    for folder in ["files", "packs"] {
        fs::create_dir(dir.path().join(folder)).expect("a folder");
        for file in fs::read_dir(fixtures.join(folder))
            .expect("the fixtures")
            .flatten()
        {
            let to = dir.path().join(folder).join(file.file_name());
            fs::copy(file.path(), to).expect("a copy");
        }
    }
    let whole = fs::read_to_string(fixtures.join("complete.toml")).expect("the recipe");
    let path = dir.path().join("recipe.toml");
    let options = Options::default();
    let (mut read_well, mut refused) = (0, 0);
    let lines: Vec<&str> = whole.lines().collect();
    let without_line = (0..lines.len()).map(|n| {
        let mut rest = lines.clone();
        rest.remove(n);
        rest.join("\n")
    });
    let cut = (0..whole.len()).step_by(29).map(|n| whole[..n].to_string());
    let without_byte = (0..whole.len()).step_by(31).map(|n| {
        let mut rest = whole.clone();
        rest.remove(n);
        rest
    });
    for text in without_line.chain(cut).chain(without_byte) {
        fs::write(&path, &text).expect("a file");
        let (recipe, diagnostics) = read(&path, &options);
        assert_eq!(recipe.is_none(), diagnostics.has_errors(), "{text}");
        let rendered = diagnostics.render(false);
        assert!(
            !rendered.contains("a mistake in winimg"),
            "{rendered}\n{text}"
        );
        let placed = diagnostics.0.iter().all(|d| d.problem.place.is_some());
        assert!(placed, "{rendered}");
        match recipe {
            Some(_) => read_well += 1,
            None => refused += 1,
        }
    }
    // A recipe without one of its steps is still one; most damage is not.
    assert!(read_well > 10 && refused > 100, "{read_well} {refused}");
}
