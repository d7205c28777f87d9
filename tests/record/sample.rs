//! One build as its manifest has it: every kind of input, proof, licence and file.

use winimg::record::manifest::{
    BuildManifest, ManifestArtifact, ManifestHost, ManifestInput, ManifestProof, ManifestRecipe,
    ManifestSchema, ManifestStep, ManifestWindows, Tool,
};
use winimg_base::digest::Digest;
use winimg_recipe::GuestPath;
use winimg_recipe::plan::check::{
    ContainerImageManifest as ImageManifest, DriverInf, FileDigest, ImageCheck,
};
use winimg_trust::{Scheme, Signer};

pub const EPOCH: i64 = 1_700_000_000;

pub fn sha256(text: &str) -> String {
    Digest::sha256_of(text.as_bytes()).hex()
}

fn digest(text: &str) -> String {
    format!("sha256:{}", sha256(text))
}

fn input(name: &str, version: Option<&str>, url: &str, proof: ManifestProof) -> ManifestInput {
    ManifestInput {
        id: name.parse().expect("an input"),
        version: version.map(Into::into),
        license: Some("Apache-2.0".into()),
        url: url.into(),
        mirror: None,
        size: name.len() as u64,
        digest: digest(name),
        proof,
        signers: Vec::new(),
    }
}

fn pinned(name: &str) -> ManifestProof {
    ManifestProof::Digest {
        expected: digest(name),
    }
}

fn inputs() -> Vec<ManifestInput> {
    let unsaid = |input: ManifestInput| ManifestInput {
        license: None,
        ..input
    };
    let said = |license: &str, input: ManifestInput| ManifestInput {
        license: Some(license.into()),
        ..input
    };
    let checksum_file = ManifestProof::ChecksumFile {
        url: "https://dl.k8s.io/release/v1.36.1/kubelet.exe.sha256".into(),
        entry: "kubelet.exe".into(),
    };
    let kubelet = "https://dl.k8s.io/release/v1.36.1/bin/windows/amd64/kubelet.exe";
    let containerd = "https://github.com/containerd/containerd/releases/download/v2.1.4/containerd-2.1.4-windows-amd64.tar.gz";
    vec![
        unsaid(input(
            "media.iso",
            None,
            "/srv/media/ws2022.iso",
            ManifestProof::Unverified {
                reason: "evaluation media have no published digest".into(),
            },
        )),
        said(
            "Red Hat's terms",
            input(
                "media.virtio",
                Some("0.1.271"),
                "https://mirror.example.com/virtio-win.iso?…",
                pinned("media.virtio"),
            ),
        ),
        input("kubelet", Some("1.36.1"), kubelet, checksum_file),
        ManifestInput {
            signers: vec![Signer {
                scheme: Scheme::Attestation,
                signer: "https://github.com/containerd/containerd/.github/workflows/release.yml@refs/tags/v2.1.4".into(),
                pinned_by: "identity and issuer https://token.actions.githubusercontent.com".into(),
                signed_at: Some("2025-07-28T10:00:00Z".into()),
                remarks: vec!["the log's time is taken".into()],
            }],
            ..input("containerd", Some("2.1.4"), containerd, ManifestProof::Signed)
        },
        said(
            "LicenseRef-public-domain",
            input("nssm", Some("2.24"), "nssm.exe", pinned("nssm")),
        ),
        unsaid(ManifestInput {
            digest: format!("sha512:{}", "ab".repeat(64)),
            ..input("tool_x", None, "https://example.com/a%20b/tool.msi", pinned("tool_x"))
        }),
        unsaid(input(
            "image pause",
            Some("10.0.20348.2113"),
            "mcr.example.com:5000/oss/kubernetes/pause:3.10.1",
            pinned("image pause"),
        )),
    ]
}

fn step(name: &str, verb: &str, inputs: &[&str], expects: Vec<ImageCheck>) -> ManifestStep {
    ManifestStep {
        name: name.into(),
        verb: verb.into(),
        place: "recipe.toml:12:1".into(),
        inputs: inputs
            .iter()
            .map(|i| i.parse().expect("an input"))
            .collect(),
        exit_codes: vec![Some(0)],
        seconds: 1.5,
        skipped: None,
        expects,
    }
}

fn file(path: &'static str, content: &str) -> ImageCheck {
    ImageCheck::File {
        path: GuestPath::from_static(path),
        content: FileDigest {
            size: content.len() as u64,
            sha256: sha256(content),
        },
    }
}

fn steps() -> Vec<ManifestStep> {
    vec![
        step(
            "kubelet",
            "copy",
            &["kubelet"],
            vec![file(r"C:\k\kubelet.exe", "kubelet")],
        ),
        step(
            "containerd",
            "extract",
            &["containerd"],
            vec![
                file(r"C:\Program Files\containerd\bin\ctr.exe", "ctr"),
                file(
                    r"C:\Program Files\containerd\bin\containerd.exe",
                    "containerd.exe",
                ),
            ],
        ),
        step(
            "containerd's configuration",
            "file",
            &[],
            vec![file(
                r"C:\Program Files\containerd\config.toml",
                "version = 3\n",
            )],
        ),
        // The last word on a file is the one that counts, however it is spelt.
        step(
            "our own ctr",
            "copy",
            &["nssm", "tool_x"],
            vec![file(r"c:\program files\Containerd\bin\CTR.exe", "nssm")],
        ),
        step("tool", "msi", &["tool_x"], Vec::new()),
        step(
            "drivers",
            "driver",
            &["media.virtio"],
            vec![ImageCheck::Driver {
                driver: DriverInf {
                    inf: "vioscsi.inf".into(),
                    sha256: sha256("vioscsi.inf"),
                },
            }],
        ),
        step(
            "pause",
            "image",
            &["image pause"],
            vec![ImageCheck::ContainerImage {
                image: ImageManifest {
                    reference: "mcr.example.com:5000/oss/kubernetes/pause:3.10.1".into(),
                    digest: digest("image pause"),
                },
                root: r"C:\ProgramData\containerd\root".parse().expect("a path"),
            }],
        ),
        step(
            "update",
            "update",
            &[],
            vec![ImageCheck::Update {
                kb: "KB5012637".into(),
            }],
        ),
    ]
}

pub fn manifest() -> BuildManifest {
    BuildManifest {
        schema: ManifestSchema::V1,
        tool: Tool {
            name: "winimg".into(),
            version: "0.1.0".into(),
            commit: None,
        },
        recipe: ManifestRecipe {
            name: "capi-ova".into(),
            description: Some("Cluster API node for vSphere".into()),
            path: "recipes/capi-ova.toml".into(),
            digest: digest("recipe"),
            lock: None,
        },
        started: "2026-01-31T12:00:00Z".into(),
        finished: "2026-01-31T13:00:00Z".into(),
        host: ManifestHost {
            hypervisor: None,
            qemu: "QEMU 10.0.0".into(),
            accelerator: "kvm".into(),
            remarks: Vec::new(),
        },
        machine: None,
        layer: None,
        inputs: inputs(),
        windows: ManifestWindows {
            release: "2022".into(),
            edition: "ServerDatacenterCore".into(),
            image: "Windows Server 2022 SERVERDATACENTERCORE".into(),
            display_name: "Windows Server 2022 Datacenter".into(),
            build: "10.0.20348.2113".into(),
            language: "en-US".into(),
        },
        targets: vec!["vsphere".into()],
        steps: steps(),
        clone: Vec::new(),
        artifacts: vec![
            artifact("ova", "capi-ova.ova", "the OVA"),
            artifact("raw", "capi-ova.raw", "the raw disk"),
        ],
        export: None,
        tries: Vec::new(),
        warnings: vec!["media.iso is not verified".into()],
    }
}

fn artifact(kind: &str, file: &str, content: &str) -> ManifestArtifact {
    ManifestArtifact {
        kind: kind.into(),
        file: file.into(),
        size: content.len() as u64,
        sha256: sha256(content),
        disk: None,
        checked: vec!["size".into()],
    }
}
