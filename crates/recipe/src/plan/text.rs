//! Renders the plan for people: about 100 columns, exact commands, complete scripts.
//!
//! Never truncates: a long command is broken between its arguments, a script is printed unchanged.

use std::fmt::Write as _;

use super::describe::{
    describe_check, describe_proof, encoding_name, entry_origin, entry_path, render_duration,
};
use super::{
    BuildPlan, PayloadEntry, PlannedCloneCheck, PlannedOp, PlannedStep, ProgramRun, SettleWait,
    start_seal,
};
use crate::Recipe;
use winimg_base::argv;
use winimg_base::text::{column_width, count, redact_if_url};

const WIDTH: usize = 100;

/// Renders the output of `winimg plan`. Ends with a newline.
pub fn render_text(recipe: &Recipe, plan: &BuildPlan) -> String {
    let plan = &*super::redact::withhold_foreign_text(plan, recipe);
    let mut out = String::new();
    render_heading(&mut out, recipe, plan);
    render_values(&mut out, recipe);
    render_components(&mut out, recipe);
    render_payload(&mut out, plan);
    let mut shown = PrintedTexts {
        entries: vec![false; plan.payload.len()],
        question: false,
    };
    for (index, step) in plan.steps.iter().enumerate() {
        one_step(&mut out, plan, index + 1, step, &mut shown);
    }
    on_a_clone(&mut out, plan);
    out
}

fn render_heading(out: &mut String, recipe: &Recipe, plan: &BuildPlan) {
    let skipped = plan.steps.iter().filter(|s| s.skipped.is_some()).count();
    let _ = write!(
        out,
        "Plan for {}: {}",
        recipe.name.value,
        count(plan.steps.len() - skipped, "step")
    );
    if skipped > 0 {
        let _ = write!(out, ", {skipped} skipped");
    }
    out.push('\n');
    if let Some(description) = &recipe.description {
        let _ = writeln!(out, "{description}");
    }
}

/// Renders variables, then effective values, each with its origin. Values of steps and clone checks
/// are shown with them.
fn render_values(out: &mut String, recipe: &Recipe) {
    let values: Vec<String> = recipe
        .vars
        .iter()
        .map(|v| redact_if_url(&v.value))
        .collect();
    let variables: Vec<_> = recipe
        .vars
        .iter()
        .zip(&values)
        .map(|(v, value)| (v.name.as_str(), value.as_str(), v.origin.as_str()))
        .collect();
    render_rows(out, "Variables", &variables);
    let effective: Vec<_> = recipe
        .effective
        .iter()
        .filter(|e| !e.path.starts_with("steps.") && !e.path.starts_with("clone."))
        .map(|e| (e.path.as_str(), e.value.as_str(), e.origin.as_str()))
        .collect();
    render_rows(out, "Values", &effective);
}

/// Renders each row as `name = value`, with its origin.
fn render_rows(out: &mut String, title: &str, rows: &[(&str, &str, &str)]) {
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{title}");
    for (name, value, origin) in rows {
        said_at(out, &format!("  {name} = {value}"), origin);
    }
}

/// Renders a line with its origin right-aligned, or on the next line if it does not fit.
fn said_at(out: &mut String, head: &str, origin: &str) {
    let (left, right) = (head.chars().count(), origin.chars().count());
    if left + right + 2 > WIDTH {
        let indent = " ".repeat(WIDTH.saturating_sub(right));
        let _ = writeln!(out, "{head}\n{indent}{origin}");
    } else {
        let gap = " ".repeat(WIDTH - left - right);
        let _ = writeln!(out, "{head}{gap}{origin}");
    }
}

fn render_components(out: &mut String, recipe: &Recipe) {
    if recipe.components.is_empty() {
        return;
    }
    out.push_str("\nComponents\n");
    let names = recipe
        .components
        .iter()
        .map(|c| c.name.value.chars().count());
    let width = column_width(names);
    for component in &recipe.components {
        let version = component
            .version
            .as_ref()
            .map_or_else(String::new, |v| format!("{v}  "));
        let _ = writeln!(
            out,
            "  {:width$}  {version}{}",
            component.name.value, component.origin.url.value
        );
        for line in describe_proof(&component.origin) {
            let _ = writeln!(out, "  {:width$}  {line}", "");
        }
    }
}

fn render_payload(out: &mut String, plan: &BuildPlan) {
    if plan.payload.is_empty() {
        return;
    }
    let paths: Vec<String> = plan
        .payload
        .iter()
        .enumerate()
        .map(|(index, entry)| entry_path(index, entry))
        .collect();
    let width = column_width(paths.iter().map(|path| path.chars().count()));
    out.push_str("\nPayload disc\n");
    for (path, entry) in paths.iter().zip(&plan.payload) {
        let _ = writeln!(out, "  {path:width$}  {}", entry_origin(entry));
    }
}

/// Texts of the payload disc that have already been printed.
struct PrintedTexts {
    /// Indexed by payload entry.
    entries: Vec<bool>,
    /// The script that checks if Windows is idle.
    question: bool,
}

fn one_step(
    out: &mut String,
    plan: &BuildPlan,
    number: usize,
    step: &PlannedStep,
    shown: &mut PrintedTexts,
) {
    let head = format!("{number:03}  {}", step.name);
    let right = format!("{}  {}", step.verb, step.place);
    let used = head.chars().count() + right.chars().count();
    let _ = writeln!(
        out,
        "\n{head}{}{right}",
        " ".repeat(WIDTH.saturating_sub(used).max(2))
    );
    if let Some(when) = &step.skipped {
        let _ = writeln!(out, "     skipped: when = {when}");
        return;
    }
    if !step.undecided.is_empty() {
        let needs = step.undecided.join(", ");
        let _ = writeln!(out, "     not decided: needs {needs}");
        return;
    }
    if step.verb == "checkpoint" {
        out.push_str("     a layer is sealed here, unless the build has --layers none\n");
    }
    for op in &step.ops {
        one_op(out, op, step);
        match op {
            PlannedOp::Put(_) => step_texts(out, plan, step, &mut shown.entries),
            PlannedOp::Settle(settle) => wait(out, settle, "until", shown),
            PlannedOp::Run(_) | PlannedOp::Reboot | PlannedOp::Eject | PlannedOp::Seal { .. } => {}
        }
    }
    if step.may_restart() {
        // Only a `reboot` step always restarts.
        let when = match step.verb {
            "reboot" => "after the restart until".to_owned(),
            _ => format!(
                "after a restart up for {}, until",
                render_duration(step.settle.steady)
            ),
        };
        wait(out, &step.settle, &when, shown);
    }
    if let Some(log) = &step.guest_log {
        let _ = writeln!(out, "     log     {log}");
    }
    for expectation in &step.expects {
        let _ = writeln!(
            out,
            "     leaves  {}",
            fold_line(&describe_check(plan, expectation))
        );
    }
}

/// Renders the checks that `winimg try` evaluates on a clone, not during the build.
fn on_a_clone(out: &mut String, plan: &BuildPlan) {
    if plan.clone_checks.is_empty() {
        return;
    }
    out.push_str("\nOn a clone, after its first boot\n");
    for check in &plan.clone_checks {
        one_clone_check(out, plan, check);
    }
}

fn one_clone_check(out: &mut String, plan: &BuildPlan, check: &PlannedCloneCheck) {
    let claim = match &check.check {
        Some(claim) => describe_check(plan, claim),
        None if check.undecided.is_empty() => "not decided".to_owned(),
        None => format!("not decided: needs {}", check.undecided.join(", ")),
    };
    said_at(out, &format!("  {claim}"), &check.place.to_string());
    if let Some(when) = &check.skipped {
        let _ = writeln!(out, "      skipped: when = {when}");
        return;
    }
    let _ = match check.targets.as_slice() {
        [] => writeln!(out, "      {}", check.why),
        targets => writeln!(out, "      {}: {}", targets.join(", "), check.why),
    };
}

fn one_op(out: &mut String, op: &PlannedOp, step: &PlannedStep) {
    match op {
        PlannedOp::Put(put) => {
            let (program, arguments) = put.command();
            render_command(out, "put", &program, &arguments);
            let (exit, limit) = (put.exit.describe(), render_duration(put.timeout));
            let _ = writeln!(out, "             {exit}, within {limit}");
            render_block(out, &format!(r"s\{}.cmd", put.number()), &put.text);
        }
        PlannedOp::Run(ProgramRun {
            program,
            arguments,
            exit,
            timeout,
        }) => {
            render_command(out, "run", program, arguments);
            let _ = writeln!(
                out,
                "             {}, within {}",
                exit.describe(),
                render_duration(*timeout)
            );
        }
        PlannedOp::Reboot => {
            let _ = writeln!(
                out,
                "     reboot  within {}",
                render_duration(step.reboot_timeout)
            );
        }
        // Printed by `wait`, like the wait after a restart.
        PlannedOp::Settle(_) => {}
        PlannedOp::Eject => out.push_str("     eject   all discs\n"),
        PlannedOp::Seal { timeout } => {
            let (program, arguments) = start_seal();
            render_command(out, "seal", &program, &arguments);
            let limit = render_duration(*timeout);
            let _ = writeln!(out, "             until the machine is off, within {limit}");
        }
    }
}

/// Renders a wait until Windows is idle, with the script that checks it on first use.
fn wait(out: &mut String, settle: &SettleWait, when: &str, shown: &mut PrintedTexts) {
    let question = SettleWait::question();
    let script = format!(r"s\{}.cmd", question.number());
    let limit = render_duration(settle.timeout);
    let _ = writeln!(
        out,
        "     settle  {when} {script} ends with 0, within {limit}"
    );
    if !std::mem::replace(&mut shown.question, true) {
        render_block(out, &script, &question.text);
    }
}

/// Renders the texts among the step's entries, each on first use.
fn step_texts(out: &mut String, plan: &BuildPlan, step: &PlannedStep, shown: &mut [bool]) {
    for &index in &step.entries {
        let index = index as usize;
        let Some(entry @ PayloadEntry::Text { text, encoding, .. }) = plan.payload.get(index)
        else {
            continue;
        };
        if !std::mem::replace(&mut shown[index], true) {
            let title = format!(
                "{} ({})",
                entry_path(index, entry),
                encoding_name(*encoding)
            );
            render_block(out, &title, text);
        }
    }
}

fn render_block(out: &mut String, title: &str, text: &str) {
    let _ = writeln!(out, "             {title}");
    for line in text.lines() {
        let _ = writeln!(out, "{}", format!("             | {line}").trim_end());
    }
}

/// Renders one line if it fits, otherwise two, split at the colon.
fn fold_line(text: &str) -> String {
    match text.split_once(" : ").or(text.split_once(": ")) {
        Some((head, tail)) if text.chars().count() + 13 > WIDTH => {
            format!("{head} :\n               {tail}")
        }
        _ => text.to_owned(),
    }
}

/// Renders a command in one line if it fits, otherwise broken between arguments; an option stays
/// with its value.
fn render_command(out: &mut String, kind: &str, program: &str, arguments: &[String]) {
    let mut line = format!("     {kind:6}  {}", argv::quote_argument(program));
    let mut width = line.chars().count();
    for words in arguments.chunk_by(|option, _| takes_value(option)) {
        let words: Vec<String> = words
            .iter()
            .map(|word| argv::quote_argument(word))
            .collect();
        let words = words.join(" ");
        let more = words.chars().count() + 1;
        if width + more > WIDTH {
            line.push_str("\n               ");
            width = 14;
        } else {
            line.push(' ');
        }
        line.push_str(&words);
        width += more;
    }
    let _ = writeln!(out, "{line}");
}

/// Returns true for an option with a value: `binPath=` of sc.exe, `/d` of reg.exe.
fn takes_value(argument: &str) -> bool {
    argument.ends_with('=') || matches!(argument, "/v" | "/t" | "/d" | "/i")
}
