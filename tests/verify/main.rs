//! Finished disks, sound and spoiled, as `winimg verify` judges them.

mod disk;
mod expected;
mod free_space;
mod spoiled;
#[allow(dead_code)]
#[path = "../disk_vhdx/writer.rs"]
mod vhdx_writer;
