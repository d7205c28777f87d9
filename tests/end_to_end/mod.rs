//! Builds on a real QEMU with the stand-in installer: slow, so each test is ignored unless asked for (`make end-to-end`, `make end-to-end-hyperv`).
//!
//! What stands here is what a user would notice: an image with the files in it (on QEMU and on Hyper-V), a stopped Setup that is named, two
//! builds side by side, and interrupts that leave nothing behind. The tools that damage an image are tried on a small disk
//! every time. Modules called `nightly` are left to `make end-to-end-nightly`.

mod damages;
mod demo;
mod hyperv;
mod interrupts;
mod matrix;
pub mod program;
mod publishers;
mod real_media;
mod real_node;
mod recipes;
mod refusals;
mod sabotage;
mod sabotage_tools;
mod secrets;
mod stand_ins;
mod trial;
mod trusted;
mod tutorial;
mod verify;

/// The shortest way through every phase.
const SMALL: &str = "tests/end_to_end/small.toml";
