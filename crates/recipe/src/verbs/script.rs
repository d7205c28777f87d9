//! Scripts of a recipe: how `cmd` and `powershell` read them, and the step's batch file.

use std::time::Duration;

use crate::document::sources::read_text;
use crate::document::value::{TomlData, TomlValue};
use crate::fields::{FileRequirement, LoweringContext, TableReader};
use crate::keys;
use crate::ops::batch::BatchScript;
use crate::ops::compiler::StepCompiler;
use crate::ops::programs::{CMD, to_arguments};
use crate::ops::{Encoding, ExitRule};
use crate::verbs::exit_codes::{ExitCodes, read_exit_codes};
use winimg_base::text::to_crlf;

/// Options before the script's path.
pub const POWERSHELL_OPTIONS: [&str; 6] = [
    "-NoLogo",
    "-NoProfile",
    "-NonInteractive",
    "-ExecutionPolicy",
    "Bypass",
    "-File",
];

pub const HOUR: Duration = Duration::from_secs(60 * 60);

/// Reads a script: a string, a list of lines, or a table with `script`, `inline` or, if there is a
/// rule for files, `file`.
pub fn read_script(
    cx: &LoweringContext<'_>,
    value: &TomlValue,
    keys: &str,
    files: Option<FileRequirement>,
) -> Option<(String, ExitCodes)> {
    let what = &keys::find_table(keys).title();
    if let TomlData::String(text) = &value.data {
        return Some((text.clone(), ExitCodes::default()));
    }
    if let TomlData::Array(_) = &value.data {
        return read_lines(cx, value, what).map(|script| (script, ExitCodes::default()));
    }
    let fields = TableReader::open(cx, value, keys)?;
    let ways: &[&str] = if files.is_some() {
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
    let file = files.and_then(|requirement| local_script(&fields, requirement));
    let exit_codes = read_exit_codes(&fields);
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
fn local_script(fields: &TableReader<'_>, requirement: FileRequirement) -> Option<String> {
    let path = fields.read_local_path("file", requirement)?;
    if requirement == FileRequirement::MayBeMissing {
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

/// Writes the text as the step's `.cmd` and runs it.
pub fn batch_file(site: &mut StepCompiler<'_>, text: &str, rule: ExitRule, timeout: Duration) {
    let mut script = BatchScript::new();
    batch_file_after(site, &mut script, text);
    site.put(script);
    run_batch_file(site, rule, timeout);
}

pub fn batch_file_after(site: &mut StepCompiler<'_>, script: &mut BatchScript, text: &str) {
    let from = site.text_entry("step.cmd", to_crlf(&ensure_newline(text)), Encoding::Utf8);
    script.make_folder(r#""C:\winimg\steps""#);
    script.copy(&from, &format!("\"{}\"", site.step_file("cmd")));
}

pub fn run_batch_file(site: &mut StepCompiler<'_>, rule: ExitRule, timeout: Duration) {
    let file = site.step_file("cmd");
    site.run(CMD, to_arguments(["/d", "/c", &file]), rule, timeout);
}

pub fn ensure_newline(text: &str) -> String {
    let mut text = text.to_owned();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}
