//! `try/TARGET.html`: the report of a trial, rendered from `TARGET.json` and the screens next to
//! it.
//!
//! Pure. Names, logs and paths come from the guest, so all of them are escaped.

mod clones;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::compare::ComparisonOutcome;
use super::metadata::CloneReport;
use super::result::{CloneRun, TrialFinding, TrialNetwork, TrialResult};
use crate::page::{
    self, HtmlPage, PageSection, escape_html, format_clock, format_second, render_link,
    render_prose, render_table, to_sentence, wrap_tag,
};
use winimg_base::text::{count, format_duration, format_size};
use winimg_recipe::target::serialized_name;

/// Screens as base64 PNGs, by their names in the result. Screens that are too large for a report
/// are missing.
pub type ScreenImages = BTreeMap<String, String>;

/// Limits of every trial (docs/try.md).
const NEVER: &str = "Only the powered-off disks were read: no running clone was examined.";
const NEVER_ISOLATED: &str =
    "The clones had access only to their metadata: joining a cluster was not tested.";
const NEVER_NAT: &str =
    "Other machines were not examined: whether the clones joined a cluster is not shown.";

pub fn render_page(trial: &TrialResult, pictures: &ScreenImages) -> String {
    let sections = [
        make_section("findings", "Findings", render_findings(trial)),
        make_section(
            "clones",
            "The clones",
            clones::render_clones(trial, pictures),
        ),
        make_section("two", "Comparison of the clones", render_comparison(trial)),
        make_section("not-shown", "Limits of this trial", not_shown(trial)),
        make_section("machine", "The machine", render_machine(trial)),
        make_section("requests", "Requests for metadata", render_requests(trial)),
        make_section("files", "The image and the result", render_files(trial)),
    ];
    let head = format!(
        "<p class=\"build\">{}</p>\n<h1 class=\"{}\">{}</h1>\n<p class=\"next\">{}</p>\n",
        render_time(trial),
        if trial.is_good() { "good" } else { "bad" },
        escape_html(&trial.describe_outcome()),
        render_prose(&to_sentence(&trial.summarize()))
    );
    HtmlPage::new(trial.describe_outcome(), head, sections).render()
}

fn make_section(id: &'static str, title: &'static str, body: String) -> PageSection {
    PageSection { id, title, body }
}

fn render_time(trial: &TrialResult) -> String {
    let mut text = format!(
        "Trial as {}, {}",
        escape_html(&trial.target),
        escape_html(&trial.platform.title)
    );
    if let Ok(started) = trial.started.parse::<jiff::Timestamp>() {
        let _ = write!(text, ". {}", format_second(started));
        if let Ok(finished) = trial.finished.parse::<jiff::Timestamp>() {
            let took = finished.duration_since(started).as_secs_f64();
            let _ = write!(text, ", {}", format_duration(took));
        }
    }
    text
}

fn render_findings(trial: &TrialResult) -> String {
    if trial.findings.is_empty() {
        return "<p>None: all checks passed.</p>\n".into();
    }
    let found = merge_findings(&trial.findings);
    found
        .iter()
        .map(|(finding, clones)| one_finding(finding, clones))
        .collect()
}

/// Merges equal findings about several clones into one, with their numbers.
fn merge_findings(findings: &[TrialFinding]) -> Vec<(TrialFinding, Vec<usize>)> {
    let mut all: Vec<(TrialFinding, Vec<usize>)> = Vec::new();
    for finding in findings {
        let anonymous = TrialFinding {
            clone: None,
            ..finding.clone()
        };
        let same = all.iter_mut().find(|(other, clones)| {
            *other == anonymous && clones.is_empty() == finding.clone.is_none()
        });
        match same {
            Some((_, clones)) => {
                clones.extend(finding.clone);
                clones.sort_unstable();
            }
            None => all.push((anonymous, finding.clone.into_iter().collect())),
        }
    }
    all
}

fn one_finding(finding: &TrialFinding, clones: &[usize]) -> String {
    let word = page::severity_word(finding.severity);
    let of = match clones {
        // The message itself mentions both clones.
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
        ("required by", asked.as_ref()),
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
    let headline = format!("{word}{of}: {}", render_prose(&finding.message));
    page::render_finding(finding.severity, &headline, &parts, &finding.lines)
}

fn render_comparison(trial: &TrialResult) -> String {
    let rows: String = trial
        .compared
        .iter()
        .map(|one| compared_row(one.what.name(), &one.outcome))
        .collect();
    render_table("facts", &rows)
}

fn compared_row(what: &str, outcome: &ComparisonOutcome) -> String {
    let (class, words) = match outcome {
        ComparisonOutcome::Differs => ("", "differs".to_owned()),
        ComparisonOutcome::Absent => ("", "neither clone has any".into()),
        ComparisonOutcome::Shared { shared } => {
            (" class=\"bad\"", format!("the same: {}", shared.join(", ")))
        }
        ComparisonOutcome::Unknown { why } => ("", format!("unknown: {why}")),
    };
    let (what, words) = (escape_html(what), escape_html(&words));
    format!("<tr><th scope=\"row\">{what}</th><td{class}>{words}</td></tr>\n")
}

fn not_shown(trial: &TrialResult) -> String {
    let remarks = trial.remarks.iter().map(|remark| to_sentence(remark));
    let cluster = match trial.network {
        TrialNetwork::Isolated => NEVER_ISOLATED,
        TrialNetwork::Nat => NEVER_NAT,
    };
    let items = remarks.chain([NEVER, cluster].map(str::to_owned));
    wrap_tag(
        "ul",
        &items
            .map(|text| format!("<li>{}</li>\n", render_prose(&text)))
            .collect::<String>(),
    )
}

/// Renders the target's machine next to the one of the trial, with the sources.
fn render_machine(trial: &TrialResult) -> String {
    let (wanted, tried) = (&trial.platform.hardware, &trial.hardware);
    let firmware: Vec<&str> = wanted.firmware.iter().map(|f| f.as_str()).collect();
    let tpm = if tried.tpm { "yes" } else { "none" };
    let secure_boot = if tried.secure_boot { "on" } else { "off" };
    let rows = [
        (
            "firmware",
            firmware.join(" or "),
            tried.firmware.as_str().to_owned(),
        ),
        (
            "disk",
            serialized_name(&wanted.controller),
            serialized_name(&tried.controller),
        ),
        (
            "network card",
            serialized_name(&wanted.nic),
            serialized_name(&tried.nic),
        ),
        ("TPM", serialized_name(&wanted.tpm), tpm.to_owned()),
        (
            "Secure Boot",
            serialized_name(&wanted.secure_boot),
            secure_boot.to_owned(),
        ),
        (
            "metadata",
            trial.platform.metadata.describe(", read by "),
            serialized_name(&trial.metadata),
        ),
        (
            "hypervisor",
            "the platform's own".to_owned(),
            format!("{}, {}", tried.hypervisor, tried.accelerator),
        ),
    ];
    let head = format!(
        "<tr><td></td><th scope=\"col\">{}</th><th scope=\"col\">the clones</th></tr>\n",
        escape_html(&trial.target)
    );
    let rows = rows.map(|(what, wanted, tried)| {
        format!(
            "<tr><th scope=\"row\">{what}</th><td>{}</td><td>{}</td></tr>\n",
            escape_html(&wanted),
            escape_html(&tried)
        )
    });
    render_table("facts", &(head + &rows.concat()))
        + &render_source("The target's hardware", &wanted.origin.describe())
        + &render_source("Its metadata", &trial.platform.metadata.origin.describe())
}

fn render_source(of: &str, words: &str) -> String {
    format!("<p class=\"source\">{of}, {}</p>\n", escape_html(words))
}

fn render_requests(trial: &TrialResult) -> String {
    let clones = (1..).zip(&trial.clones);
    clones
        .map(|(number, clone)| render_clone_requests(number, clone))
        .collect()
}

fn render_clone_requests(number: usize, clone: &CloneRun) -> String {
    let rows: String = clone.requests.iter().map(request_row).collect();
    let reports: String = clone
        .reports
        .iter()
        .map(|report| format!("<li>{}</li>\n", escape_html(&describe_report(report))))
        .collect();
    if rows.is_empty() && reports.is_empty() {
        return String::new();
    }
    let head = "<tr><th scope=\"col\">after</th><th scope=\"col\">request</th>\
                <th scope=\"col\">answer</th></tr>\n";
    let requests = count(clone.requests.len(), "request");
    format!(
        "<details>\n<summary>Clone {number}: {requests}</summary>\n{}{}</details>\n",
        render_table("", &format!("{head}{rows}")),
        wrap_tag("ul", &reports)
    )
}

fn request_row(request: &super::metadata::MetadataRequest) -> String {
    let method = match request.method.as_str() {
        "" => "unreadable request",
        method => method,
    };
    format!(
        "<tr><td>{}</td><td>{} {}{}</td><td>{}</td></tr>\n",
        format_clock(request.seconds),
        escape_html(method),
        escape_html(&request.address),
        escape_html(&request.target),
        request.status
    )
}

fn describe_report(report: &CloneReport) -> String {
    match report {
        CloneReport::Health {
            state,
            sub_status,
            description,
        } => {
            let more = [sub_status, description];
            let more = more.into_iter().flatten().map(|text| format!(", {text}"));
            format!("reported its health: {state}{}", more.collect::<String>())
        }
        CloneReport::Property { name, value } => format!("reported {name}: {value}"),
        CloneReport::EncryptedPassword => "sent its generated password, encrypted".into(),
    }
}

fn render_files(trial: &TrialResult) -> String {
    let image = &trial.image;
    let sha256 = image.sha256.as_deref();
    let rows = [
        ("image", escape_html(&image.file)),
        ("size", format_size(image.size)),
        (
            "SHA-256",
            escape_html(sha256.unwrap_or("unknown: tried without a manifest")),
        ),
        ("result", render_link(&format!("{}.json", trial.target))),
        ("made by", escape_html(&describe_tool(trial))),
    ];
    let rows = rows.map(|(name, text)| format!("<dt>{name}</dt><dd>{text}</dd>\n"));
    wrap_tag("dl", &rows.concat())
}

fn describe_tool(trial: &TrialResult) -> String {
    let tool = &trial.tool;
    match &tool.commit {
        Some(commit) => format!("{} {} ({commit})", tool.name, tool.version),
        None => format!("{} {}", tool.name, tool.version),
    }
}
