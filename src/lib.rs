//! The tool: works with recipes, guests and disks, and provides the command line.
//!
//! Modules import each other without cycles (checked by `tests/house`, order in
//! docs/architecture.md). Code that needs none of them is in `crates/`.

pub mod answer;
pub mod build_report;
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
pub mod trial;
pub mod usage;
pub mod verify;
#[cfg(unix)]
pub mod watch;
