//! The plan for people: about 100 columns, exact commands, whole scripts.
//!
//! Refuses to shorten: a command that is too long is broken between its arguments, a script never.

use std::fmt::Write as _;
use std::time::Duration;

use super::{Entry, ExitRule, Expectation, Op, Plan, PlannedStep, Run, Until};
use crate::argv;
use crate::recipe::{Encoding, ProofWish, Recipe, RegistryData};

const WIDTH: usize = 100;

/// What `winimg plan` prints. Ends with a newline.
pub fn text(recipe: &Recipe, plan: &Plan) -> String {
    let mut out = String::new();
    heading(&mut out, recipe, plan);
    values(&mut out, recipe);
    components(&mut out, recipe);
    payload(&mut out, plan);
    let mut shown = vec![false; plan.payload.len()];
    for (index, step) in plan.steps.iter().enumerate() {
        one_step(&mut out, plan, index + 1, step, &mut shown);
    }
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

/// Effective values and who said them.
fn values(out: &mut String, recipe: &Recipe) {
    let rows: Vec<[String; 3]> = recipe
        .vars
        .iter()
        .map(|v| [v.name.clone(), v.value.clone(), v.origin.clone()])
        .collect();
    table(out, "Values", &rows);
}

fn components(out: &mut String, recipe: &Recipe) {
    if recipe.components.is_empty() {
        return;
    }
    out.push_str("\nComponents\n");
    let width = recipe
        .components
        .iter()
        .map(|c| c.name.value.chars().count())
        .max()
        .unwrap_or(0);
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
        let _ = writeln!(out, "  {:width$}  {}", "", proof(&component.origin.proof));
    }
}

pub(super) fn proof(wish: &ProofWish) -> String {
    match wish {
        ProofWish::Digest(digest) => digest.value.to_string(),
        ProofWish::ChecksumFile { url, entry: None } => format!("checksum file {}", url.value),
        ProofWish::ChecksumFile {
            url,
            entry: Some(entry),
        } => {
            format!("checksum file {}, line `{entry}`", url.value)
        }
        ProofWish::Unverified { reason } => format!("NOT VERIFIED: {}", reason.value),
    }
}

fn payload(out: &mut String, plan: &Plan) {
    let rows: Vec<[String; 3]> = plan
        .payload
        .iter()
        .enumerate()
        .map(|(index, entry)| [entry_path(index, entry), entry_origin(entry), String::new()])
        .collect();
    table(out, "Payload disc", &rows);
}

/// `p\0003\step.cmd`, or the folder `p\0004\` of a tree.
pub(super) fn entry_path(index: usize, entry: &Entry) -> String {
    let file = match entry {
        Entry::Component { file, .. } | Entry::Text { file, .. } => file.clone(),
        Entry::Local { path } if path.is_file() => path
            .file_name()
            .map_or_else(String::new, |n| n.to_string_lossy().into_owned()),
        Entry::Tree { .. } | Entry::Local { .. } => String::new(),
    };
    format!(r"p\{index:04}\{file}")
}

fn entry_origin(entry: &Entry) -> String {
    match entry {
        Entry::Component { component, .. } => format!("component {component}"),
        Entry::Tree {
            component,
            strip,
            only,
        } => {
            let mut text = format!("component {component}, unpacked");
            match strip {
                0 => {}
                n => {
                    let _ = write!(text, ", without {}", count(*n, "leading folder"));
                }
            }
            if !only.is_empty() {
                let _ = write!(text, ", only {}", only.join(" "));
            }
            text
        }
        Entry::Local { path } => path.display().to_string(),
        Entry::Text { text, encoding, .. } => {
            format!(
                "{}, {}",
                count(text.lines().count(), "line"),
                encoding_name(*encoding)
            )
        }
    }
}

pub(super) fn encoding_name(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Utf8 => "UTF-8",
        Encoding::Utf8Bom => "UTF-8 with BOM",
        Encoding::Utf16 => "UTF-16LE with BOM",
    }
}

fn one_step(out: &mut String, plan: &Plan, number: usize, step: &PlannedStep, shown: &mut [bool]) {
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
    for op in &step.ops {
        one_op(out, op, step);
        if matches!(op, Op::Put(_)) {
            step_texts(out, plan, step, shown);
        }
    }
    if let Some(log) = &step.guest_log {
        let _ = writeln!(out, "     log     {log}");
    }
    for expectation in &step.expects {
        let _ = writeln!(out, "     leaves  {}", expected(plan, expectation));
    }
}

fn one_op(out: &mut String, op: &Op, step: &PlannedStep) {
    match op {
        Op::Put(put) => {
            let (program, arguments) = put.command();
            command(out, "put", &program, &arguments);
            let _ = writeln!(out, "             exit 0, within {}", duration(put.timeout));
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
                exit_words(exit),
                duration(*timeout)
            );
        }
        Op::Reboot => {
            let _ = writeln!(out, "     reboot  within {}", duration(step.reboot_timeout));
        }
        Op::Eject => out.push_str("     eject   all discs\n"),
        Op::Wait(Until::Generalized { timeout }) => {
            let _ = writeln!(
                out,
                "     wait    sysprep.exe gone, Sysprep_succeeded.tag there, ImageState\n             \
                 IMAGE_STATE_GENERALIZE_RESEAL_TO_OOBE; within {}",
                duration(*timeout)
            );
        }
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

/// One line where it fits, otherwise broken between arguments.
fn command(out: &mut String, kind: &str, program: &str, arguments: &[String]) {
    let mut line = format!("     {kind:6}  {}", argv::quoted(program));
    let mut width = line.chars().count();
    for argument in arguments {
        let argument = argv::quoted(argument);
        let more = argument.chars().count() + 1;
        if width + more > WIDTH {
            line.push_str("\n               ");
            width = 15;
        } else {
            line.push(' ');
        }
        line.push_str(&argument);
        width += more;
    }
    let _ = writeln!(out, "{line}");
}

pub(super) fn exit_words(rule: &ExitRule) -> String {
    match rule {
        ExitRule::Zero => "exit 0".to_owned(),
        ExitRule::Msi => "exit 0; 3010 and 1641 restart; 1618 is tried again".to_owned(),
        ExitRule::Any => "any exit code".to_owned(),
        ExitRule::Robocopy => "exit below 8".to_owned(),
        ExitRule::Pnputil => "exit 0 or 259; 3010 and 1641 restart".to_owned(),
        ExitRule::Listed { ok, reboot } => {
            let list = |codes: &[i64], word: &str| {
                codes
                    .iter()
                    .map(i64::to_string)
                    .collect::<Vec<_>>()
                    .join(&format!(" {word} "))
            };
            let mut text = match ok.is_empty() {
                true => "no exit code is good".to_owned(),
                false => format!("exit {}", list(ok, "or")),
            };
            match reboot.as_slice() {
                [] => {}
                [one] => text.push_str(&format!("; {one} restarts")),
                many => text.push_str(&format!("; {} restart", list(many, "and"))),
            }
            text
        }
    }
}

pub(super) fn expected(plan: &Plan, expectation: &Expectation) -> String {
    let entry = |index: u32| {
        let index = index as usize;
        plan.payload
            .get(index)
            .map_or_else(|| format!(r"p\{index:04}"), |e| entry_path(index, e))
    };
    match expectation {
        Expectation::FileFrom { path, entry: index } => format!("{path} = {}", entry(*index)),
        Expectation::TreeFrom { path, entry: index } => {
            format!(r"{path}\ with all of {}", entry(*index))
        }
        Expectation::Exists { path } => path.clone(),
        Expectation::Missing { path } => format!("no {path}"),
        Expectation::RegistryValue {
            key,
            value: None,
            data: RegistryData::Absent,
        } => format!("no {key}"),
        Expectation::RegistryValue { key, value, data } => {
            let name = value
                .as_deref()
                .filter(|v| !v.is_empty())
                .unwrap_or("(default)");
            match data {
                RegistryData::Absent => format!("no {key} : {name}"),
                data => format!("{key} : {name} = {}", shown_data(data)),
            }
        }
        Expectation::Service {
            name,
            command_line,
            start,
        } => {
            let mut text = format!("service {name}");
            if let Some(start) = start {
                let _ = write!(text, ", {}", super::step::start_name(*start));
            }
            if let Some(line) = command_line {
                let _ = write!(text, ": {line}");
            }
            text
        }
        Expectation::PathFolder { folder } => format!("{folder} in Path"),
    }
}

fn shown_data(data: &RegistryData) -> String {
    match data {
        RegistryData::Sz(text) => format!("sz {text:?}"),
        RegistryData::ExpandSz(text) => format!("expand_sz {text:?}"),
        RegistryData::MultiSz(list) => format!("multi_sz {list:?}"),
        RegistryData::Dword(n) => format!("dword {n}"),
        RegistryData::Qword(n) => format!("qword {n}"),
        RegistryData::Binary(bytes) => format!("binary {}", hex::encode(bytes)),
        RegistryData::Absent => "absent".to_owned(),
    }
}

/// `1 h 30 min`, `20 min`, `45 s`
pub(super) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    let parts = [
        (seconds / 3600, "h"),
        (seconds % 3600 / 60, "min"),
        (seconds % 60, "s"),
    ];
    let words: Vec<String> = parts
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, unit)| format!("{n} {unit}"))
        .collect();
    match words.is_empty() {
        true => "0 s".to_owned(),
        false => words.join(" "),
    }
}

fn count(n: usize, noun: &str) -> String {
    match n {
        1 => format!("1 {noun}"),
        n => format!("{n} {noun}s"),
    }
}

fn table(out: &mut String, title: &str, rows: &[[String; 3]]) {
    if rows.is_empty() {
        return;
    }
    let width = |column: usize| {
        rows.iter()
            .map(|r| r[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let (first, second) = (width(0), width(1));
    let _ = writeln!(out, "\n{title}");
    for [a, b, c] in rows {
        let line = format!("  {a:first$}  {b:second$}  {c}");
        let _ = writeln!(out, "{}", line.trim_end());
    }
}
