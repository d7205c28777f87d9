//! `try/TARGET.html`: the result of a trial for people, made of what `TARGET.json` has and of the screens beside it.
//!
//! Pure. Names, logs and paths come from the guest: all of it is foreign text and is escaped.

mod clones;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::compare::Outcome;
use super::metadata::Report;
use super::result::{CloneRun, Finding, Network, Trial};
use crate::page::{
    self, Page, Section, clock, linked, prose, second, sentence, shown, size, table, within,
};
use winimg_base::event::Severity;
use winimg_base::text::{count, duration};
use winimg_recipe::recipe::target::{Presence, word};

/// PNGs in base64, by the names that the result has for the screens. One that is missing was too large for a page.
pub type Pictures = BTreeMap<String, String>;

/// What no trial shows (docs/try.md).
const NEVER: &str = "Only the powered-off disks were read: nothing was asked of a running clone.";
const NEVER_ISOLATED: &str =
    "The clones reached nothing but their metadata: what a cluster does with them is not shown.";
const NEVER_NAT: &str = "Nothing was asked of a machine that the clones reached: whether a cluster took them is not shown.";

pub fn page(trial: &Trial, pictures: &Pictures) -> String {
    let section = |id, title, body| Section { id, title, body };
    let sections = [
        section("findings", "Findings", findings(trial)),
        section("clones", "The clones", clones::section(trial, pictures)),
        section("two", "Whether they are two machines", compared(trial)),
        section(
            "not-shown",
            "What this trial does not show",
            not_shown(trial),
        ),
        section("machine", "The machine", machine(trial)),
        section("requests", "Requests for metadata", requests(trial)),
        section("files", "The image and the result", files(trial)),
    ];
    let head = format!(
        "<p class=\"build\">{}</p>\n<h1 class=\"{}\">{}</h1>\n<p class=\"next\">{}</p>\n",
        when(trial),
        if trial.is_good() { "good" } else { "bad" },
        shown(&trial.outcome()),
        prose(&sentence(&trial.summary()))
    );
    Page::new(trial.outcome(), head, sections).html()
}

fn when(trial: &Trial) -> String {
    let time = |text: &str| text.parse::<jiff::Timestamp>().ok();
    let mut text = format!(
        "Trial as {}, {}",
        shown(&trial.target),
        shown(&trial.platform.title)
    );
    if let Some(started) = time(&trial.started) {
        let _ = write!(text, ". {}", second(started));
        if let Some(finished) = time(&trial.finished) {
            let took = finished.duration_since(started).as_secs_f64();
            let _ = write!(text, ", {}", duration(took));
        }
    }
    text
}

fn findings(trial: &Trial) -> String {
    if trial.findings.is_empty() {
        return "<p>None: everything that was checked holds.</p>\n".into();
    }
    let found = merged(&trial.findings);
    found
        .iter()
        .map(|(finding, clones)| one_finding(finding, clones))
        .collect()
}

/// What is said of several clones is shown once, with their numbers.
fn merged(findings: &[Finding]) -> Vec<(Finding, Vec<usize>)> {
    let mut all: Vec<(Finding, Vec<usize>)> = Vec::new();
    for finding in findings {
        let anonymous = Finding {
            clone: None,
            ..finding.clone()
        };
        let said = |(other, clones): &&mut (Finding, Vec<usize>)| {
            *other == anonymous && clones.is_empty() == finding.clone.is_none()
        };
        match all.iter_mut().find(said) {
            Some((_, clones)) => {
                clones.extend(finding.clone);
                clones.sort_unstable();
            }
            None => all.push((anonymous, finding.clone.into_iter().collect())),
        }
    }
    all
}

fn one_finding(finding: &Finding, clones: &[usize]) -> String {
    let (class, word) = match finding.severity {
        Severity::Error => ("error", "Error"),
        Severity::Warning => ("warning", "Warning"),
        Severity::Unknown => ("unknown", "Unknown"),
    };
    let of = match clones {
        // The message itself says that it is about both.
        [] => String::new(),
        [one] => format!(", clone {one}"),
        all => {
            let all: Vec<String> = all.iter().map(ToString::to_string).collect();
            format!(", clones {}", all.join(" and "))
        }
    };
    let asked = finding.asked.as_ref().map(|asked| match &finding.place {
        Some(place) => format!("{asked} ({place})"),
        None => asked.clone(),
    });
    let parts = [
        ("asked for by", asked.as_ref()),
        ("expected", finding.expected.as_ref()),
        ("found", finding.found.as_ref()),
    ];
    let parts = parts
        .into_iter()
        .filter_map(|(name, text)| Some((name, text?)));
    let cures = finding.cures.iter().map(|cure| ("cure", cure));
    let parts = parts.chain(cures);
    let parts: Vec<(String, String)> = parts
        .map(|(name, text)| (name.to_owned(), text.clone()))
        .collect();
    let headline = format!("{word}{of}: {}", prose(&finding.message));
    page::finding(class, &headline, &parts, &finding.lines)
}

fn compared(trial: &Trial) -> String {
    let row = |what: &str, outcome: &Outcome| {
        let (class, words) = match outcome {
            Outcome::Differs => ("", "differs".to_owned()),
            Outcome::Absent => ("", "neither clone has any".into()),
            Outcome::Shared { shared } => {
                (" class=\"bad\"", format!("the same: {}", shared.join(", ")))
            }
            Outcome::Unknown { why } => ("", format!("unknown: {why}")),
        };
        let (what, words) = (shown(what), shown(&words));
        format!("<tr><th scope=\"row\">{what}</th><td{class}>{words}</td></tr>\n")
    };
    let compared = trial.compared.iter();
    let rows = compared.map(|one| row(one.what.words(), &one.outcome));
    table("facts", &rows.collect::<String>())
}

fn not_shown(trial: &Trial) -> String {
    let remarks = trial.remarks.iter().map(|remark| sentence(remark));
    let cluster = match trial.network {
        Network::Isolated => NEVER_ISOLATED,
        Network::Nat => NEVER_NAT,
    };
    let items = remarks.chain([NEVER, cluster].map(str::to_owned));
    within(
        "ul",
        &items
            .map(|text| format!("<li>{}</li>\n", prose(&text)))
            .collect::<String>(),
    )
}

/// The target's machine beside the one that was tried, with the sources.
fn machine(trial: &Trial) -> String {
    let (wanted, tried) = (&trial.platform.hardware, &trial.hardware);
    let firmware: Vec<&str> = wanted.firmware.iter().map(|f| f.word()).collect();
    let presence = |presence: Presence| word(&presence);
    let on = |on: bool, yes: &str, no: &str| if on { yes } else { no }.to_owned();
    let rows = [
        (
            "firmware",
            firmware.join(" or "),
            tried.firmware.word().to_owned(),
        ),
        ("disk", word(&wanted.controller), word(&tried.controller)),
        ("network card", word(&wanted.nic), word(&tried.nic)),
        ("TPM", presence(wanted.tpm), on(tried.tpm, "yes", "none")),
        (
            "Secure Boot",
            presence(wanted.secure_boot),
            on(tried.secure_boot, "on", "off"),
        ),
        (
            "metadata",
            trial.platform.metadata.words(", read by "),
            word(&trial.metadata),
        ),
        (
            "hypervisor",
            "the platform's own".to_owned(),
            format!("{}, {}", tried.hypervisor, tried.accelerator),
        ),
    ];
    let head = format!(
        "<tr><td></td><th scope=\"col\">{}</th><th scope=\"col\">the clones</th></tr>\n",
        shown(&trial.target)
    );
    let rows = rows.map(|(what, wanted, tried)| {
        format!(
            "<tr><th scope=\"row\">{what}</th><td>{}</td><td>{}</td></tr>\n",
            shown(&wanted),
            shown(&tried)
        )
    });
    let source =
        |of: &str, words: String| format!("<p class=\"source\">{of}, {}</p>\n", shown(&words));
    table("facts", &(head + &rows.concat()))
        + &source("The target's hardware", wanted.origin.words())
        + &source("Its metadata", trial.platform.metadata.origin.words())
}

fn requests(trial: &Trial) -> String {
    let clones = (1..).zip(&trial.clones);
    clones.map(|(number, clone)| asked(number, clone)).collect()
}

fn asked(number: usize, clone: &CloneRun) -> String {
    let row = |request: &super::metadata::Asked| {
        let method = match request.method.as_str() {
            "" => "a request that could not be read",
            method => method,
        };
        format!(
            "<tr><td>{}</td><td>{} {}{}</td><td>{}</td></tr>\n",
            clock(request.seconds),
            shown(method),
            shown(&request.address),
            shown(&request.target),
            request.status
        )
    };
    let rows: String = clone.requests.iter().map(row).collect();
    let reports: String = clone
        .reports
        .iter()
        .map(|report| format!("<li>{}</li>\n", shown(&reported(report))))
        .collect();
    if rows.is_empty() && reports.is_empty() {
        return String::new();
    }
    let head = "<tr><th scope=\"col\">after</th><th scope=\"col\">request</th><th scope=\"col\">answer</th></tr>\n";
    let requests = count(clone.requests.len(), "request");
    format!(
        "<details>\n<summary>Clone {number}: {requests}</summary>\n{}{}</details>\n",
        table("", &format!("{head}{rows}")),
        within("ul", &reports)
    )
}

fn reported(report: &Report) -> String {
    match report {
        Report::Health {
            state,
            sub_status,
            description,
        } => {
            let more = [sub_status, description];
            let more = more.into_iter().flatten().map(|text| format!(", {text}"));
            format!("reported its health: {state}{}", more.collect::<String>())
        }
        Report::Property { name, value } => format!("reported {name}: {value}"),
        Report::EncryptedPassword => "handed over the password that it made, encrypted".into(),
    }
}

fn files(trial: &Trial) -> String {
    let image = &trial.image;
    let sha256 = image.sha256.as_deref();
    let rows = [
        ("image", shown(&image.file)),
        ("size", size(image.size)),
        (
            "SHA-256",
            shown(sha256.unwrap_or("not known: it was tried without a manifest")),
        ),
        ("result", linked(&format!("{}.json", trial.target))),
        ("made by", shown(&tool(trial))),
    ];
    let rows = rows.map(|(name, text)| format!("<dt>{name}</dt><dd>{text}</dd>\n"));
    within("dl", &rows.concat())
}

fn tool(trial: &Trial) -> String {
    let tool = &trial.tool;
    match &tool.commit {
        Some(commit) => format!("{} {} ({commit})", tool.name, tool.version),
        None => format!("{} {}", tool.name, tool.version),
    }
}
