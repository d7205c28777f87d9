//! Foundations of all crates of winimg: text, digests, diagnostics, errors, events, files and
//! locks.
//!
//! Knows nothing of recipes, guests or disks, and imports no other crate of winimg.

pub mod argv;
pub mod diag;
pub mod digest;
pub mod display_text;
pub mod environment;
pub mod error;
pub mod event;
pub mod filename;
pub mod io;
pub mod markup;
pub mod problem;
pub mod text;
