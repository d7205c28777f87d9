//! Links of Markdown pages: each leads to a file of the tree, and to a heading that it has.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use regex::Regex;
use support::tree::{files, root};

pub struct Link {
    pub line: usize,
    /// Without what follows `#`.
    pub target: String,
    pub anchor: Option<String>,
}

pub fn read(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap_or_else(|e| panic!("{page}: {e}"))
}

/// The lines of running text: no fenced block, and what stands in backticks is blank.
fn running(text: &str) -> Vec<String> {
    let code = Regex::new("`[^`]*`").expect("a pattern");
    let mut fenced = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        let blank = fenced || fence || line.starts_with("    ");
        lines.push(if blank {
            String::new()
        } else {
            // `[`text`](target)` keeps its brackets.
            code.replace_all(line, "code").into_owned()
        });
    }
    lines
}

pub fn links(text: &str) -> Vec<Link> {
    let link = Regex::new(r"\]\(([^)\s]+)\)").expect("a pattern");
    let mut found = Vec::new();
    for (n, line) in running(text).iter().enumerate() {
        for written in link.captures_iter(line) {
            let (target, anchor) = match written[1].split_once('#') {
                Some((target, anchor)) => (target, Some(anchor.to_owned())),
                None => (&written[1], None),
            };
            found.push(Link {
                line: n + 1,
                target: target.to_owned(),
                anchor,
            });
        }
    }
    found
}

/// The ids that GitHub and mdBook give to the headings of a page, and those of `<a id="…">`, which the lines of docs/fidelity.md have.
fn anchors(text: &str) -> BTreeSet<String> {
    let own = Regex::new("<a id=\"([a-z0-9-]+)\">").expect("a pattern");
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let mut fenced = false;
    let mut found: BTreeSet<String> = own.captures_iter(text).map(|c| c[1].to_owned()).collect();
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if fenced || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = |c: &char| c.is_alphanumeric() || [' ', '-', '_'].contains(c);
        let id: String = heading.trim().to_lowercase().chars().filter(kept).collect();
        let id = id.replace(' ', "-");
        let n = times.entry(id.clone()).or_default();
        found.insert(match *n {
            0 => id,
            n => format!("{id}-{n}"),
        });
        *n += 1;
    }
    found
}

/// `docs/a.md` and `../README.md` make `README.md`; nothing above the top.
fn joined(page: &str, target: &str) -> Option<PathBuf> {
    let mut path = Path::new(page).parent()?.to_path_buf();
    for part in Path::new(target).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::ParentDir => path.pop().then_some(())?,
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(path)
}

fn wrong(page: &str, link: &Link) -> Option<String> {
    if link.target.starts_with("https://") {
        return None;
    }
    let path = match link.target.as_str() {
        "" => PathBuf::from(page),
        target => joined(page, target)?,
    };
    if !root().join(&path).exists() {
        return Some(format!("no {}", path.display()));
    }
    // The book holds the pages of docs/ alone, without the list of them.
    let in_book = path.starts_with("docs") && !path.ends_with("SUMMARY.md");
    if page.starts_with("docs/") && page != "docs/SUMMARY.md" && !in_book {
        return Some(format!(
            "{} is not in the book: name it in backticks",
            path.display()
        ));
    }
    let anchor = link.anchor.as_ref()?;
    let text = read(path.to_str().expect("UTF-8"));
    let missing = !anchors(&text).contains(anchor);
    missing.then(|| format!("{} has no heading #{anchor}", path.display()))
}

#[test]
fn every_link_leads_to_a_file_and_to_a_heading_of_it() {
    let mut found = Vec::new();
    let mut count = 0;
    for page in files("", &["md"]) {
        for link in links(&read(&page)) {
            count += 1;
            if let Some(why) = wrong(&page, &link) {
                found.push(format!("{page}:{}: {why}", link.line));
            }
        }
    }
    assert!(count > 100, "{count} links");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Pages of other projects, which recipes and comments cite by the same folder's name.
const OTHERS: [&str; 9] = [
    "docs/advanced.md",
    "docs/byoh-instance-pre-requisites.md",
    "docs/content-flow.md",
    "docs/cri/config.md",
    "docs/crictl.md",
    "docs/machineset-gcp.md",
    "docs/ops.md",
    "docs/vsphere-golden-image.md",
    "docs/wmco-prerequisites.md",
];

/// `docs/NAME.md` in a message, a comment or a recipe.
#[test]
fn every_page_that_the_source_names_is_there() {
    let named = Regex::new(r"(?:^|[^\w/.-])(docs/[a-z-]+(?:/[a-z-]+)?\.md)").expect("a pattern");
    let mut missing = BTreeSet::new();
    for file in sources() {
        let text = fs::read_to_string(root().join(&file)).expect("a file");
        for found in named.captures_iter(&text) {
            if !root().join(&found[1]).exists() && !OTHERS.contains(&&found[1]) {
                missing.insert(format!("{file}: {}", &found[1]));
            }
        }
    }
    assert_eq!(missing, BTreeSet::new());
}

/// What is compiled or shipped, from the top of the source tree.
pub fn sources() -> Vec<String> {
    let folders = ["src", "crates", "recipes", "unattend"];
    let endings = ["rs", "toml", "xml", "cmd", "ps1"];
    folders.map(|folder| files(folder, &endings)).concat()
}

#[test]
fn headings_have_the_ids_that_github_gives_them() {
    let page = "# A page\n## `[[clone]]`\n### user and group\n## A page\n```\n## no\n```\n";
    let found = anchors(page);
    let wanted = ["a-page", "a-page-1", "clone", "user-and-group"];
    assert_eq!(found, wanted.map(String::from).into());
}
