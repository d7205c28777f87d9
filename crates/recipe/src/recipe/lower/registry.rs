//! `registry`, as a step, of a clone and inside `assert`: a key, a value and data that fits its type.

use serde::Deserialize;

use crate::recipe::fields::{Context, Fields};
use crate::recipe::value::{Data, Value};
use crate::recipe::{Assertion, RegistryData, RegistryKey, Verb};
use winimg_base::text::Located;

pub fn registry(cx: &Context<'_>, value: &Value) -> Option<Verb> {
    let (key, value, data) = self::value(cx, value)?;
    Some(Verb::Registry { key, value, data })
}

/// The key, the value's name unless it is the default value, and its data.
pub fn value(
    cx: &Context<'_>,
    value: &Value,
) -> Option<(Located<RegistryKey>, Option<String>, RegistryData)> {
    let fields = Fields::open(cx, value, "registry")?;
    let key = registry_key(&fields);
    let name = fields.string("name");
    let data = match fields.flag("absent") {
        true => {
            if let Some(entry) = fields.first(&["data", "type"]) {
                let fact = format!("`absent` and `{}` exclude each other", entry.key);
                cx.error(fact, &entry.key_place, "", "keep one of them");
            }
            Some(RegistryData::Absent)
        }
        false => {
            fields.need("type", NO_TYPE);
            if fields.has("type") {
                fields.need("data", "give the data: `data = …`");
            }
            registry_data(&fields)
        }
    };
    let name = name.map(|n| n.value).filter(|n| !n.is_empty());
    let value = (key?, name, data?);
    fields.is_whole().then_some(value)
}

const NO_TYPE: &str = "say what the value is: `type = \"dword\", data = 1`; where there must be none, `absent = true`";

/// `registry` inside `assert`: a value and what it must be.
pub fn registry_assertion(fields: &Fields<'_>) -> Option<Assertion> {
    let key = registry_key(fields);
    let name = fields.string("name");
    let data = registry_data(fields);
    Some(Assertion::RegistryValue {
        key: key?,
        value: name?.value,
        data: data?,
    })
}

fn registry_key(fields: &Fields<'_>) -> Option<Located<RegistryKey>> {
    let key = fields.string("key")?;
    match RegistryKey::parse(&key.value) {
        Ok(parsed) => Some(Located::new(parsed, key.place)),
        Err((why, help)) => {
            fields.cx.error(
                format!("`key` is no registry key: {why}"),
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
enum Kind {
    Sz,
    ExpandSz,
    MultiSz,
    Dword,
    Qword,
    Binary,
}

/// `type` and `data`, which have to fit each other.
fn registry_data(fields: &Fields<'_>) -> Option<RegistryData> {
    let kind: Option<Located<Kind>> = fields.choice("type");
    let value = fields.get("data")?;
    let kind = kind?.value;
    let (data, takes) = match kind {
        Kind::Sz => (text(value).map(RegistryData::Sz), "a string"),
        Kind::ExpandSz => (text(value).map(RegistryData::ExpandSz), "a string"),
        Kind::MultiSz => (texts(value).map(RegistryData::MultiSz), "a list of strings"),
        Kind::Dword => (
            number(value)
                .and_then(|n| u32::try_from(n).ok())
                .map(RegistryData::Dword),
            "a whole number from 0 to 4294967295",
        ),
        Kind::Qword => (
            number(value).map(RegistryData::Qword),
            "a whole number, 0 or more (above 9223372036854775807 as a string, \"0x…\")",
        ),
        Kind::Binary => (
            bytes(value).map(RegistryData::Binary),
            "hex bytes such as \"01 a0 ff\"",
        ),
    };
    if data.is_none() && !matches!(value.data, Data::Unknown) {
        let word = fields
            .table
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let found = match &value.data {
            Data::Integer(n) => n.to_string(),
            Data::String(text) => format!("the string \"{text}\""),
            _ => value.kind().to_string(),
        };
        let fact = format!("`data` of a {word} takes {takes}, not {found}");
        fields.cx.error(fact, &value.place, value.kind(), "");
    }
    data
}

fn text(value: &Value) -> Option<String> {
    match (&value.data, &value.loose) {
        (Data::String(text), _) => Some(text.clone()),
        (_, loose) => loose.clone(),
    }
}

fn texts(value: &Value) -> Option<Vec<String>> {
    match &value.data {
        Data::Array(items) => items
            .iter()
            .map(|i| i.as_str().map(str::to_string))
            .collect(),
        _ => None,
    }
}

fn number(value: &Value) -> Option<u64> {
    match &value.data {
        Data::Integer(n) => u64::try_from(*n).ok(),
        Data::String(text) => {
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

fn bytes(value: &Value) -> Option<Vec<u8>> {
    match &value.data {
        Data::String(text) => {
            let digits: String = text.chars().filter(|c| !" ,:".contains(*c)).collect();
            hex::decode(digits).ok()
        }
        Data::Array(items) => items
            .iter()
            .map(|item| match item.data {
                Data::Integer(n) => u8::try_from(n).ok(),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}
