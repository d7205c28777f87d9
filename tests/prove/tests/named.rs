//! A line of the ledger that a page, a message or a comment names by `fidelity.md#ID` is there.

use std::collections::BTreeSet;
use std::fs;

use regex::Regex;
use support::tree::{files, root};

use crate::ledger::read;

fn text(file: &str) -> String {
    fs::read_to_string(root().join(file)).expect("a file")
}

#[test]
fn every_line_that_is_named_is_in_the_ledger() {
    let link = Regex::new(r"fidelity\.md#([a-z0-9-]+)").expect("a pattern");
    let ledger = read();
    let mut known: BTreeSet<String> = ledger.claims.iter().map(|claim| claim.id.clone()).collect();
    let page = text("docs/fidelity.md");
    let headings = page.lines().filter_map(|line| line.strip_prefix("## "));
    known.extend(headings.map(|line| {
        line.to_lowercase()
            .replace(['.', ','], "")
            .replace(' ', "-")
    }));
    // What the ledger's own head shows as an example.
    known.insert("sshd-keys".into());
    let mut lost = BTreeSet::new();
    for file in files("", &["md", "rs", "toml", "ps1", "sh", "yml"]) {
        let found = text(&file);
        let named = link.captures_iter(&found).map(|c| c[1].to_owned());
        lost.extend(
            named
                .filter(|id| !known.contains(id))
                .map(|id| format!("{file}: {id}")),
        );
    }
    assert_eq!(lost, BTreeSet::new());
}
