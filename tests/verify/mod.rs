//! Finished disks, sound and spoiled, as `winimg verify` judges them.

mod expected;
mod free_space;
mod sealed;
mod spoiled;
