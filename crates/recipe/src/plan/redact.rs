//! Removes the text of files outside the recipe's folder from a plan before it is printed.

use std::borrow::Cow;

use super::{BuildPlan, PayloadEntry, PlannedOp};
use crate::verbs::generalize::ANSWER_FILE;
use crate::verbs::{GeneralizeSpec, SealAnswer};
use crate::{Recipe, Verb};

const WITHHELD: &str = "(from a file outside of the recipe's folder, whose text is not shown)\n";

/// Returns the plan with a remark in place of scripts and answer files from outside of the folders
/// whose files may be quoted. What a build does stays the same.
pub(super) fn withhold_foreign_text<'p>(
    plan: &'p BuildPlan,
    recipe: &Recipe,
) -> Cow<'p, BuildPlan> {
    let is_foreign_seal = recipe.steps.iter().any(|step| match &step.verb {
        Verb::Generalize(GeneralizeSpec {
            answer_file: SealAnswer::Own(own),
            ..
        }) => !recipe.may_quote(&own.value),
        _ => false,
    });
    let scripts: Vec<&str> = recipe
        .unquotable_scripts
        .iter()
        .map(|s| s.trim())
        .filter(|s| !s.is_empty())
        .collect();
    if scripts.is_empty() && !is_foreign_seal {
        return Cow::Borrowed(plan);
    }
    let mut plan = plan.clone();
    for entry in &mut plan.payload {
        if let PayloadEntry::Text { file, text, .. } = entry
            && (contains_any(text, &scripts) || is_foreign_seal && file == ANSWER_FILE)
        {
            *text = WITHHELD.into();
        }
    }
    for op in plan.steps.iter_mut().flat_map(|step| &mut step.ops) {
        if let PlannedOp::Put(put) = op
            && contains_any(&put.text, &scripts)
        {
            put.text = WITHHELD.into();
        }
    }
    Cow::Owned(plan)
}

fn contains_any(text: &str, scripts: &[&str]) -> bool {
    scripts.iter().any(|script| text.contains(script))
}
