//! `registry`, in a step, a clone check or `assert`: a key, a value and data that fits its type.

use serde::Deserialize;

use crate::recipe::fields::{LoweringContext, TableReader};
use crate::recipe::value::{TomlData, TomlValue};
use crate::recipe::{Assertion, RegistryKey, RegistryValueData, Verb};
use winimg_base::text::Located;

pub fn read_registry(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<Verb> {
    let (key, value, data) = self::read_registry_value(cx, value)?;
    Some(Verb::Registry { key, value, data })
}

/// Reads the key, the value's name unless it is the default value, and its data.
pub fn read_registry_value(
    cx: &LoweringContext<'_>,
    value: &TomlValue,
) -> Option<(Located<RegistryKey>, Option<String>, RegistryValueData)> {
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
    let value = (key?, name, data?);
    fields.is_whole().then_some(value)
}

const NO_TYPE: &str =
    "write the value: `type = \"dword\", data = 1`; to remove it, `absent = true`";

/// Reads `registry` inside `assert`: a value and its expected data.
pub fn registry_assertion(fields: &TableReader<'_>) -> Option<Assertion> {
    let key = registry_key(fields);
    let name = fields.read_string("name");
    let data = registry_data(fields);
    Some(Assertion::RegistryValue {
        key: key?,
        value: name?.value,
        data: data?,
    })
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
