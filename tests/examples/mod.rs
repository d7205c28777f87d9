//! Tries every recipe and command in README, docs, the shipped recipes' own pages and the starter:
//! winimg reads it, parses it as its command line, or runs it from top to bottom.
//!
//! `table.toml` has a row for each fenced block that does not begin with a command. A block without
//! a row fails the test, and so does a row without a block.
#![cfg(unix)]

use support::skip;
use support::tree::{files, makefile, root};
pub mod blocks;
mod judge;
mod starter;
mod table;
mod walkthrough;

use std::path::Path;

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn every_fenced_block_is_tried_or_says_why_not() {
    let table = table::read();
    let found = blocks::all();
    assert_eq!(
        found.len(),
        table.blocks,
        "fenced blocks; tests/examples/table.toml"
    );
    let mut wrong = Vec::new();
    let mut used = vec![0; table.block.len()];
    let bench = judge::Bench::new();
    for block in &found {
        let rows = table.block.iter().enumerate();
        let rows: Vec<_> = rows.filter(|(_, row)| row.is_of(block)).collect();
        match rows.as_slice() {
            [(n, row)] => {
                used[*n] += 1;
                if let Err(why) = bench.judge(block, row) {
                    wrong.push(format!("{block}: {why}"));
                }
            }
            [] if block.first_line().starts_with("$ ") => {
                if let Err(why) = bench.judge(block, &table::Row::default()) {
                    wrong.push(format!("{block}: {why}"));
                }
            }
            [] => wrong.push(format!("{block}: no row in tests/examples/table.toml")),
            _ => wrong.push(format!(
                "{block}: several rows in tests/examples/table.toml"
            )),
        }
    }
    for (row, used) in table.block.iter().zip(used) {
        if used != row.times {
            wrong.push(format!(
                "the row {} {:?} has {used} blocks",
                row.file, row.first
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// A command in the running text may leave its arguments out; a subcommand or an option that there is not is a mistake.
#[test]
fn every_command_in_running_text_is_one() {
    let commands = blocks::inline_commands();
    assert!(commands.len() >= 40, "{} commands", commands.len());
    let bench = judge::Bench::new();
    let wrong = commands.iter().filter_map(|(page, command)| {
        let why = bench.mistaken(command)?;
        Some(format!("{page}: {command}: {why}"))
    });
    assert_eq!(wrong.collect::<Vec<_>>(), Vec::<String>::new());
}

/// `make test` says that nothing may be skipped: a tool that is missing is a failure there.
#[test]
fn a_skipped_test_is_a_failure_in_make_test() {
    skip::skipped_unless(false, "nothing; a test of these words");
    let failed = std::panic::catch_unwind(|| skip::skipped_unless(true, "no tesseract"));
    let why = failed.expect_err("a failure");
    let why = why.downcast_ref::<String>().expect("a text");
    assert!(why.starts_with("skipped: no tesseract; "), "{why}");
    let makefile = makefile();
    assert!(makefile.contains("\ntest: export WINIMG_NO_SKIP := 1\n"));
}

/// Every test that passes by does it in one place, which knows of `WINIMG_NO_SKIP`.
#[test]
fn no_test_skips_itself_in_silence() {
    let mut wrong = ["tests", "crates"]
        .map(|folder| files(folder, &["rs"]))
        .concat();
    wrong.retain(|file| {
        let prints = ["println!(\"skip", "println!(\"SKIP"];
        let text = read(&root().join(file));
        prints.iter().any(|p| text.contains(p)) && file != "tests/examples/mod.rs"
    });
    assert_eq!(wrong, Vec::<String>::new(), "use tests/support/src/skip.rs");
}
