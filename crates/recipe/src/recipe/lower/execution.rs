//! Verbs that run something or stop: `cmd`, `powershell`, `reboot`, `assert`, `generalize`.

use super::registry;
use crate::recipe::fields::{LoweringContext, TableReader};
use crate::recipe::sources::read_text;
use crate::recipe::value::{TomlData, TomlValue};
use crate::recipe::{Assertion, ExitCodes, SealAnswer, Verb, keys, powershell};
use winimg_base::diag::Diagnostic;
use winimg_base::text::{Located, Place};

pub fn read_cmd(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<Verb> {
    let (script, exit_codes) = read_script(cx, value, "cmd", false)?;
    Some(Verb::Cmd { script, exit_codes })
}

pub fn read_powershell(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<Verb> {
    let (script, exit_codes) = read_script(cx, value, "powershell", true)?;
    // A step that is skipped may have no file.
    if !(script.is_empty() && cx.is_skipped.get()) {
        judge(cx, value, &script);
    }
    Some(Verb::Powershell { script, exit_codes })
}

/// Warns about a script that does not parse, at its line: the guest would fail an hour later.
fn judge(cx: &LoweringContext<'_>, value: &TomlValue, script: &str) {
    let (key, given) = ["script", "inline", "file"]
        .into_iter()
        .find_map(|key| value.as_table()?.find_entry(key))
        .map_or(("script", value), |entry| {
            (entry.key.as_str(), &entry.value)
        });
    if key == "file" && cx.is_skipped.get() {
        return;
    }
    for fault in powershell::find_faults(script) {
        let (line, column) = (fault.line, fault.column);
        let place = match &given.data {
            TomlData::Array(lines) => lines.get(line - 1).map(|l| l.place.clone()),
            _ if key == "file" => None,
            _ => line_of(given, line),
        };
        let label = match &fault.missing {
            Some(what) => {
                format!("`{what}` is missing at line {line}, column {column} of the script")
            }
            None => format!("line {line}, column {column} of the script"),
        };
        cx.report(
            Diagnostic::warning("this PowerShell does not parse")
                .at(place.as_ref().unwrap_or(&given.place), label)
                .help(
                    "checked with a grammar, not with PowerShell; docs/steps.md lists the few \
                     valid forms that it misreads",
                ),
        );
    }
}

/// Finds a line of a string's content in its file. Variables are assumed to have no line ends.
fn line_of(value: &TomlValue, line: usize) -> Option<Place> {
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

/// Reads a script: a string, a list of lines, or a table with `script`, `inline` or (PowerShell)
/// `file`.
fn read_script(
    cx: &LoweringContext<'_>,
    value: &TomlValue,
    keys: &str,
    files: bool,
) -> Option<(String, ExitCodes)> {
    let what = &keys::find_table(keys).title();
    if let TomlData::String(text) = &value.data {
        return Some((text.clone(), ExitCodes::default()));
    }
    if let TomlData::Array(_) = &value.data {
        return read_lines(cx, value, what).map(|script| (script, ExitCodes::default()));
    }
    let fields = TableReader::open(cx, value, keys)?;
    let ways: &[&str] = if files {
        &["script", "inline", "file"]
    } else {
        &["script", "inline"]
    };
    let given: Vec<&str> = ways.iter().copied().filter(|w| fields.has(w)).collect();
    let shown = ways.join("`, `");
    match given.as_slice() {
        [] => cx.report_missing(
            format!("{what} has nothing to run"),
            &fields.place,
            &format!("add one of `{shown}`"),
        ),
        [_] => {}
        _ => {
            let given = given.join("` and `");
            let fact = format!("{what} has `{given}`; only one is allowed");
            cx.error(fact, &fields.place, "", &format!("keep one of `{shown}`"));
        }
    }
    let script = fields.read_text("script");
    let inline = fields
        .get("inline")
        .and_then(|v| read_lines(cx, v, "`inline`"));
    let file = files.then(|| local_script(&fields)).flatten();
    let exit_codes = exit_codes(&fields);
    let text = script.or(inline).or(file);
    text.zip(exit_codes).filter(|_| given.len() == 1)
}

fn read_lines(cx: &LoweringContext<'_>, value: &TomlValue, what: &str) -> Option<String> {
    let items = match &value.data {
        TomlData::String(text) => return Some(text.clone()),
        TomlData::Array(items) => items,
        TomlData::Unknown => return None,
        _ => {
            let fact = format!("{what} takes a list of lines, not {}", value.kind_name());
            cx.error(fact, &value.place, value.kind_name(), "");
            return None;
        }
    };
    let mut lines = Some(Vec::new());
    for item in items {
        match &item.data {
            TomlData::String(line) => {
                if let Some(lines) = &mut lines {
                    lines.push(line.as_str());
                }
            }
            TomlData::Unknown => lines = None,
            _ => {
                let fact = format!("{what} takes lines of text, not {}", item.kind_name());
                cx.error(fact, &item.place, item.kind_name(), "");
                lines = None;
            }
        }
    }
    lines.map(|lines| lines.join("\n"))
}

/// Reads a script file, without variable substitution. The file of a skipped step is not read.
fn local_script(fields: &TableReader<'_>) -> Option<String> {
    let path = fields.read_local_path("file")?;
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

/// Reads `exit_codes = { ok = [0], reboot = [3010] }`.
pub fn exit_codes(fields: &TableReader<'_>) -> Option<ExitCodes> {
    if !fields.has("exit_codes") {
        return Some(ExitCodes::default());
    }
    let table = fields.read_table("exit_codes")?;
    let ok = read_codes(&table, "ok");
    let reboot = read_codes(&table, "reboot");
    if let (Some(ok), Some(reboot)) = (&ok, &reboot)
        && let Some(both) = ok.iter().find(|c| reboot.contains(c))
    {
        let fact = format!("exit code {both} is under both `ok` and `reboot`");
        table
            .cx
            .error(fact, &table.place, "", "keep one of the two");
    }
    let is_valid = (ok.is_some() || !table.has("ok")) && (reboot.is_some() || !table.has("reboot"));
    is_valid.then_some(ExitCodes { ok, reboot })
}

/// Reads exit codes. They have 32 bits; those with the high bit set may be written signed or
/// unsigned (Microsoft: GetExitCodeProcess).
fn read_codes(table: &TableReader<'_>, key: &str) -> Option<Vec<i64>> {
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
                let fact = format!("{code} is not a Windows exit code");
                table
                    .cx
                    .error(fact, &item.place, "does not fit 32 bits", "");
            }
            None => {}
        }
        codes = None;
    }
    if codes.as_ref().is_some_and(Vec::is_empty) && key == "ok" {
        let fact = "`ok` has no exit code: the step could never succeed";
        table
            .cx
            .error(fact, &table.place, "", "omit it, or write `ok = [0]`");
    }
    codes
}

pub fn read_reboot(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<Verb> {
    TableReader::open(cx, value, "reboot")?;
    Some(Verb::Reboot)
}

pub fn assert(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<Verb> {
    let fields = TableReader::open(cx, value, "assert")?;
    let kinds: Vec<&str> = keys::find_table("assert").alternatives().collect();
    let given: Vec<&str> = kinds.iter().copied().filter(|k| fields.has(k)).collect();
    let one = match given.as_slice() {
        [] => {
            let help = format!("add one of {}", kinds.join(", "));
            if fields.table.entries.is_empty() {
                cx.report_missing("`assert` has no assertion", &fields.place, &help);
            }
            false
        }
        [_] => true,
        _ => {
            let fact = format!("`assert` has several assertions: {}", given.join(", "));
            cx.error(fact, &fields.place, "", "write a step for each");
            false
        }
    };
    let exists = fields.guest_path("exists").map(Assertion::Exists);
    let missing = fields.guest_path("missing").map(Assertion::Missing);
    let service = fields
        .read_string("service_running")
        .map(Assertion::ServiceRunning);
    let registry = fields
        .read_table("registry")
        .and_then(|table| registry::registry_assertion(&table));
    let cmd = fields.read_string("cmd").map(Assertion::Cmd);
    let windows = fields
        .read_string("windows")
        .and_then(|text| parse_windows_build(&fields, &text));
    let assertion = exists
        .or(missing)
        .or(service)
        .or(registry)
        .or(cmd)
        .or(windows)?;
    one.then_some(Verb::Assert(assertion))
}

/// Parses `20348.681` or `10.0.20348.681`.
fn parse_windows_build(fields: &TableReader<'_>, text: &Located<String>) -> Option<Assertion> {
    let version = text.value.trim();
    let parts = version.strip_prefix("10.0.").unwrap_or(version);
    let numbers = parts
        .split_once('.')
        .and_then(|(build, revision)| Some((build.parse().ok()?, revision.parse().ok()?)));
    let Some((build, revision)) = numbers else {
        let fact = format!("`windows` is not a build with its update revision: \"{version}\"");
        fields
            .cx
            .error(fact, &text.place, "", fields.help("windows"));
        return None;
    };
    Some(Assertion::Windows { build, revision })
}

pub fn read_generalize(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<Verb> {
    let fields = TableReader::open(cx, value, "generalize")?;
    let verb = Verb::Generalize {
        answer_file: seal_answer(&fields),
        mode_vm: fields.flag("mode_vm"),
    };
    fields.is_whole().then_some(verb)
}

fn seal_answer(fields: &TableReader<'_>) -> SealAnswer {
    if fields.string_is("answer_file", "none") {
        return SealAnswer::None;
    }
    let own = fields.read_local_path("answer_file");
    own.map_or(SealAnswer::BuiltIn, SealAnswer::Own)
}
