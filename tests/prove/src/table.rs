//! The tables of `docs/fidelity.md`.

use std::fmt::Write as _;

use crate::ledger::{Claim, Ledger, Run, Section};

/// One section's table, as Markdown. Each line has its id as an anchor.
pub fn table(ledger: &Ledger, section: &Section) -> String {
    let mut text = format!("| {} |\n", section.columns.join(" | "));
    text += &format!("|{}\n", "---|".repeat(section.columns.len()));
    for claim in ledger.lines(&section.id) {
        let mut cells = vec![
            format!("<a id=\"{}\"></a>{}", claim.id, claim.claim),
            here(claim),
        ];
        if section.columns.len() == 3 {
            cells.push(on_windows(ledger, section, claim));
        }
        writeln!(text, "| {} |", cells.join(" | ")).expect("text");
    }
    text
}

/// Whether and how it is shown without Windows.
fn here(claim: &Claim) -> String {
    match (&claim.shown, claim.not_shown.as_deref()) {
        (Some(shown), _) => shown.clone(),
        (None, Some("") | None) => "not shown".into(),
        (None, Some(why)) => format!("not shown: {why}"),
    }
}

fn on_windows(ledger: &Ledger, section: &Section, claim: &Claim) -> String {
    if let Some(remark) = &claim.remark {
        return remark.clone();
    }
    if !section.to_prove {
        return String::new();
    }
    let standing = ledger.standing(&claim.id);
    let runs = |word: &str, runs: &[&Run]| {
        let runs = runs
            .iter()
            .map(|run| format!("{} ({})", run.build, run.date));
        // Proofs of one day have a line each in the ledger, by their rows.
        let mut runs: Vec<String> = runs.collect();
        runs.dedup();
        (!runs.is_empty()).then(|| format!("{word} on {}", runs.join(", ")))
    };
    let proved = runs("proved", &standing.proved);
    let refuted = runs("**refuted**", &standing.refuted);
    let said: Vec<String> = refuted.into_iter().chain(proved).collect();
    let mut text = if said.is_empty() {
        "unproven".to_owned()
    } else {
        said.join("; ")
    };
    if let Some(note) = &claim.note {
        text += &format!(": {note}");
    }
    if let Some(source) = &claim.source {
        text += &format!(" ({source})");
    }
    text
}

/// How many claims wait for a run, are proved, and are refuted: the line above the tables.
pub fn counted(ledger: &Ledger) -> String {
    let is_open = |claim: &&Claim| {
        let section = ledger.section(&claim.section);
        claim.remark.is_none() && section.is_some_and(|section| section.to_prove)
    };
    let open: Vec<&Claim> = ledger.claims.iter().filter(is_open).collect();
    let count = |wanted: fn(bool, bool) -> bool| {
        let standing = open.iter().map(|claim| ledger.standing(&claim.id));
        let met = standing.filter(|s| wanted(!s.proved.is_empty(), !s.refuted.is_empty()));
        met.count()
    };
    let proved = count(|proved, refuted| proved && !refuted);
    let refuted = count(|_, refuted| refuted);
    let here = open.iter().filter(|claim| claim.shown.is_some()).count();
    format!(
        "Claims that wait for a run on Windows or on a platform: {}. Shown here without it: {here}. Proved: {proved}. Refuted: {refuted}.\n",
        open.len()
    )
}
