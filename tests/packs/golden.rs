//! Renders a plan as its difference from another plan. Two recipes that share their packs share
//! nine tenths of their plans: a reviewer reads one complete plan, and only the differences of the
//! others.

use std::collections::BTreeMap;

use regex::Regex;
use support::difference::lines_that_differ;

/// A section of the plan or a step: it begins with an unindented line after an empty one.
struct Block {
    title: String,
    text: String,
}

/// Returns the order of the steps if it differs, then the differences of each section and step, and
/// the complete text of those that `base` lacks. Numbers of steps and payload entries shift with
/// each earlier step, so they are not compared.
pub fn difference(base: &str, plan: &str) -> String {
    let (base, plan) = (blocks(base), blocks(plan));
    let mut found = String::new();
    let order = lines_that_differ(&titles(&base), &titles(&plan));
    if !order.is_empty() {
        found.push_str(&format!("== order\n{order}"));
    }
    let known: BTreeMap<&str, &str> = base
        .iter()
        .map(|block| (block.title.as_str(), block.text.as_str()))
        .collect();
    for block in &plan {
        match known.get(block.title.as_str()) {
            Some(text) if *text == block.text => {}
            Some(text) => {
                let differs = lines_that_differ(text, &block.text);
                found.push_str(&format!("\n== {}\n{differs}", block.title));
            }
            None => found.push_str(&format!("\n== new: {}\n{}", block.title, block.text)),
        }
    }
    found
}

fn titles(blocks: &[Block]) -> String {
    blocks.iter().map(|b| format!("{}\n", b.title)).collect()
}

fn blocks(plan: &str) -> Vec<Block> {
    let step = Regex::new(r"^(\d{3})  (.+?)  +\S+  \S+$").expect("a pattern");
    let mut blocks: Vec<(String, Vec<&str>)> = vec![("plan".into(), Vec::new())];
    let mut after_gap = false;
    let mut steps = 0;
    for line in plan.lines() {
        if after_gap && !line.is_empty() && !line.starts_with(' ') {
            let title = match step.captures(line) {
                Some(parts) => {
                    steps += 1;
                    assert_eq!(parts[1], format!("{steps:03}"), "{line}");
                    format!("step {}", &parts[2])
                }
                None => line.to_owned(),
            };
            blocks.push((title, Vec::new()));
        }
        after_gap = line.is_empty();
        let (_, lines) = blocks.last_mut().expect("the first block");
        lines.push(line);
    }
    blocks
        .into_iter()
        .map(|(title, lines)| Block {
            text: without_numbers(&lines),
            title,
        })
        .collect()
}

/// Returns the lines of a block without the widths of columns. A step's number becomes N, and its
/// payload entries are counted from its first one.
fn without_numbers(lines: &[&str]) -> String {
    let entry = Regex::new(r"\bp\\(\d{4})\b").expect("a pattern");
    let step = Regex::new(r"^(\d{3})  ").expect("a pattern");
    let gap = Regex::new(r"(\S) {2,}").expect("a pattern");
    let number = step.captures(lines.first().copied().unwrap_or_default());
    let own = number.map(|number| {
        let pattern = format!(r"(^|\\|payload\.cmd ){}\b", &number[1]);
        Regex::new(&pattern).expect("a pattern")
    });
    let mut first_entry: Option<usize> = None;
    let mut text = String::new();
    for line in lines {
        let Some(own) = &own else {
            push_line(&mut text, &entry.replace_all(line, r"p\N"), &gap);
            continue;
        };
        let line = entry.replace_all(line, |found: &regex::Captures| {
            let number: usize = found[1].parse().expect("a number");
            let first = *first_entry.get_or_insert(number);
            format!(r"p\{}", number.wrapping_sub(first) as isize)
        });
        push_line(&mut text, &own.replace_all(&line, "${1}N"), &gap);
    }
    without_frames(text.trim_end())
}

/// Removes the lines that the scripts of all puts share: they create a folder, copy their files and
/// end. The step's expected state names the copied files; all other lines of a script are kept.
fn without_frames(text: &str) -> String {
    let head = [
        r"     put  C:\Windows\System32\cmd.exe /d /c C:\winimg\payload.cmd N",
        "             exit 0, within 20 min",
        r"             s\N.cmd",
    ];
    let common = [
        "@echo off",
        "exit /b 0",
        "if errorlevel 8 exit /b %errorlevel%",
        r#"if not exist "[^"]+\\" mkdir "[^"]+" \|\| exit /b 1"#,
        r#"copy /b /y "%~d0\\p\\\d+\\[^"]+" "[^"]+" \|\| exit /b 1"#,
        r#"C:\\Windows\\System32\\attrib\.exe -r "[^"]+""#,
        // Of an access list; the line that grants stays.
        r#"if not exist "[^"]+" (?:echo "[^"]+" is not there|exit /b 1)"#,
        r#"(?:if exist "[^"]+\\" )?set "below=(?:\(OI\)\(CI\))?""#,
        concat!(
            r#"C:\\Windows\\System32\\icacls\.exe "[^"]+" "#,
            r"/(?:reset /q \|\| \(.+\)|inheritance:r /q) \|\| exit /b 1",
        ),
    ];
    let common = Regex::new(&format!(r"^ +\| (?:{})$", common.join("|"))).expect("a pattern");
    let mut lines = text.lines().peekable();
    let mut kept = String::new();
    while let Some(line) = lines.next() {
        kept.push_str(line);
        kept.push('\n');
        if line != head[0] {
            continue;
        }
        for expected in &head[1..] {
            lines.next_if(|line| line == expected);
        }
        while let Some(line) = lines.next_if(|line| line.trim_start().starts_with('|')) {
            if !common.is_match(line) {
                kept.push_str(line);
                kept.push('\n');
            }
        }
    }
    kept
}

/// Appends a line; only lines of a script keep their spaces.
fn push_line(text: &mut String, line: &str, gap: &Regex) {
    let words = line.trim_start();
    if words.starts_with('|') {
        text.push_str(line);
    } else {
        let indented = line.len() - words.len();
        text.push_str(&" ".repeat(indented.min(14)));
        text.push_str(&gap.replace_all(words, "$1  "));
    }
    text.push('\n');
}
