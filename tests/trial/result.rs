//! The result of a trial as a reader gets it, against the JSON Schema in the repository.

use std::fs;

use serde_json::Value;
use winimg::record::manifest::Tool;
use winimg::trial::compare;
use winimg::trial::metadata::{CloneReport, MetadataRequest};
use winimg::trial::result::{
    CloneBoot, CloneRun, GivenIdentity, TargetPlatform, TrialNetwork, TrialResult, TrialSchema,
    TrialVerdict, TriedHardware, TriedImage, render_schema,
};
use winimg::trial::state::KnownFact;
use winimg_recipe::Firmware;
use winimg_recipe::target::{
    self, FactOrigin, FactProof, MetadataForm, Presence, TargetController, TargetMetadata,
    TargetNic,
};

use super::{identity, judged};
use support::difference::lines_that_differ;
use support::golden::schema_is_current;

const SCHEMA_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/schemas/try-1.json");

fn clone(number: u32) -> CloneRun {
    let mut state = judged::good(number);
    state.disk = KnownFact::from_reason("the partition table can't be read");
    CloneRun {
        given: GivenIdentity::from(&identity()),
        boots: vec![CloneBoot {
            restarts: 2,
            seconds: 181.5,
            screen: Some(format!("vsphere/clone-{}-boot-1.png", number + 1)),
        }],
        state: Some(state),
        requests: vec![MetadataRequest {
            seconds: 12.25,
            address: "169.254.169.254:80".into(),
            method: "GET".into(),
            target: "/openstack".into(),
            status: 200,
        }],
        reports: vec![
            CloneReport::EncryptedPassword,
            CloneReport::Property {
                name: "CertificateThumbprint".into(),
                value: "AB12".into(),
            },
        ],
    }
}

fn platform() -> TargetPlatform {
    let origin = |source: &str, proof| FactOrigin {
        source: source.into(),
        proof,
    };
    TargetPlatform {
        title: "VMware vSphere".into(),
        hardware: target::TargetHardware {
            firmware: vec![Firmware::Uefi, Firmware::Bios],
            controller: TargetController::Nvme,
            also: Vec::new(),
            nic: TargetNic::Vmxnet3,
            tpm: Presence::Optional,
            secure_boot: Presence::Optional,
            origin: origin("DMTF DSP0243 (OVF 1.1)", FactProof::Text),
        },
        metadata: TargetMetadata {
            by: MetadataForm::OvfEnvironment,
            agent: "cloudbase-init".into(),
            origin: origin("cloudbase-init: ovfservice.py", FactProof::Inferred),
        },
    }
}

pub fn trial() -> TrialResult {
    let mut trial = TrialResult {
        schema: TrialSchema::V1,
        tool: Tool {
            name: "winimg".into(),
            version: "0.1.0".into(),
            commit: None,
        },
        image: TriedImage {
            file: "demo.qcow2".into(),
            size: 3,
            sha256: None,
        },
        target: "vsphere".into(),
        started: "2026-01-31T12:00:00Z".into(),
        finished: "2026-01-31T12:20:00Z".into(),
        platform: platform(),
        hardware: TriedHardware {
            hypervisor: "QEMU 7.2.22".into(),
            accelerator: "tcg".into(),
            firmware: Firmware::Uefi,
            controller: TargetController::Nvme,
            nic: TargetNic::E1000e,
            tpm: false,
            secure_boot: true,
        },
        metadata: MetadataForm::OvfEnvironment,
        network: TrialNetwork::Isolated,
        remarks: vec!["QEMU has no vmxnet3 that this Windows knows".into()],
        clones: vec![clone(0), clone(0)],
        compared: Vec::new(),
        findings: Vec::new(),
        checks: 0,
        verdict: TrialVerdict::Good,
    };
    let (a, b) = (judged::good(0), judged::good(0));
    trial.compared = compare::compare_clones(&a, &b);
    let report = compare::report(&trial.compared, true);
    trial.add_report(None, &report);
    trial
}

#[test]
fn the_result_as_text() {
    let mut whole: Value = serde_json::from_str(&trial().to_json()).unwrap();
    let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap() + "\n";
    assert_eq!(trial().to_json(), pretty(&whole));
    // The second clone is its difference to the first.
    let clones = whole["clones"].as_array_mut().unwrap();
    let second = clones.pop().unwrap();
    let differs = lines_that_differ(&pretty(&clones[0]), &pretty(&second));
    insta::assert_snapshot!(format!("{}{differs}", pretty(&whole)));
}

/// After a change of the types: `WINIMG_WRITE_SCHEMA=1 cargo test --test machines trial::result`.
#[test]
fn the_schema_in_the_repository_is_current() {
    schema_is_current(SCHEMA_FILE, &render_schema());
}

#[test]
fn the_schema_takes_the_result_and_refuses_a_wrong_one() {
    let schema: Value = serde_json::from_str(&fs::read_to_string(SCHEMA_FILE).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let good = serde_json::to_value(trial()).unwrap();
    let complaints: Vec<String> = validator
        .iter_errors(&good)
        .map(|e| e.to_string())
        .collect();
    assert_eq!(complaints, Vec::<String>::new());
    let spoiled: [(&str, Value); 6] = [
        ("/schema", "winimg/try/2".into()),
        ("/verdict", "perhaps".into()),
        ("/findings/0/severity", "grave".into()),
        ("/clones/0/boots/0/restarts", "2".into()),
        ("/clones/0/state/machine_sid", 7.into()),
        ("/hardware/controller", "floppy".into()),
    ];
    for (pointer, value) in spoiled {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = value;
        assert!(!validator.is_valid(&bad), "{pointer}");
    }
}

#[test]
fn a_result_is_read_back_and_holds_no_password() {
    let text = trial().to_json();
    assert_eq!(serde_json::from_str::<TrialResult>(&text).unwrap(), trial());
    assert!(!text.contains(identity().password.expose()), "{text}");
}
