//! The plan for programs: the same facts as the text, `winimg plan --json`.
//!
//! `schema` is raised when a key changes its meaning or goes; new keys may come at any time.

use serde_json::{Value, json};

use super::words::{encoding_name, entry_path, expected, named_by};
use super::{
    CloneCheck, DriverFolder, Entry, Op, Plan, PlannedStep, Settle, start_seal, undecided,
};
use crate::recipe::{
    Component, ContainerImage, Effective, ImageProof, ProofSpec, Recipe, Signature, Var,
};
use winimg_base::diag::Diagnostic;
use winimg_base::text::redact_url;

/// One object: `schema`, `recipe`, `variables`, `values`, `components`, `images`, `payload`, `steps`, `clone`, `warnings`, `undecided`. Times are in seconds.
pub fn json(recipe: &Recipe, plan: &Plan) -> Value {
    let plan = &*super::withhold::withhold_foreign_text(plan, recipe);
    let payload = plan.payload.iter().enumerate();
    let steps = plan.steps.iter().zip(1..);
    // That of a recipe with gaps would be another's.
    let digest = recipe.undecided.is_empty().then_some(&recipe.digest);
    json!({
        "schema": 1,
        "recipe": { "name": recipe.name.value, "digest": digest },
        "variables": recipe.vars.iter().map(variable).collect::<Value>(),
        "values": recipe.effective.iter().map(value).collect::<Value>(),
        "components": recipe.components.iter().map(component).collect::<Value>(),
        "images": recipe.images.iter().map(image).collect::<Value>(),
        "payload": payload.map(|(i, e)| entry(i, e)).collect::<Value>(),
        "steps": steps.map(|(s, number)| step(plan, number, s)).collect::<Value>(),
        "clone": plan.clone_checks.iter().map(|c| clone_check(plan, c)).collect::<Value>(),
        "warnings": plan.warnings.0.iter().map(warning).collect::<Value>(),
        "undecided": recipe.undecided.iter().map(undecided::json).collect::<Value>(),
    })
}

fn variable(var: &Var) -> Value {
    json!({ "name": var.name, "value": redact_url(&var.value), "origin": var.origin })
}

fn value(of: &Effective) -> Value {
    let value = serde_json::from_str(&of.value).unwrap_or_else(|_| json!(of.value));
    json!({ "path": of.path, "value": value, "origin": of.origin })
}

fn component(component: &Component) -> Value {
    let origin = &component.origin;
    json!({
        "name": component.name.value,
        "version": component.version,
        "url": origin.url.value.to_string(),
        "proof": named_by(&origin.proof),
        "signatures": signatures(&origin.signatures),
        "checksum_signatures": match &origin.proof {
            ProofSpec::ChecksumFile { signatures: of, .. } => signatures(of),
            _ => json!([]),
        },
    })
}

fn warning(warning: &Diagnostic) -> Value {
    let place = warning.problem.place.as_ref().map(ToString::to_string);
    json!({ "message": warning.problem.fact, "place": place })
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
    let groups = groups.iter().map(|g| g.iter().map(one).collect::<Value>());
    groups.collect()
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
        Entry::Drivers { from, only } => match from {
            DriverFolder::Component(component) => {
                json!({ "path": path, "component": component, "drivers": true, "only": only })
            }
            DriverFolder::Local(host) => {
                let host = host.display().to_string();
                json!({ "path": path, "local": host, "drivers": true, "only": only })
            }
        },
        Entry::Image { image } => json!({ "path": path, "image": image }),
        Entry::Local { path: host } => json!({ "path": path, "local": host.display().to_string() }),
        Entry::Text { text, encoding, .. } => {
            json!({ "path": path, "encoding": encoding_name(*encoding), "text": text })
        }
    }
}

fn step(plan: &Plan, number: usize, step: &PlannedStep) -> Value {
    json!({
        "number": number,
        "name": step.name,
        "verb": step.verb,
        "place": step.place.to_string(),
        "skipped": step.skipped,
        "undecided": step.undecided,
        "settle": step.may_restart().then(|| settle(&step.settle)),
        "ops": step.ops.iter().map(|o| op(o, step)).collect::<Value>(),
        "entries": step.entries,
        "log": step.guest_log,
        "expects": step.expects.iter().map(|e| expected(plan, e)).collect::<Value>(),
    })
}

fn clone_check(plan: &Plan, check: &CloneCheck) -> Value {
    json!({
        "check": check.check.as_ref().map(|claim| expected(plan, claim)),
        "why": check.why,
        "place": check.place.to_string(),
        "targets": check.targets,
        "skipped": check.skipped,
        "undecided": check.undecided,
    })
}

/// How the engine waits until Windows is at rest.
fn settle(settle: &Settle) -> Value {
    let question = Settle::question();
    let (program, arguments) = question.command();
    json!({
        "program": program,
        "arguments": arguments,
        "exit": question.exit,
        "steady": settle.steady.as_secs(),
        "timeout": settle.timeout.as_secs(),
        "script": format!(r"s\{}.cmd", question.number()),
        "text": question.text,
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
        Op::Settle(of) => json!({ "op": "settle", "settle": settle(of) }),
        Op::Eject => json!({ "op": "eject" }),
        Op::Seal { timeout } => {
            let (program, arguments) = start_seal();
            json!({
                "op": "seal",
                "program": program,
                "arguments": arguments,
                "timeout": timeout.as_secs(),
            })
        }
    }
}
