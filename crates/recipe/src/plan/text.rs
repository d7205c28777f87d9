//! The plan for people: about 100 columns, exact commands, whole scripts.
//!
//! Refuses to shorten: a command that is too long is broken between its arguments, a script never.

use std::fmt::Write as _;

use super::words::{duration, encoding_name, entry_origin, entry_path, expected, proof};
use super::{CloneCheck, Entry, Op, Plan, PlannedStep, Run, Settle, start_seal};
use crate::recipe::Recipe;
use winimg_base::argv;
use winimg_base::text::{column_width, count, redact_url};

const WIDTH: usize = 100;

/// What `winimg plan` prints. Ends with a newline.
pub fn text(recipe: &Recipe, plan: &Plan) -> String {
    let plan = &*super::withhold::withhold_foreign_text(plan, recipe);
    let mut out = String::new();
    heading(&mut out, recipe, plan);
    values(&mut out, recipe);
    components(&mut out, recipe);
    payload(&mut out, plan);
    let mut shown = Shown {
        entries: vec![false; plan.payload.len()],
        question: false,
    };
    for (index, step) in plan.steps.iter().enumerate() {
        one_step(&mut out, plan, index + 1, step, &mut shown);
    }
    on_a_clone(&mut out, plan);
    out
}

fn heading(out: &mut String, recipe: &Recipe, plan: &Plan) {
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

/// Variables, then effective values, each with who said it. What steps and clone checks say is shown with them.
fn values(out: &mut String, recipe: &Recipe) {
    let values: Vec<String> = recipe.vars.iter().map(|v| redact_url(&v.value)).collect();
    let vars = recipe.vars.iter().zip(&values);
    let vars = vars.map(|(v, value)| (v.name.as_str(), value.as_str(), v.origin.as_str()));
    said(out, "Variables", &vars.collect::<Vec<_>>());
    let effective = recipe
        .effective
        .iter()
        .filter(|e| !e.path.starts_with("steps.") && !e.path.starts_with("clone."))
        .map(|e| (e.path.as_str(), e.value.as_str(), e.origin.as_str()));
    said(out, "Values", &effective.collect::<Vec<_>>());
}

/// Each as `name = value`, with its origin.
fn said(out: &mut String, title: &str, rows: &[(&str, &str, &str)]) {
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{title}");
    for (name, value, origin) in rows {
        said_at(out, &format!("  {name} = {value}"), origin);
    }
}

/// A line with who said it at its right edge, or below where there is no room for it.
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

fn components(out: &mut String, recipe: &Recipe) {
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
        for line in proof(&component.origin) {
            let _ = writeln!(out, "  {:width$}  {line}", "");
        }
    }
}

fn payload(out: &mut String, plan: &Plan) {
    let paths = || {
        plan.payload
            .iter()
            .enumerate()
            .map(|(i, e)| entry_path(i, e))
    };
    if plan.payload.is_empty() {
        return;
    }
    let width = column_width(paths().map(|p| p.chars().count()));
    out.push_str("\nPayload disc\n");
    for (path, entry) in paths().zip(&plan.payload) {
        let _ = writeln!(out, "  {path:width$}  {}", entry_origin(entry));
    }
}

/// Which texts of the payload disc have been printed already.
struct Shown {
    /// By the payload entry's index.
    entries: Vec<bool>,
    /// The script that asks whether Windows is at rest.
    question: bool,
}

fn one_step(out: &mut String, plan: &Plan, number: usize, step: &PlannedStep, shown: &mut Shown) {
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
            Op::Put(_) => step_texts(out, plan, step, &mut shown.entries),
            Op::Settle(settle) => wait(out, settle, "until", shown),
            Op::Run(_) | Op::Reboot | Op::Eject | Op::Seal { .. } => {}
        }
    }
    if step.may_restart() {
        // What a `reboot` step follows decides whether Windows has to stay up first.
        let when = match step.verb {
            "reboot" => "after the restart until".to_owned(),
            _ => format!(
                "after a restart up for {}, until",
                duration(step.settle.steady)
            ),
        };
        wait(out, &step.settle, &when, shown);
    }
    if let Some(log) = &step.guest_log {
        let _ = writeln!(out, "     log     {log}");
    }
    for expectation in &step.expects {
        let _ = writeln!(out, "     leaves  {}", folded(&expected(plan, expectation)));
    }
}

/// What `winimg try` looks at on a clone; nothing of it is done while the image is built.
fn on_a_clone(out: &mut String, plan: &Plan) {
    if plan.clone_checks.is_empty() {
        return;
    }
    out.push_str("\nOn a clone, after its first boot\n");
    for check in &plan.clone_checks {
        one_clone_check(out, plan, check);
    }
}

fn one_clone_check(out: &mut String, plan: &Plan, check: &CloneCheck) {
    let claim = match &check.check {
        Some(claim) => expected(plan, claim),
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

fn one_op(out: &mut String, op: &Op, step: &PlannedStep) {
    match op {
        Op::Put(put) => {
            let (program, arguments) = put.command();
            command(out, "put", &program, &arguments);
            let (exit, limit) = (put.exit.expectation(), duration(put.timeout));
            let _ = writeln!(out, "             {exit}, within {limit}");
            block(out, &format!(r"s\{}.cmd", put.number()), &put.text);
        }
        Op::Run(Run {
            program,
            arguments,
            exit,
            timeout,
        }) => {
            command(out, "run", program, arguments);
            let _ = writeln!(
                out,
                "             {}, within {}",
                exit.expectation(),
                duration(*timeout)
            );
        }
        Op::Reboot => {
            let _ = writeln!(out, "     reboot  within {}", duration(step.reboot_timeout));
        }
        // Printed by `wait`, as the wait after a restart is.
        Op::Settle(_) => {}
        Op::Eject => out.push_str("     eject   all discs\n"),
        Op::Seal { timeout } => {
            let (program, arguments) = start_seal();
            command(out, "seal", &program, &arguments);
            let limit = duration(*timeout);
            let _ = writeln!(out, "             until the machine is off, within {limit}");
        }
    }
}

/// A wait until Windows is at rest, with the script that asks where it is printed for the first time.
fn wait(out: &mut String, settle: &Settle, when: &str, shown: &mut Shown) {
    let question = Settle::question();
    let script = format!(r"s\{}.cmd", question.number());
    let limit = duration(settle.timeout);
    let _ = writeln!(
        out,
        "     settle  {when} {script} ends with 0, within {limit}"
    );
    if !std::mem::replace(&mut shown.question, true) {
        block(out, &script, &question.text);
    }
}

/// The texts among the step's entries, each where it is first used.
fn step_texts(out: &mut String, plan: &Plan, step: &PlannedStep, shown: &mut [bool]) {
    for &index in &step.entries {
        let index = index as usize;
        let Some(entry @ Entry::Text { text, encoding, .. }) = plan.payload.get(index) else {
            continue;
        };
        if !std::mem::replace(&mut shown[index], true) {
            let title = format!(
                "{} ({})",
                entry_path(index, entry),
                encoding_name(*encoding)
            );
            block(out, &title, text);
        }
    }
}

fn block(out: &mut String, title: &str, text: &str) {
    let _ = writeln!(out, "             {title}");
    for line in text.lines() {
        let _ = writeln!(out, "{}", format!("             | {line}").trim_end());
    }
}

/// One line where it fits, otherwise broken once, at its colon.
fn folded(text: &str) -> String {
    match text.split_once(" : ").or(text.split_once(": ")) {
        Some((head, tail)) if text.chars().count() + 13 > WIDTH => {
            format!("{head} :\n               {tail}")
        }
        _ => text.to_owned(),
    }
}

/// One line where it fits, otherwise broken between arguments; an option stays with its value.
fn command(out: &mut String, kind: &str, program: &str, arguments: &[String]) {
    let mut line = format!("     {kind:6}  {}", argv::quoted(program));
    let mut width = line.chars().count();
    for words in arguments.chunk_by(|option, _| takes_value(option)) {
        let words: Vec<String> = words.iter().map(|word| argv::quoted(word)).collect();
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

/// `binPath=` of sc.exe, `/d` of reg.exe.
fn takes_value(argument: &str) -> bool {
    argument.ends_with('=') || matches!(argument, "/v" | "/t" | "/d" | "/i")
}
