//! Data of a registry value.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Data of the registry by its type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "data", rename_all = "kebab-case")]
#[schemars(rename = "Data")]
pub enum RegistryValueData {
    Sz(String),
    ExpandSz(String),
    MultiSz(Vec<String>),
    Dword(u32),
    Qword(u64),
    /// Lower-case hex.
    Binary(
        #[serde(with = "as_hex")]
        #[schemars(with = "String")]
        Vec<u8>,
    ),
    /// The value, or the key when no value is named, is not there.
    Absent,
}

/// Serializes bytes as hex.
mod as_hex {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&hex::encode(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        hex::decode(text).map_err(serde::de::Error::custom)
    }
}
