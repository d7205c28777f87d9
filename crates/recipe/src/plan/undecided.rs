//! Lists the decisions to make before a build, at the end of a plan: the setting, what needs it,
//! its place, and how to set it.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::{MissingProof, PIPED, Recipe, UndecidedValue};

/// Renders the last part of the plan's text; empty if nothing is undecided. `named` is the recipe
/// as named on the command line.
pub fn render_undecided(recipe: &Recipe, named: &str) -> String {
    let mut out = String::new();
    if recipe.undecided.is_empty() {
        return out;
    }
    out.push_str("\nTo be decided before a build\n");
    for one in &recipe.undecided {
        match one {
            UndecidedValue::Proof(missing) => render_proof(&mut out, recipe, missing),
            UndecidedValue::Variable {
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
    let by_name = recipe.undecided.iter().any(|one| match one {
        UndecidedValue::Proof(missing) => missing.variable.is_some(),
        UndecidedValue::Variable { .. } => true,
    });
    if by_name {
        out.push_str(
            "  Set one with NAME = \"…\" under [vars], --var NAME=…, or WINIMG_VAR_NAME.\n",
        );
    }
    let has_proof = recipe
        .undecided
        .iter()
        .any(|one| matches!(one, UndecidedValue::Proof(_)));
    if has_proof {
        // `winimg pin` needs a file to write to.
        let named = match named {
            PIPED => "recipe.toml",
            named => named,
        };
        let _ = writeln!(
            out,
            "  `winimg pin {named}` downloads each file without a digest, shows it, and writes its \
             digest into the recipe."
        );
    }
    out.push_str("  Until then, build, lock, fetch and bundle reject the recipe.\n");
    out
}

fn render_proof(out: &mut String, recipe: &Recipe, missing: &MissingProof) {
    let algorithm = missing.algorithm.name();
    let name = match &missing.variable {
        Some(variable) => variable.name.clone(),
        None => format!("{}.{algorithm}", missing.input.table_path().join(".")),
    };
    let _ = writeln!(out, "  {name}  {}", missing.place);
    let why = missing.variable.as_ref().map_or(&missing.fact, |v| &v.why);
    let _ = writeln!(out, "      {why}");
    let input = recipe.find_input(&missing.input);
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

pub(super) fn render_json(one: &UndecidedValue) -> Value {
    match one {
        UndecidedValue::Proof(missing) => json!({
            "kind": "proof",
            "input": missing.input,
            "algorithm": missing.algorithm.name(),
            "variable": missing.variable.as_ref().map(|v| &v.name),
            "why": missing.variable.as_ref().map_or(&missing.fact, |v| &v.why),
            "place": missing.place.to_string(),
        }),
        UndecidedValue::Variable {
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
