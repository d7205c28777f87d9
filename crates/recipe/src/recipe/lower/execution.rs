//! Verbs that run something or stop: `cmd`, `powershell`, `reboot`, `assert`, `generalize`.

use super::registry;
use crate::recipe::fields::{Context, Fields};
use crate::recipe::sources::read_text;
use crate::recipe::value::{Data, Value};
use crate::recipe::{Assertion, ExitCodes, SealAnswer, Verb, keys, powershell};
use winimg_base::diag::Diagnostic;
use winimg_base::text::{Located, Place};

pub fn cmd(cx: &Context<'_>, value: &Value) -> Option<Verb> {
    let (script, exit_codes) = script(cx, value, "cmd", false)?;
    Some(Verb::Cmd { script, exit_codes })
}

pub fn powershell(cx: &Context<'_>, value: &Value) -> Option<Verb> {
    let (script, exit_codes) = script(cx, value, "powershell", true)?;
    // A step that is skipped may have no file.
    if !(script.is_empty() && cx.is_skipped.get()) {
        judge(cx, value, &script);
    }
    Some(Verb::Powershell { script, exit_codes })
}

/// Warns of a script that the grammar cannot read, at its line: the guest would say so an hour later.
fn judge(cx: &Context<'_>, value: &Value, script: &str) {
    let given = ["script", "inline", "file"].into_iter();
    let given = given.filter_map(|key| value.as_table()?.entry(key));
    let given = given.map(|entry| (entry.key.as_str(), &entry.value));
    let (key, given) = given.into_iter().next().unwrap_or(("script", value));
    if key == "file" && cx.is_skipped.get() {
        return;
    }
    for fault in powershell::faults(script) {
        let (line, column) = (fault.line, fault.column);
        let place = match &given.data {
            Data::Array(lines) => lines.get(line - 1).map(|l| l.place.clone()),
            _ if key == "file" => None,
            _ => line_of(given, line),
        };
        let label = match &fault.missing {
            Some(what) => {
                format!("`{what}` is missing at line {line}, column {column} of the script")
            }
            None => format!("line {line}, column {column} of the script"),
        };
        cx.problem(
            Diagnostic::warning("this PowerShell does not parse")
                .at(place.as_ref().unwrap_or(&given.place), label)
                .help("judged by a grammar, not by PowerShell; the few valid forms that it misreads are in docs/steps.md"),
        );
    }
}

/// The line of a string's content in the file that holds it. Variables are taken to have no line ends.
fn line_of(value: &Value, line: usize) -> Option<Place> {
    let source = &value.place.source;
    let written = source.text.get(value.place.span.clone())?;
    let long = written.starts_with("'''") || written.starts_with("\"\"\"");
    let mut from = if long { 3 } else { 1 };
    if long && let Some(rest) = written.get(from..) {
        from += rest.len()
            - rest
                .trim_start_matches('\r')
                .strip_prefix('\n')
                .unwrap_or(rest)
                .len();
    }
    for _ in 1..line {
        from += written.get(from..)?.find('\n')? + 1;
    }
    let text = written.get(from..)?.lines().next().unwrap_or_default();
    let start = value.place.span.start + from + (text.len() - text.trim_start().len());
    let end = value.place.span.start + from + text.trim_end().len();
    Some(Place::new(source, start..end.max(start)))
}

/// A string or a list of lines by itself, or a table with `script`, `inline` or (PowerShell) `file`.
fn script(cx: &Context<'_>, value: &Value, keys: &str, files: bool) -> Option<(String, ExitCodes)> {
    let what = &keys::of(keys).title();
    if let Data::String(text) = &value.data {
        return Some((text.clone(), ExitCodes::default()));
    }
    if let Data::Array(_) = &value.data {
        return lines(cx, value, what).map(|script| (script, ExitCodes::default()));
    }
    let fields = Fields::open(cx, value, keys)?;
    let ways: &[&str] = match files {
        true => &["script", "inline", "file"],
        false => &["script", "inline"],
    };
    let given: Vec<&str> = ways.iter().copied().filter(|w| fields.has(w)).collect();
    let shown = ways.join("`, `");
    match given.as_slice() {
        [] => cx.missing(
            format!("{what} has nothing to run"),
            &fields.place,
            &format!("give one of `{shown}`"),
        ),
        [_] => {}
        _ => {
            let fact = format!("{what} has `{}`", given.join("` and `"));
            cx.error(fact, &fields.place, "", &format!("keep one of `{shown}`"));
        }
    }
    let script = fields.text("script");
    let inline = fields.get("inline").and_then(|v| lines(cx, v, "`inline`"));
    let file = files.then(|| local_script(&fields)).flatten();
    let exit_codes = exit_codes(&fields);
    let text = script.or(inline).or(file);
    text.zip(exit_codes).filter(|_| given.len() == 1)
}

fn lines(cx: &Context<'_>, value: &Value, what: &str) -> Option<String> {
    let items = match &value.data {
        Data::String(text) => return Some(text.clone()),
        Data::Array(items) => items,
        Data::Unknown => return None,
        _ => {
            let fact = format!("{what} takes a list of lines, not {}", value.kind());
            cx.error(fact, &value.place, value.kind(), "");
            return None;
        }
    };
    let mut lines = Some(Vec::new());
    for item in items {
        match &item.data {
            Data::String(line) => {
                if let Some(lines) = &mut lines {
                    lines.push(line.as_str());
                }
            }
            Data::Unknown => lines = None,
            _ => {
                let fact = format!("{what} takes lines of text, not {}", item.kind());
                cx.error(fact, &item.place, item.kind(), "");
                lines = None;
            }
        }
    }
    lines.map(|lines| lines.join("\n"))
}

/// A script beside the recipe, taken as it is: `{{` in it means nothing to us. That of a skipped step is not read.
fn local_script(fields: &Fields<'_>) -> Option<String> {
    let path = fields.local("file")?;
    if fields.cx.is_skipped.get() {
        return Some(String::new());
    }
    match read_text(&path.value) {
        Ok(text) => {
            let text = text.trim_start_matches('\u{feff}').to_string();
            if !fields.cx.sources.may_quote(&path.value) {
                let mut hidden = fields.cx.unquotable_scripts.borrow_mut();
                hidden.insert(text.clone());
            }
            Some(text)
        }
        Err(why) => {
            let fact = format!("cannot read the script: {why}");
            fields.cx.error(fact, &path.place, "", "");
            None
        }
    }
}

/// `exit_codes = { ok = [0], reboot = [3010] }`.
pub fn exit_codes(fields: &Fields<'_>) -> Option<ExitCodes> {
    if !fields.has("exit_codes") {
        return Some(ExitCodes::default());
    }
    let table = fields.table("exit_codes")?;
    let ok = codes(&table, "ok");
    let reboot = codes(&table, "reboot");
    if let (Some(ok), Some(reboot)) = (&ok, &reboot)
        && let Some(both) = ok.iter().find(|c| reboot.contains(c))
    {
        let fact = format!("exit code {both} stands under both `ok` and `reboot`");
        table.cx.error(fact, &table.place, "", "keep it in one");
    }
    let right = |codes: &Option<Vec<i64>>, key| codes.is_some() || !table.has(key);
    (right(&ok, "ok") && right(&reboot, "reboot")).then_some(ExitCodes { ok, reboot })
}

/// Exit codes are 32 bits; both ways to write those with the high bit are good (Microsoft: GetExitCodeProcess).
fn codes(table: &Fields<'_>, key: &str) -> Option<Vec<i64>> {
    let items = table.list(key)?;
    let mut codes = Some(Vec::new());
    for item in items {
        let code = table.integer_of(key, item);
        let range = i64::from(i32::MIN)..=i64::from(u32::MAX);
        match code {
            Some(code) if range.contains(&code) => {
                if let Some(codes) = &mut codes {
                    codes.push(code);
                }
                continue;
            }
            Some(code) => {
                let fact = format!("{code} is no exit code of Windows");
                table
                    .cx
                    .error(fact, &item.place, "does not fit 32 bits", "");
            }
            None => {}
        }
        codes = None;
    }
    if codes.as_ref().is_some_and(Vec::is_empty) && key == "ok" {
        let fact = "`ok` lists no exit code: the step could never succeed";
        table
            .cx
            .error(fact, &table.place, "", "leave it out, or write `ok = [0]`");
    }
    codes
}

pub fn reboot(cx: &Context<'_>, value: &Value) -> Option<Verb> {
    Fields::open(cx, value, "reboot")?;
    Some(Verb::Reboot)
}

pub fn assert(cx: &Context<'_>, value: &Value) -> Option<Verb> {
    let fields = Fields::open(cx, value, "assert")?;
    let kinds: Vec<&str> = keys::of("assert").alternatives().collect();
    let given: Vec<&str> = kinds.iter().copied().filter(|k| fields.has(k)).collect();
    let one = match given.as_slice() {
        [] => {
            let help = format!("give one of {}", kinds.join(", "));
            if fields.table.entries.is_empty() {
                cx.missing("`assert` checks nothing", &fields.place, &help);
            }
            false
        }
        [_] => true,
        _ => {
            let fact = format!("`assert` checks several things: {}", given.join(", "));
            cx.error(fact, &fields.place, "", "make a step of each");
            false
        }
    };
    let exists = fields.guest_path("exists").map(Assertion::Exists);
    let missing = fields.guest_path("missing").map(Assertion::Missing);
    let service = fields.string("service_running");
    let service = service.map(Assertion::ServiceRunning);
    let registry = fields.table("registry");
    let registry = registry.and_then(|f| registry::registry_assertion(&f));
    let cmd = fields.string("cmd").map(Assertion::Cmd);
    let windows = fields.string("windows");
    let windows = windows.and_then(|text| patched(&fields, &text));
    let assertion = exists.or(missing).or(service).or(registry).or(cmd);
    let assertion = assertion.or(windows)?;
    one.then_some(Verb::Assert(assertion))
}

/// `20348.681`, or with `10.0.` before it.
fn patched(fields: &Fields<'_>, text: &Located<String>) -> Option<Assertion> {
    let version = text.value.trim();
    let parts = version.strip_prefix("10.0.").unwrap_or(version);
    let numbers = parts.split_once('.');
    let numbers =
        numbers.and_then(|(build, revision)| Some((build.parse().ok()?, revision.parse().ok()?)));
    let Some((build, revision)) = numbers else {
        let fact = format!("`windows` is no build with its update revision: \"{version}\"");
        fields
            .cx
            .error(fact, &text.place, "", fields.help("windows"));
        return None;
    };
    Some(Assertion::Windows { build, revision })
}

pub fn generalize(cx: &Context<'_>, value: &Value) -> Option<Verb> {
    let fields = Fields::open(cx, value, "generalize")?;
    let verb = Verb::Generalize {
        answer_file: seal_answer(&fields),
        mode_vm: fields.flag("mode_vm"),
    };
    fields.is_whole().then_some(verb)
}

fn seal_answer(fields: &Fields<'_>) -> SealAnswer {
    if fields.string_is("answer_file", "none") {
        return SealAnswer::None;
    }
    let own = fields.local("answer_file");
    own.map_or(SealAnswer::BuiltIn, SealAnswer::Own)
}
