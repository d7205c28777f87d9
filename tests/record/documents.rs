//! The documents without their signatures.

use serde_json::{Value, json};
use uuid::Uuid;
use winimg::record::inventory::SbomInventory;
use winimg::record::manifest::BuildManifest;
use winimg::record::provenance::{self, ProvenanceByproduct, ProvenanceParameters, WORKSTATION};
use winimg::record::{cyclonedx, spdx};
use winimg_base::digest::Digest;

use crate::record::judges::judge;
use crate::record::sample::{EPOCH, manifest};

pub fn asked() -> ProvenanceParameters {
    let pairs = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter();
        pairs.map(|(k, v)| ((*k).into(), (*v).into())).collect()
    };
    ProvenanceParameters {
        builder: WORKSTATION.into(),
        variables: pairs(&[("kubernetes_version", "1.36.1"), ("tier", "gold")]),
        overrides: pairs(&[
            (
                "components.kubelet.url",
                "\"https://mirror.example.com/kubelet.exe\"",
            ),
            ("machine.cpus", "4"),
        ]),
        outputs: vec!["raw".into(), "ova".into()],
        lock: Some(Digest::sha256_of(b"lock")),
        epoch: EPOCH,
        verified: true,
        invocation: Uuid::from_u128(7),
    }
}

pub fn statement(manifest: &BuildManifest) -> String {
    let byproduct = |name, media_type| ProvenanceByproduct {
        name,
        media_type,
        digest: Digest::sha256_of(b"a record"),
    };
    let byproducts = [
        byproduct("manifest.json", "application/json"),
        byproduct("sbom.cdx.json", "application/vnd.cyclonedx+json"),
    ];
    provenance::render_statement(manifest, &asked(), &byproducts)
}

fn sboms(manifest: &BuildManifest, epoch: i64) -> [String; 2] {
    let inventory = SbomInventory::from_manifest(manifest, epoch);
    [
        cyclonedx::render_document(&inventory),
        spdx::render_document(&inventory),
    ]
}

#[test]
fn the_cyclonedx_sbom() {
    insta::assert_snapshot!(sboms(&manifest(), EPOCH)[0]);
}

#[test]
fn the_spdx_sbom() {
    let mut bom: Value = serde_json::from_str(&sboms(&manifest(), EPOCH)[1]).unwrap();
    // The snapshot below omits the fields that all packages, remarks and relationships share.
    for package in bom["packages"].as_array_mut().unwrap() {
        let package = package.as_object_mut().unwrap();
        for (key, said) in [
            ("filesAnalyzed", json!(false)),
            ("licenseConcluded", json!("NOASSERTION")),
            ("copyrightText", json!("NOASSERTION")),
        ] {
            assert_eq!(package.shift_remove(key), Some(said), "{package:?}");
        }
        let annotations = package.get_mut("annotations");
        for annotation in annotations
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            let comment = annotation["comment"].take();
            assert_eq!(
                *annotation,
                json!({
                    "annotationDate": "2023-11-14T22:13:20Z",
                    "annotationType": "OTHER",
                    "annotator": "Tool: winimg-0.1.0",
                    "comment": null,
                })
            );
            *annotation = comment;
        }
    }
    for relation in bom["relationships"].as_array_mut().unwrap() {
        let words = ["spdxElementId", "relationshipType", "relatedSpdxElement"];
        let words = words.map(|key| relation[key].as_str().unwrap());
        *relation = words.join(" ").into();
    }
    insta::assert_snapshot!(serde_json::to_string_pretty(&bom).unwrap());
}

#[test]
fn the_provenance() {
    insta::assert_snapshot!(statement(&manifest()));
}

/// Another run on another machine, to other bytes.
fn another_run() -> BuildManifest {
    let mut other = manifest();
    other.started = "2027-01-31T12:00:00Z".into();
    other.finished = "2027-01-31T13:00:00Z".into();
    other.recipe.path = "/elsewhere/capi-ova.toml".into();
    other.host.accelerator = "tcg".into();
    other.host.qemu = "QEMU 7.2.22".into();
    other.warnings.clear();
    other.inputs[0].url = "/mnt/iso/ws2022.iso".into();
    for step in &mut other.steps {
        step.seconds = 77.0;
        step.place = "/elsewhere/capi-ova.toml:12:1".into();
        step.exit_codes = vec![Some(3010), Some(0)];
    }
    other.artifacts.truncate(1);
    other.artifacts[0].sha256 = "00".repeat(32);
    other
}

#[test]
fn a_second_build_of_the_same_recipe_and_lock_has_the_same_sboms() {
    assert_eq!(sboms(&manifest(), EPOCH), sboms(&another_run(), EPOCH));
}

#[test]
fn another_epoch_changes_the_time_and_nothing_else() {
    let later = sboms(&manifest(), EPOCH + 86_400);
    for (one, other) in sboms(&manifest(), EPOCH).iter().zip(later) {
        assert_ne!(*one, other);
        assert!(one.contains("2023-11-14T22:13:20Z"), "{one}");
        assert_eq!(
            one.replace("2023-11-14T22:13:20Z", "2023-11-15T22:13:20Z"),
            other
        );
    }
}

#[test]
fn other_content_is_another_document() {
    let number = |sboms: &[String; 2]| {
        let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let (cdx, spdx) = (value(&sboms[0]), value(&sboms[1]));
        [
            cdx["serialNumber"].clone(),
            spdx["documentNamespace"].clone(),
        ]
    };
    let usual = number(&sboms(&manifest(), EPOCH));
    let mut proof = manifest();
    proof.inputs[4].proof = winimg::record::manifest::ManifestProof::Signed;
    let mut license = manifest();
    license.inputs[1].license = None;
    let mut version = manifest();
    version.inputs[2].version = Some("1.36.2".into());
    for other in [proof, license, version] {
        let other = number(&sboms(&other, EPOCH));
        assert_ne!(other[0], usual[0]);
        assert_ne!(other[1], usual[1]);
    }
}

/// What the judge says of a text in which one thing is another.
fn damaged(kind: &str, text: &str, from: &str, to: &str) -> String {
    let changed = text.replacen(from, to, 1);
    assert_ne!(changed, text, "{from} is not in it");
    let why = judge(kind, &changed, &[]).expect_err(&format!("{from} became {to}"));
    format!("{from} -> {to}\n    {why}\n")
}

#[test]
fn judges_take_the_documents_and_refuse_damaged_ones() {
    let [cdx, spdx] = sboms(&manifest(), EPOCH);
    let statement = statement(&manifest());
    for (kind, text) in [
        ("cyclonedx", &cdx),
        ("spdx", &spdx),
        ("statement", &statement),
    ] {
        assert_eq!(judge(kind, text, &[]), Ok(()), "{kind}");
    }
    let mut rendered = String::new();
    for (kind, text, from, to) in [
        ("cyclonedx", &cdx, "\"SHA-256\"", "\"SHA-255\""),
        ("cyclonedx", &cdx, "\"content\": \"", "\"content\": \"zz"),
        ("cyclonedx", &cdx, "urn:uuid:", "uuid:"),
        ("cyclonedx", &cdx, "\"publisher\"", "\"publishers\""),
        (
            "cyclonedx",
            &cdx,
            "\"ref\": \"input:nssm\"",
            "\"ref\": \"input:mssn\"",
        ),
        (
            "cyclonedx",
            &cdx,
            "pkg:generic/nssm@",
            "pkg:generic/ns%73m@",
        ),
        ("spdx", &spdx, "\"SHA256\"", "\"SHA-2\""),
        (
            "spdx",
            &spdx,
            "\"checksumValue\": \"",
            "\"checksumValue\": \"zz",
        ),
        (
            "spdx",
            &spdx,
            "\"relatedSpdxElement\": \"SPDXRef-windows\"",
            "\"relatedSpdxElement\": \"SPDXRef-none\"",
        ),
        ("spdx", &spdx, "\"Apache-2.0\"", "\"Apache-2\""),
        (
            "spdx",
            &spdx,
            "\"licenseId\": \"LicenseRef-public",
            "\"licenseId\": \"LicenseRef-other",
        ),
        ("statement", &statement, "\"digest\": {", "\"digests\": {"),
        (
            "statement",
            &statement,
            "\"predicateType\"",
            "\"predicateKind\"",
        ),
        (
            "statement",
            &statement,
            "\"resolvedDependencies\"",
            "\"dependencies\"",
        ),
        (
            "statement",
            &statement,
            "\"finishedOn\": \"2026-01-31T13",
            "\"finishedOn\": \"at one",
        ),
    ] {
        rendered += &damaged(kind, text, from, to);
    }
    insta::assert_snapshot!(rendered);
}
