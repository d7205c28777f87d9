//! The manifest as a reader gets it, against the JSON Schema in the repository.

use std::fs;

use support::golden::schema_is_current;
use winimg::export;
use winimg::record::manifest::{
    BuildManifest, ExportSettings, ManifestArtifact, ManifestCloneCheck, ManifestHost,
    ManifestHypervisor, ManifestInput, ManifestProof, ManifestRecipe, ManifestSchema, ManifestStep,
    ManifestWindows, Tool, format_rfc3339, render_schema,
};
use winimg_base::digest::Digest;
use winimg_recipe::InputId;

use winimg_recipe::RegistryValueData as Data;
use winimg_recipe::plan::check::{FileDigest, ImageCheck, ServiceCheck, ServiceStartMode};

const SCHEMA_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/schemas/manifest-1.json");

fn service(name: &str, start: ServiceStartMode) -> ImageCheck {
    ImageCheck::Service(ServiceCheck {
        name: name.into(),
        start: Some(start),
        ..ServiceCheck::default()
    })
}

pub fn manifest() -> BuildManifest {
    let iso = Digest::sha256_of(b"iso").to_string();
    let input = |name: &str, url: &str, proof| ManifestInput {
        id: name.parse().expect("an input"),
        version: None,
        license: None,
        url: url.into(),
        mirror: None,
        size: 3,
        digest: iso.clone(),
        proof,
        signers: Vec::new(),
    };
    let artifact = export::ExportedArtifact {
        kind: "vhd",
        file: "demo.vhd".into(),
        bytes: 1_049_088,
        sha256: Digest::sha256_of(b"vhd"),
        disk: None,
        checked: vec!["size", "footer"],
    };
    BuildManifest {
        schema: ManifestSchema::V1,
        tool: Tool {
            name: "winimg".into(),
            version: "0.1.0".into(),
            commit: None,
        },
        recipe: ManifestRecipe {
            name: "demo".into(),
            description: Some("two artifacts".into()),
            path: "recipes/demo.toml".into(),
            digest: Digest::sha256_of(b"recipe").to_string(),
            lock: None,
        },
        started: format_rfc3339(
            std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000),
        ),
        finished: "2023-11-14T22:43:20Z".into(),
        host: ManifestHost {
            hypervisor: Some(ManifestHypervisor {
                name: "qemu".into(),
                version: "7.2.22".into(),
            }),
            qemu: "QEMU 7.2.22".into(),
            accelerator: "tcg".into(),
            remarks: vec!["/dev/kvm is there, but its machines crash".into()],
        },
        machine: None,
        layer: None,
        inputs: vec![
            input(
                "media.iso",
                "https://example.com/ws2022.iso",
                ManifestProof::Digest {
                    expected: iso.clone(),
                },
            ),
            input(
                "kubelet",
                "https://dl.k8s.io/kubelet.exe",
                ManifestProof::ChecksumFile {
                    url: "https://dl.k8s.io/kubelet.exe.sha256".into(),
                    entry: "kubelet.exe".into(),
                },
            ),
            input(
                "tool",
                "file:///srv/tool.exe",
                ManifestProof::Unverified {
                    reason: "built here a minute ago".into(),
                },
            ),
        ],
        windows: ManifestWindows {
            release: "2022".into(),
            edition: "ServerDatacenterCore".into(),
            image: "Windows Server 2022 SERVERDATACENTERCORE".into(),
            build: "20348.2113".into(),
            language: "en-US".into(),
            display_name: "Windows Server 2022 Datacenter Evaluation".into(),
        },
        targets: vec!["azure".into()],
        clone: vec![
            ManifestCloneCheck {
                place: "packs/openssh.toml:40:1".into(),
                why: "keys come in over SSH".into(),
                targets: Vec::new(),
                check: service("sshd", ServiceStartMode::Auto),
            },
            ManifestCloneCheck {
                place: "recipe.toml:30:1".into(),
                why: "an agent of the platform's own starts it".into(),
                targets: vec!["azure".into(), "desk".into()],
                check: service("sshd", ServiceStartMode::Demand),
            },
            ManifestCloneCheck {
                place: "recipe.toml:40:1".into(),
                why: "two clones would be one node".into(),
                targets: vec!["desk".into()],
                check: ImageCheck::Missing {
                    path: r"C:\etc\kubernetes\kubelet.conf".parse().expect("a path"),
                },
            },
        ],
        steps: vec![
            ManifestStep {
                name: "kubelet".into(),
                verb: "copy".into(),
                place: "recipe.toml:12:1".into(),
                inputs: vec![InputId::Component("kubelet".into())],
                exit_codes: vec![Some(0), Some(3010), None],
                seconds: 1.5,
                skipped: None,
                expects: vec![
                    ImageCheck::File {
                        path: r"C:\k\kubelet.exe".parse().expect("a path"),
                        content: FileDigest {
                            size: 3,
                            sha256: Digest::sha256_of(b"exe").hex(),
                        },
                    },
                    ImageCheck::Registry {
                        key: r"HKLM\SOFTWARE\Example".parse().expect("a key"),
                        value: Some("Tier".into()),
                        data: Data::Sz("gold".into()),
                    },
                    ImageCheck::Registry {
                        key: r"HKLM\SOFTWARE\Old".parse().expect("a key"),
                        value: None,
                        data: Data::Absent,
                    },
                    service("kubelet", ServiceStartMode::DelayedAuto),
                ],
            },
            ManifestStep {
                name: "debug tools".into(),
                verb: "extract".into(),
                place: "recipe.toml:20:1".into(),
                inputs: Vec::new(),
                exit_codes: vec![],
                seconds: 0.0,
                skipped: Some("debug == \"true\"".into()),
                expects: Vec::new(),
            },
        ],
        artifacts: vec![ManifestArtifact::from(&artifact)],
        export: Some(ExportSettings {
            epoch: 1_700_000_000,
            hardware_version: Some(20),
            license_type: None,
            nested_virtualization: false,
            communicators: Default::default(),
        }),
        tries: Vec::new(),
        warnings: vec!["tool is not verified: built here a minute ago".into()],
    }
}

#[test]
fn the_manifest_as_text() {
    insta::assert_snapshot!(manifest().to_json());
}

/// After a change of the types: `WINIMG_WRITE_SCHEMA=1 cargo test --test winimg export_record`.
#[test]
fn the_schema_in_the_repository_is_current() {
    schema_is_current(SCHEMA_FILE, &render_schema());
}

#[test]
fn the_schema_takes_the_manifest_and_refuses_a_wrong_one() {
    let schema: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(SCHEMA_FILE).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let good = serde_json::to_value(manifest()).unwrap();
    let complaints: Vec<String> = validator
        .iter_errors(&good)
        .map(|e| e.to_string())
        .collect();
    assert_eq!(complaints, Vec::<String>::new());
    let spoiled: [(&str, serde_json::Value); 7] = [
        ("/schema", "winimg/manifest/2".into()),
        ("/artifacts/0/sha256", "ABC".into()),
        ("/inputs/0/digest", "md5:00".into()),
        ("/inputs/0/proof/kind", "hope".into()),
        ("/inputs/0/size", (-1).into()),
        ("/steps/0/exit_codes/0", "0".into()),
        ("/windows/release", 2022.into()),
    ];
    for (pointer, value) in spoiled {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = value;
        assert!(!validator.is_valid(&bad), "{pointer}");
    }
    for key in ["schema", "recipe", "artifacts", "steps", "windows"] {
        let mut bad = good.clone();
        bad.as_object_mut().unwrap().remove(key);
        assert!(!validator.is_valid(&bad), "without {key}");
    }
}

#[test]
fn a_manifest_is_read_back_and_other_versions_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("manifest.json");
    std::fs::write(&path, manifest().to_json()).unwrap();
    assert_eq!(BuildManifest::read(&path).unwrap(), manifest());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);

    let text = fs::read_to_string(&path).unwrap();
    let with_more = text.replacen('{', "{ \"later\": 1,", 1);
    assert_eq!(BuildManifest::parse(&with_more).unwrap(), manifest());
    let other = text.replace("winimg/manifest/1", "winimg/manifest/9");
    assert_eq!(
        BuildManifest::parse(&other).unwrap_err().to_string(),
        "this manifest has an unsupported version\n  expected: winimg/manifest/1\n  found: winimg/manifest/9\n  \
         cure: use the winimg that wrote it, or a later one"
    );
    let fact = |t: &str| BuildManifest::parse(t).unwrap_err().fact().to_string();
    assert_eq!(fact("{}"), "this is not a winimg manifest");
    assert_eq!(fact("<html>"), "this is not a winimg manifest");
}

/// Of two that contradict each other the later one stands, where both are for the clone's target.
#[test]
fn a_clone_is_expected_to_be_what_the_checks_for_its_target_say() {
    let expected = |target: &str| {
        let expected = manifest().list_expected_of_clone(target);
        let expected = expected.into_iter().map(|e| (e.place, e.checks));
        expected.collect::<Vec<_>>()
    };
    let sshd = |place: &str, start| (place.to_owned(), vec![service("sshd", start)]);
    let own = sshd("recipe.toml:30:1", ServiceStartMode::Demand);
    assert_eq!(
        expected("vsphere"),
        [sshd("packs/openssh.toml:40:1", ServiceStartMode::Auto)]
    );
    assert_eq!(expected("azure"), std::slice::from_ref(&own));
    let path = r"C:\etc\kubernetes\kubelet.conf".parse().expect("a path");
    let missing = (
        "recipe.toml:40:1".to_owned(),
        vec![ImageCheck::Missing { path }],
    );
    assert_eq!(expected("desk"), [own, missing]);
}
