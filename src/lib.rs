//! The tool: what `winimg` does with recipes, guests and disks, and its command line.
//!
//! Modules import only what stands above them here; what they share with nobody else stands in `crates/`.

pub mod answer;
pub mod cli;
pub mod cmd;
pub mod diff;
pub mod doctor;
pub mod engine;
pub mod export;
pub mod http;
pub mod matrix;
pub mod page;
mod pool;
pub mod record;
pub mod report;
pub mod story;
pub mod trial;
pub mod usage;
pub mod verify;
#[cfg(unix)]
pub mod watch;
