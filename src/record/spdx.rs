//! `sbom.spdx.json`: SPDX 2.3 (ISO/IEC 5962's successor).
//!
//! A file of the guest is a package of purpose `FILE`: an SPDX `File` must carry a SHA-1, which winimg does not make.
//! The same recipe and lock give the same bytes but for the time, as in [`super::cyclonedx`].

use serde_json::{Value, json};

use super::inventory::{File, Inventory, Kind, Part};
use super::{said, uuid_of};

const NOTHING: &str = "NOASSERTION";

/// The document, with a final newline.
pub fn document(inventory: &Inventory) -> String {
    let tool = &inventory.manifest.tool;
    let writer = format!("Tool: {}-{}", tool.name, tool.version);
    let mut body = Body {
        packages: vec![image(inventory), windows(inventory)],
        relationships: vec![
            relation("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-image"),
            relation("SPDXRef-image", "CONTAINS", "SPDXRef-windows"),
        ],
        notes: Vec::new(),
        writer: &writer,
        created: &inventory.created,
    };
    for part in &inventory.parts {
        body.part(part);
    }
    for file in &inventory.files {
        body.file("SPDXRef-image", file);
    }
    let licenses = licenses(&inventory.parts);
    let content = [
        json!(without_notes(&body.packages)),
        json!(body.relationships),
        json!(body.notes),
        licenses.clone(),
    ];
    let namespace = uuid_of(&content.map(|c| c.to_string()).join("\n"));
    let document = said(json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": inventory.manifest.recipe.name,
        "documentNamespace": format!("https://spdx.org/spdxdocs/winimg-{namespace}"),
        "creationInfo": { "created": inventory.created, "creators": [writer] },
        "packages": body.packages,
        "relationships": body.relationships,
        "hasExtractedLicensingInfos": licenses,
    }));
    format!("{document:#}\n")
}

struct Body<'a> {
    packages: Vec<Value>,
    relationships: Vec<Value>,
    /// What the annotations say, without their time.
    notes: Vec<String>,
    writer: &'a str,
    created: &'a str,
}

/// Annotations carry the time; the namespace must not.
fn without_notes(packages: &[Value]) -> Vec<Value> {
    let mut packages = packages.to_vec();
    for package in packages.iter_mut().filter_map(Value::as_object_mut) {
        package.shift_remove("annotations");
    }
    packages
}

impl Body<'_> {
    fn part(&mut self, part: &Part) {
        let id = id("input", &part.name);
        let purpose = match part.kind {
            Kind::Component => "APPLICATION",
            Kind::Medium => "INSTALL",
            Kind::Drivers => "DEVICE",
            Kind::ContainerImage => "CONTAINER",
        };
        let (algorithm, hex) = &part.digest;
        let mut package = package(&id, &part.name, part.version.as_deref(), purpose);
        if let Some(url) = &part.url {
            package["downloadLocation"] = json!(url);
        }
        package["licenseDeclared"] = json!(part.license.declared());
        package["checksums"] = checksum(&algorithm.to_ascii_uppercase(), hex);
        package["externalRefs"] = reference("PACKAGE-MANAGER", "purl", &part.purl);
        let mut notes = vec![
            format!("size: {}", part.size),
            format!("proof: {}", part.proof),
        ];
        notes.extend(part.signers.iter().map(|s| format!("signer: {s}")));
        notes.extend(part.paths.iter().map(|p| format!("path: {p}")));
        package["annotations"] = self.annotations(notes);
        self.packages.push(package);
        self.relationships.push(match part.kind {
            Kind::Medium => relation("SPDXRef-windows", "GENERATED_FROM", &id),
            _ => relation("SPDXRef-image", "CONTAINS", &id),
        });
        for file in &part.files {
            self.file(&id, file);
        }
    }

    fn file(&mut self, parent: &str, file: &File) {
        let (kind, of) = match file.is_driver {
            true => ("driver", format!("{} {}", file.path, file.sha256)),
            false => ("file", file.path.to_lowercase()),
        };
        let id = format!("SPDXRef-{kind}-{}", uuid_of(&of));
        let mut package = package(&id, &file.path, None, "FILE");
        package["checksums"] = checksum("SHA256", &file.sha256);
        let size = file.size.map(|size| format!("size: {size}"));
        let notes = size.into_iter().chain([format!("step: {}", file.step)]);
        package["annotations"] = self.annotations(notes.collect());
        self.packages.push(package);
        self.relationships.push(relation(parent, "CONTAINS", &id));
    }

    fn annotations(&mut self, comments: Vec<String>) -> Value {
        let all = comments.iter().map(|comment| {
            json!({
                "annotationDate": self.created,
                "annotationType": "OTHER",
                "annotator": self.writer,
                "comment": comment,
            })
        });
        let all = all.collect();
        self.notes.extend(comments);
        all
    }
}

fn image(inventory: &Inventory) -> Value {
    let recipe = &inventory.manifest.recipe;
    let version = Some(recipe.digest.as_str());
    let mut package = package("SPDXRef-image", &recipe.name, version, "OPERATING_SYSTEM");
    package["description"] = json!(recipe.description);
    said(package)
}

fn windows(inventory: &Inventory) -> Value {
    let windows = &inventory.manifest.windows;
    let (name, version) = (&windows.display_name, Some(windows.build.as_str()));
    let mut package = package("SPDXRef-windows", name, version, "OPERATING_SYSTEM");
    package["supplier"] = json!("Organization: Microsoft Corporation");
    if let Some(cpe) = &inventory.cpe {
        package["externalRefs"] = reference("SECURITY", "cpe23Type", cpe);
    }
    let facts = inventory.facts.iter();
    let facts: Vec<String> = facts
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    package["comment"] = json!(facts.join("\n"));
    package
}

fn package(id: &str, name: &str, version: Option<&str>, purpose: &str) -> Value {
    said(json!({
        "SPDXID": id,
        "name": name,
        "versionInfo": version,
        "downloadLocation": NOTHING,
        "filesAnalyzed": false,
        "licenseConcluded": NOTHING,
        "licenseDeclared": NOTHING,
        "copyrightText": NOTHING,
        "primaryPackagePurpose": purpose,
    }))
}

fn reference(category: &str, kind: &str, locator: &str) -> Value {
    json!([{
        "referenceCategory": category,
        "referenceType": kind,
        "referenceLocator": locator,
    }])
}

/// Names that hold what an SPDX id must not are distinguished by a UUID.
fn id(kind: &str, name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    match name.chars().all(plain) {
        true => format!("SPDXRef-{kind}-{name}"),
        false => format!("SPDXRef-{kind}-{}", uuid_of(name)),
    }
}

fn relation(from: &str, kind: &str, to: &str) -> Value {
    json!({ "spdxElementId": from, "relationshipType": kind, "relatedSpdxElement": to })
}

fn checksum(algorithm: &str, hex: &str) -> Value {
    json!([{ "algorithm": algorithm, "checksumValue": hex }])
}

/// Every licence that is not on SPDX's list, once.
fn licenses(parts: &[Part]) -> Value {
    let mut all: Vec<(String, String)> =
        parts.iter().flat_map(|p| p.license.references()).collect();
    all.sort();
    all.dedup();
    let infos = all
        .into_iter()
        .map(|(id, text)| json!({ "licenseId": id, "extractedText": text }));
    infos.collect()
}
