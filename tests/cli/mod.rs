//! The program as a user runs it, on the scripted fake machine: whole outputs, exit statuses, and what is left on disk.
//!
//! No network and no QEMU machine; media are made by the machine's own tools, `qemu-img` is the real one.

mod answer_file;
mod bombs;
mod built;
mod cache;
mod ci;
mod drivers;
mod events;
mod exported;
mod foreseen;
pub mod furnished;
mod host;
mod inspected;
mod interrupts;
mod json;
mod lock;
mod lock_bundle;
mod lock_revoked;
mod lock_rules;
pub mod matrix;
mod messages;
mod outdated;
pub mod paused;
mod pin;
mod planned;
mod proof;
mod real_virtio;
mod refused;
mod report;
mod reproducible;
pub mod resume;
mod secrets;
mod setup;
mod sharing;
mod shipped;
mod sign;
pub mod site;
mod steps;
mod terminal;
mod trace;
mod tried;
mod trust;
mod upgrade;
mod verify;
mod words;
