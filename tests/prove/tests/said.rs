//! A page that says flatly what Windows, Setup, sysprep or cloudbase-init does names the line of the ledger, or `said.toml` says why not.
//!
//! Read are paragraphs, items and rows of docs/, but what code makes of its own words. A sentence is found by its subject and a verb in the
//! third person behind it; one that says it in another way is not.

use std::collections::BTreeSet;
use std::fs;
use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;
use support::tree::{files, root};

use crate::doubts::{LINK, blocks};

static SUBJECT: LazyLock<Regex> = LazyLock::new(|| {
    let who = r"\b(?:Windows|Setup|[Ss]ysprep|cloudbase-init) ";
    let how = r"(?:itself |then |also |only |never |always |still )?";
    Regex::new(&format!(r"{who}{how}([a-z]+s)\b")).expect("a pattern")
});

/// What stands behind these names and is no verb that says what they do: "Windows drivers", "sysprep is".
const NO_VERBS: &[&str] = &[
    "accounts",
    "always",
    "as",
    "boxes",
    "clusters",
    "configurations",
    "containers",
    "defines",
    "drivers",
    "editions",
    "features",
    "hosts",
    "images",
    "instances",
    "is",
    "keys",
    "licenses",
    "logs",
    "machines",
    "nodes",
    "packages",
    "paths",
    "problems",
    "process",
    "processes",
    "programs",
    "promises",
    "releases",
    "roles",
    "rules",
    "runs",
    "services",
    "settings",
    "states",
    "steps",
    "systems",
    "this",
    "updates",
    "users",
    "versions",
    "was",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    exempt: Vec<Exempt>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exempt {
    why: String,
    /// `PAGE: FIRST WORDS`
    blocks: Vec<String>,
}

/// Without what stands between `<!-- NAME -->` and `<!-- end -->`, as many lines long.
fn by_hand(page: &str) -> String {
    let mut is_made = false;
    let lines = page.lines().map(|line| {
        let was_made = is_made;
        if line.starts_with("<!-- ") {
            is_made = line != "<!-- end -->";
        }
        if was_made || is_made { "" } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn is_flat(block: &str) -> bool {
    let mut said = SUBJECT.captures_iter(block);
    said.any(|found| !NO_VERBS.contains(&&found[1])) && !LINK.is_match(block)
}

#[test]
fn what_is_said_of_windows_names_its_line_or_has_a_reason() {
    let text = include_str!("said.toml");
    let said: Said = toml::from_str(text).expect("the list");
    let mut allowed = BTreeSet::new();
    for exempt in &said.exempt {
        assert!(exempt.why.contains(' '), "no reason: {}", exempt.why);
        for block in &exempt.blocks {
            let new = allowed.insert(block.split_once(": ").expect("PAGE: FIRST WORDS"));
            assert!(new, "twice: {block}");
        }
    }
    let (mut bare, mut used) = (Vec::new(), BTreeSet::new());
    let pages = files("docs", &["md"]);
    // It is made of the ledger.
    for page in pages.iter().filter(|page| *page != "docs/fidelity.md") {
        let text = fs::read_to_string(root().join(page)).expect("a page");
        for (line, block) in blocks(&by_hand(&text)) {
            if !is_flat(&block) {
                continue;
            }
            let is_it = |(of, start): &&(&str, &str)| of == page && block.starts_with(start);
            match allowed.iter().find(is_it) {
                Some(found) => {
                    used.insert(*found);
                }
                None => bare.push(format!("{page}:{line}: {block}")),
            }
        }
    }
    assert!(
        bare.is_empty(),
        "no fidelity.md#ID, and no reason in said.toml:\n{}",
        bare.join("\n")
    );
    let stale: Vec<_> = allowed.difference(&used).collect();
    assert!(
        stale.is_empty(),
        "said.toml exempts what is not there: {stale:?}"
    );
}

#[test]
fn a_flat_claim_is_found() {
    for flat in [
        "Setup copies the answer file to Panther.",
        "Then Windows never restarts.",
        "net.exe is asked, and cloudbase-init itself writes a log",
    ] {
        assert!(is_flat(flat), "{flat}");
        assert!(!is_flat(&format!("{flat} (fidelity.md#panther-passwords)")));
    }
    for other in [
        "Windows drivers are in the pack.",
        "the real cloudbase-init is run",
        "winimg reads what Windows wrote",
    ] {
        assert!(!is_flat(other), "{other}");
    }
    let page = "one\n<!-- made -->\nSetup copies it.\n<!-- end -->\ntwo";
    assert_eq!(by_hand(page), "one\n\n\n\ntwo");
}
