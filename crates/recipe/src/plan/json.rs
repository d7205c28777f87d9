//! Renders the plan as JSON for `winimg plan --json`, with the same facts as the text.
//!
//! `schema` is incremented when a key changes its meaning or is removed; keys may be added at any
//! time.

use serde_json::{Value, json};

use super::describe::{describe_check, encoding_name, entry_path, named_by};
use super::{
    BuildPlan, DriverFolder, PayloadEntry, PlannedCloneCheck, PlannedOp, PlannedStep, SettleWait,
    start_seal, undecided,
};
use crate::{
    ComponentSpec, ContainerImage, EffectiveValue, ImageProof, ProofSpec, Recipe, ResolvedVariable,
    SignatureSpec,
};
use winimg_base::diag::Diagnostic;
use winimg_base::text::redact_if_url;

/// Renders one object: `schema`, `recipe`, `variables`, `values`, `components`, `images`,
/// `payload`, `steps`, `clone`, `warnings`, `undecided`. Times are in seconds.
pub fn render_json(recipe: &Recipe, plan: &BuildPlan) -> Value {
    let plan = &*super::redact::withhold_foreign_text(plan, recipe);
    let payload = plan.payload.iter().enumerate();
    let steps = plan.steps.iter().zip(1..);
    // The digest of a recipe with gaps would belong to a different recipe.
    let digest = recipe.undecided.is_empty().then_some(&recipe.digest);
    json!({
        "schema": 1,
        "recipe": { "name": recipe.name.value, "digest": digest },
        "variables": recipe.vars.iter().map(render_variable).collect::<Value>(),
        "values": recipe.effective.iter().map(render_value).collect::<Value>(),
        "components": recipe.components.iter().map(render_component).collect::<Value>(),
        "images": recipe.images.iter().map(render_image).collect::<Value>(),
        "payload": payload.map(|(i, e)| render_entry(i, e)).collect::<Value>(),
        "steps": steps.map(|(s, number)| render_step(plan, number, s)).collect::<Value>(),
        "clone": plan.clone_checks.iter().map(|c| clone_check(plan, c)).collect::<Value>(),
        "warnings": plan.warnings.0.iter().map(render_warning).collect::<Value>(),
        "undecided": recipe.undecided.iter().map(undecided::render_json).collect::<Value>(),
    })
}

fn render_variable(var: &ResolvedVariable) -> Value {
    json!({ "name": var.name, "value": redact_if_url(&var.value), "origin": var.origin })
}

fn render_value(of: &EffectiveValue) -> Value {
    let value = serde_json::from_str(&of.value).unwrap_or_else(|_| json!(of.value));
    json!({ "path": of.path, "value": value, "origin": of.origin })
}

fn render_component(component: &ComponentSpec) -> Value {
    let origin = &component.origin;
    json!({
        "name": component.name.value,
        "version": component.version,
        "url": origin.url.value.to_string(),
        "proof": named_by(&origin.proof),
        "signatures": render_signatures(&origin.signatures),
        "checksum_signatures": match &origin.proof {
            ProofSpec::ChecksumFile { signatures: of, .. } => render_signatures(of),
            _ => json!([]),
        },
    })
}

fn render_warning(warning: &Diagnostic) -> Value {
    let place = warning.problem.place.as_ref().map(ToString::to_string);
    json!({ "message": warning.problem.fact, "place": place })
}

/// Renders the groups of signatures. Each group needs one valid signature.
fn render_signatures(groups: &[Vec<SignatureSpec>]) -> Value {
    groups
        .iter()
        .map(|group| group.iter().map(render_signature).collect::<Value>())
        .collect()
}

fn render_signature(signature: &SignatureSpec) -> Value {
    json!({
        "scheme": signature.rule.scheme(),
        "asks": signature.words,
        "url": signature.url.as_ref().map(|url| url.value.to_string()),
    })
}

fn render_image(image: &ContainerImage) -> Value {
    let (digest, unverified) = match &image.proof {
        ImageProof::Digest(digest) => (Some(digest.value.to_string()), None),
        ImageProof::Unverified { reason } => (None, Some(&reason.value)),
    };
    json!({
        "name": image.name.value, "reference": image.reference.value.to_string(), "digest": digest,
        "unverified": unverified, "os_version": image.os_version,
    })
}

fn render_entry(index: usize, entry: &PayloadEntry) -> Value {
    let path = entry_path(index, entry);
    match entry {
        PayloadEntry::Component { component, .. } => {
            json!({ "path": path, "component": component })
        }
        PayloadEntry::Tree {
            component,
            strip,
            only,
        } => {
            json!({ "path": path, "component": component, "strip": strip, "only": only })
        }
        PayloadEntry::Drivers { from, only } => match from {
            DriverFolder::Component(component) => {
                json!({ "path": path, "component": component, "drivers": true, "only": only })
            }
            DriverFolder::Local(host) => {
                let host = host.display().to_string();
                json!({ "path": path, "local": host, "drivers": true, "only": only })
            }
        },
        PayloadEntry::Image { image } => json!({ "path": path, "image": image }),
        PayloadEntry::Local { path: host } => {
            json!({ "path": path, "local": host.display().to_string() })
        }
        PayloadEntry::Text { text, encoding, .. } => {
            json!({ "path": path, "encoding": encoding_name(*encoding), "text": text })
        }
    }
}

fn render_step(plan: &BuildPlan, number: usize, step: &PlannedStep) -> Value {
    json!({
        "number": number,
        "name": step.name,
        "verb": step.verb,
        "place": step.place.to_string(),
        "skipped": step.skipped,
        "undecided": step.undecided,
        "settle": step.may_restart().then(|| render_settle(&step.settle)),
        "ops": step.ops.iter().map(|o| render_op(o, step)).collect::<Value>(),
        "entries": step.entries,
        "log": step.guest_log,
        "expects": step.expects.iter().map(|e| describe_check(plan, e)).collect::<Value>(),
    })
}

fn clone_check(plan: &BuildPlan, check: &PlannedCloneCheck) -> Value {
    json!({
        "check": check.check.as_ref().map(|claim| describe_check(plan, claim)),
        "why": check.why,
        "place": check.place.to_string(),
        "targets": check.targets,
        "skipped": check.skipped,
        "undecided": check.undecided,
    })
}

/// Renders the wait until Windows is idle.
fn render_settle(settle: &SettleWait) -> Value {
    let question = SettleWait::question();
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

fn render_op(op: &PlannedOp, step: &PlannedStep) -> Value {
    match op {
        PlannedOp::Put(put) => {
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
        PlannedOp::Run(run) => json!({
            "op": "run",
            "program": run.program,
            "arguments": run.arguments,
            "exit": run.exit,
            "timeout": run.timeout.as_secs(),
        }),
        PlannedOp::Reboot => json!({ "op": "reboot", "timeout": step.reboot_timeout.as_secs() }),
        PlannedOp::Settle(of) => json!({ "op": "settle", "settle": render_settle(of) }),
        PlannedOp::Eject => json!({ "op": "eject" }),
        PlannedOp::Seal { timeout } => {
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
