//! The records of a build: `manifest.json`, two SBOMs, the provenance, their signatures, and
//! Packer's `packer-manifest.json`.
//!
//! Records are made from returned values, never from events, and contain no secret: credentials
//! have already been removed from URLs. Records are written atomically.

pub mod check;
mod clone_checks;
pub mod cyclonedx;
pub mod envelope;
mod host;
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
pub mod writer;

pub use manifest::BuildManifest;

use serde_json::Value;
use uuid::Uuid;

/// Namespace of names that are derived from content (RFC 9562 5.5). It must never change.
const NAMESPACE: Uuid = Uuid::from_u128(0x6d2f_0f5e_8a0c_4b5e_9c55_0b0a_51f3_7e21);

/// Removes the members without a value: `null` and empty lists.
fn remove_empty(mut object: Value) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.retain(|_, value| !value.is_null() && *value != Value::Array(Vec::new()));
    }
    object
}

/// Computes a UUID that is always the same for the same content.
pub fn compute_uuid(content: &str) -> Uuid {
    Uuid::new_v5(&NAMESPACE, content.as_bytes())
}
