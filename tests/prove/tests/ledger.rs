//! `docs/fidelity.toml`: what it names is there, and the page is what it makes.

use std::collections::BTreeSet;
use std::fs;

use prove::ledger::{Claim, Ledger};
use prove::table;
use support::golden;
use support::tree::root;

pub fn read() -> Ledger {
    let text = fs::read_to_string(root().join("docs/fidelity.toml")).expect("the ledger");
    Ledger::read(&text).unwrap_or_else(|e| panic!("docs/fidelity.toml: {e}"))
}

#[test]
fn the_ledger_is_whole() {
    let ledger = read();
    let complaints = ledger.complaints();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(ledger.claims.len() > 200, "{}", ledger.claims.len());
}

#[test]
fn the_tables_of_the_page_are_those_of_the_ledger() {
    let ledger = read();
    golden::section("docs/fidelity.md", "counted", &table::counted(&ledger));
    for section in &ledger.sections {
        let name = format!("claims of {}", section.id);
        golden::section("docs/fidelity.md", &name, &table::table(&ledger, section));
    }
    let page = fs::read_to_string(root().join("docs/fidelity.md")).expect("the page");
    let markers = page.matches("<!-- claims of ").count();
    assert_eq!(
        markers,
        ledger.sections.len(),
        "a table belongs to no section"
    );
}

#[test]
fn every_test_that_a_claim_names_is_there() {
    let ledger = read();
    let lost = ledger.claims.iter().flat_map(|claim| {
        let lost = claim
            .tests
            .iter()
            .filter(|file| !root().join(file).exists());
        lost.map(|file| format!("{}: no {file}", claim.id))
    });
    let lost: Vec<String> = lost.collect();
    assert!(lost.is_empty(), "{}", lost.join("\n"));
    // A file that tests nothing shows nothing.
    let idle = ledger.claims.iter().flat_map(|claim| &claim.tests);
    let idle: BTreeSet<&String> = idle
        .filter(|file| {
            let text = fs::read_to_string(root().join(file)).expect("a test");
            !["#[test]", "func Test", "mod nightly"]
                .iter()
                .any(|word| text.contains(word))
        })
        .collect();
    assert_eq!(idle, BTreeSet::new(), "files without a test");
}

/// A list that no claim names is compared with nothing that anybody relies on; one that is named has to be there.
#[test]
fn every_list_of_a_real_medium_is_named_by_a_claim() {
    let ledger = read();
    let shown: Vec<&str> = ledger
        .claims
        .iter()
        .filter_map(|c| c.shown.as_deref())
        .collect();
    let lists = support::tree::files("tests/real", &["txt", "json"]);
    assert!(!lists.is_empty());
    for list in &lists {
        let is_named = shown
            .iter()
            .any(|shown| shown.contains(&format!("`{list}`")));
        assert!(is_named, "{list}");
        let text = fs::read_to_string(root().join(list)).expect("a list");
        assert!(text.contains("# Source"), "{list} names no source");
    }
    for name in shown.iter().flat_map(|shown| shown.split('`')) {
        let is_list = name.starts_with("tests/real/");
        assert!(
            !is_list || lists.iter().any(|list| list == name),
            "no {name}"
        );
    }
}

/// A fact of a target that nobody saw is a claim like any other, whether it is unproven, from memory or inferred.
#[test]
fn every_fact_of_a_target_that_nobody_saw_has_its_claim() {
    const UNSEEN: [&str; 3] = ["unproven", "mem", "inferred"];
    let ledger = read();
    let named: BTreeSet<&str> = ledger
        .claims
        .iter()
        .flat_map(|claim| claim.facts.iter().map(String::as_str))
        .collect();
    let mut found = BTreeSet::new();
    for folder in ["recipes/targets", "recipes/targets/rules"] {
        for entry in fs::read_dir(root().join(folder)).expect("a folder") {
            let path = entry.expect("an entry").path();
            let is_unseen = |line: &str| {
                let (key, value) = line.split_once('=').unwrap_or_default();
                let value = value.trim_start().trim_start_matches('"');
                key.trim() == "proof" && UNSEEN.iter().any(|word| value.starts_with(word))
            };
            if path.is_file()
                && fs::read_to_string(&path)
                    .expect("a file")
                    .lines()
                    .any(is_unseen)
            {
                let path = path.strip_prefix(root()).expect("below the root");
                found.insert(path.to_str().expect("UTF-8").to_owned());
            }
        }
    }
    let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    assert_eq!(named, found, "left: `facts` of the ledger, right: targets");
}

fn line(more: &str) -> String {
    format!(
        "[[section]]\nid = \"a\"\ncolumns = [\"claim\", \"shown by\", \"on real Windows\"]\nto_prove = true\n\n\
         [[claim]]\nid = \"one\"\nin = \"a\"\nclaim = \"It holds\"\n{more}"
    )
}

#[test]
fn what_is_wrong_with_a_line_is_said() {
    let two = "\n[[claim]]\nid = \"One\"\nin = \"b\"\nclaim = \"It | holds.\"\nnot_shown = \"\"\n\
               tests = [\"x.rs\"]\nnote = \"n\"\nremark = \"r\"\n\n\
               [[run]]\nbuild = \"20348.587\"\ndate = \"2026-12-01\"\nrecord = \"x\"\nproved = [\"two\"]\n";
    let ledger = Ledger::read(&line(&format!("shown = \"x\"\n{two}"))).expect("TOML");
    insta::assert_snapshot!(ledger.complaints().join("\n"));
}

#[test]
fn a_misspelled_key_is_refused() {
    let said = Ledger::read(&line("shwon = \"x\"\n")).expect_err("a misspelled key");
    assert!(said.message().contains("unknown field `shwon`"), "{said}");
}

#[test]
fn runs_fill_the_third_column() {
    let claims = "shown = \"a test\"\ntests = [\"x.rs\"]\nnote = \"slowly\"\nsource = \"Microsoft: It\"\n\n\
         [[claim]]\nid = \"two\"\nin = \"a\"\nclaim = \"It holds, too\"\nnot_shown = \"no such thing here\"\n\n\
         [[claim]]\nid = \"three\"\nin = \"a\"\nclaim = \"So does this\"\nnot_shown = \"\"\nremark = \"not Windows' matter\"\n\n\
         [[run]]\nbuild = \"20348.587\"\ndate = \"2026-12-01\"\nrecord = \"x\"\nproved = [\"one\"]\nrefuted = [\"two\"]\n\n\
         [[run]]\nbuild = \"26100.1742\"\ndate = \"2026-12-02\"\nrecord = \"x\"\nproved = [\"one\"]\n";
    let ledger = Ledger::read(&line(claims)).expect("TOML");
    assert_eq!(ledger.complaints(), Vec::<String>::new());
    let text = table::table(&ledger, &ledger.sections[0]) + &table::counted(&ledger);
    insta::assert_snapshot!(text);
}

#[test]
fn no_id_is_a_heading_of_the_page() {
    let page = fs::read_to_string(root().join("docs/fidelity.md")).expect("the page");
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let headings: BTreeSet<String> = headings
        .map(|line| {
            line.trim_start_matches('#')
                .trim()
                .to_lowercase()
                .replace(' ', "-")
        })
        .collect();
    let ledger = read();
    let both = |claim: &&Claim| headings.contains(&claim.id);
    let both: Vec<&Claim> = ledger.claims.iter().filter(both).collect();
    assert!(both.is_empty(), "{both:?}");
}
