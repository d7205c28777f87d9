//! What is written down about a build for those who come later: `manifest.json`, two SBOMs, the provenance, their
//! signatures, and Packer's `packer-manifest.json`.
//!
//! Records are made from returned values, never from events, and hold no secret: URLs come here already without
//! credentials. A record is written whole or not at all.

pub mod built;
pub mod check;
mod clone;
pub mod cyclonedx;
pub mod envelope;
pub mod inventory;
pub mod key;
mod license;
pub mod manifest;
pub mod packer;
pub mod provenance;
pub mod published;
mod purl;
pub mod sign;
pub mod spdx;

pub use manifest::Manifest;

use serde_json::Value;
use uuid::Uuid;

/// For names that are derived from content (RFC 9562 5.5). Made once at random; never to be changed.
const NAMESPACE: Uuid = Uuid::from_u128(0x6d2f_0f5e_8a0c_4b5e_9c55_0b0a_51f3_7e21);

/// The object without the members that have no value: `null`, and lists of nothing.
fn said(mut object: Value) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.retain(|_, value| !value.is_null() && *value != Value::Array(Vec::new()));
    }
    object
}

/// A UUID that the same content always gets.
pub fn uuid_of(content: &str) -> Uuid {
    Uuid::new_v5(&NAMESPACE, content.as_bytes())
}
