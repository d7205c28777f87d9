//! What a failed build leaves: the reading of disks in every state, the page, and that no secret is in any of it.

mod agent;
mod disks;
mod page;
#[path = "../secrets/mod.rs"]
mod planted;
mod reading;
mod scene;
#[path = "../skip/mod.rs"]
mod skip;
#[path = "../verify/disk.rs"]
mod windows_disk;
