//! The program as a user runs it, on the scripted fake machine: whole outputs, exit statuses, and what is left on disk.
//!
//! No network and no QEMU machine; media are made by the machine's own tools, `qemu-img` is the real one.

mod built;
mod cache;
#[allow(dead_code)]
#[path = "../remote/registry.rs"]
mod cache_registry;
mod events;
mod foreseen;
mod furnished;
mod interrupts;
mod lock;
mod lock_bundle;
#[path = "../media/mod.rs"]
mod media;
mod messages;
mod paused;
mod pin;
mod planned;
#[path = "../secrets/mod.rs"]
mod planted;
mod proof;
mod refused;
#[path = "../fetch/registry.rs"]
mod registry;
mod reproducible;
mod resume;
mod secrets;
#[allow(dead_code)]
#[path = "../fetch/server.rs"]
mod server;
mod setup;
mod sharing;
mod shipped;
mod sign;
mod site;
#[path = "../skip/mod.rs"]
mod skip;
mod steps;
mod terminal;
mod trace;
mod verify;
#[path = "../verify/disk.rs"]
mod windows_disk;
mod words;
