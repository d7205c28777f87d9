//! The verb `registry`: a key, a value and data that fits its type; also in a clone check and in
//! `assert`. A value is set by `reg.exe add` if it can be passed as an argument, otherwise by a
//! `.reg` file (empty data, deletions, values that the guest agent's quoting would break).

use serde::Deserialize;

use crate::document::value::{TomlData, TomlValue};
use crate::fields::{LoweringContext, TableReader};
use crate::ops::batch::BatchScript;
use crate::ops::compiler::{QUICK, StepCompiler};
use crate::ops::programs::{REG, to_arguments};
use crate::ops::{Encoding, ExitRule, PlannedCheck, reg};
use crate::{RegistryKey, RegistryValueData};
use winimg_base::argv;
use winimg_base::text::Located;

/// Values of `registry`.
#[derive(Clone, Debug)]
pub struct RegistrySpec {
    pub key: Located<RegistryKey>,
    /// The default value when `None`.
    pub value: Option<String>,
    pub data: RegistryValueData,
}

const NO_TYPE: &str =
    "write the value: `type = \"dword\", data = 1`; to remove it, `absent = true`";

pub fn read(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<RegistrySpec> {
    let fields = TableReader::open(cx, value, "registry")?;
    let key = registry_key(&fields);
    let name = fields.read_string("name");
    let data = if fields.flag("absent") {
        if let Some(entry) = fields.find_first(&["data", "type"]) {
            let fact = format!("`absent` and `{}` exclude each other", entry.key);
            cx.error(fact, &entry.key_place, "", "keep one of them");
        }
        Some(RegistryValueData::Absent)
    } else {
        fields.require("type", NO_TYPE);
        if fields.has("type") {
            fields.require("data", "add the data: `data = …`");
        }
        registry_data(&fields)
    };
    let name = name.map(|n| n.value).filter(|n| !n.is_empty());
    let spec = RegistrySpec {
        key: key?,
        value: name,
        data: data?,
    };
    fields.is_whole().then_some(spec)
}

/// Reads `registry` inside `assert`: a value and its expected data.
pub fn read_expected_value(
    fields: &TableReader<'_>,
) -> Option<(Located<RegistryKey>, String, RegistryValueData)> {
    let key = registry_key(fields);
    let name = fields.read_string("name");
    let data = registry_data(fields);
    Some((key?, name?.value, data?))
}

fn registry_key(fields: &TableReader<'_>) -> Option<Located<RegistryKey>> {
    let key = fields.read_string("key")?;
    match RegistryKey::parse(&key.value) {
        Ok(parsed) => Some(Located::new(parsed, key.place)),
        Err((why, help)) => {
            fields.cx.error(
                format!("`key` is not a registry key: {why}"),
                &key.place,
                "",
                &help,
            );
            None
        }
    }
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RegistryType {
    Sz,
    ExpandSz,
    MultiSz,
    Dword,
    Qword,
    Binary,
}

/// Reads `type` and `data`, which have to fit each other.
fn registry_data(fields: &TableReader<'_>) -> Option<RegistryValueData> {
    let kind: Option<Located<RegistryType>> = fields.read_choice("type");
    let value = fields.get("data")?;
    let kind = kind?.value;
    let (data, takes) = match kind {
        RegistryType::Sz => (to_text(value).map(RegistryValueData::Sz), "a string"),
        RegistryType::ExpandSz => (to_text(value).map(RegistryValueData::ExpandSz), "a string"),
        RegistryType::MultiSz => (
            to_texts(value).map(RegistryValueData::MultiSz),
            "a list of strings",
        ),
        RegistryType::Dword => (
            to_number(value)
                .and_then(|n| u32::try_from(n).ok())
                .map(RegistryValueData::Dword),
            "a whole number from 0 to 4294967295",
        ),
        RegistryType::Qword => (
            to_number(value).map(RegistryValueData::Qword),
            "a whole number, 0 or more (above 9223372036854775807 as a string, \"0x…\")",
        ),
        RegistryType::Binary => (
            to_bytes(value).map(RegistryValueData::Binary),
            "hex bytes such as \"01 a0 ff\"",
        ),
    };
    if data.is_none() && !matches!(value.data, TomlData::Unknown) {
        let word = fields
            .table
            .get("type")
            .and_then(TomlValue::as_str)
            .unwrap_or_default();
        let found = match &value.data {
            TomlData::Integer(n) => n.to_string(),
            TomlData::String(text) => format!("the string \"{text}\""),
            _ => value.kind_name().to_string(),
        };
        let fact = format!("`data` of a {word} takes {takes}, not {found}");
        fields.cx.error(fact, &value.place, value.kind_name(), "");
    }
    data
}

fn to_text(value: &TomlValue) -> Option<String> {
    match (&value.data, &value.loose) {
        (TomlData::String(text), _) => Some(text.clone()),
        (_, loose) => loose.clone(),
    }
}

fn to_texts(value: &TomlValue) -> Option<Vec<String>> {
    match &value.data {
        TomlData::Array(items) => items
            .iter()
            .map(|i| i.as_str().map(str::to_string))
            .collect(),
        _ => None,
    }
}

fn to_number(value: &TomlValue) -> Option<u64> {
    match &value.data {
        TomlData::Integer(n) => u64::try_from(*n).ok(),
        TomlData::String(text) => {
            let text = text.trim();
            let hex = text.strip_prefix("0x").or(text.strip_prefix("0X"));
            match hex {
                Some(hex) => u64::from_str_radix(hex, 16).ok(),
                None => text.parse().ok(),
            }
        }
        _ => None,
    }
}

fn to_bytes(value: &TomlValue) -> Option<Vec<u8>> {
    match &value.data {
        TomlData::String(text) => {
            let digits: String = text.chars().filter(|c| !" ,:".contains(*c)).collect();
            hex::decode(digits).ok()
        }
        TomlData::Array(items) => items
            .iter()
            .map(|item| match item.data {
                TomlData::Integer(n) => u8::try_from(n).ok(),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

pub fn compile(site: &mut StepCompiler<'_>, registry: &RegistrySpec) -> Option<()> {
    let RegistrySpec { key, value, data } = registry;
    let value = value.as_deref().filter(|name| !name.is_empty());
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

pub fn set(
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
