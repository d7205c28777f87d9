//! The plan for programs: the same facts as the text, `winimg plan --json`.
//!
//! `schema` is raised when a key changes its meaning or goes; new keys may come at any time.

use serde_json::{Value, json};

use super::words::{encoding_name, entry_path, expected, named_by};
use super::{Entry, Op, Plan, PlannedStep, Until, undecided};
use crate::recipe::{ContainerImage, ImageProof, ProofSpec, Recipe, Signature};
use winimg_base::text::redact_url;

/// One object: `schema`, `recipe`, `variables`, `values`, `components`, `images`, `payload`, `steps`, `warnings`, `undecided`. Times are in seconds.
pub fn json(recipe: &Recipe, plan: &Plan) -> Value {
    let variables: Vec<Value> = recipe
        .vars
        .iter()
        .map(|v| json!({ "name": v.name, "value": redact_url(&v.value), "origin": v.origin }))
        .collect();
    let effective: Vec<Value> = recipe
        .effective
        .iter()
        .map(|e| {
            let value: Value = serde_json::from_str(&e.value).unwrap_or_else(|_| json!(e.value));
            json!({ "path": e.path, "value": value, "origin": e.origin })
        })
        .collect();
    let images: Vec<Value> = recipe.images.iter().map(image).collect();
    let components: Vec<Value> = recipe
        .components
        .iter()
        .map(|c| {
            json!({
                "name": c.name.value,
                "version": c.version,
                "url": c.origin.url.value.to_string(),
                "proof": named_by(&c.origin.proof),
                "signatures": signatures(&c.origin.signatures),
                "checksum_signatures": match &c.origin.proof {
                    ProofSpec::ChecksumFile { signatures: of, .. } => signatures(of),
                    _ => json!([]),
                },
            })
        })
        .collect();
    let payload: Vec<Value> = plan
        .payload
        .iter()
        .enumerate()
        .map(|(i, e)| entry(i, e))
        .collect();
    let steps: Vec<Value> = plan
        .steps
        .iter()
        .enumerate()
        .map(|(i, s)| step(plan, i + 1, s))
        .collect();
    let warnings: Vec<Value> = plan
        .warnings
        .0
        .iter()
        .map(
            |w| json!({ "message": w.problem.fact, "place": w.problem.place.as_ref().map(ToString::to_string) }),
        )
        .collect();
    // That of a recipe with gaps would be another's.
    let digest = recipe
        .undecided
        .is_empty()
        .then(|| recipe.digest.to_string());
    json!({
        "schema": 1,
        "recipe": { "name": recipe.name.value, "digest": digest },
        "variables": variables,
        "values": effective,
        "components": components,
        "images": images,
        "payload": payload,
        "steps": steps,
        "warnings": warnings,
        "undecided": recipe.undecided.iter().map(undecided::json).collect::<Vec<_>>(),
    })
}

/// Each has to be met, by one of its alternatives.
fn signatures(groups: &[Vec<Signature>]) -> Value {
    let one = |s: &Signature| {
        json!({
            "scheme": s.rule.scheme(),
            "asks": s.words,
            "url": s.url.as_ref().map(|url| url.value.to_string()),
        })
    };
    let groups = groups.iter().map(|g| g.iter().map(one).collect::<Vec<_>>());
    json!(groups.collect::<Vec<_>>())
}

fn image(image: &ContainerImage) -> Value {
    let (digest, unverified) = match &image.proof {
        ImageProof::Digest(digest) => (Some(digest.value.to_string()), None),
        ImageProof::Unverified { reason } => (None, Some(&reason.value)),
    };
    json!({
        "name": image.name.value, "reference": image.reference.value.to_string(), "digest": digest,
        "unverified": unverified, "os_version": image.os_version,
    })
}

fn entry(index: usize, entry: &Entry) -> Value {
    let path = entry_path(index, entry);
    match entry {
        Entry::Component { component, .. } => json!({ "path": path, "component": component }),
        Entry::Tree {
            component,
            strip,
            only,
        } => {
            json!({ "path": path, "component": component, "strip": strip, "only": only })
        }
        Entry::Image { image } => json!({ "path": path, "image": image }),
        Entry::Local { path: host } => json!({ "path": path, "local": host.display().to_string() }),
        Entry::Text { text, encoding, .. } => {
            json!({ "path": path, "encoding": encoding_name(*encoding), "text": text })
        }
    }
}

fn step(plan: &Plan, number: usize, step: &PlannedStep) -> Value {
    let ops: Vec<Value> = step.ops.iter().map(|o| op(o, step)).collect();
    let expects: Vec<String> = step.expects.iter().map(|e| expected(plan, e)).collect();
    json!({
        "number": number,
        "name": step.name,
        "verb": step.verb,
        "place": step.place.to_string(),
        "skipped": step.skipped,
        "undecided": step.undecided,
        "ops": ops,
        "entries": step.entries,
        "log": step.guest_log,
        "expects": expects,
    })
}

fn op(op: &Op, step: &PlannedStep) -> Value {
    match op {
        Op::Put(put) => {
            let (program, arguments) = put.command();
            json!({
                "op": "put",
                "program": program,
                "arguments": arguments,
                "exit": put.exit,
                "timeout": put.timeout.as_secs(),
                "script": format!(r"s\{}.cmd", put.number()),
                "text": put.text,
            })
        }
        Op::Run(run) => json!({
            "op": "run",
            "program": run.program,
            "arguments": run.arguments,
            "exit": run.exit,
            "timeout": run.timeout.as_secs(),
        }),
        Op::Reboot => json!({ "op": "reboot", "timeout": step.reboot_timeout.as_secs() }),
        Op::Eject => json!({ "op": "eject" }),
        Op::Wait(Until::Generalized { timeout }) => {
            json!({ "op": "wait", "until": "generalized", "timeout": timeout.as_secs() })
        }
    }
}
