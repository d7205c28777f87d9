//! Leaves the text of files out of a plan that is to be printed, where only the recipe points at them.

use std::borrow::Cow;

use super::seal::ANSWER_FILE;
use super::{Entry, Op, Plan};
use crate::recipe::{Recipe, SealAnswer, Verb};

const WITHHELD: &str = "(from a file outside of the recipe's folder, whose text is not shown)\n";

/// Returns the plan with a remark in place of scripts and answer files from outside of the folders
/// whose files may be quoted. What a build does stays the same.
pub(super) fn withhold_foreign_text<'p>(plan: &'p Plan, recipe: &Recipe) -> Cow<'p, Plan> {
    let is_foreign_seal = recipe.steps.iter().any(|step| match &step.verb {
        Verb::Generalize {
            answer_file: SealAnswer::Own(own),
            ..
        } => !recipe.may_quote(&own.value),
        _ => false,
    });
    let scripts = recipe.unquotable_scripts.iter();
    let scripts: Vec<&str> = scripts
        .map(|s| s.trim())
        .filter(|s| !s.is_empty())
        .collect();
    if scripts.is_empty() && !is_foreign_seal {
        return Cow::Borrowed(plan);
    }
    let is_hidden = |text: &str| scripts.iter().any(|script| text.contains(script));
    let mut plan = plan.clone();
    for entry in &mut plan.payload {
        if let Entry::Text { file, text, .. } = entry
            && (is_hidden(text) || is_foreign_seal && file == ANSWER_FILE)
        {
            *text = WITHHELD.into();
        }
    }
    for op in plan.steps.iter_mut().flat_map(|step| &mut step.ops) {
        if let Op::Put(put) = op
            && is_hidden(&put.text)
        {
            put.text = WITHHELD.into();
        }
    }
    Cow::Owned(plan)
}
