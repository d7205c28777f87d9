//! The verb `assert`. A script on the payload disc checks the condition in the guest, prints what
//! is wrong and exits with 1; the finished disk is checked again.

use crate::document::value::TomlValue;
use crate::fields::{LoweringContext, TableReader};
use crate::ops::batch::{self, BatchScript};
use crate::ops::compiler::{QUICK, StepCompiler};
use crate::ops::programs::{FIND, REG, SC};
use crate::ops::{ExitRule, PlannedCheck, reg};
use crate::verbs::registry::read_expected_value;
use crate::verbs::script::batch_file;
use crate::{GuestPath, RegistryKey, RegistryValueData, keys};
use winimg_base::text::Located;

/// `assert = { … }`: checked in the guest when the step runs.
#[derive(Clone, Debug)]
pub enum Assertion {
    Exists(Located<GuestPath>),
    Missing(Located<GuestPath>),
    ServiceRunning(Located<String>),
    RegistryValue {
        key: Located<RegistryKey>,
        value: String,
        data: RegistryValueData,
    },
    /// Windows has this build, with this update revision (UBR) or a later one.
    Windows {
        build: u32,
        revision: u32,
    },
    /// A batch command that must exit with 0.
    Cmd(Located<String>),
}

pub fn read(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<Assertion> {
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
        .and_then(|table| read_expected_value(&table))
        .map(|(key, value, data)| Assertion::RegistryValue { key, value, data });
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
    one.then_some(assertion)
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

pub fn compile(site: &mut StepCompiler<'_>, assertion: &Assertion) -> Option<()> {
    match assertion {
        Assertion::Exists(at) => assert_exists(site, at),
        Assertion::Missing(at) => assert_missing(site, at),
        Assertion::ServiceRunning(name) => assert_running(site, name),
        Assertion::RegistryValue { key, value, data } => registry_value(site, key, value, data),
        Assertion::Windows { build, revision } => {
            assert_windows(site, *build, *revision);
            Some(())
        }
        Assertion::Cmd(line) => {
            batch_file(site, &line.value, ExitRule::Zero, QUICK);
            Some(())
        }
    }
}

fn assert_exists(site: &mut StepCompiler<'_>, at: &Located<GuestPath>) -> Option<()> {
    let mut quoted = site.quoted_path(at)?;
    if at.value.names_folder() {
        quoted = format!("{}\\\"", quoted.trim_end_matches('"'));
    }
    site.put(BatchScript::from_lines(format!(
        "if exist {quoted} exit /b 0\necho {quoted} does not exist\nexit /b 1"
    )));
    site.expect(PlannedCheck::Exists {
        path: at.value.clone(),
    });
    Some(())
}

fn assert_missing(site: &mut StepCompiler<'_>, at: &Located<GuestPath>) -> Option<()> {
    let quoted = site.quoted_path(at)?;
    site.put(BatchScript::from_lines(format!(
        "if not exist {quoted} exit /b 0\necho {quoted} exists\nexit /b 1"
    )));
    site.expect(PlannedCheck::Missing {
        path: at.value.clone(),
    });
    Some(())
}

fn assert_running(site: &mut StepCompiler<'_>, name: &Located<String>) -> Option<()> {
    let quoted = site.report_error(batch::quoted_twice(&name.value), &name.place)?;
    site.put(BatchScript::from_lines(format!(
        "{SC} query {quoted} | {FIND} \"RUNNING\" >nul && exit /b 0\n\
         {SC} query {quoted}\n\
         echo {quoted} is not running\n\
         exit /b 1"
    )));
    Some(())
}

/// Checks the build and update revision (Microsoft: Windows Server release information). `set /a`
/// parses the hexadecimal number that reg.exe prints, such as 0x2a9.
fn assert_windows(site: &mut StepCompiler<'_>, build: u32, revision: u32) {
    let key = r#""HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion""#;
    site.put(BatchScript::from_lines(format!(
        "set BUILD=\nset UBR=0\n\
         for /f \"tokens=3\" %%b in ('{REG} query {key} /v CurrentBuildNumber ^| {FIND} \
         \"REG_SZ\"') do set BUILD=%%b\n\
         for /f \"tokens=3\" %%u in ('{REG} query {key} /v UBR ^| {FIND} \"REG_DWORD\"') do set /a \
         UBR=%%u\n\
         if \"%BUILD%\"==\"{build}\" if %UBR% geq {revision} exit /b 0\n\
         echo Windows is %BUILD%.%UBR%, not {build}.{revision} or later\n\
         exit /b 1"
    )));
    site.expect(PlannedCheck::Windows { build, revision });
}

fn registry_value(
    site: &mut StepCompiler<'_>,
    key: &Located<RegistryKey>,
    value: &str,
    data: &RegistryValueData,
) -> Option<()> {
    site.report_error(reg::check(data), &key.place)?;
    let script = build_registry_script(site, key, value, data)?;
    site.put(script);
    site.expect(PlannedCheck::Registry {
        key: key.value.clone(),
        value: Some(value.to_owned()),
        data: data.clone(),
    });
    Some(())
}

/// Builds the script that checks a value. `reg.exe query` prints ` NAME TYPE DATA`; the number of
/// blanks in the name determines the position of the type.
fn build_registry_script(
    site: &mut StepCompiler<'_>,
    key: &Located<RegistryKey>,
    value: &str,
    data: &RegistryValueData,
) -> Option<BatchScript> {
    let place = &key.place;
    let key = site.report_error(batch::quoted_twice(key.value.as_str()), place)?;
    let name = site.report_error(batch::quoted_twice(value), place)?;
    let query = format!("{REG} query {key} /v {name}");
    let Some((kind, text)) = render_query_output(data) else {
        return Some(BatchScript::from_lines(format!(
            "{query} >nul 2>&1 || exit /b 0\necho {key} has a value {name}\nexit /b 1"
        )));
    };
    if value.trim().is_empty() || text.starts_with([' ', '\t']) {
        site.error(
            place,
            "batch cannot parse how reg.exe prints this value",
            "use `cmd` or `powershell`",
        );
        return None;
    }
    let text = site.report_error(batch::escape(&text), place)?;
    let token = value.split([' ', '\t']).filter(|w| !w.is_empty()).count() + 1;
    if token > 31 {
        site.error(place, "the value's name has too many words", "");
        return None;
    }
    Some(BatchScript::from_lines(format!(
        "for /f \"tokens={token},*\" %%a in ('{query}') do if \"%%a %%b\"==\"{kind} {text}\" exit \
         /b 0\n\
         {query}\n\
         echo {name} is not \"{kind} {text}\"\n\
         exit /b 1"
    )))
}

/// Returns type and data as `reg.exe query` prints them.
fn render_query_output(data: &RegistryValueData) -> Option<(&'static str, String)> {
    Some(match data {
        RegistryValueData::Sz(text) => ("REG_SZ", text.clone()),
        RegistryValueData::ExpandSz(text) => ("REG_EXPAND_SZ", text.clone()),
        RegistryValueData::MultiSz(list) => ("REG_MULTI_SZ", list.join("\\0")),
        RegistryValueData::Dword(n) => ("REG_DWORD", format!("{n:#x}")),
        RegistryValueData::Qword(n) => ("REG_QWORD", format!("{n:#x}")),
        RegistryValueData::Binary(bytes) => ("REG_BINARY", hex::encode_upper(bytes)),
        RegistryValueData::Absent => return None,
    })
}
