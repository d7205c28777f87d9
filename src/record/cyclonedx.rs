//! `sbom.cdx.json`: CycloneDX 1.6 (ECMA-424).
//!
//! The subject is the image, by its recipe's name and digest; nothing that differs between two builds of one recipe and
//! one lock is in it but the time, which is `SOURCE_DATE_EPOCH`'s.

use serde_json::{Value, json};

use super::inventory::{File, Inventory, Kind, Part};
use super::license::License;
use super::{said, uuid_of};

/// The document, with a final newline.
pub fn document(inventory: &Inventory) -> String {
    let body = body(inventory);
    // Over everything but the time: the same content has the same number.
    let content: String = body.iter().map(|(k, v)| format!("{k}: {v}\n")).collect();
    let serial = uuid_of(&content);
    let mut bom = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": serial.urn().to_string(),
        "version": 1,
    });
    for (key, value) in body {
        bom[key] = value;
    }
    bom["metadata"]["timestamp"] = json!(inventory.created);
    format!("{bom:#}\n")
}

fn body(inventory: &Inventory) -> [(&'static str, Value); 4] {
    let mut components = vec![windows(inventory)];
    components.extend(inventory.parts.iter().map(part));
    components.extend(inventory.files.iter().map(file));
    let refs: Vec<Value> = components.iter().map(|c| c["bom-ref"].clone()).collect();
    let mut dependencies = vec![json!({ "ref": "image", "dependsOn": refs })];
    dependencies.extend(refs.iter().map(|r| json!({ "ref": r })));
    [
        ("metadata", metadata(inventory)),
        ("components", Value::Array(components)),
        ("dependencies", Value::Array(dependencies)),
        // What Windows and its installers bring of their own is not listed.
        (
            "compositions",
            json!([{ "aggregate": "incomplete", "assemblies": ["image"] }]),
        ),
    ]
}

fn metadata(inventory: &Inventory) -> Value {
    let tool = &inventory.manifest.tool;
    let recipe = &inventory.manifest.recipe;
    json!({
        // In its place; the value is set last.
        "timestamp": null,
        "lifecycles": [{ "phase": "build" }],
        "tools": { "components": [{ "type": "application", "name": tool.name, "version": tool.version }] },
        "component": said(json!({
            "type": "platform",
            "bom-ref": "image",
            "name": recipe.name,
            "version": recipe.digest,
            "description": recipe.description,
        })),
    })
}

fn windows(inventory: &Inventory) -> Value {
    let windows = &inventory.manifest.windows;
    let facts = inventory.facts.iter();
    let facts = facts.map(|(name, value)| property(&format!("winimg:windows:{name}"), value));
    said(json!({
        "type": "operating-system",
        "bom-ref": "windows",
        "publisher": "Microsoft Corporation",
        "name": windows.display_name,
        "version": windows.build,
        "cpe": inventory.cpe,
        "properties": facts.collect::<Value>(),
    }))
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
    let distribution =
        |url: &String| json!({ "type": "distribution", "url": url, "hashes": hashes });
    let mut properties = vec![
        property("winimg:size", &part.size.to_string()),
        property("winimg:proof", &part.proof),
    ];
    let of = |name: &'static str| move |text: &String| property(name, text);
    properties.extend(part.signers.iter().map(of("winimg:signer")));
    properties.extend(part.paths.iter().map(of("winimg:path")));
    said(json!({
        "type": kind,
        "bom-ref": format!("input:{}", part.name),
        "name": part.name,
        "version": part.version,
        "hashes": hashes,
        "licenses": licenses(&part.license),
        "purl": part.purl,
        "externalReferences": part.url.iter().map(distribution).collect::<Value>(),
        "properties": properties,
        "components": part.files.iter().map(file).collect::<Value>(),
    }))
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
    json!({
        "type": kind,
        "bom-ref": reference,
        "name": file.path,
        "hashes": [hash("sha256", &file.sha256)],
        "properties": properties,
    })
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
