//! The book that `make book` writes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use regex::Regex;
use support::tree::root;

/// The pages by their paths in the book, each with its text.
fn pages(folder: &Path, top: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).expect("the book").flatten() {
        let path = entry.path();
        if path.is_dir() {
            pages(&path, top, found);
        } else if path.extension().is_some_and(|e| e == "html") {
            let name = path.strip_prefix(top).expect("below the top");
            found.insert(
                name.display().to_string(),
                fs::read_to_string(&path).expect("a page"),
            );
        }
    }
}

#[test]
#[ignore = "make book"]
fn every_link_of_the_book_leads_somewhere() {
    let top = root().join("target/book");
    let mut all = BTreeMap::new();
    pages(&top, &top, &mut all);
    assert!(all.len() > 25, "{} pages", all.len());
    let named = |pattern: &str, text: &str| -> BTreeSet<String> {
        let pattern = Regex::new(pattern).expect("a pattern");
        pattern
            .captures_iter(text)
            .map(|c| c[1].to_owned())
            .collect()
    };
    let mut wrong = BTreeSet::new();
    for (page, text) in &all {
        let links = named(
            r#"<(?:a|link|script|img)\b[^>]*?\b(?:href|src)="([^"]+)""#,
            text,
        );
        for link in links
            .iter()
            .filter(|l| !l.contains("://") && !l.starts_with("data:"))
        {
            let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
            // 404.html may stand for any page: its links begin at the top of the site.
            let path = match target {
                "" => top.join(page),
                _ if page == "404.html" => top.join(target.trim_start_matches('/')),
                _ => top.join(page).parent().expect("a folder").join(target),
            };
            if !path.exists() {
                wrong.insert(format!("{page}: {link}"));
            } else if !anchor.is_empty() {
                let other = fs::read_to_string(&path).expect("a page");
                if !named(r#"\bid="([^"]+)""#, &other).contains(anchor) {
                    wrong.insert(format!("{page}: {link}: no such heading"));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{}",
        wrong.into_iter().collect::<Vec<_>>().join("\n")
    );
    let index = fs::read_dir(&top).expect("the book").flatten();
    let index = index.filter(|e| e.file_name().to_string_lossy().starts_with("searchindex"));
    assert!(index.count() > 0, "the book has no search index");
}
