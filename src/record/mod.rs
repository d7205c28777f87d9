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
