//! `sbom.spdx.json`: SPDX 2.3 (ISO/IEC 5962's successor).
//!
//! A file of the guest is a package of purpose `FILE`, because an SPDX `File` needs a SHA-1, which
//! winimg does not compute. The same recipe and lock give the same bytes except for the time, like
//! in [`super::cyclonedx`].

use serde_json::{Value, json};

use super::inventory::{SbomFile, SbomInventory, SbomPart, SbomPartKind};
use super::{compute_uuid, remove_empty};

const NOTHING: &str = "NOASSERTION";

/// Renders the document, with a final newline.
pub fn render_document(inventory: &SbomInventory) -> String {
    let tool = &inventory.manifest.tool;
    let writer = format!("Tool: {}-{}", tool.name, tool.version);
    let mut body = SpdxBody {
        packages: vec![describe_image(inventory), describe_windows(inventory)],
        relationships: vec![
            build_relation("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-image"),
            build_relation("SPDXRef-image", "CONTAINS", "SPDXRef-windows"),
        ],
        notes: Vec::new(),
        writer: &writer,
        created: &inventory.created,
    };
    for part in &inventory.parts {
        body.add_part(part);
    }
    for file in &inventory.files {
        body.add_file("SPDXRef-image", file);
    }
    let licenses = collect_licenses(&inventory.parts);
    let content = [
        json!(strip_annotations(&body.packages)),
        json!(body.relationships),
        json!(body.notes),
        licenses.clone(),
    ];
    let namespace = compute_uuid(&content.map(|c| c.to_string()).join("\n"));
    let document = remove_empty(json!({
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

struct SpdxBody<'a> {
    packages: Vec<Value>,
    relationships: Vec<Value>,
    /// Texts of the annotations, without their time.
    notes: Vec<String>,
    writer: &'a str,
    created: &'a str,
}

/// Removes the annotations: they contain the time, which must not affect the namespace.
fn strip_annotations(packages: &[Value]) -> Vec<Value> {
    let mut packages = packages.to_vec();
    for package in packages.iter_mut().filter_map(Value::as_object_mut) {
        package.shift_remove("annotations");
    }
    packages
}

impl SpdxBody<'_> {
    fn add_part(&mut self, part: &SbomPart) {
        let id = build_id("input", &part.name);
        let purpose = match part.kind {
            SbomPartKind::Component => "APPLICATION",
            SbomPartKind::Medium => "INSTALL",
            SbomPartKind::Drivers => "DEVICE",
            SbomPartKind::ContainerImage => "CONTAINER",
        };
        let (algorithm, hex) = &part.digest;
        let mut package = build_package(&id, &part.name, part.version.as_deref(), purpose);
        if let Some(url) = &part.url {
            package["downloadLocation"] = json!(url);
        }
        package["licenseDeclared"] = json!(part.license.to_declared());
        package["checksums"] = build_checksum(&algorithm.to_ascii_uppercase(), hex);
        package["externalRefs"] = build_reference("PACKAGE-MANAGER", "purl", &part.purl);
        let mut notes = vec![
            format!("size: {}", part.size),
            format!("proof: {}", part.proof),
        ];
        notes.extend(part.signers.iter().map(|s| format!("signer: {s}")));
        notes.extend(part.paths.iter().map(|p| format!("path: {p}")));
        package["annotations"] = self.add_annotations(notes);
        self.packages.push(package);
        self.relationships.push(match part.kind {
            SbomPartKind::Medium => build_relation("SPDXRef-windows", "GENERATED_FROM", &id),
            _ => build_relation("SPDXRef-image", "CONTAINS", &id),
        });
        for file in &part.files {
            self.add_file(&id, file);
        }
    }

    fn add_file(&mut self, parent: &str, file: &SbomFile) {
        let (kind, of) = if file.is_driver {
            ("driver", format!("{} {}", file.path, file.sha256))
        } else {
            ("file", file.path.to_lowercase())
        };
        let id = format!("SPDXRef-{kind}-{}", compute_uuid(&of));
        let mut package = build_package(&id, &file.path, None, "FILE");
        package["checksums"] = build_checksum("SHA256", &file.sha256);
        let size = file.size.map(|size| format!("size: {size}"));
        let notes = size.into_iter().chain([format!("step: {}", file.step)]);
        package["annotations"] = self.add_annotations(notes.collect());
        self.packages.push(package);
        self.relationships
            .push(build_relation(parent, "CONTAINS", &id));
    }

    fn add_annotations(&mut self, comments: Vec<String>) -> Value {
        let annotations = comments
            .iter()
            .map(|comment| {
                json!({
                    "annotationDate": self.created,
                    "annotationType": "OTHER",
                    "annotator": self.writer,
                    "comment": comment,
                })
            })
            .collect();
        self.notes.extend(comments);
        annotations
    }
}

fn describe_image(inventory: &SbomInventory) -> Value {
    let recipe = &inventory.manifest.recipe;
    let version = Some(recipe.digest.as_str());
    let mut package = build_package("SPDXRef-image", &recipe.name, version, "OPERATING_SYSTEM");
    package["description"] = json!(recipe.description);
    remove_empty(package)
}

fn describe_windows(inventory: &SbomInventory) -> Value {
    let windows = &inventory.manifest.windows;
    let (name, version) = (&windows.display_name, Some(windows.build.as_str()));
    let mut package = build_package("SPDXRef-windows", name, version, "OPERATING_SYSTEM");
    package["supplier"] = json!("Organization: Microsoft Corporation");
    if let Some(cpe) = &inventory.cpe {
        package["externalRefs"] = build_reference("SECURITY", "cpe23Type", cpe);
    }
    let facts: Vec<String> = inventory
        .facts
        .iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    package["comment"] = json!(facts.join("\n"));
    package
}

fn build_package(id: &str, name: &str, version: Option<&str>, purpose: &str) -> Value {
    remove_empty(json!({
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

fn build_reference(category: &str, kind: &str, locator: &str) -> Value {
    json!([{
        "referenceCategory": category,
        "referenceType": kind,
        "referenceLocator": locator,
    }])
}

/// Returns the SPDX id of a name; a UUID replaces a name with characters that an id cannot have.
fn build_id(kind: &str, name: &str) -> String {
    let is_plain = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.');
    if is_plain {
        format!("SPDXRef-{kind}-{name}")
    } else {
        format!("SPDXRef-{kind}-{}", compute_uuid(name))
    }
}

fn build_relation(from: &str, kind: &str, to: &str) -> Value {
    json!({ "spdxElementId": from, "relationshipType": kind, "relatedSpdxElement": to })
}

fn build_checksum(algorithm: &str, hex: &str) -> Value {
    json!([{ "algorithm": algorithm, "checksumValue": hex }])
}

/// Returns the licences that are not on SPDX's list, each once.
fn collect_licenses(parts: &[SbomPart]) -> Value {
    let mut all: Vec<(String, String)> = parts
        .iter()
        .flat_map(|p| p.license.list_references())
        .collect();
    all.sort();
    all.dedup();
    all.into_iter()
        .map(|(id, text)| json!({ "licenseId": id, "extractedText": text }))
        .collect()
}
