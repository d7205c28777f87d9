//! The finding of `winimg verify` for each kind of damage of the finished demo, and no other.
//!
//! The damages with their findings are in
//! `snapshots/machines__end_to_end__verify__each_damage_is_named.snap`. Only the program is tested:
//! docs/verify.md explains each check.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::tree::{self, root};

use serde_json::Value;

use crate::end_to_end::damages::Damage::{self, Gone, NotInEfi, Windows};
use crate::end_to_end::damages::{SECRETS, TABLE};
use crate::end_to_end::program::output_of;
use crate::end_to_end::sabotage_tools::Sabotage;
use support::skip;

/// Marks a row whose damage is not reported, or not alone.
const AMISS: &str = "NOT ONE FINDING";

/// `output` holds the finished demo, `directory` takes the damaged copies.
pub fn each_damage_is_named(output: &Path, directory: &Path) {
    let whole = what_only_windows_knows(output);
    let mut table = String::new();
    let mut skipped = Vec::new();
    for (kind, rows) in TABLE {
        writeln!(table, "## {kind}").expect("a String");
        for (name, damage) in rows {
            let work = tempfile::tempdir_in(directory).expect("a directory");
            let Some(raw) = damaged(&output.join("demo.raw"), damage, work.path()) else {
                skipped.push(*name);
                continue;
            };
            let rendered = rendered(&raw, &output.join("manifest.json"), &whole);
            writeln!(table, "\n{name}\n{rendered}").expect("a String");
        }
        table.push('\n');
    }
    // Nor may a new table be accepted with these.
    assert!(!table.contains(AMISS), "{table}");
    for secret in SECRETS {
        assert!(!table.contains(secret), "{secret} is shown:\n{table}");
    }
    if skipped.is_empty() {
        insta::assert_snapshot!("each_damage_is_named", table);
    } else {
        skip::skipped(format!(
            "without root and /dev/fuse no file can be removed: {}",
            skipped.join("; ")
        ));
        let known =
            include_str!("snapshots/machines__end_to_end__verify__each_damage_is_named.snap");
        for row in table.split("\n\n").filter(|row| !row.starts_with("##")) {
            assert!(known.contains(row.trim()), "not in the table:\n{row}");
        }
    }
}

/// The findings of the image as it was built, which are the same in each of its forms. None of them is more than unknown.
fn what_only_windows_knows(output: &Path) -> Vec<String> {
    let manifest = output.join("manifest.json");
    let forms = ["demo.raw", "demo.vhd", "demo.ova"].map(|form| {
        let (code, findings) = verified(&[&output.join(form)], Some(&manifest));
        assert_eq!(code, 0, "{form}: {findings:#?}");
        findings
    });
    for findings in &forms {
        assert_eq!(findings, &forms[0]);
    }
    assert!(
        forms[0].iter().all(|f| f.starts_with("unknown: ")),
        "{:#?}",
        forms[0]
    );
    let (code, all) = verified(&[&manifest], None);
    assert_eq!(code, 0, "{all:#?}");
    let [raw, ..] = forms;
    raw
}

/// The exit code and the text of each finding.
fn verified(images: &[&Path], manifest: Option<&Path>) -> (i32, Vec<String>) {
    let mut command = Command::new(tree::winimg());
    command
        .args(["--log-format", "json", "verify"])
        .args(images);
    if let Some(manifest) = manifest {
        command.arg("--manifest").arg(manifest);
    }
    let done = command.output().expect("winimg starts");
    let said = String::from_utf8(done.stderr).expect("UTF-8");
    let events = said
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{e}: {line}")));
    let findings = events.filter(|event| event["event"] == "finding");
    let texts = findings.map(|event| event["text"].as_str().expect("a text").to_owned());
    (done.status.code().expect("an exit code"), texts.collect())
}

/// A damaged copy; `None`: this machine can't do that.
fn damaged(raw: &Path, damage: &Damage, directory: &Path) -> Option<PathBuf> {
    let copy = directory.join("damaged.raw");
    let (from, to) = (raw.to_str().expect("UTF-8"), copy.to_str().expect("UTF-8"));
    output_of("cp", &["--sparse=always", from, to]);
    match damage {
        NotInEfi(file) => {
            let disk = winimg_formats::disk::RawDisk::open(&copy).expect("the copy");
            let table = winimg_formats::disk::gpt::read_table(&disk).expect("a partition table");
            let efi = table
                .partitions
                .iter()
                .find(|p| p.role == Some("EFI system"));
            let image = format!("{to}@@{}", efi.expect("an EFI partition").start);
            output_of("mdel", &["-i", &image, &format!("::/{file}")]);
        }
        Windows(damage) => {
            let sabotage = Sabotage::of(&copy, directory);
            damage(&sabotage);
            sabotage.put_back();
        }
        Gone(file) => {
            let sabotage = Sabotage::of(&copy, directory);
            if !sabotage.remove(file) {
                return None;
            }
            sabotage.put_back();
        }
    }
    Some(copy)
}

/// The one finding more than `whole`. An error fails the command, a warning does not.
fn rendered(raw: &Path, manifest: &Path, whole: &[String]) -> String {
    let (code, findings) = verified(&[raw], Some(manifest));
    let more: Vec<&String> = findings.iter().filter(|f| !whole.contains(f)).collect();
    let known = findings.len() - more.len();
    let rendered: Vec<String> = more.iter().map(|f| lasting(f)).collect();
    let rendered = rendered.join("\n");
    // A damaged hive hides nothing here: what only Windows can tell is still reported.
    let right = more.len() == 1
        && known == whole.len()
        && code
            == if rendered.starts_with("error: ") {
                10
            } else {
                0
            };
    let note = if right {
        String::new()
    } else {
        format!(
            "  {AMISS}: {} more, {known} known, exit code {code}\n",
            more.len()
        )
    };
    let lines: String = rendered
        .lines()
        .map(|line| format!("    {line}\n"))
        .collect();
    (note + &lines).trim_end().to_owned()
}

/// Without what changes from one machine, or one edit of a recipe, to the next.
fn lasting(finding: &str) -> String {
    let lines = finding
        .lines()
        .map(|line| match line.strip_prefix("  step: ") {
            Some(step) => format!("  step: {}", without_line(step)),
            None => without_sums(line),
        });
    lines.collect::<Vec<_>>().join("\n")
}

/// `NAME (FILE:LINE:COLUMN)`: the step of this name begins there. What is left is `NAME (FILE)`.
fn without_line(step: &str) -> String {
    let (name, place) = step
        .trim_end_matches(')')
        .rsplit_once(" (")
        .expect("a place");
    let [_, line, file] = place.rsplitn(3, ':').collect::<Vec<_>>()[..] else {
        panic!("{step}: no FILE:LINE:COLUMN");
    };
    let line: usize = line.parse().expect("a number");
    let text = std::fs::read_to_string(root().join(file)).expect("the recipe");
    let mut lines = text.lines().skip(line - 1);
    assert_eq!(lines.next(), Some("[[steps]]"), "{step}");
    let named = lines.next().and_then(|l| l.strip_prefix("name"));
    let named = named.map(|l| l.trim_start_matches([' ', '=']).trim_matches('"'));
    assert_eq!(named, Some(name), "{step}");
    format!("{name} ({file})")
}

/// Sizes and digests are those of this machine's stand-ins.
fn without_sums(text: &str) -> String {
    let words = text.split(' ').collect::<Vec<_>>();
    let mut kept: Vec<String> = Vec::new();
    for (i, word) in words.iter().enumerate() {
        let is_size = words
            .get(i + 1)
            .is_some_and(|next| next.starts_with("bytes"));
        let (head, sum) = word.split_once("sha256:").unwrap_or((word, ""));
        let tail = sum.trim_start_matches(|c: char| c.is_ascii_hexdigit());
        kept.push(match (is_size, sum) {
            (true, _) => "N".to_owned(),
            (false, "") => (*word).to_owned(),
            _ => format!("{head}sha256:…{tail}"),
        });
    }
    kept.join(" ")
}
