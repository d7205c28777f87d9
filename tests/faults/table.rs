//! Carries the cases out, a few at a time, and prints the table.

use std::path::Path;

use support::rows;

use crate::faults::case::Case;
use crate::faults::site::{Run, Site};
use crate::faults::wanted::wanted;

/// One line of the table.
pub struct Row {
    pub number: usize,
    pub group: &'static str,
    pub name: &'static str,
    /// What was said, or that it went well.
    pub cause: String,
    pub seconds: f64,
    pub rerun: String,
    pub reused: String,
    /// What is not as it has to be.
    pub wrong: Vec<String>,
}

/// All cases that are wanted. Two at a time suit two processors: most of a case is waiting.
pub fn run(cases: &[Case], template: &Site, folder: &Path, threads: usize) -> Vec<Row> {
    let chosen: Vec<(usize, &Case)> = cases
        .iter()
        .enumerate()
        .filter(|(_, c)| wanted(c.group, c.name))
        .collect();
    println!(
        "{}",
        line("n", "case", "cause named", "s", "rerun", "reused")
    );
    let mut rows = rows::at_once(&chosen, threads, |(n, case)| {
        let row = carry_out(n + 1, case, template, &folder.join(format!("{:03}", n + 1)));
        println!("{}", row.text());
        row
    });
    rows.sort_by_key(|r| r.number);
    rows
}

fn line(n: &str, case: &str, cause: &str, s: &str, rerun: &str, reused: &str) -> String {
    format!("{n:>3} | {case:<58} | {cause:<66} | {s:>5} | {rerun:<10} | {reused}")
}

impl Row {
    fn text(&self) -> String {
        let case = format!("{}: {}", self.group, self.name);
        let cut = |text: &str, n: usize| text.chars().take(n).collect::<String>();
        let mut text = line(
            &self.number.to_string(),
            &cut(&case, 58),
            &cut(&self.cause, 66),
            &format!("{:.1}", self.seconds),
            &self.rerun,
            &self.reused,
        );
        for wrong in &self.wrong {
            text += &format!("\n    FAILED: {}", wrong.replace('\n', "\n      "));
        }
        text
    }
}

fn carry_out(number: usize, case: &Case, template: &Site, dir: &Path) -> Row {
    let site = template.copy(dir.to_path_buf());
    if !case.layers {
        for name in ["layers", "outputs"] {
            let _ = std::fs::remove_dir_all(site.path("cache").join(name));
        }
    }
    site.recipe(&case.recipe);
    site.machine(&case.faults, &case.script);
    let earlier = site.artifacts();
    let guard = case.before.as_ref().map(|before| before(&site));
    let run = site.build(&case.arguments, case.strike.as_ref());
    let mut wrong = judge(case, &site, &run);
    if case.status != 0 && site.artifacts() != earlier {
        wrong.push("the artifacts of the earlier build were touched".into());
    }
    let first_dirs = site.read("asked.txt");
    drop(guard);
    if let Some(after) = &case.after {
        after(&site);
    }
    if case.mended {
        site.recipe(&[]);
    }
    site.machine("", &[]);
    // The folders of the faulty build's machines are looked for as well.
    let again = site.build(&[], None);
    site.write("asked.txt", &(first_dirs + &site.read("asked.txt")));
    if again.status != 0 {
        wrong.push(format!(
            "the next build ended with {}:\n{}",
            again.status,
            tail(&again.said)
        ));
    }
    let left = site.leftovers();
    if !left.is_empty() {
        wrong.push(format!("left after the next build: {left:?}"));
    }
    let orphans = site.orphans();
    if !orphans.is_empty() {
        wrong.push(format!("still running after the next build: {orphans:?}"));
    }
    let reused = match &case.reused {
        Some(how) => how(&site, &again).unwrap_or_else(|why| {
            wrong.push(format!("{why}\n{}", tail(&again.said)));
            String::new()
        }),
        None => reused(&again),
    };
    if wrong.is_empty() {
        let _ = std::fs::remove_dir_all(dir);
    }
    let cause = match run.status {
        0 => "(goes well)".into(),
        _ => run.cause().to_string(),
    };
    let rerun = match again.status {
        0 => format!("ok {:.1} s", again.seconds),
        status => format!("FAILED {status}"),
    };
    Row {
        number,
        group: case.group,
        name: case.name,
        cause,
        seconds: run.seconds,
        rerun,
        reused,
        wrong,
    }
}

/// Of the faulty build.
fn judge(case: &Case, site: &Site, run: &Run) -> Vec<String> {
    let mut wrong = Vec::new();
    if run.status != case.status {
        wrong.push(format!(
            "ended with {} instead of {}:\n{}",
            run.status,
            case.status,
            tail(&run.said)
        ));
    } else if !run.cause().contains(case.cause) {
        wrong.push(format!(
            "the cause is not `{}`:\n{}",
            case.cause,
            tail(&run.said)
        ));
    }
    for text in &case.says {
        if !run.said.contains(text) {
            wrong.push(format!("it does not say `{text}`:\n{}", tail(&run.said)));
        }
    }
    let orphans = site.orphans();
    if !orphans.is_empty() {
        wrong.push(format!("still running: {orphans:?}"));
    }
    let page = ["out/report.html", "out/failure/error.txt"].map(|name| site.path(name).exists());
    if case.evidence && !page.iter().any(|there| *there) {
        wrong.push("there is no out/report.html".into());
    }
    let traced = site.read("out/failure/debug.jsonl");
    let is_qemu = |line: &str| {
        line.contains("\"message\":\"started a child\"") && line.contains("/fake-qemu\"")
    };
    if case.evidence && !traced.lines().any(is_qemu) {
        wrong.push(format!("debug.jsonl names no QEMU:\n{}", tail(&traced)));
    }
    wrong.extend(case.judged.iter().flat_map(|judged| judged(site, run)));
    let left = if case.abrupt {
        Vec::new()
    } else {
        site.leftovers()
    };
    if !left.is_empty() {
        wrong.push(format!("left at once: {left:?}"));
    }
    wrong
}

/// What a build says that it need not do again.
fn reused(run: &Run) -> String {
    let said = |text: &str| {
        run.said
            .lines()
            .find_map(|l| l.split_once(text))
            .map(|(_, rest)| rest.to_string())
    };
    if run.said.contains("nothing changed") {
        return "the whole image".into();
    }
    match said("resuming from the layer ") {
        Some(rest) => format!("layer {rest}"),
        None => "inputs".into(),
    }
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(14)..].join("\n")
}
