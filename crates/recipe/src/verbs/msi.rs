//! The verb `msi`: installs a package with Windows Installer, without a window and without a
//! restart.
//!
//! msiexec requires `NAME="a b"`, which the guest agent cannot pass, so a value with a blank or a
//! quote is passed in the step's `.cmd` (Microsoft: Windows Installer command-line options; a `"`
//! inside a value is doubled).

use crate::ops::programs::to_arguments;
use crate::verbs::script::{batch_file_after, run_batch_file};
use std::collections::BTreeMap;
use winimg_base::text::Place;

use crate::GuestPath;
use crate::document::value::{TomlData, TomlValue};
use crate::fields::{LoweringContext, TableReader};
use crate::ops::ExitRule;
use crate::ops::batch::{self, BatchScript};
use crate::ops::compiler::{MINUTE, StepCompiler, on_disc};
use crate::verbs::content::{StepContent, content_place, read_content, single_file};
use crate::verbs::exit_codes::{ExitCodes, exit_rule, read_exit_codes};
use crate::verbs::items::RecipeItems;
use winimg_base::argv::has_blank;

/// Values of `msi`.
#[derive(Clone, Debug)]
pub struct MsiSpec {
    pub from: StepContent,
    pub properties: BTreeMap<String, String>,
    pub exit_codes: ExitCodes,
}

const MSIEXEC: &str = r"C:\Windows\System32\msiexec.exe";

pub fn read(
    cx: &LoweringContext<'_>,
    value: &TomlValue,
    items: RecipeItems<'_>,
) -> Option<MsiSpec> {
    let fields = TableReader::open(cx, value, "msi")?;
    let from = read_content(&fields, items);
    let properties = read_properties(&fields);
    let exit_codes = read_exit_codes(&fields);
    Some(MsiSpec {
        from: from?,
        properties,
        exit_codes: exit_codes?,
    })
}

/// Reads public properties, which are upper case; msiexec silently ignores others (Microsoft:
/// Windows Installer, Public Properties).
fn read_properties(fields: &TableReader<'_>) -> BTreeMap<String, String> {
    let mut properties = BTreeMap::new();
    for entry in fields.map("properties") {
        if !is_public_property(&entry.key) {
            let fact = format!("`{}` is not a public property", entry.key);
            let upper = entry.key.to_uppercase();
            let help = if upper == entry.key {
                "use letters A-Z, digits, `_` and `.`, a letter or `_` first".to_owned()
            } else {
                format!("public properties are upper case: `{upper}`")
            };
            fields.cx.error(fact, &entry.key_place, "", &help);
            continue;
        }
        let text = match &entry.value.data {
            TomlData::String(text) => text.clone(),
            TomlData::Integer(number) => number.to_string(),
            TomlData::Unknown => continue,
            _ => {
                let fact = format!("a property takes a string, not {}", entry.value.kind_name());
                fields
                    .cx
                    .error(fact, &entry.value.place, entry.value.kind_name(), "");
                continue;
            }
        };
        if text.chars().any(char::is_control) {
            let fact = format!("the value of `{}` contains a control character", entry.key);
            fields.cx.error(fact, &entry.value.place, "", "");
        }
        properties.insert(entry.key.clone(), text);
    }
    properties
}

fn is_public_property(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
        && name
            .chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || "_.".contains(c))
}

pub fn compile(site: &mut StepCompiler<'_>, msi: &MsiSpec) -> Option<()> {
    let MsiSpec {
        from, properties, ..
    } = msi;
    let place = content_place(from).clone();
    let (entry, file) = single_file(site, from)?;
    let name = site.report_error(batch::escape(&file), &place)?;
    let folder = site.step_folder();
    let log =
        GuestPath::from_static(r"C:\winimg\logs").join(&format!("{:03}-msi.log", site.number));
    let index = site.add_entry(entry);
    let mut script = BatchScript::new();
    script.make_folder(&format!("\"{folder}\""));
    script.make_folder(r#""C:\winimg\logs""#);
    script.copy(&on_disc(index, &name), &format!("\"{folder}\\{name}\""));
    let rule = exit_rule(&msi.exit_codes, ExitRule::Msi, &[3010, 1641]);
    let package = folder.join(&file);
    if properties.values().any(|v| has_blank(v) || v.contains('"')) {
        let line = batch_line(site, &folder.join(&name), &log, properties, &place)?;
        batch_file_after(site, &mut script, &line);
        site.put(script);
        run_batch_file(site, rule, 30 * MINUTE);
    } else {
        site.put(script);
        let mut arguments = to_arguments([
            "/i",
            package.as_str(),
            "/qn",
            "/norestart",
            "/l*v",
            log.as_str(),
        ]);
        arguments.extend(properties.iter().map(|(n, v)| format!("{n}={v}")));
        site.run(MSIEXEC, arguments, rule, 30 * MINUTE);
    }
    site.guest_log = Some(log);
    Some(())
}

fn batch_line(
    site: &mut StepCompiler<'_>,
    package: &GuestPath,
    log: &GuestPath,
    properties: &BTreeMap<String, String>,
    place: &Place,
) -> Option<String> {
    let mut line = format!("@echo off\n{MSIEXEC} /i \"{package}\" /qn /norestart /l*v {log}");
    for (name, value) in properties {
        // Quotes come in pairs here, so that cmd also treats the rest as quoted.
        let parts: Result<Vec<String>, String> = value.split('"').map(batch::escape).collect();
        let value = site.report_error(parts, place)?.join("\"\"");
        line.push_str(&format!(" {name}=\"{value}\""));
    }
    line.push_str("\nexit /b %errorlevel%\n");
    Some(line)
}
