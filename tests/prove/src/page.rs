//! `proof/BUILD.html`: the verdicts, what stands behind them, and on every line of a run that was none on Windows, that it was none.
//!
//! Pure. All text of guests and hosts goes through `shown`.

use winimg::page::{
    HtmlPage, PageSection, escape_html, format_clock, render_headed_table, render_text_block,
};
use winimg_base::text::format_size;

use crate::judge::PROBES;
use crate::ledger::{Claim, Ledger};
use crate::proof::{Outcome, Proof, Row, Stage, Verdict};

/// The whole file.
pub fn page(proof: &Proof, ledger: &Ledger) -> String {
    let title = if proof.is_windows() {
        format!("winimg on Windows {}", proof.build())
    } else {
        format!("No Windows: winimg on a medium that says {}", proof.build())
    };
    let sections = [
        PageSection {
            id: "claims",
            title: "Claims",
            body: claims(proof, ledger),
        },
        PageSection {
            id: "rows",
            title: "Rows",
            body: rows(proof),
        },
        PageSection {
            id: "answers",
            title: "Answers",
            body: answers(proof),
        },
        PageSection {
            id: "nodes",
            title: "Nodes",
            body: nodes(proof),
        },
        PageSection {
            id: "open",
            title: "No probe",
            body: unasked(proof, ledger),
        },
        PageSection {
            id: "host",
            title: "Medium and host",
            body: host(proof),
        },
    ];
    HtmlPage::new(title, head(proof), sections).render()
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
            escape_html(proof.build()),
            escape_html(known)
        ),
        None => format!(
            "<h1>This was no Windows</h1>\n<div class=\"cause warning\">\n<p><strong>Nothing shows that the medium is Microsoft's: its digest is none \
             of those in docs/fidelity.toml.</strong></p>\n<p>It says of itself that it is Windows {}. What held on it holds on it; \
             no line below is proved on Windows.</p>\n</div>\n<p>{counted}</p>\n",
            escape_html(proof.build())
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
        body += &render_headed_table("", &columns, &lines);
    }
    body
}

fn line(proof: &Proof, claim: &Claim, found: &Verdict) -> String {
    let probe = PROBES.iter().find(|probe| probe.id == found.probe);
    let asked = probe.map_or("a probe that is no more", |probe| probe.shows);
    let mut seen = Vec::new();
    if !found.held.is_empty() {
        seen.push(format!("held in {}", escape_html(&found.held.join(", "))));
    }
    seen.extend(found.failed.iter().map(|what| render_text_block(what)));
    format!(
        "<tr id=\"{0}\"><td>{1}<br><code>{0}</code></td><td>{2}</td><td>{3}</td><td>{4}</td></tr>\n",
        escape_html(&claim.id),
        escape_html(&claim.claim),
        verdict(proof, found),
        escape_html(asked),
        seen.join("<br>")
    )
}

fn rows(proof: &Proof) -> String {
    let no_windows = mark(proof);
    let mut lines = String::new();
    for row in &proof.rows {
        let mut stages: Vec<String> = row.stages.iter().map(stage).collect();
        if !row.missing.is_empty() {
            stages.push(format!(
                "not done: {}",
                escape_html(&row.missing.join(", "))
            ));
        }
        let trust = if row.machine.trusted {
            ", Secure Boot and a TPM"
        } else {
            ""
        };
        lines += &format!(
            "<tr><td>{}{no_windows}</td><td>{}, {}, {}{trust}{}</td><td>{}</td><td>{}</td></tr>\n",
            escape_html(&row.name),
            escape_html(&row.machine.hypervisor),
            escape_html(&row.machine.firmware),
            escape_html(&row.machine.disk_bus),
            row.seen
                .accelerator
                .as_deref()
                .map(|on| format!("; on {}", escape_html(on)))
                .unwrap_or_default(),
            stages.join("<br>"),
            phases(row),
        );
    }
    render_headed_table(
        "",
        &["row", "machine", "what was done", "phases of the build"],
        &lines,
    )
}

fn stage(stage: &Stage) -> String {
    let took = format_clock(stage.seconds);
    let what = escape_html(&stage.what);
    match (stage.is_good(), stage.status) {
        (true, _) => format!("{what}: good, {took}"),
        (false, status) => {
            let status = status.map_or("killed".to_owned(), |status| format!("status {status}"));
            let said = stage
                .said
                .as_deref()
                .map(render_text_block)
                .unwrap_or_default();
            format!("<strong>{what}: {status}</strong>, {took}{said}")
        }
    }
}

fn phases(row: &Row) -> String {
    let phases = row.seen.phases.iter();
    let phases =
        phases.map(|(phase, seconds)| format!("{} {}", escape_html(phase), format_clock(*seconds)));
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
                escape_html(probe),
                render_text_block(said.trim())
            );
        }
        body += &format!(
            "<h3>{}</h3>\n{}",
            escape_html(&row.name),
            render_headed_table("", &["probe", "what it printed"], &lines)
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
                    let words =
                        [&node.system, &node.image, &node.kubelet].map(|word| escape_html(word));
                    format!(
                        "{}<br>{}",
                        words.join(", "),
                        escape_html(&conditions.join(", "))
                    )
                }
            };
            lines += &format!(
                "<tr><td>{}{no_windows}</td><td>{}</td><td>{}</td><td>{seen}</td></tr>\n",
                escape_html(&row.name),
                escape_html(&join.target),
                escape_html(name),
            );
        }
    }
    render_headed_table(
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
                escape_html(&claim.claim),
                escape_html(&claim.id),
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
        ("size", format_size(medium.size)),
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
            escape_html(&value),
            mark(proof)
        )
    });
    let table = winimg::page::render_table("", &lines.concat());
    format!("{table}{}", render_text_block(&proof.host.join("\n")))
}

/// Of each line that a reader could take for one about Windows.
fn mark(proof: &Proof) -> &'static str {
    if proof.is_windows() {
        ""
    } else {
        " (no Windows)"
    }
}
