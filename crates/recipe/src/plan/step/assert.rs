//! `assert`: what must hold in the guest at this point. A script on the payload disc looks, says what is wrong, and ends
//! with 1; the finished disk is checked for the same again.

use super::super::batch::{self, Script};
use super::super::reg;
use super::super::site::{QUICK, Site};
use super::super::{ExitRule, Planned};
use super::FIND;
use super::registry::REG;
use super::script::batch_file;
use super::service::SC;
use crate::recipe::{Assertion, GuestPath, RegistryData, RegistryKey};
use winimg_base::text::Located;

pub(super) fn assert(site: &mut Site<'_>, assertion: &Assertion) -> Option<()> {
    match assertion {
        Assertion::Exists(at) => exists(site, at),
        Assertion::Missing(at) => missing(site, at),
        Assertion::ServiceRunning(name) => running(site, name),
        Assertion::RegistryValue { key, value, data } => registry_value(site, key, value, data),
        Assertion::Windows { build, revision } => {
            windows(site, *build, *revision);
            Some(())
        }
        Assertion::Cmd(line) => {
            batch_file(site, &line.value, ExitRule::Zero, QUICK);
            Some(())
        }
    }
}

fn exists(site: &mut Site<'_>, at: &Located<GuestPath>) -> Option<()> {
    let mut quoted = site.quoted_path(at)?;
    if at.value.names_folder() {
        quoted = format!("{}\\\"", quoted.trim_end_matches('"'));
    }
    site.put(Script::of(format!(
        "if exist {quoted} exit /b 0\necho {quoted} does not exist\nexit /b 1"
    )));
    site.expect(Planned::Exists {
        path: at.value.clone(),
    });
    Some(())
}

fn missing(site: &mut Site<'_>, at: &Located<GuestPath>) -> Option<()> {
    let quoted = site.quoted_path(at)?;
    site.put(Script::of(format!(
        "if not exist {quoted} exit /b 0\necho {quoted} exists\nexit /b 1"
    )));
    site.expect(Planned::Missing {
        path: at.value.clone(),
    });
    Some(())
}

fn running(site: &mut Site<'_>, name: &Located<String>) -> Option<()> {
    let quoted = site.judged(batch::quoted_twice(&name.value), &name.place)?;
    site.put(Script::of(format!(
        "{SC} query {quoted} | {FIND} \"RUNNING\" >nul && exit /b 0\n\
         {SC} query {quoted}\n\
         echo {quoted} is not running\n\
         exit /b 1"
    )));
    Some(())
}

/// Build and update revision, as Windows itself shows them (Microsoft: Windows Server release information). `set /a` reads what
/// reg.exe prints of a number, 0x2a9.
fn windows(site: &mut Site<'_>, build: u32, revision: u32) {
    let key = r#""HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion""#;
    site.put(Script::of(format!(
        "set BUILD=\nset UBR=0\n\
         for /f \"tokens=3\" %%b in ('{REG} query {key} /v CurrentBuildNumber ^| {FIND} \"REG_SZ\"') do set BUILD=%%b\n\
         for /f \"tokens=3\" %%u in ('{REG} query {key} /v UBR ^| {FIND} \"REG_DWORD\"') do set /a UBR=%%u\n\
         if \"%BUILD%\"==\"{build}\" if %UBR% geq {revision} exit /b 0\n\
         echo Windows is %BUILD%.%UBR%, not {build}.{revision} or later\n\
         exit /b 1"
    )));
    site.expect(Planned::Windows { build, revision });
}

fn registry_value(
    site: &mut Site<'_>,
    key: &Located<RegistryKey>,
    value: &str,
    data: &RegistryData,
) -> Option<()> {
    site.judged(reg::check(data), &key.place)?;
    let script = look(site, key, value, data)?;
    site.put(script);
    site.expect(Planned::Registry {
        key: key.value.clone(),
        value: Some(value.to_owned()),
        data: data.clone(),
    });
    Some(())
}

/// `reg.exe query` prints `    NAME    TYPE    DATA`; the blanks in the name say which word is the type.
fn look(
    site: &mut Site<'_>,
    key: &Located<RegistryKey>,
    value: &str,
    data: &RegistryData,
) -> Option<Script> {
    let place = &key.place;
    let key = site.judged(batch::quoted_twice(key.value.as_str()), place)?;
    let name = site.judged(batch::quoted_twice(value), place)?;
    let query = format!("{REG} query {key} /v {name}");
    let Some((kind, text)) = printed(data) else {
        return Some(Script::of(format!(
            "{query} >nul 2>&1 || exit /b 0\necho {key} has a value {name}\nexit /b 1"
        )));
    };
    if value.trim().is_empty() || text.starts_with([' ', '\t']) {
        site.error(
            place,
            "reg.exe prints this value so that batch cannot read it",
            "use `cmd` or `powershell`",
        );
        return None;
    }
    let text = site.judged(batch::literal(&text), place)?;
    let token = value.split([' ', '\t']).filter(|w| !w.is_empty()).count() + 1;
    if token > 31 {
        site.error(place, "the value's name has too many words", "");
        return None;
    }
    Some(Script::of(format!(
        "for /f \"tokens={token},*\" %%a in ('{query}') do if \"%%a %%b\"==\"{kind} {text}\" exit /b 0\n\
         {query}\n\
         echo {name} is not \"{kind} {text}\"\n\
         exit /b 1"
    )))
}

/// Type and data as `reg.exe query` prints them.
fn printed(data: &RegistryData) -> Option<(&'static str, String)> {
    Some(match data {
        RegistryData::Sz(text) => ("REG_SZ", text.clone()),
        RegistryData::ExpandSz(text) => ("REG_EXPAND_SZ", text.clone()),
        RegistryData::MultiSz(list) => ("REG_MULTI_SZ", list.join("\\0")),
        RegistryData::Dword(n) => ("REG_DWORD", format!("{n:#x}")),
        RegistryData::Qword(n) => ("REG_QWORD", format!("{n:#x}")),
        RegistryData::Binary(bytes) => ("REG_BINARY", hex::encode_upper(bytes)),
        RegistryData::Absent => return None,
    })
}
