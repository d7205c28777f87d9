//! `registry` and `environment`: one value, through `reg.exe add` where it can travel as an argument, otherwise
//! through a `.reg` file (empty data, deletions, what the guest agent's quoting would break).

use super::super::batch::Script;
use super::super::reg;
use super::super::site::{QUICK, Site};
use super::super::{ExitRule, Planned};
use super::args;
use crate::recipe::{Encoding, RegistryData, RegistryKey};
use winimg_base::argv;
use winimg_base::text::Located;

pub(super) const REG: &str = r"C:\Windows\System32\reg.exe";
pub(super) const ENVIRONMENT: RegistryKey =
    RegistryKey::known(r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Environment");

pub(super) fn registry(
    site: &mut Site<'_>,
    key: &Located<RegistryKey>,
    value: Option<&str>,
    data: &RegistryData,
) -> Option<()> {
    let value = value.filter(|name| !name.is_empty());
    site.judged(reg::check(data), &key.place)?;
    if let Some(c) = value.and_then(|v| v.chars().find(|c| c.is_control())) {
        let message = format!(
            "the value's name holds the control character U+{:04X}",
            c as u32
        );
        site.error(&key.place, message, "");
        return None;
    }
    if *data == RegistryData::Absent && value.is_none() && key.value.subkey().is_empty() {
        site.error(&key.place, "a whole hive cannot be deleted", "refused");
        return None;
    }
    set(site, &key.value, value, data);
    Some(())
}

pub(super) fn environment(site: &mut Site<'_>, name: &Located<String>, value: Option<&str>) {
    let data = match value {
        None => RegistryData::Absent,
        Some(value) if value.contains('%') => RegistryData::ExpandSz(value.to_owned()),
        Some(value) => RegistryData::Sz(value.to_owned()),
    };
    set(site, &ENVIRONMENT, Some(&name.value), &data);
}

pub(super) fn set(
    site: &mut Site<'_>,
    key: &RegistryKey,
    value: Option<&str>,
    data: &RegistryData,
) {
    match add(key, value, data) {
        Some(arguments) => site.run(REG, arguments, ExitRule::Zero, QUICK),
        None => import(site, key, value, data),
    }
    site.expect(Planned::Registry {
        key: key.clone(),
        value: value.map(str::to_owned),
        data: data.clone(),
    });
}

/// The arguments of `reg.exe add`, if all of them arrive as they are and none can be taken for an option.
fn add(key: &RegistryKey, value: Option<&str>, data: &RegistryData) -> Option<Vec<String>> {
    let (kind, text) = reg::arguments(data)?;
    if text.starts_with('/') || value.is_some_and(|v| v.starts_with('/')) {
        return None;
    }
    let mut arguments = args(["add", key.as_str()]);
    match value {
        None => arguments.push("/ve".to_owned()),
        Some(name) => arguments.extend(args(["/v", name])),
    }
    arguments.extend(args(["/t", kind, "/d", &text, "/f"]));
    argv::check(REG, &arguments).is_ok().then_some(arguments)
}

fn import(site: &mut Site<'_>, key: &RegistryKey, value: Option<&str>, data: &RegistryData) {
    let text = reg::file(key, value, data);
    let from = site.text_entry("step.reg", text, Encoding::Utf16);
    let file = site.file("reg");
    let mut script = Script::new();
    script.make_folder(r#""C:\winimg\steps""#);
    script.copy(&from, &format!("\"{file}\""));
    site.put(script);
    site.run(REG, args(["import", &file]), ExitRule::Zero, QUICK);
}
