//! What is written down about a build for those who come later: `manifest.json`, two SBOMs, the provenance, their
//! signatures, and Packer's `packer-manifest.json`.
//!
//! Records are made from returned values, never from events, and hold no secret: URLs come here already without
//! credentials. A record is written whole or not at all.

pub mod built;
pub mod check;
pub mod cyclonedx;
pub mod envelope;
pub mod inventory;
pub mod key;
mod license;
pub mod manifest;
pub mod packer;
pub mod provenance;
mod purl;
pub mod sign;
pub mod spdx;

pub use manifest::Manifest;

use uuid::Uuid;

/// For names that are derived from content (RFC 9562 5.5). Made once at random; never to be changed.
const NAMESPACE: Uuid = Uuid::from_u128(0x6d2f_0f5e_8a0c_4b5e_9c55_0b0a_51f3_7e21);

/// A UUID that the same content always gets.
pub fn uuid_of(content: &str) -> Uuid {
    Uuid::new_v5(&NAMESPACE, content.as_bytes())
}
