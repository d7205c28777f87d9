//! `assert`: what must hold in the guest at this point. A script on the payload disc looks, says what is wrong, and ends
//! with 1; the finished disk is checked for the same again.

use super::super::batch::{self, Script};
use super::super::reg;
use super::super::site::{QUICK, Site};
use super::super::{ExitRule, Planned};
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
    let mut script = Script::new();
    script.line(format!("if exist {quoted} exit /b 0"));
    script.line(format!("echo {quoted} does not exist"));
    script.line("exit /b 1");
    site.put(script);
    site.expect(Planned::Exists {
        path: at.value.clone(),
    });
    Some(())
}

fn missing(site: &mut Site<'_>, at: &Located<GuestPath>) -> Option<()> {
    let quoted = site.quoted_path(at)?;
    let mut script = Script::new();
    script.line(format!("if not exist {quoted} exit /b 0"));
    script.line(format!("echo {quoted} exists"));
    script.line("exit /b 1");
    site.put(script);
    site.expect(Planned::Missing {
        path: at.value.clone(),
    });
    Some(())
}

fn running(site: &mut Site<'_>, name: &Located<String>) -> Option<()> {
    let quoted = site.judged(batch::quoted_twice(&name.value), &name.place)?;
    let mut script = Script::new();
    script.line(format!(
        r#"{SC} query {quoted} | C:\Windows\System32\find.exe "RUNNING" >nul && exit /b 0"#
    ));
    script.line(format!("{SC} query {quoted}"));
    script.line(format!("echo {quoted} is not running"));
    script.line("exit /b 1");
    site.put(script);
    Some(())
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
    let mut script = Script::new();
    let Some((kind, text)) = printed(data) else {
        script.line(format!("{query} >nul 2>&1 || exit /b 0"));
        script.line(format!("echo {key} has a value {name}"));
        script.line("exit /b 1");
        return Some(script);
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
    let token = if token > 31 {
        site.judged(Err("the value's name has too many words".to_owned()), place)?
    } else {
        token
    };
    script.line(format!(
        r#"for /f "tokens={token},*" %%a in ('{query}') do if "%%a %%b"=="{kind} {text}" exit /b 0"#
    ));
    script.line(query);
    script.line(format!(r#"echo {name} is not "{kind} {text}""#));
    script.line("exit /b 1");
    Some(script)
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
