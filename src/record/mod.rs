//! What is written down about a build for those who come later: `manifest.json`, and Packer's `packer-manifest.json`.
//!
//! Records are made from returned values, never from events, and hold no secret: URLs come here already without
//! credentials. A record is written whole or not at all.

pub mod built;
pub mod manifest;
pub mod packer;

pub use manifest::Manifest;
