//! Compiles `registry` and `environment`: a value is set by `reg.exe add` if it can be passed as an
//! argument, otherwise by a `.reg` file (empty data, deletions, values that the guest agent's
//! quoting would break).

use super::super::batch::BatchScript;
use super::super::reg;
use super::super::step_compiler::{QUICK, StepCompiler};
use super::super::{ExitRule, PlannedCheck};
use super::to_arguments;
use crate::recipe::{Encoding, RegistryKey, RegistryValueData};
use winimg_base::argv;
use winimg_base::text::Located;

pub(super) const REG: &str = r"C:\Windows\System32\reg.exe";
pub(super) const ENVIRONMENT: RegistryKey =
    RegistryKey::from_static(r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Environment");

pub(super) fn compile_registry(
    site: &mut StepCompiler<'_>,
    key: &Located<RegistryKey>,
    value: Option<&str>,
    data: &RegistryValueData,
) -> Option<()> {
    let value = value.filter(|name| !name.is_empty());
    site.report_error(reg::check(data), &key.place)?;
    if let Some(c) = value.and_then(|v| v.chars().find(|c| c.is_control())) {
        let message = format!(
            "the value's name contains the control character U+{:04X}",
            c as u32
        );
        site.error(&key.place, message, "");
        return None;
    }
    if *data == RegistryValueData::Absent && value.is_none() && key.value.subkey().is_empty() {
        site.error(&key.place, "a whole hive cannot be deleted", "refused");
        return None;
    }
    set(site, &key.value, value, data);
    Some(())
}

pub(super) fn compile_environment(
    site: &mut StepCompiler<'_>,
    name: &Located<String>,
    value: Option<&str>,
) {
    let data = match value {
        None => RegistryValueData::Absent,
        Some(value) if value.contains('%') => RegistryValueData::ExpandSz(value.to_owned()),
        Some(value) => RegistryValueData::Sz(value.to_owned()),
    };
    set(site, &ENVIRONMENT, Some(&name.value), &data);
}

pub(super) fn set(
    site: &mut StepCompiler<'_>,
    key: &RegistryKey,
    value: Option<&str>,
    data: &RegistryValueData,
) {
    match add(key, value, data) {
        Some(arguments) => site.run(REG, arguments, ExitRule::Zero, QUICK),
        None => import(site, key, value, data),
    }
    site.expect(PlannedCheck::Registry {
        key: key.clone(),
        value: value.map(str::to_owned),
        data: data.clone(),
    });
}

/// Returns the arguments of `reg.exe add`, if all can be passed unchanged and none looks like an
/// option.
fn add(key: &RegistryKey, value: Option<&str>, data: &RegistryValueData) -> Option<Vec<String>> {
    let (kind, text) = reg::render_arguments(data)?;
    if text.starts_with('/') || value.is_some_and(|v| v.starts_with('/')) {
        return None;
    }
    let mut arguments = to_arguments(["add", key.as_str()]);
    match value {
        None => arguments.push("/ve".to_owned()),
        Some(name) => arguments.extend(to_arguments(["/v", name])),
    }
    arguments.extend(to_arguments(["/t", kind, "/d", &text, "/f"]));
    argv::check(REG, &arguments).is_ok().then_some(arguments)
}

fn import(
    site: &mut StepCompiler<'_>,
    key: &RegistryKey,
    value: Option<&str>,
    data: &RegistryValueData,
) {
    let text = reg::render_file(key, value, data);
    let from = site.text_entry("step.reg", text, Encoding::Utf16);
    let file = site.step_file("reg");
    let mut script = BatchScript::new();
    script.make_folder(r#""C:\winimg\steps""#);
    script.copy(&from, &format!("\"{file}\""));
    site.put(script);
    site.run(REG, to_arguments(["import", &file]), ExitRule::Zero, QUICK);
}
