//! winimg's records, read as far as a proof needs them. Pure: text in, values out.
//!
//! Each is winimg's own document (`docs/events.md`, `docs/json.md`, `schemas/try-1.json`): a field that is not there is an error, never a
//! good sign.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::proof::{Seen, Trial, Verified};
use crate::rows::SEAL;

/// Steps of the recipe whose output is an answer begin so.
const PROBE: &str = "probe ";

/// All builds of one row, one after the other: what a later one did not do again, an earlier one did.
pub fn build(events: &str) -> Seen {
    let mut seen = Seen::default();
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    let mut seal = None;
    for event in each(events) {
        let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
        match event["event"].as_str().unwrap_or_default() {
            "host_probed" => seen.accelerator = Some(text("accelerator")),
            "phase_finished" => {
                let seconds = event["seconds"].as_f64().unwrap_or_default();
                seen.phases.insert(text("phase"), seconds);
            }
            "layer_sealed" => seen.layers_sealed += 1,
            "layer_used" => seen.resumed = true,
            "step_started" => {
                seal = event["step"].as_u64().filter(|_| text("name") == SEAL);
                if seal.is_some() {
                    seen.generalized = Some(false);
                }
                if let (Some(step), Some(name)) =
                    (event["step"].as_u64(), text("name").strip_prefix(PROBE))
                {
                    // Asked again: the new answer counts.
                    seen.answers.insert(name.to_owned(), String::new());
                    names.insert(step, name.to_owned());
                } else if let Some(step) = event["step"].as_u64() {
                    names.remove(&step);
                }
            }
            "step_finished" if seal.is_some() && event["step"].as_u64() == seal => {
                seen.generalized = Some(true);
            }
            "output" => {
                let step = event["step"].as_u64().unwrap_or_default();
                if let Some(name) = names.get(&step) {
                    *seen.answers.entry(name.clone()).or_default() += &text("text");
                }
            }
            _ => {}
        }
    }
    seen
}

/// Each event of these lines. One that was cut off is passed over (docs/events.md).
pub fn each(events: &str) -> impl Iterator<Item = Value> {
    let lines = events.lines();
    lines.filter_map(|line| serde_json::from_str(line).ok())
}

/// What the last of these builds said of the disk that it had sealed; nothing where it did not come to that.
pub fn checked(events: &str) -> Option<Verified> {
    let (mut findings, mut found) = (Vec::new(), None);
    for event in each(events) {
        match event["event"].as_str().unwrap_or_default() {
            "started" => (findings, found) = (Vec::new(), None),
            "finding" => findings.push(event),
            "checked" => {
                found = Some(Verified {
                    checks: event["checks"].as_u64()?,
                    hold: event["hold"].as_u64()?,
                    findings: sentences(&Value::Array(std::mem::take(&mut findings)))?,
                });
            }
            _ => {}
        }
    }
    found
}

/// The last word of a command that failed: the fact, with what was found.
pub fn failure(events: &str) -> Option<String> {
    let mut lines = events.lines().rev();
    let event = lines.find_map(|line| {
        let event: Value = serde_json::from_str(line).ok()?;
        (event["event"] == "failed").then_some(event)
    })?;
    let mut said = event["message"].as_str()?.to_owned();
    for field in ["at", "expected", "found"] {
        if let Some(more) = event[field].as_str() {
            said += &format!("\n{field}: {more}");
        }
    }
    for complaint in complaints(events) {
        said += &format!("\n{complaint}");
    }
    Some(said)
}

/// The errors of the recipe, where it has any.
fn complaints(events: &str) -> Vec<String> {
    let complaints = each(events).filter(|event| event["event"] == "diagnostics");
    let complaints = complaints.flat_map(|event| {
        let all = event["diagnostics"].as_array().cloned();
        all.unwrap_or_default()
    });
    let errors = complaints.filter(|complaint| complaint["severity"] == "error");
    errors
        .filter_map(|error| error["message"].as_str().map(str::to_owned))
        .collect()
}

fn sentences(findings: &Value) -> Option<Vec<String>> {
    let grave = |finding: &&Value| finding["severity"] != "unknown";
    let findings = findings.as_array()?.iter().filter(grave);
    findings
        .map(|finding| finding["message"].as_str().map(str::to_owned))
        .collect()
}

/// # Errors
/// What is missing in the document.
pub fn verified(document: &str) -> Result<Verified, String> {
    let value: Value = serde_json::from_str(document).map_err(|e| e.to_string())?;
    let read = || {
        let mut all = Verified {
            checks: 0,
            hold: 0,
            findings: Vec::new(),
        };
        for file in value["files"].as_array()? {
            all.checks += file["checks"].as_u64()?;
            all.hold += file["hold"].as_u64()?;
            all.findings.extend(sentences(&file["findings"])?);
        }
        Some(all)
    };
    read().ok_or_else(|| "this is no result of winimg verify".to_owned())
}

/// # Errors
/// What is missing in the document.
pub fn trial(document: &str) -> Result<Trial, String> {
    let value: Value = serde_json::from_str(document).map_err(|e| e.to_string())?;
    let read = || {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let clones = value["clones"].as_array()?;
        let has = |clone: &Value, what: &str| clone["state"]["hardware"][what] == true;
        let keys = value["compared"].as_array()?.iter();
        let mut keys = keys.filter(|compared| compared["what"] == "ssh-host-keys");
        let keys = keys
            .next()
            .and_then(|compared| match compared["outcome"].as_str() {
                Some("differs") => Some(true),
                Some("shared") => Some(false),
                _ => None,
            });
        let remarks = value["remarks"].as_array()?.iter();
        Some(Trial {
            target: text(&value["target"])?,
            is_good: value["verdict"] == "good",
            controller: text(&value["hardware"]["controller"])?,
            metadata: text(&value["metadata"])?,
            trusted: !clones.is_empty()
                && clones
                    .iter()
                    .all(|clone| has(clone, "tpm") && has(clone, "secure_boot")),
            host_keys_differ: keys,
            remarks: remarks.map(text).collect::<Option<_>>()?,
            findings: sentences(&value["findings"])?,
        })
    };
    read().ok_or_else(|| "this is no result of winimg try".to_owned())
}

/// What `winimg inspect --json` says of the medium: build and revision, and the images' names.
///
/// # Errors
/// There is no Windows on it that could be installed.
pub fn medium(document: &str) -> Result<(String, Vec<String>), String> {
    let value: Value = serde_json::from_str(document).map_err(|e| e.to_string())?;
    let images = value["images"].as_array();
    let images = images.filter(|images| !images.is_empty());
    let images = images.ok_or("the medium has no images of Windows")?;
    let named = |what: &'static str| images.iter().filter_map(move |image| image[what].as_str());
    // `10.0.20348.587`
    let version = named("version").next().unwrap_or_default();
    let parts: Vec<&str> = version.split('.').collect();
    let [_, _, build, revision] = parts[..] else {
        return Err(format!(
            "the medium's images are of the version {version:?}"
        ));
    };
    Ok((
        format!("{build}.{revision}"),
        named("name").map(str::to_owned).collect(),
    ))
}
