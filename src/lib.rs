//! winimg builds Windows Kubernetes node images.
//!
//! The floors, lowest first; a module imports only what stands below it (`tests/floors.rs` keeps that):
//! words, bytes, meaning, world, stages, face.

// words
pub mod argv;
pub mod diag;
pub mod digest;
pub mod error;
pub mod event;
pub mod filename;
pub mod markup;
pub mod text;
// bytes
pub mod archive;
pub mod disk;
pub mod hive;
pub mod io;
pub mod iso;
pub mod store;
pub mod trust;
pub mod udf;
pub mod wim;
// meaning
pub mod bundle;
pub mod lock;
pub mod plan;
pub mod recipe;
// world
pub mod answer;
pub mod fetch;
pub mod guest;
pub mod vm;
// stages
pub mod build;
pub mod export;
pub mod record;
pub mod verify;
// face
pub mod cli;
pub mod cmd;
pub mod report;
