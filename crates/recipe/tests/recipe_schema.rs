//! The JSON Schema, made of the rows that the reader reads by (`src/recipe/keys.toml`).

use std::collections::BTreeSet;
use std::fs;
use support::{golden, tree};

use serde_json::{Map, Value, json};
use winimg_recipe::keys::{self, KeyKind, KeySpec};
use winimg_recipe::{ReadOptions, read};

#[test]
fn the_schema_is_made_of_the_rows() {
    let text = serde_json::to_string_pretty(&schema()).expect("JSON");
    golden::whole("schemas/recipe-1.json", &(text + "\n"));
}

#[test]
fn the_schema_of_a_host_is_made_of_the_rows() {
    let mut top = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "winimg configuration of a host",
    });
    lay(&mut top, table("host"));
    top["$defs"] = json!({ "signature": { "anyOf": of_every_kind() } });
    let mut top = top;
    without_templates(&mut top);
    let text = serde_json::to_string_pretty(&top).expect("JSON");
    let named = text.split("\"#/$defs/").skip(1);
    assert!(
        named
            .into_iter()
            .all(|name| name.starts_with("signature\""))
    );
    golden::whole("schemas/config-1.json", &(text + "\n"));
}

/// Values of axes stand in a map of names, and rows have the names of axes beside their own keys.
#[test]
fn the_schema_of_a_matrix_is_made_of_the_rows() {
    let mut top = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "winimg matrix",
    });
    lay(&mut top, table("matrix.file"));
    let text = json!({ "type": ["string", "integer", "boolean"] });
    let value = json!({ "anyOf": [text, table("matrix.value")] });
    let values = json!({ "type": "array", "minItems": 1, "items": value });
    let matrix = top
        .pointer_mut("/properties/matrix/properties")
        .expect("there");
    matrix["axes"]["additionalProperties"] = values;
    for (row, of_axis) in [
        ("include", text.clone()),
        (
            "exclude",
            json!({ "anyOf": [text, { "type": "array", "items": text }] }),
        ),
    ] {
        matrix[row]["items"] = table(&format!("matrix.{row}"));
        matrix[row]["items"]["additionalProperties"] = of_axis;
    }
    without_templates(&mut top);
    any_variable(&mut top);
    let text = serde_json::to_string_pretty(&top).expect("JSON");
    assert!(!text.contains("#/$defs/"), "{text}");
    golden::whole("schemas/matrix-1.json", &(text + "\n"));
}

/// A variable's value and what `set` holds.
fn any_variable(schema: &mut Value) {
    if let Value::Object(all) = schema {
        if let Some(vars) = all.get_mut("vars") {
            vars["additionalProperties"] = json!({ "type": ["string", "integer", "boolean"] });
        }
        if let Some(set) = all.get_mut("set") {
            set["type"] = json!("object");
        }
    }
    match schema {
        Value::Object(all) => all.values_mut().for_each(any_variable),
        Value::Array(all) => all.iter_mut().for_each(any_variable),
        _ => {}
    }
}

/// No variables are filled in there.
fn without_templates(schema: &mut Value) {
    let plain = match schema["anyOf"].as_array() {
        Some(shapes) if shapes.len() == 2 && shapes[1]["$ref"] == "#/$defs/template" => {
            shapes[0].clone()
        }
        _ => Value::Null,
    };
    if let (Value::Object(schema), Value::Object(plain)) = (&mut *schema, plain) {
        schema.remove("anyOf");
        schema.extend(plain);
    }
    match schema {
        Value::Object(all) => all.values_mut().for_each(without_templates),
        Value::Array(all) => all.iter_mut().for_each(without_templates),
        _ => {}
    }
}

fn schema() -> Value {
    let mut top = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "winimg recipe",
    });
    lay(&mut top, table("recipe"));
    top["required"] = json!(["schema"]);
    let of_file = of_every_kind();
    let mut of_sums = of_file.clone();
    of_sums[0] = table("checksum_signature.openpgp");
    top["$defs"] = json!({
        "template": { "type": "string", "pattern": "\\{\\{" },
        "guest_path": {
            "type": "string",
            "description": "an absolute path in the guest: 'C:\\k'",
            "pattern": "^([A-Za-z]:\\\\|.*\\{\\{)",
        },
        "download": table("download"),
        "exit_codes": table("exit_codes"),
        "signature": { "anyOf": of_file },
        "checksum_signature": { "anyOf": of_sums },
    });
    top
}

/// One of every kind.
fn of_every_kind() -> Vec<Value> {
    let kinds = keys::find_table("signature").find("kind").expect("a row");
    let kinds = kinds.takes.words().iter().filter(|kind| *kind != "none");
    kinds
        .map(|kind| table(&format!("signature.{kind}")))
        .collect()
}

fn lay(over: &mut Value, more: Value) {
    let (Value::Object(over), Value::Object(more)) = (over, more) else {
        unreachable!("two objects");
    };
    over.extend(more);
}

fn table(name: &str) -> Value {
    let spec = keys::find_table(name);
    let mut schema = json!({ "type": "object" });
    if !spec.doc.is_empty() {
        schema["description"] = json!(spec.doc);
    }
    schema["additionalProperties"] = json!(false);
    let needed = spec.keys.iter().filter(|key| key.needed.is_some());
    let mut needed: Vec<&str> = needed.map(|key| key.name.as_str()).collect();
    if name.starts_with("signature.") && name != "signature.any" {
        needed.insert(0, "kind");
    }
    if !spec.is_merged && !needed.is_empty() {
        schema["required"] = json!(needed);
    }
    let properties = spec
        .keys
        .iter()
        .map(|key| (key.name.clone(), property(key)));
    schema["properties"] = Value::Object(properties.collect::<Map<_, _>>());
    let one_of: Vec<Value> = spec
        .alternatives()
        .map(|key| json!({ "required": [key] }))
        .collect();
    if !one_of.is_empty() {
        schema["oneOf"] = json!(one_of);
    }
    schema
}

fn property(key: &KeySpec) -> Value {
    let mut property = takes(&key.takes);
    if let Some(pattern) = &key.pattern {
        let at = match &key.takes {
            KeyKind::Map(_) => "/propertyNames",
            KeyKind::Nonempty(_) => "/items",
            _ => "",
        };
        if at == "/propertyNames" {
            property["propertyNames"] = json!({});
        }
        let texts = property.pointer_mut(at).expect("there");
        texts["pattern"] = json!(pattern);
    }
    property["description"] = json!(match &key.unless_given {
        Some(meant) => format!("{}; {meant} unless given", key.doc),
        None => key.doc.clone(),
    });
    if let Some(default) = &key.default {
        property["default"] = match key.takes {
            KeyKind::Flag => json!(default == "true"),
            KeyKind::Integer(..) => json!(default.parse::<i64>().expect("a number")),
            _ => json!(default),
        };
    }
    property
}

/// A number or a word can be a variable's, whose text is known later.
fn or_template(value: Value) -> Value {
    json!({ "anyOf": [value, { "$ref": "#/$defs/template" }] })
}

fn takes(kind: &KeyKind) -> Value {
    let list = |kind: &KeyKind| json!({ "type": "array", "items": takes(kind) });
    match kind {
        KeyKind::String => json!({ "type": "string", "minLength": 1 }),
        KeyKind::Text => json!({ "type": "string" }),
        KeyKind::Flag => or_template(json!({ "type": "boolean" })),
        KeyKind::Whole => or_template(json!({ "type": "integer" })),
        KeyKind::Integer(only, most) if only == most => json!({ "const": only }),
        KeyKind::Integer(least, most) => {
            or_template(json!({ "type": "integer", "minimum": least, "maximum": most }))
        }
        KeyKind::Size => json!({ "type": "string", "examples": ["64 GiB"] }),
        KeyKind::Time => json!({ "type": "string", "examples": ["45m", "1h30m"] }),
        KeyKind::Word(words) => match words.as_slice() {
            [one] => json!({ "const": one }),
            _ => or_template(json!({ "enum": words })),
        },
        KeyKind::GuestPath => json!({ "$ref": "#/$defs/guest_path" }),
        KeyKind::Lines => json!({ "type": ["string", "array"], "items": { "type": "string" } }),
        KeyKind::Anything => json!({}),
        KeyKind::List(kind) => list(kind),
        KeyKind::Nonempty(kind) => {
            let mut list = list(kind);
            list["minItems"] = json!(1);
            list
        }
        KeyKind::Map(kind) => json!({ "type": "object", "additionalProperties": takes(kind) }),
        KeyKind::Table(name) if ["download", "exit_codes"].contains(&name.as_str()) => {
            json!({ "$ref": format!("#/$defs/{name}") })
        }
        KeyKind::Table(name) => table(name),
        KeyKind::Either(kinds) => {
            json!({ "anyOf": kinds.iter().map(takes).collect::<Vec<_>>() })
        }
        KeyKind::Signature => json!({ "$ref": "#/$defs/signature" }),
        KeyKind::Signatures(of_sums) => signatures(*of_sums),
    }
}

/// One table, alternatives, or several that must all be met; or `none`, which drops what an
/// included file asks for.
fn signatures(of_sums: bool) -> Value {
    let one = if of_sums {
        json!({ "$ref": "#/$defs/checksum_signature" })
    } else {
        json!({ "$ref": "#/$defs/signature" })
    };
    let mut any = table("signature.any");
    any["properties"]["any"]["items"] = one.clone();
    json!({ "anyOf": [
        one,
        table("signature.none"),
        any,
        { "type": "array", "minItems": 1, "items": { "anyOf": [one, any] } },
    ] })
}

const NO_KEY: &str = "qqqqqqqqqqqqqqqqqqqq";

fn shipped() -> Value {
    let path = tree::root().join("schemas/recipe-1.json");
    serde_json::from_str(&fs::read_to_string(path).expect("the schema")).expect("JSON")
}

fn keys(table: &Value) -> BTreeSet<String> {
    let shared = table["$ref"].as_str().and_then(|at| at.strip_prefix('#'));
    let shipped = shipped();
    let table = shared.map_or(table, |at| shipped.pointer(at).expect("there"));
    let properties = table["properties"].as_object().expect("properties");
    properties.keys().cloned().collect()
}

/// The keys that the reader says the table has, when given one that it does not know.
fn keys_read(text: &str) -> BTreeSet<String> {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("recipe.toml");
    fs::write(&path, text).expect("a file");
    let (_, diagnostics) = read(&path, &ReadOptions::default());
    let about = |m: &str| m.contains(&format!("`{NO_KEY}`"));
    let rendered = diagnostics.0.iter().find(|d| about(&d.problem.fact));
    let rendered = rendered.unwrap_or_else(|| panic!("nothing is said about {NO_KEY} in\n{text}"));
    let help = rendered.problem.cures.join("\n");
    let list = help
        .strip_prefix("its keys: ")
        .or(help.strip_prefix("verbs: "));
    let list = list.into_iter().flat_map(|l| l.split(", "));
    list.map(str::to_string).collect()
}

#[test]
fn every_table_of_the_schema_has_the_keys_that_are_read() {
    let schema = shipped();
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
        (
            "[outputs.box_libvirt]",
            &properties["outputs"]["properties"]["box_libvirt"],
        ),
    ];
    for (header, table) in tables {
        let read = keys_read(&format!("schema = 1\n{header}\n{NO_KEY} = 1\n"));
        assert_eq!(read, keys(table), "{header}");
    }
    let top = keys_read(&format!("schema = 1\n{NO_KEY} = 1\n"));
    assert_eq!(top, keys(&schema), "the top");

    let check = &properties["clone"]["items"];
    let header = "[[clone]]\nwhy = \"x\"";
    let read = keys_read(&format!("schema = 1\n{header}\n{NO_KEY} = 1\n"));
    assert_eq!(read, keys(check), "[[clone]]");
    for key in ["registry", "service", "firewall", "user", "group"] {
        let text = format!("schema = 1\n{header}\n{key} = {{ {NO_KEY} = 1 }}\n");
        assert_eq!(keys_read(&text), keys(&check["properties"][key]), "{key}");
    }

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

/// Whatever is cut off or left out: no panic, and a recipe or a complaint, never neither.
#[test]
fn a_damaged_recipe_is_read_or_complained_about() {
    let fixtures = tree::root().join("crates/recipe/tests/recipes");
    let dir = tempfile::tempdir().expect("a folder");
    for folder in ["files", "packs", "targets"] {
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
    let options = ReadOptions::default();
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
