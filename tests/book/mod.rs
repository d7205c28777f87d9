//! The documentation as a book: every page has its place, every link leads somewhere, and the parts that the code knows are
//! those of the code.

mod built;
mod cli;
mod known;
mod links;

use std::collections::BTreeSet;

use support::tree::files;

/// The pages that `docs/SUMMARY.md` lists, in their order.
fn listed() -> Vec<String> {
    let summary = links::read("docs/SUMMARY.md");
    links::links(&summary)
        .into_iter()
        .map(|link| format!("docs/{}", link.target))
        .collect()
}

#[test]
fn every_page_has_its_place_in_the_book() {
    let listed = listed();
    let once: BTreeSet<&String> = listed.iter().collect();
    assert_eq!(once.len(), listed.len(), "a page is listed twice");
    let pages = files("docs", &["md"]);
    let pages: BTreeSet<&String> = pages
        .iter()
        .filter(|p| !p.ends_with("/SUMMARY.md"))
        .collect();
    assert_eq!(
        once, pages,
        "left: docs/SUMMARY.md, right: the pages of docs/"
    );
}
