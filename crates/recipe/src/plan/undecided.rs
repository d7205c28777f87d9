//! What a person has to decide before a build, as the end of a plan: what it is, who needs it, where to find it, how to give it.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::recipe::{MissingProof, PIPED, Recipe, Undecided};

/// The last part of the plan's text, for the recipe as the command line names it; empty when all is decided.
pub fn undecided(recipe: &Recipe, named: &str) -> String {
    let mut out = String::new();
    if recipe.undecided.is_empty() {
        return out;
    }
    out.push_str("\nTo be decided before a build\n");
    for one in &recipe.undecided {
        match one {
            Undecided::Proof(missing) => proof(&mut out, recipe, missing),
            Undecided::Variable {
                variable,
                steps,
                place,
            } => {
                let steps: Vec<String> = steps.iter().map(|s| format!("`{s}`")).collect();
                let who = match steps.as_slice() {
                    [] => "`[[clone]]`".to_owned(),
                    [step] => format!("step {step}"),
                    steps => format!("steps {}", steps.join(", ")),
                };
                let _ = writeln!(out, "  {}  {place}", variable.name);
                let _ = writeln!(out, "      {}", variable.why);
                let _ = writeln!(out, "      needed by {who}");
            }
        }
    }
    let is_proof = |one: &&Undecided| matches!(one, Undecided::Proof(_));
    let by_name = recipe.undecided.iter().any(|one| match one {
        Undecided::Proof(missing) => missing.variable.is_some(),
        Undecided::Variable { .. } => true,
    });
    if by_name {
        out.push_str(
            "  Set one with NAME = \"…\" under [vars], --var NAME=…, or WINIMG_VAR_NAME.\n",
        );
    }
    if recipe.undecided.iter().any(|one| is_proof(&one)) {
        // It writes into a file.
        let named = match named {
            PIPED => "recipe.toml",
            named => named,
        };
        let _ = writeln!(
            out,
            "  `winimg pin {named}` fetches each file that nothing proves, shows it, and writes its digest into the recipe."
        );
    }
    out.push_str("  build, lock, fetch and bundle refuse the recipe until then.\n");
    out
}

fn proof(out: &mut String, recipe: &Recipe, missing: &MissingProof) {
    let algorithm = missing.algorithm.name();
    let name = match &missing.variable {
        Some(variable) => variable.name.clone(),
        None => format!("{}.{algorithm}", missing.input.table().join(".")),
    };
    let _ = writeln!(out, "  {name}  {}", missing.place);
    let why = missing.variable.as_ref().map_or(&missing.fact, |v| &v.why);
    let _ = writeln!(out, "      {why}");
    let input = recipe.input(&missing.input);
    let url = input
        .and_then(|i| i.origin())
        .map(|o| o.url.value.to_string());
    let _ = writeln!(
        out,
        "      {algorithm} of {}, {}",
        missing.input,
        url.unwrap_or_default()
    );
}

pub(super) fn json(one: &Undecided) -> Value {
    match one {
        Undecided::Proof(missing) => json!({
            "kind": "proof",
            "input": missing.input,
            "algorithm": missing.algorithm.name(),
            "variable": missing.variable.as_ref().map(|v| &v.name),
            "why": missing.variable.as_ref().map_or(&missing.fact, |v| &v.why),
            "place": missing.place.to_string(),
        }),
        Undecided::Variable {
            variable,
            steps,
            place,
        } => json!({
            "kind": "variable",
            "variable": variable.name,
            "why": variable.why,
            "steps": steps,
            "place": place.to_string(),
        }),
    }
}
