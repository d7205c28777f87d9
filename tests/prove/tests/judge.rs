//! Verdicts from rows that the tests make: silence is never good, one failure is too much.

use std::collections::BTreeSet;

use prove::judge::{PROBES, verdicts};
use prove::proof::{Machine, Medium, Outcome, Proof, Row, SCHEMA, Seen, Stage, Trial, Verified};

use crate::ledger::read;

/// A row in which all went well on the stand-in.
pub fn row(name: &str) -> Row {
    let stage = |what: &str| Stage {
        what: what.into(),
        status: Some(0),
        seconds: 61.5,
        said: None,
    };
    let answers = [
        (
            "revision",
            "Microsoft Windows [Version 10.0.20348.587]\r\n    CurrentBuildNumber    REG_SZ    20348\r\n    UBR    REG_DWORD    0x24b\r\n",
        ),
        (
            "setup state",
            "    SystemSetupInProgress    REG_DWORD    0x0\r\n    SetupType    REG_DWORD    0x0\r\n",
        ),
        (
            "firewall",
            "deleted-none=1\r\nshown-none=1\r\nadded=0\r\nshown=0\r\ndeleted=0\r\nshown-after=1\r\n",
        ),
        ("powershell", "there is no PowerShell\r\n"),
        (
            "accounts",
            "[user]\r\ntype NET HELPMSG 2221.\r\n[group]\r\nSystem error 1376 has occurred.\r\n[member]\r\nSystem error 1378\r\n",
        ),
    ];
    Row {
        name: name.into(),
        machine: Machine {
            hypervisor: "qemu".into(),
            firmware: "uefi".into(),
            disk_bus: "virtio".into(),
            trusted: false,
        },
        windows: "20348.587".into(),
        shipped: None,
        stages: ["build", "verify", "try openstack"].map(stage).into(),
        missing: Vec::new(),
        seen: Seen {
            accelerator: Some("tcg".into()),
            phases: [("install", 60.0), ("provision", 20.0), ("seal", 5.0)]
                .map(|(name, seconds)| (name.to_owned(), seconds))
                .into(),
            layers_sealed: 1,
            resumed: false,
            generalized: Some(true),
            disk_usage: true,
            answers: answers
                .map(|(name, said)| (name.to_owned(), said.to_owned()))
                .into(),
        },
        verified: Some(Verified {
            checks: 3,
            hold: 3,
            findings: Vec::new(),
        }),
        trials: vec![Trial {
            target: "openstack".into(),
            is_good: true,
            controller: "virtio-blk".into(),
            metadata: "openstack".into(),
            trusted: false,
            host_keys_differ: None,
            remarks: Vec::new(),
            findings: Vec::new(),
        }],
        joins: Vec::new(),
    }
}

/// A proof with these rows; `known` is what the ledger knows the medium as.
pub fn proof(known: Option<&str>, rows: Vec<Row>) -> Proof {
    let verdicts = verdicts(&read(), &rows);
    Proof {
        schema: SCHEMA.into(),
        winimg: "winimg 0.1.0".into(),
        winimg_sha256: "11".repeat(32),
        commit: Some("22".repeat(20)),
        started: "2026-12-01T01:00:00Z".into(),
        ended: "2026-12-01T02:00:00Z".into(),
        medium: Medium {
            file: "some.iso".into(),
            size: 5 << 30,
            sha256: "3e4fa6d8507b554856fc9ca6079cc402df11a8b79344871669f0251535255325".into(),
            build: "20348.587".into(),
            images: vec!["Windows Server 2022 <SERVERSTANDARDCORE>".into()],
            known: known.map(str::to_owned),
        },
        has_control_plane: false,
        host: vec!["qemu-system-x86_64 10.0".into()],
        rows,
        verdicts,
    }
}

fn outcome(claim: &str, rows: &[Row]) -> (Outcome, Vec<String>) {
    let all = verdicts(&read(), rows);
    let found = all.into_iter().find(|verdict| verdict.claim == claim);
    let found = found.expect("a claim with a probe");
    (found.outcome, found.failed)
}

#[test]
fn claims_and_probes_name_each_other() {
    let ledger = read();
    let named = ledger
        .claims
        .iter()
        .filter_map(|claim| claim.probe.as_deref());
    let named: BTreeSet<&str> = named.collect();
    let known: BTreeSet<&str> = PROBES.iter().map(|probe| probe.id).collect();
    assert_eq!(named, known);
}

#[test]
fn what_a_good_row_shows_holds_and_the_rest_stays_open() {
    let all = verdicts(&read(), &[row("uefi-virtio")]);
    let lines = all.iter().map(|v| format!("{}: {:?}", v.claim, v.outcome));
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"));
}

#[test]
fn nothing_is_decided_without_rows() {
    let all = verdicts(&read(), &[]);
    assert!(all.iter().all(|verdict| verdict.outcome == Outcome::Open));
}

#[test]
fn one_row_that_fails_outweighs_those_that_hold() {
    let mut bad = row("bios-ahci");
    let firewall = bad.seen.answers.get_mut("firewall").expect("an answer");
    *firewall = firewall.replace("deleted-none=1", "deleted-none=0");
    let found = outcome("firewall-netsh", &[row("uefi-virtio"), bad]);
    let wrong = vec!["bios-ahci: deleted-none=0".to_owned()];
    assert_eq!(found, (Outcome::Failed, wrong));
}

#[test]
fn an_answer_that_breaks_off_fails() {
    let mut cut = row("uefi-virtio");
    cut.seen
        .answers
        .insert("firewall".into(), "deleted-none=1\r\n".into());
    let (outcome, failed) = outcome("firewall-netsh", &[cut]);
    assert_eq!(outcome, Outcome::Failed);
    assert!(failed[0].contains("added=(not printed)"), "{failed:?}");
}

#[test]
fn another_revision_than_ver_names_fails() {
    let mut other = row("uefi-virtio");
    let answer = other.seen.answers.get_mut("revision").expect("an answer");
    *answer = answer.replace("0x24b", "0x24c");
    assert_eq!(outcome("windows-revision", &[other]).0, Outcome::Failed);
}

#[test]
fn a_host_that_could_start_nothing_says_nothing_of_windows() {
    let mut row = row("uefi-virtio");
    row.seen = Seen::default();
    row.verified = None;
    row.trials.clear();
    row.stages.truncate(1);
    row.stages[0].status = Some(3);
    let all = verdicts(&read(), &[row]);
    let decided = all
        .iter()
        .filter(|verdict| verdict.outcome != Outcome::Open);
    assert_eq!(decided.count(), 0);
}

/// A row whose build ended with this status, with what it had seen by then.
fn broken(name: &str, status: Option<i32>, seen: Seen) -> Row {
    let mut row = row(name);
    row.seen = Seen {
        accelerator: Some("kvm".into()),
        ..seen
    };
    row.verified = None;
    row.trials.clear();
    row.stages.truncate(1);
    row.stages[0].status = status;
    row.stages[0].said = Some("its last word".into());
    row
}

/// Installed, and at its seal.
fn sealing() -> Seen {
    Seen {
        phases: [("install".to_owned(), 60.0)].into(),
        generalized: Some(false),
        ..Seen::default()
    }
}

#[test]
fn a_setup_that_stopped_fails_with_its_last_word() {
    let row = broken("uefi-virtio", Some(6), Seen::default());
    let wrong = vec!["uefi-virtio: its last word".to_owned()];
    assert_eq!(
        outcome("setup-answer-file", &[row]),
        (Outcome::Failed, wrong)
    );
}

#[test]
fn a_full_disk_a_kill_and_a_crash_of_qemu_say_nothing_of_windows() {
    for status in [Some(1), Some(3), Some(8), Some(130), None] {
        for seen in [Seen::default(), sealing()] {
            let all = verdicts(&read(), &[broken("uefi-virtio", status, seen)]);
            let failed = all.iter().filter(|v| v.outcome == Outcome::Failed);
            let failed: Vec<&str> = failed.map(|v| v.claim.as_str()).collect();
            assert!(failed.is_empty(), "{status:?}: {failed:?}");
        }
    }
}

#[test]
fn a_sysprep_that_fails_refutes_what_is_said_of_it() {
    let row = broken("uefi-virtio", Some(7), sealing());
    for claim in ["sysprep-generalizes", "servicing-rests"] {
        assert_eq!(
            outcome(claim, std::slice::from_ref(&row)).0,
            Outcome::Failed
        );
    }
    assert_eq!(outcome("setup-answer-file", &[row]).0, Outcome::Held);
    // A step before it says nothing of sysprep.
    let mut step = sealing();
    step.generalized = None;
    let row = broken("uefi-virtio", Some(7), step);
    assert_eq!(outcome("sysprep-generalizes", &[row]).0, Outcome::Open);
}

#[test]
fn an_image_that_is_not_sealed_says_nothing_of_sealed_ones() {
    let mut row = row("wmco-gcp");
    row.seen.generalized = None;
    let held = "HKLM\\SYSTEM\\CurrentControlSet\\Services\\vmbus\\StartOverride\r\n";
    row.seen.answers.insert("boot drivers".into(), held.into());
    for claim in [
        "sysprep-generalizes",
        "servicing-rests",
        "sealed-setup-state",
        "boot-drivers-override",
    ] {
        let found = outcome(claim, std::slice::from_ref(&row));
        assert_eq!(found, (Outcome::Open, Vec::new()), "{claim}");
    }
    row.seen.generalized = Some(true);
    assert_eq!(outcome("boot-drivers-override", &[row]).0, Outcome::Held);
}

#[test]
fn a_build_that_refuses_its_own_disk_fails_as_verify_does() {
    let mut seen = sealing();
    seen.generalized = Some(true);
    let mut row = broken("uefi-virtio", Some(10), seen);
    row.verified = Some(Verified {
        checks: 3,
        hold: 2,
        findings: vec!["SetupType is 0".into()],
    });
    let wrong = vec!["uefi-virtio: SetupType is 0".to_owned()];
    assert_eq!(
        outcome("sealed-setup-state", &[row]),
        (Outcome::Failed, wrong)
    );
}

#[test]
fn a_build_on_hyper_v_that_fails_there_is_judged() {
    for status in [6, 7, 8, 10] {
        let mut row = broken("hyperv-uefi", Some(status), Seen::default());
        row.machine.hypervisor = "hyperv".into();
        let (found, _) = outcome("hyperv-boot-order", std::slice::from_ref(&row));
        assert_eq!(found, Outcome::Failed, "{status}");
        row.stages[0].status = Some(3);
        assert_eq!(outcome("hyperv-boot-order", &[row]).0, Outcome::Open);
    }
}

#[test]
fn hyper_v_proves_nothing_of_what_qemu_gives() {
    let mut row = row("hyperv-uefi-trusted");
    row.machine.hypervisor = "hyperv".into();
    row.machine.trusted = true;
    let answer = "tpm=True\r\nsecure-boot=True\r\n";
    row.seen.answers.insert("trust".into(), answer.into());
    let of = |claim: &str, row: &Row| outcome(claim, std::slice::from_ref(row)).0;
    assert_eq!(of("swtpm-in-windows", &row), Outcome::Open);
    assert_eq!(of("bootstrap-agent", &row), Outcome::Open);
    assert_eq!(of("setup-answer-file", &row), Outcome::Held);
    assert_eq!(of("hyperv-tpm", &row), Outcome::Held);
    row.machine.hypervisor = "qemu".into();
    assert_eq!(of("swtpm-in-windows", &row), Outcome::Held);
    assert_eq!(of("bootstrap-agent", &row), Outcome::Held);
}

#[test]
fn what_a_file_inherits_is_read_from_icacls_alone() {
    let with = |entries: &str| {
        let mut row = row("uefi-virtio");
        let answer = format!("[file]\r\nC:\\probe-acl\\file.txt {entries}\r\n");
        row.seen.answers.insert("acl".into(), answer);
        outcome("acl-icacls", &[row]).0
    };
    let good = "NT AUTHORITY\\SYSTEM:(I)(F)\r\n    BUILTIN\\Administrators:(I)(F)";
    assert_eq!(with(good), Outcome::Held);
    assert_eq!(with(&good.replacen("(I)", "", 1)), Outcome::Failed);
    // As the stand-in prints it.
    let sddl = "O:S-1-5-32-544D:(A;ID;0x1f01ff;;;S-1-5-18)(A;ID;0x1f01ff;;;S-1-5-32-544)";
    assert_eq!(with(sddl), Outcome::Open);
}
