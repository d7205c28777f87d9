//! `sbom.cdx.json`: CycloneDX 1.6 (ECMA-424).
//!
//! The subject is the image, identified by its recipe's name and digest. Two builds of one recipe
//! and one lock differ only in the time, which comes from `SOURCE_DATE_EPOCH`.

use serde_json::{Value, json};

use super::inventory::{SbomFile, SbomInventory, SbomPart, SbomPartKind};
use super::license::SpdxLicense;
use super::{compute_uuid, remove_empty};

/// Renders the document, with a final newline.
pub fn render_document(inventory: &SbomInventory) -> String {
    let body = build_body(inventory);
    // Without the time, so that the same content has the same serial number.
    let content: String = body.iter().map(|(k, v)| format!("{k}: {v}\n")).collect();
    let serial = compute_uuid(&content);
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

fn build_body(inventory: &SbomInventory) -> [(&'static str, Value); 4] {
    let mut components = vec![describe_windows(inventory)];
    components.extend(inventory.parts.iter().map(describe_part));
    components.extend(inventory.files.iter().map(describe_file));
    let refs: Vec<Value> = components.iter().map(|c| c["bom-ref"].clone()).collect();
    let mut dependencies = vec![json!({ "ref": "image", "dependsOn": refs })];
    dependencies.extend(refs.iter().map(|r| json!({ "ref": r })));
    [
        ("metadata", build_metadata(inventory)),
        ("components", Value::Array(components)),
        ("dependencies", Value::Array(dependencies)),
        // Files from Windows and from installers are not listed.
        (
            "compositions",
            json!([{ "aggregate": "incomplete", "assemblies": ["image"] }]),
        ),
    ]
}

fn build_metadata(inventory: &SbomInventory) -> Value {
    let tool = &inventory.manifest.tool;
    let recipe = &inventory.manifest.recipe;
    json!({
        // Reserves the position; the value is set last.
        "timestamp": null,
        "lifecycles": [{ "phase": "build" }],
        "tools": {
            "components": [{
                "type": "application",
                "name": tool.name,
                "version": tool.version,
            }],
        },
        "component": remove_empty(json!({
            "type": "platform",
            "bom-ref": "image",
            "name": recipe.name,
            "version": recipe.digest,
            "description": recipe.description,
        })),
    })
}

fn describe_windows(inventory: &SbomInventory) -> Value {
    let windows = &inventory.manifest.windows;
    let facts = inventory
        .facts
        .iter()
        .map(|(name, value)| build_property(&format!("winimg:windows:{name}"), value));
    remove_empty(json!({
        "type": "operating-system",
        "bom-ref": "windows",
        "publisher": "Microsoft Corporation",
        "name": windows.display_name,
        "version": windows.build,
        "cpe": inventory.cpe,
        "properties": facts.collect::<Value>(),
    }))
}

fn describe_part(part: &SbomPart) -> Value {
    let kind = match part.kind {
        SbomPartKind::Component => "application",
        SbomPartKind::Medium => "file",
        SbomPartKind::Drivers => "device-driver",
        SbomPartKind::ContainerImage => "container",
    };
    let (algorithm, hex) = &part.digest;
    let hashes = json!([describe_hash(algorithm, hex)]);
    let references = part
        .url
        .iter()
        .map(|url| json!({ "type": "distribution", "url": url, "hashes": hashes }));
    let mut properties = vec![
        build_property("winimg:size", &part.size.to_string()),
        build_property("winimg:proof", &part.proof),
    ];
    let signers = part.signers.iter();
    properties.extend(signers.map(|signer| build_property("winimg:signer", signer)));
    let paths = part.paths.iter();
    properties.extend(paths.map(|path| build_property("winimg:path", path)));
    remove_empty(json!({
        "type": kind,
        "bom-ref": format!("input:{}", part.name),
        "name": part.name,
        "version": part.version,
        "hashes": hashes,
        "licenses": describe_licenses(&part.license),
        "purl": part.purl,
        "externalReferences": references.collect::<Value>(),
        "properties": properties,
        "components": part.files.iter().map(describe_file).collect::<Value>(),
    }))
}

fn describe_file(file: &SbomFile) -> Value {
    let (kind, reference) = if file.is_driver {
        (
            "device-driver",
            format!("driver:{}:{}", file.path, file.sha256),
        )
    } else {
        ("file", format!("file:{}", file.path))
    };
    let mut properties = Vec::new();
    if let Some(size) = file.size {
        properties.push(build_property("winimg:size", &size.to_string()));
    }
    properties.push(build_property("winimg:step", &file.step));
    json!({
        "type": kind,
        "bom-ref": reference,
        "name": file.path,
        "hashes": [describe_hash("sha256", &file.sha256)],
        "properties": properties,
    })
}

fn describe_licenses(license: &SpdxLicense) -> Value {
    match license {
        SpdxLicense::Missing => Value::Null,
        SpdxLicense::Expression { text, .. } => json!([{ "expression": text }]),
        SpdxLicense::Words(words) => json!([{ "license": { "name": words } }]),
    }
}

fn describe_hash(algorithm: &str, hex: &str) -> Value {
    let name = match algorithm {
        "sha512" => "SHA-512",
        _ => "SHA-256",
    };
    json!({ "alg": name, "content": hex })
}

fn build_property(name: &str, value: &str) -> Value {
    json!({ "name": name, "value": value })
}
