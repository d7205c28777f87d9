//! Who says of Windows that something is not proved names the line of the ledger that says it, by `fidelity.md#ID`.
//!
//! Read are all pages, and the texts in the tool's source and its recipes; not comments, and no changelog, which tells of the past. What this
//! does not find: a doubt in other words than `DOUBTS`, and a sentence that claims something of Windows without any doubt, for which `said.rs`
//! looks. Each page of docs/ which is about guests or platforms links to the ledger, too.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use proc_macro2::{TokenStream, TokenTree};
use regex::Regex;
use support::tree::{files, root};

use crate::ledger::read;

/// In any case of letters.
static DOUBTS: LazyLock<Regex> = LazyLock::new(|| {
    let words = [
        r"\bunproven\b",
        r"\bnot (?:been )?proved\b",
        r"\b(?:no|none|not|never)\b[^.:]{0,60}\breal Windows\b",
        r"\bnot been seen\b",
        r"\bhas (?:run|seen|started|tried) (?:it|one) yet\b",
        r"\bwas ever (?:run|imported|tried)\b",
        r"\bnothing here was run\b",
        r"\bnobody tried\b",
    ];
    Regex::new(&format!("(?i){}", words.join("|"))).expect("a pattern")
});
pub static LINK: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"fidelity\.md#([a-z0-9-]+)").expect("a pattern"));

/// Pages that are about the host, the tool and its files alone.
const NOT_ABOUT_GUESTS: &[&str] = &[
    "docs/README.md",
    "docs/SUMMARY.md",
    "docs/air-gap.md",
    "docs/architecture.md",
    "docs/cache-sharing.md",
    "docs/cache.md",
    "docs/ci.md",
    "docs/cli.md",
    "docs/console.md",
    "docs/dependencies.md",
    "docs/diff.md",
    "docs/environment.md",
    "docs/events.md",
    "docs/exit-status.md",
    "docs/faults.md",
    "docs/fidelity.md",
    "docs/fuzzing.md",
    "docs/host.md",
    "docs/install.md",
    "docs/json.md",
    "docs/lock.md",
    "docs/matrix.md",
    "docs/outdated.md",
    "docs/pipelines.md",
    "docs/progress.md",
    "docs/provenance.md",
    "docs/releasing.md",
    "docs/report.md",
    "docs/reproducible.md",
    "docs/revocation.md",
    "docs/signing.md",
    "docs/upgrade.md",
    "docs/watch.md",
];

fn text(file: &str) -> String {
    fs::read_to_string(root().join(file)).expect("a file")
}

/// What stands together and is read at once: a paragraph, an item of a list, a row of a table; no code. Each with the number of its first line.
pub fn blocks(page: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut is_open = false;
    let mut is_code = false;
    for (n, line) in page.lines().enumerate() {
        let start = line.trim_start();
        let is_fence = start.starts_with("```");
        is_code ^= is_fence;
        if is_code || is_fence {
            is_open = false;
            continue;
        }
        let signs = ["|", "- ", "* ", "#"];
        let numbered = start
            .split_once(". ")
            .is_some_and(|(n, _)| n.parse::<u8>().is_ok());
        let begins = numbered || signs.iter().any(|sign| start.starts_with(sign));
        if start.is_empty() {
            is_open = false;
        } else if is_open && !begins {
            let (_, block) = found.last_mut().expect("an open block");
            *block += &format!(" {start}");
        } else {
            found.push((n + 1, start.to_owned()));
            is_open = true;
        }
    }
    found
}

/// Each literal text of Rust source.
fn literals(tokens: TokenStream, found: &mut Vec<String>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => literals(group.stream(), found),
            TokenTree::Literal(literal) => found.push(literal.to_string()),
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}

/// The texts of a TOML file, without `proof`, whose words the ledger answers for by `facts`.
fn strings(value: &toml::Value, found: &mut Vec<String>) {
    match value {
        toml::Value::String(text) => found.push(text.clone()),
        toml::Value::Array(all) => all.iter().for_each(|one| strings(one, found)),
        toml::Value::Table(table) => {
            for (key, value) in table.iter().filter(|(key, _)| *key != "proof") {
                found.push(key.clone());
                strings(value, found);
            }
        }
        _ => {}
    }
}

/// Whether a text doubts without naming a line.
fn is_bare(text: &str) -> bool {
    // A word alone is a name, not a sentence.
    let is_sentence = text.contains(' ');
    // Of a fact of a target: the source stands beside it, and the ledger has the file.
    let text = text.replace("source (unproven)", "");
    is_sentence && DOUBTS.is_match(&text) && !LINK.is_match(&text)
}

#[test]
fn a_page_that_doubts_names_the_line() {
    let mut bare = Vec::new();
    for page in files("", &["md"]) {
        // The second is made of the ledger.
        if page.ends_with("CHANGELOG.md") || page.ends_with("docs/fidelity.md") {
            continue;
        }
        for (line, block) in blocks(&text(&page)) {
            if is_bare(&block) {
                bare.push(format!("{page}:{line}: {block}"));
            }
        }
    }
    assert!(bare.is_empty(), "no fidelity.md#ID in\n{}", bare.join("\n"));
}

#[test]
fn a_message_that_doubts_names_the_line() {
    let mut bare = Vec::new();
    let sources = ["src", "crates"].map(|folder| files(folder, &["rs"]));
    let is_test = |file: &&String| file.contains("/tests/") || file.ends_with("tests.rs");
    for file in sources.concat().iter().filter(|file| !is_test(file)) {
        let mut found = Vec::new();
        literals(text(file).parse().expect("Rust"), &mut found);
        // Comments of items come as texts of `#[doc]`, which begin with a blank.
        let found = found.into_iter().filter(|text| !text.contains("\" "));
        bare.extend(
            found
                .filter(|text| is_bare(text))
                .map(|text| format!("{file}: {text}")),
        );
    }
    for file in files("recipes", &["toml"]) {
        let value: toml::Table = text(&file).parse().expect("TOML");
        let mut found = Vec::new();
        strings(&toml::Value::Table(value), &mut found);
        bare.extend(
            found
                .into_iter()
                .filter(|text| is_bare(text))
                .map(|text| format!("{file}: {text}")),
        );
    }
    assert!(bare.is_empty(), "no fidelity.md#ID in\n{}", bare.join("\n"));
}

#[test]
fn every_line_that_is_named_is_in_the_ledger() {
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
        let named = LINK.captures_iter(&found).map(|c| c[1].to_owned());
        lost.extend(
            named
                .filter(|id| !known.contains(id))
                .map(|id| format!("{file}: {id}")),
        );
    }
    assert_eq!(lost, BTreeSet::new());
}

#[test]
fn each_page_about_guests_leads_to_the_ledger() {
    let pages = files("docs", &["md"]);
    let without = pages.iter().filter(|page| !LINK.is_match(&text(page)));
    let without: BTreeSet<&str> = without.map(String::as_str).collect();
    let about: BTreeSet<&str> = NOT_ABOUT_GUESTS.iter().copied().collect();
    let lost: Vec<&&str> = without.difference(&about).collect();
    assert!(
        lost.is_empty(),
        "no fidelity.md#ID in {lost:?}: name a line, or say here that the page is not about guests"
    );
    let gone: Vec<&&str> = about
        .iter()
        .filter(|page| !Path::new(root()).join(page).exists())
        .collect();
    assert!(gone.is_empty(), "no such pages: {gone:?}");
}

#[test]
fn blocks_are_paragraphs_items_and_rows() {
    let page = "One\nmore.\n\n- an item\n  goes on\n- next\n| a | b |\n|---|\n";
    let found = blocks(page);
    let texts: Vec<&str> = found.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "One more.",
            "- an item goes on",
            "- next",
            "| a | b |",
            "|---|"
        ]
    );
    assert!(is_bare("No real Windows was seen"));
    assert!(is_bare("That is unproven (fidelity.md)"));
    assert!(!is_bare(
        "That is unproven (docs/fidelity.md#swtpm-in-windows)"
    ));
    assert!(!is_bare("Windows proves nothing"));
}
