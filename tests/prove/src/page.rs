//! `proof/BUILD.html`: the verdicts, what stands behind them, and on every line of a run that was none on Windows, that it was none.
//!
//! Pure. All text of guests and hosts goes through `shown`.

use winimg::page::{Page, Section, clock, headed_table, shown, size, text_block};

use crate::judge::PROBES;
use crate::ledger::{Claim, Ledger};
use crate::proof::{Outcome, Proof, Row, Stage, Verdict};

/// The whole file.
pub fn page(proof: &Proof, ledger: &Ledger) -> String {
    let title = match proof.is_windows() {
        true => format!("winimg on Windows {}", proof.build()),
        false => format!("No Windows: winimg on a medium that says {}", proof.build()),
    };
    let sections = [
        Section {
            id: "claims",
            title: "Claims",
            body: claims(proof, ledger),
        },
        Section {
            id: "rows",
            title: "Rows",
            body: rows(proof),
        },
        Section {
            id: "answers",
            title: "Answers",
            body: answers(proof),
        },
        Section {
            id: "nodes",
            title: "Nodes",
            body: nodes(proof),
        },
        Section {
            id: "open",
            title: "No probe",
            body: unasked(proof, ledger),
        },
        Section {
            id: "host",
            title: "Medium and host",
            body: host(proof),
        },
    ];
    Page::new(title, head(proof), sections).html()
}

fn count(proof: &Proof, outcome: Outcome) -> usize {
    let verdicts = proof.verdicts.iter();
    verdicts
        .filter(|verdict| verdict.outcome == outcome)
        .count()
}

fn head(proof: &Proof) -> String {
    let [held, failed, open] =
        [Outcome::Held, Outcome::Failed, Outcome::Open].map(|outcome| count(proof, outcome));
    let counted = format!("{held} claims held, {failed} failed, {open} are open.");
    match &proof.medium.known {
        Some(known) => format!(
            "<h1>winimg on Windows {}</h1>\n<p>The medium is {}. {counted}</p>\n",
            shown(proof.build()),
            shown(known)
        ),
        None => format!(
            "<h1>This was no Windows</h1>\n<div class=\"cause warning\">\n<p><strong>Nothing shows that the medium is Microsoft's: its digest is none \
             of those in docs/fidelity.toml.</strong></p>\n<p>It says of itself that it is Windows {}. What held on it holds on it; \
             no line below is proved on Windows.</p>\n</div>\n<p>{counted}</p>\n",
            shown(proof.build())
        ),
    }
}

fn verdict(proof: &Proof, verdict: &Verdict) -> &'static str {
    match (verdict.outcome, proof.is_windows()) {
        (Outcome::Held, true) => "proved",
        (Outcome::Failed, true) => "<strong>refuted</strong>",
        (Outcome::Open, true) => "open",
        (Outcome::Held, false) => "held; no Windows",
        (Outcome::Failed, false) => "<strong>failed</strong>; no Windows",
        (Outcome::Open, false) => "open; no Windows",
    }
}

fn claims(proof: &Proof, ledger: &Ledger) -> String {
    let mut body = String::new();
    for section in ledger.sections.iter().filter(|section| section.to_prove) {
        let mut lines = String::new();
        for claim in ledger.lines(&section.id) {
            let found = proof
                .verdicts
                .iter()
                .find(|verdict| verdict.claim == claim.id);
            lines += &found
                .map(|found| line(proof, claim, found))
                .unwrap_or_default();
        }
        let columns = ["claim", "verdict", "what was asked", "where"];
        body += &headed_table("", &columns, &lines);
    }
    body
}

fn line(proof: &Proof, claim: &Claim, found: &Verdict) -> String {
    let probe = PROBES.iter().find(|probe| probe.id == found.probe);
    let asked = probe.map_or("a probe that is no more", |probe| probe.shows);
    let mut seen = Vec::new();
    if !found.held.is_empty() {
        seen.push(format!("held in {}", shown(&found.held.join(", "))));
    }
    seen.extend(found.failed.iter().map(|what| text_block(what)));
    format!(
        "<tr id=\"{0}\"><td>{1}<br><code>{0}</code></td><td>{2}</td><td>{3}</td><td>{4}</td></tr>\n",
        shown(&claim.id),
        shown(&claim.claim),
        verdict(proof, found),
        shown(asked),
        seen.join("<br>")
    )
}

fn rows(proof: &Proof) -> String {
    let no_windows = mark(proof);
    let mut lines = String::new();
    for row in &proof.rows {
        let mut stages: Vec<String> = row.stages.iter().map(stage).collect();
        if !row.missing.is_empty() {
            stages.push(format!("not done: {}", shown(&row.missing.join(", "))));
        }
        let trust = if row.machine.trusted {
            ", Secure Boot and a TPM"
        } else {
            ""
        };
        lines += &format!(
            "<tr><td>{}{no_windows}</td><td>{}, {}, {}{trust}{}</td><td>{}</td><td>{}</td></tr>\n",
            shown(&row.name),
            shown(&row.machine.hypervisor),
            shown(&row.machine.firmware),
            shown(&row.machine.disk_bus),
            row.seen
                .accelerator
                .as_deref()
                .map(|on| format!("; on {}", shown(on)))
                .unwrap_or_default(),
            stages.join("<br>"),
            phases(row),
        );
    }
    headed_table(
        "",
        &["row", "machine", "what was done", "phases of the build"],
        &lines,
    )
}

fn stage(stage: &Stage) -> String {
    let took = clock(stage.seconds);
    let what = shown(&stage.what);
    match (stage.is_good(), stage.status) {
        (true, _) => format!("{what}: good, {took}"),
        (false, status) => {
            let status = status.map_or("killed".to_owned(), |status| format!("status {status}"));
            let said = stage.said.as_deref().map(text_block).unwrap_or_default();
            format!("<strong>{what}: {status}</strong>, {took}{said}")
        }
    }
}

fn phases(row: &Row) -> String {
    let phases = row.seen.phases.iter();
    let phases = phases.map(|(phase, seconds)| format!("{} {}", shown(phase), clock(*seconds)));
    phases.collect::<Vec<_>>().join("<br>")
}

fn answers(proof: &Proof) -> String {
    let no_windows = mark(proof);
    let mut body = String::new();
    for row in proof.rows.iter().filter(|row| !row.seen.answers.is_empty()) {
        let mut lines = String::new();
        for (probe, said) in &row.seen.answers {
            lines += &format!(
                "<tr><td>{}{no_windows}</td><td>{}</td></tr>\n",
                shown(probe),
                text_block(said.trim())
            );
        }
        body += &format!(
            "<h3>{}</h3>\n{}",
            shown(&row.name),
            headed_table("", &["probe", "what it printed"], &lines)
        );
    }
    body
}

/// What the API server said of the clones that were to join it.
fn nodes(proof: &Proof) -> String {
    if !proof.has_control_plane {
        return "<p>No control plane was given (<code>--join</code>), so no clone was to become a node.</p>\n".into();
    }
    let no_windows = mark(proof);
    let mut lines = String::new();
    for (row, join) in proof
        .rows
        .iter()
        .flat_map(|row| row.joins.iter().map(move |join| (row, join)))
    {
        for (name, node) in &join.nodes {
            let seen = match node {
                None => "<strong>no such node</strong>".to_owned(),
                Some(node) => {
                    let conditions = node.conditions.iter();
                    let conditions = conditions.map(|(what, is)| format!("{what} {is}"));
                    let conditions: Vec<String> = conditions.collect();
                    let words = [&node.system, &node.image, &node.kubelet].map(|word| shown(word));
                    format!("{}<br>{}", words.join(", "), shown(&conditions.join(", ")))
                }
            };
            lines += &format!(
                "<tr><td>{}{no_windows}</td><td>{}</td><td>{}</td><td>{seen}</td></tr>\n",
                shown(&row.name),
                shown(&join.target),
                shown(name),
            );
        }
    }
    headed_table(
        "",
        &["row", "target", "clone", "what the API server had"],
        &lines,
    )
}

/// What no probe asks: a person, a platform or another run has to show it.
fn unasked(proof: &Proof, ledger: &Ledger) -> String {
    let mut items = String::new();
    for claim in &ledger.claims {
        let waits = ledger
            .section(&claim.section)
            .is_some_and(|section| section.to_prove);
        if waits && claim.remark.is_none() && claim.probe.is_none() {
            items += &format!(
                "<li>{} <code>{}</code>{}</li>\n",
                shown(&claim.claim),
                shown(&claim.id),
                mark(proof)
            );
        }
    }
    format!(
        "<p>These wait for a person, a platform, or a probe that somebody writes.</p>\n<ul>\n{items}</ul>\n"
    )
}

fn host(proof: &Proof) -> String {
    let medium = &proof.medium;
    let lines = [
        ("medium", medium.file.clone()),
        ("known as", medium.known.clone().unwrap_or_default()),
        ("SHA-256", medium.sha256.clone()),
        ("size", size(medium.size)),
        ("images", medium.images.join(", ")),
        ("winimg", proof.winimg.clone()),
        ("winimg's SHA-256", proof.winimg_sha256.clone()),
        ("commit", proof.commit.clone().unwrap_or_default()),
        ("from", proof.started.clone()),
        ("to", proof.ended.clone()),
    ];
    let lines = lines.map(|(name, value)| {
        format!(
            "<tr><th scope=\"row\">{name}</th><td>{}{}</td></tr>\n",
            shown(&value),
            mark(proof)
        )
    });
    let table = winimg::page::table("", &lines.concat());
    format!("{table}{}", text_block(&proof.host.join("\n")))
}

/// Of each line that a reader could take for one about Windows.
fn mark(proof: &Proof) -> &'static str {
    match proof.is_windows() {
        true => "",
        false => " (no Windows)",
    }
}
