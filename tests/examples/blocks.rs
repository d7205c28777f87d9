//! The fenced blocks of the pages that users read.

use std::fmt;
use support::tree;

use crate::examples::read;

pub struct Block {
    /// From the top of the source tree.
    pub file: String,
    /// Where the block begins, counted from 1.
    pub line: usize,
    /// Empty where the fence names none.
    pub language: String,
    pub text: String,
}

impl Block {
    pub fn first_line(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }

    /// What is typed after `$ `, with the lines that a backslash joins.
    pub fn commands(&self) -> Vec<String> {
        let mut commands = Vec::new();
        let mut lines = self.text.lines();
        while let Some(line) = lines.next() {
            let Some(typed) = line.strip_prefix("$ ") else {
                continue;
            };
            let mut command = typed.to_string();
            while command.ends_with('\\') {
                command += "\n";
                command += lines.next().unwrap_or_default();
            }
            commands.push(command);
        }
        commands
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} ```{}", self.file, self.line, self.language)
    }
}

/// The pages, from the top of the source tree.
fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_string()];
    for folder in ["docs", "recipes"] {
        pages.extend(tree::files(folder, &["md"]));
    }
    pages.sort();
    pages
}

/// What stands between backticks in the running text and begins with `winimg `, with its page.
pub fn inline_commands() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for page in pages() {
        let text = read(&tree::root().join(&page));
        let mut running = String::new();
        let mut fenced = false;
        for line in text.lines() {
            if line.trim_start().starts_with("```") {
                fenced = !fenced
            } else if !fenced {
                running += &format!("{line}\n")
            }
        }
        let spans = running.split('`').skip(1).step_by(2);
        let commands = spans.filter(|span| span.starts_with("winimg "));
        found.extend(commands.map(|c| (page.clone(), c.to_string())));
    }
    found
}

pub fn all() -> Vec<Block> {
    pages().iter().flat_map(|page| of(page)).collect()
}

/// Those of one page.
pub fn of(page: &str) -> Vec<Block> {
    let text = read(&tree::root().join(page));
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (n, line) in text.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(language), None) => {
                open = Some(Block {
                    file: page.to_string(),
                    line: n + 1,
                    language: language.trim().to_string(),
                    text: String::new(),
                });
            }
            (None, Some(block)) => {
                block.text += line;
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{page}: a fence is not closed");
    blocks
}
