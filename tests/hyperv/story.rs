//! A trace as it can be compared: names, paths and numbers of a run are left out, and so is how often somebody looked.

use std::collections::BTreeSet;
use std::path::Path;

use regex::Regex;

pub fn rendered(trace: &str, dir: &Path) -> String {
    let patterns = [
        (
            r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
            "<id>",
        ),
        (r"winimg-[0-9a-f]{8}\b", "winimg-<n>"),
        (r"/[^ ']*/winimg-[0-9]+/\.winimg-work-[0-9a-f]+", "<run>"),
        (r"\.winimg-work-[0-9a-f]+", ".winimg-work-<n>"),
        (r"\.new-[0-9A-Za-z]+", ".new-<n>"),
        (r"/layers/[0-9a-f]{16,}", "/layers/<key>"),
        (r"/machine-[0-9A-Za-z]+", "/machine-<n>"),
        (r"\b[0-9a-f]{32}\b", "<id>"),
        (
            r"-ArgumentList (?:[0-9a-f]{12}\b|<id>)",
            "-ArgumentList <job>",
        ),
        (r"<[0-9]+ characters>", "<text>"),
    ];
    let patterns = patterns.map(|(pattern, by)| (Regex::new(pattern).expect("a pattern"), by));
    let mut seen = BTreeSet::new();
    let mut out: Vec<String> = Vec::new();
    let mut is_left_out = false;
    for line in trace.lines() {
        let mut line = line.replace(&format!("{}/", dir.display()), "…/");
        for (pattern, by) in &patterns {
            line = pattern.replace_all(&line, *by).into_owned();
        }
        // How soon Windows accepts sessions differs.
        let refused = line.starts_with("    ");
        if refused && is_left_out {
            continue;
        }
        if refused && out.last().is_some_and(|l| l.contains("New-PSSession")) {
            out.pop();
            continue;
        }
        // The first look of each kind stands for all.
        let looks = [
            "Hyper-V\\Get-VM -Id",
            "script:screen",
            "-ScriptBlock {poll}",
            "-ScriptBlock {look}",
            r"-ScriptBlock {get} -ArgumentList C:\winimg\seal-failed.log",
        ];
        let look = looks
            .iter()
            .find(|l| line.starts_with(**l) || (l.starts_with('-') && line.contains(**l)));
        is_left_out = look.is_some_and(|l| !seen.insert(*l));
        if is_left_out {
            continue;
        }
        let times = look.map_or(String::new(), |_| " ×N".into());
        out.push(format!("{line}{times}"));
    }
    out.join("\n")
}
