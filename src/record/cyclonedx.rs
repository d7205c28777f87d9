//! `sbom.cdx.json`: CycloneDX 1.6 (ECMA-424).
//!
//! The subject is the image, by its recipe's name and digest; nothing that differs between two builds of one recipe and
//! one lock is in it but the time, which is `SOURCE_DATE_EPOCH`'s.

use serde_json::{Map, Value, json};

use super::inventory::{File, Inventory, Kind, Part};
use super::license::License;
use super::uuid_of;

/// The document, with a final newline.
pub fn document(inventory: &Inventory) -> String {
    let body = body(inventory);
    // Over everything but the time: the same content has the same number.
    let serial = uuid_of(&body.to_string());
    let mut bom = Map::new();
    bom.insert(
        "$schema".into(),
        json!("http://cyclonedx.org/schema/bom-1.6.schema.json"),
    );
    bom.insert("bomFormat".into(), json!("CycloneDX"));
    bom.insert("specVersion".into(), json!("1.6"));
    bom.insert("serialNumber".into(), json!(serial.urn().to_string()));
    bom.insert("version".into(), json!(1));
    for (key, value) in body {
        bom.insert(key, value);
    }
    bom["metadata"]["timestamp"] = json!(inventory.created);
    format!("{:#}\n", Value::Object(bom))
}

fn body(inventory: &Inventory) -> Object {
    let mut components = vec![windows(inventory)];
    components.extend(inventory.parts.iter().map(part));
    components.extend(inventory.files.iter().map(file));
    let refs: Vec<Value> = components.iter().map(|c| c["bom-ref"].clone()).collect();
    let mut dependencies = vec![json!({ "ref": "image", "dependsOn": refs })];
    dependencies.extend(refs.iter().map(|r| json!({ "ref": r })));
    Object(vec![
        ("metadata", metadata(inventory)),
        ("components", Value::Array(components)),
        ("dependencies", Value::Array(dependencies)),
        // What Windows and its installers bring of their own is not listed.
        (
            "compositions",
            json!([{ "aggregate": "incomplete", "assemblies": ["image"] }]),
        ),
    ])
}

/// Keys in the order in which they are to stand, without those that have no value.
struct Object(Vec<(&'static str, Value)>);

impl Object {
    fn value(self) -> Value {
        Value::Object(self.into_iter().collect())
    }
}

impl std::fmt::Display for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (key, value) in &self.0 {
            writeln!(f, "{key}: {value}")?;
        }
        Ok(())
    }
}

impl IntoIterator for Object {
    type Item = (String, Value);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        let empty = |value: &Value| match value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            _ => false,
        };
        let kept = self.0.into_iter().filter(|(_, value)| !empty(value));
        let kept: Vec<_> = kept.map(|(key, value)| (key.to_owned(), value)).collect();
        kept.into_iter()
    }
}

fn metadata(inventory: &Inventory) -> Value {
    let tool = &inventory.tool;
    let image = Object(vec![
        ("type", json!("platform")),
        ("bom-ref", json!("image")),
        ("name", json!(inventory.name)),
        ("version", json!(inventory.version)),
        ("description", json!(inventory.description)),
    ]);
    json!({
        // In its place; the value is set last.
        "timestamp": null,
        "lifecycles": [{ "phase": "build" }],
        "tools": { "components": [{ "type": "application", "name": tool.name, "version": tool.version }] },
        "component": image.value(),
    })
}

fn windows(inventory: &Inventory) -> Value {
    let w = &inventory.windows;
    let facts = w.facts.iter().map(|(name, value)| property(name, value));
    Object(vec![
        ("type", json!("operating-system")),
        ("bom-ref", json!("windows")),
        ("publisher", json!("Microsoft Corporation")),
        ("name", json!(w.name)),
        ("version", json!(w.build)),
        ("cpe", json!(w.cpe)),
        ("properties", facts.collect()),
    ])
    .value()
}

fn part(part: &Part) -> Value {
    let kind = match part.kind {
        Kind::Component => "application",
        Kind::Medium => "file",
        Kind::Drivers => "device-driver",
        Kind::ContainerImage => "container",
    };
    let (algorithm, hex) = &part.digest;
    let hashes = json!([hash(algorithm, hex)]);
    let distribution = part
        .url
        .iter()
        .map(|url| json!({ "type": "distribution", "url": url, "hashes": hashes }));
    let mut properties = vec![
        property("winimg:size", &part.size.to_string()),
        property("winimg:proof", &part.proof),
    ];
    let of = |name: &'static str| move |text: &String| property(name, text);
    properties.extend(part.signers.iter().map(of("winimg:signer")));
    properties.extend(part.paths.iter().map(of("winimg:path")));
    let files: Vec<Value> = part.files.iter().map(file).collect();
    Object(vec![
        ("type", json!(kind)),
        ("bom-ref", json!(format!("input:{}", part.name))),
        ("name", json!(part.name)),
        ("version", json!(part.version)),
        ("hashes", hashes.clone()),
        ("licenses", licenses(&part.license)),
        ("purl", json!(part.purl)),
        ("externalReferences", distribution.collect()),
        ("properties", Value::Array(properties)),
        ("components", Value::Array(files)),
    ])
    .value()
}

fn file(file: &File) -> Value {
    let (kind, reference) = match file.is_driver {
        true => (
            "device-driver",
            format!("driver:{}:{}", file.path, file.sha256),
        ),
        false => ("file", format!("file:{}", file.path)),
    };
    let mut properties = Vec::new();
    if let Some(size) = file.size {
        properties.push(property("winimg:size", &size.to_string()));
    }
    properties.push(property("winimg:step", &file.step));
    Object(vec![
        ("type", json!(kind)),
        ("bom-ref", json!(reference)),
        ("name", json!(file.path)),
        ("hashes", json!([hash("sha256", &file.sha256)])),
        ("properties", Value::Array(properties)),
    ])
    .value()
}

fn licenses(license: &License) -> Value {
    match license {
        License::Unsaid => Value::Null,
        License::Expression { text, .. } => json!([{ "expression": text }]),
        License::Words(words) => json!([{ "license": { "name": words } }]),
    }
}

fn hash(algorithm: &str, hex: &str) -> Value {
    let name = match algorithm {
        "sha512" => "SHA-512",
        _ => "SHA-256",
    };
    json!({ "alg": name, "content": hex })
}

fn property(name: &str, value: &str) -> Value {
    json!({ "name": name, "value": value })
}
