//! Finished disks, sound and spoiled, as `winimg verify` judges them.

mod disk;
mod expected;
mod free_space;
#[path = "../skip/mod.rs"]
mod skip;
mod spoiled;
#[allow(dead_code)]
#[path = "../disk_vhdx/writer.rs"]
mod vhdx_writer;
