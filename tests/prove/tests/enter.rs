//! From a proof to the ledger: only what is known to be Windows gets in.

use std::fs;

use prove::enter::entered;
use prove::ledger::Ledger;
use support::tree::root;

use crate::judge::{proof, row};

fn ledger() -> String {
    fs::read_to_string(root().join("docs/fidelity.toml")).expect("the ledger")
}

#[test]
fn a_proof_becomes_a_run() {
    let proof = proof(Some("any"), vec![row("uefi-virtio")]);
    let text = entered(&ledger(), &proof, "https://proofs.example/1.json").expect("a run");
    let after = Ledger::read(&text).expect("a ledger");
    let run = after.runs.last().expect("a run");
    assert_eq!(
        (run.build.as_str(), run.date.as_str()),
        ("20348.587", "2026-12-01")
    );
    assert!(run.proved.iter().any(|claim| claim == "setup-answer-file"));
    assert!(!run.proved.iter().any(|claim| claim == "hyperv-tpm"));
    assert!(run.refuted.is_empty());
}

#[test]
fn a_medium_that_the_ledger_does_not_know_is_refused() {
    // Whatever the proof says of itself.
    let mut proof = proof(Some("Windows Server 2022"), vec![row("uefi-virtio")]);
    proof.medium.sha256 = "00".repeat(32);
    let said = entered(&ledger(), &proof, "x").expect_err("no Windows");
    insta::assert_snapshot!(said, @"nothing shows that this run was on Windows: sha256:0000000000000000000000000000000000000000000000000000000000000000 is none of the ledger's [[medium]]");
}

#[test]
fn a_proof_that_decides_nothing_is_refused() {
    let said = entered(&ledger(), &proof(Some("any"), Vec::new()), "x");
    assert_eq!(said.expect_err("nothing"), "no claim was decided by it");
}
