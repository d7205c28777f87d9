//! What `make prove-standin` left: a whole run that ended, on no Windows.

use std::fs;

use prove::enter::entered;
use prove::proof::{Outcome, Proof};
use support::tree::root;

#[test]
#[ignore = "reads what make prove-standin makes"]
fn nightly_a_run_on_the_stand_in_ends_and_says_everywhere_that_it_was_no_windows() {
    let file = root().join("target/proof/20348.587.json");
    let text = fs::read_to_string(&file).expect("the proof: make prove-standin");
    let proof: Proof = serde_json::from_str(&text).expect("a proof");
    assert!(!proof.is_windows());
    for row in &proof.rows {
        assert!(row.is_good(), "{}: {:?}", row.name, row.stages);
        assert!(!row.trials.is_empty(), "{}: no clone was tried", row.name);
    }
    let names: Vec<&str> = proof.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["uefi-virtio", "bios-ahci"]);
    let lines = proof.verdicts.iter();
    let lines = lines.map(|v| format!("{}: {:?} {}", v.claim, v.outcome, v.failed.join(" ")));
    let failed = proof
        .verdicts
        .iter()
        .filter(|v| v.outcome == Outcome::Failed);
    assert_eq!(
        failed.count(),
        0,
        "{}",
        lines.collect::<Vec<_>>().join("\n")
    );
    // The stand-in has no PowerShell, and nobody may take that for an answer.
    let powershell = proof
        .verdicts
        .iter()
        .find(|v| v.claim == "powershell-steps");
    assert_eq!(powershell.expect("a verdict").outcome, Outcome::Open);
    let page = fs::read_to_string(file.with_extension("html")).expect("the page");
    let lines = crate::page::lines(&page);
    let bare: Vec<&&str> = lines
        .iter()
        .filter(|l| !l.to_lowercase().contains("no windows"))
        .collect();
    assert!(lines.len() > 50 && bare.is_empty(), "{bare:?}");
    let ledger = fs::read_to_string(root().join("docs/fidelity.toml")).expect("the ledger");
    let said = entered(&ledger, &proof, "x").expect_err("no Windows");
    assert!(
        said.starts_with("nothing shows that this run was on Windows"),
        "{said}"
    );
}
